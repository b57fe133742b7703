"""Repairs a history so that every provider accepts it, without losing or reordering text.

`conversation/history/validation.py` defines a sound history. `repair` applies one forward pass for each rule in a fixed
order. No pass undoes the work of an earlier one, so one run is enough and a second run changes nothing. All functions
are pure. A message that needs no change is returned as the same object, so that cached results for it stay valid.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pilotfish.conversation.calls import fresh_id
from pilotfish.conversation.history.validation import (
    NO_OUTPUT,
    SENDABLE_NAME,
    FaultKind,
    begins,
    find_dangling_tool_call_ids,
    is_blank,
    is_system_only,
    iter_faults,
    side_of,
    without_blanks,
)
from pilotfish.conversation.messages import (
    FINAL_STATUSES,
    NO_EXTRA,
    CallStatus,
    CanonicalMessage,
    Extra,
    MessageRole,
    Outcome,
    Part,
    SystemPromptPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    with_parts,
)
from pilotfish.conversation.registry import ToolCallRegistry

History = tuple[CanonicalMessage, ...]

BEGINNING_IS_MISSING = "[The beginning of this conversation is not shown.]"
ONLY_SYSTEM_PROMPT = "[Only the system prompt was changed here.]"


@dataclass(frozen=True, slots=True)
class Closing:
    """The content and outcome of the return that is added for a call without one."""

    content: str
    outcome: Outcome = "interrupted"


INTERRUPTED = Closing("[Interrupted: the call gave no result. It may have run in part, or not at all.]")
STARTED = "server stopped: started, result unknown"
NEVER_STARTED = "server stopped: never started"


def repair(messages: Iterable[CanonicalMessage], closings: Mapping[str, Closing] | None = None) -> History:
    """Return a sound history with the same text in the same order. A sound history is returned unchanged.

    `closings` maps call ids to the known ends of calls that have no return.
    """
    history = tuple(messages)
    faults = {fault.kind for fault in iter_faults(history)}
    if not faults:
        return history
    if FaultKind.WRONG_SIDE in faults:
        history = split_by_side(history)
    if not faults.isdisjoint(_CALL_FAULTS):
        history = give_calls_their_own_ids(history)
        history = remove_dangling_tool_calls(history, _nameless(history))
        history = _replace_invalid_names(history)
    history = place_returns(history, closings or {})
    if not faults.isdisjoint(_BLANK_FAULTS):
        history = remove_empty_responses(history)
    else:
        history = tuple(message for message in history if message.parts)
    history = remove_consecutive_requests(history)
    history = _begin_with_request(history)
    return _prompt_between_responses(history)


_CALL_FAULTS = frozenset(
    {
        FaultKind.DUPLICATE_CALL_ID,
        FaultKind.UNNAMED_CALL,
        FaultKind.WRONG_NAME,
        FaultKind.STRAY_RETURN,
        # validation does not check calls on the wrong side
        FaultKind.WRONG_SIDE,
    }
)


_BLANK_FAULTS = frozenset(
    # validation does not check the content of parts on the wrong side or in the wrong place
    {FaultKind.BLANK_PART, FaultKind.WRONG_SIDE, FaultKind.STRAY_RETURN}
)


class Cleanup(NamedTuple):
    """The result of `run_cleanup_loop`."""

    changed: bool
    dangling_ids: set[str]
    """The ids of calls that had no return and were closed."""
    messages: History


def run_cleanup_loop(messages: Sequence[CanonicalMessage], tool_registry: ToolCallRegistry | None = None) -> Cleanup:
    """Repair the history, and cancel the calls in the registry that will never get a result.

    There is no loop: the rules are ordered so that one pass is enough.
    """
    history = tuple(messages)
    dangling = find_dangling_tool_call_ids(history)
    repaired = repair(history)
    if tool_registry is not None:
        for call_id in sorted(dangling):
            call = tool_registry.find(call_id)
            if call is not None and call.status not in FINAL_STATUSES:
                tool_registry.move(call_id, CallStatus.CANCELLED, error=INTERRUPTED.content)
    return Cleanup(repaired != history, dangling, repaired)


def sanitize_history_for_resume(messages: Iterable[CanonicalMessage]) -> History:
    """Return the history without system prompts, instructions and run ids of an earlier run.

    Every request has its own instructions.
    """
    kept = (_without_run(message) for message in messages)
    return tuple(message for message in kept if message.parts)


# ---- The rules, in the order repair applies them -------------------------------------------------------------------


def split_by_side(messages: Sequence[CanonicalMessage]) -> History:
    """Move parts that are in a message of the other side into a message of their own at the same position."""
    result: list[CanonicalMessage] = []
    for message in messages:
        home = "response" if message.is_response else "request"
        runs: list[list[Part]] = [[]]
        sides: list[str] = [home]
        for part in message.parts:
            side = side_of(part) or sides[-1]
            if side != sides[-1]:
                runs.append([])
                sides.append(side)
            runs[-1].append(part)
        if len(runs) == 1:
            result.append(message)
            continue
        for side, run in zip(sides, runs, strict=True):
            if run and side == home:
                result.append(replace(message, parts=tuple(run)))
            elif run:
                role = MessageRole.USER if side == "request" else MessageRole.ASSISTANT
                result.append(CanonicalMessage(role, tuple(run), _stamp(message)))
    return tuple(result)


def give_calls_their_own_ids(messages: Sequence[CanonicalMessage]) -> History:
    """Make call ids unique: a call without an id, or with the id of an earlier call, gets a new one.

    Returns are matched by position: each answers the oldest open call with its id. A return without an id answers the
    oldest open call with its name in the previous response.
    """
    taken = {
        part.tool_call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCallPart | ToolReturnPart)
    }
    used: set[str] = set()
    counts: dict[str, int] = {}
    open_calls: dict[str, deque[_OpenCall]] = {}
    latest: deque[_OpenCall] = deque()  # the calls of the last response
    result: list[CanonicalMessage] = []
    for index, message in enumerate(messages):
        if message.is_response:
            latest = deque()
        parts: list[Part] = []
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                own_id = part.tool_call_id
                if not own_id or own_id in used:
                    own_id = fresh_id(own_id, taken, counts)
                    taken.add(own_id)
                used.add(own_id)
                waiting = open_calls.setdefault(part.tool_call_id, deque())
                if waiting and waiting[-1].message != index:
                    waiting.clear()
                waiting.append(_OpenCall(index, part.tool_name, own_id))
                latest.append(waiting[-1])
                parts.append(part if own_id == part.tool_call_id else replace(part, tool_call_id=own_id))
            elif isinstance(part, ToolReturnPart):
                own_id = _answered_id(part, open_calls.get(part.tool_call_id), latest)
                parts.append(part if own_id == part.tool_call_id else replace(part, tool_call_id=own_id))
            else:
                parts.append(part)
        result.append(with_parts(message, parts))
    return tuple(result)


def remove_dangling_tool_calls(
    messages: Sequence[CanonicalMessage], dangling_ids: Collection[str] | None = None
) -> History:
    """Remove every call with one of these ids, and its returns.

    `repair` uses it for calls that cannot be closed. Without `dangling_ids` it removes every call that has no return.
    That may break a provider's signatures, so closing the calls is better.
    """
    ids = find_dangling_tool_call_ids(messages) if dangling_ids is None else set(dangling_ids)
    if not ids:
        return tuple(messages)
    return tuple(
        with_parts(message, [part for part in message.parts if _id_of(part) not in ids]) for message in messages
    )


def place_returns(messages: Sequence[CanonicalMessage], closings: Mapping[str, Closing]) -> History:
    """Put the returns for the calls of a response at the start of the next request, in the order of the calls.

    A call without a return is closed. Returns without a call and second returns are removed. A real result is
    preferred to a closing.
    """
    answers = _answers(messages)
    result: list[CanonicalMessage] = []
    waiting: CanonicalMessage | None = None  # the last response, when it has calls
    for message in messages:
        if message.role is MessageRole.ASSISTANT:
            if waiting is not None:
                result.append(CanonicalMessage(MessageRole.USER, _returns(waiting, answers, closings)))
            result.append(message)
            waiting = message if _holds(message, ToolCallPart) else None
        elif waiting is None and not _holds(message, ToolReturnPart):
            result.append(message)
        else:
            rest = [part for part in message.parts if type(part) is not ToolReturnPart]
            first = () if waiting is None else _returns(waiting, answers, closings)
            result.append(with_parts(message, (*first, *rest)))
            waiting = None
    if waiting is not None:
        result.append(CanonicalMessage(MessageRole.USER, _returns(waiting, answers, closings)))
    return tuple(result)


def remove_empty_responses(messages: Sequence[CanonicalMessage]) -> History:
    """Remove blank parts, and requests and responses without parts."""
    result: list[CanonicalMessage] = []
    for message in messages:
        parts = [kept for part in message.parts if (kept := without_blanks(part)) is not None]
        if parts:
            result.append(with_parts(message, parts))
    return tuple(result)


def remove_consecutive_requests(messages: Sequence[CanonicalMessage]) -> History:
    """Join consecutive messages of the same side, in order. No part is lost."""
    runs: list[list[CanonicalMessage]] = []
    last_side: bool | None = None
    for message in messages:
        side = message.role is MessageRole.ASSISTANT
        if runs and side is last_side:
            runs[-1].append(message)
        else:
            runs.append([message])
        last_side = side
    return tuple(run[0] if len(run) == 1 else _joined(run) for run in runs)


def _begin_with_request(messages: History) -> History:
    if not messages or begins(messages):
        return messages
    beginning = UserPromptPart(BEGINNING_IS_MISSING)
    first, *rest = messages
    if first.is_response:
        return (CanonicalMessage(MessageRole.USER, (beginning,)), *messages)
    return (replace(first, parts=(*first.parts, beginning)), *rest) if rest else messages


def _prompt_between_responses(messages: History) -> History:
    """Give a request that holds system prompts only, between two responses, a prompt that every provider sends."""
    prompt = UserPromptPart(ONLY_SYSTEM_PROMPT)
    last = len(messages) - 1
    return tuple(
        replace(message, parts=(*message.parts, prompt)) if 0 < index < last and is_system_only(message) else message
        for index, message in enumerate(messages)
    )


# ---- Helpers -------------------------------------------------------------------------------------------------------


class _OpenCall(NamedTuple):
    message: int
    name: str
    own_id: str


def _answered_id(part: ToolReturnPart, waiting: deque[_OpenCall] | None, latest: deque[_OpenCall]) -> str:
    """Return the id of the call that a return answers, or the return's own id if it answers none."""
    if part.tool_call_id:
        return waiting.popleft().own_id if waiting else part.tool_call_id
    if latest and part.tool_name in ("", latest[0].name):
        return latest.popleft().own_id
    call = next((call for call in latest if call.name == part.tool_name), None)
    if call is None:
        return ""
    latest.remove(call)
    return call.own_id


def sendable_name(name: str) -> str:
    """Return a tool name that every provider accepts. A model may write any name, or none."""
    if SENDABLE_NAME.match(name):
        return name
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name.strip())[:64] or "unnamed"


def _replace_invalid_names(messages: Sequence[CanonicalMessage]) -> History:
    """Replace call names that a provider would reject with similar valid names."""
    return tuple(with_parts(message, [_with_valid_name(part) for part in message.parts]) for message in messages)


def _with_valid_name(part: Part) -> Part:
    if not isinstance(part, ToolCallPart) or SENDABLE_NAME.match(part.tool_name):
        return part
    return replace(part, tool_name=sendable_name(part.tool_name))


def _nameless(messages: Sequence[CanonicalMessage]) -> set[str]:
    return {
        part.tool_call_id
        for message in messages
        for part in message.parts
        if isinstance(part, ToolCallPart) and not part.tool_name
    }


def _answers(messages: Sequence[CanonicalMessage]) -> dict[str, ToolReturnPart]:
    """Return the valid return for each call: the first after it, or a later result if the first is a closing."""
    called: set[str] = set()
    answers: dict[str, ToolReturnPart] = {}
    for message in messages:
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                called.add(part.tool_call_id)
            elif isinstance(part, ToolReturnPart) and part.tool_call_id in called:
                earlier = answers.get(part.tool_call_id)
                if earlier is None or (earlier.outcome == "interrupted" != part.outcome):
                    answers[part.tool_call_id] = part
    return answers


def _returns(
    response: CanonicalMessage, answers: Mapping[str, ToolReturnPart], closings: Mapping[str, Closing]
) -> tuple[ToolReturnPart, ...]:
    returns: list[ToolReturnPart] = []
    for call in response.calls:
        answer = answers.get(call.tool_call_id)
        if answer is None:
            closing = closings.get(call.tool_call_id, INTERRUPTED)
            content = NO_OUTPUT if is_blank(closing.content) else closing.content
            answer = ToolReturnPart(call.tool_name, content, call.tool_call_id, closing.outcome, _stamp(response))
        elif answer.tool_name != call.tool_name:
            answer = replace(answer, tool_name=call.tool_name)
        returns.append(answer)
    return tuple(returns)


def _holds(message: CanonicalMessage, kind: type[Part]) -> bool:
    return kind in map(type, message.parts)


def _stamp(response: CanonicalMessage) -> Extra:
    """Return the timestamp of the call for an added return, so that the same history gives the same value."""
    timestamp = response.extra.get("timestamp")
    return NO_EXTRA if timestamp is None else {"timestamp": timestamp}


def _joined(run: Sequence[CanonicalMessage]) -> CanonicalMessage:
    role = run[0].role
    if any(message.role is not role for message in run):
        role = MessageRole.USER
    extra: dict[str, object] = {}
    for message in run:
        extra.update(message.extra)
    return CanonicalMessage(role, tuple(part for message in run for part in message.parts), extra or NO_EXTRA)


def _without_run(message: CanonicalMessage) -> CanonicalMessage:
    bare = with_parts(message, [part for part in message.parts if not isinstance(part, SystemPromptPart)])
    if _RUN_FIELDS.isdisjoint(bare.extra):
        return bare
    extra = {key: value for key, value in bare.extra.items() if key not in _RUN_FIELDS}
    return replace(bare, extra=extra or NO_EXTRA)


_RUN_FIELDS = frozenset({"run_id", "instructions"})


def _id_of(part: Part) -> str | None:
    match part:
        case ToolCallPart() | ToolReturnPart():
            return part.tool_call_id
        case _:
            return None
