"""What of a history is sent: old tool calls lose their arguments and output, and old outputs make room.

Only the request is trimmed, the ledger is not. Every call keeps its id and name, and its return: pairs stay pairs.

Both cuts depend on the history before them alone and move in steps, so that from one request to the next the
beginning of what is sent stays the same, byte for byte, and the provider's prompt cache stays warm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pilotfish.conversation.memo import Memo, begins_with
from pilotfish.conversation.messages import (
    CanonicalMessage,
    Part,
    ToolCallPart,
    ToolReturnPart,
)

TRIMMED_OUTPUT = "[old output, no longer shown; call the tool again if it is needed]"
PROTECT_TOKENS = 40_000  # of the newest tool output, never pruned
MINIMUM_SAVED = 20_000  # tokens one pruning step must save
MAX_STEP = 20  # calls the threshold moves by at once, at most


def trim(
    messages: Sequence[CanonicalMessage],
    *,
    tool_history_rounds: int,
    protect_tokens: int = PROTECT_TOKENS,
    minimum_saved: int = MINIMUM_SAVED,
    step: int | None = None,
) -> tuple[CanonicalMessage, ...]:
    """The history as it is sent. Messages that need no change are given back themselves.

    `threshold = total - tool_history_rounds`: calls before it keep name and id only. The threshold counts in whole
    steps, so at least `tool_history_rounds` calls are always whole. Of the outputs after it, the oldest are pruned as
    soon as `protect_tokens` newer ones follow and at least `minimum_saved` tokens are gained. Results that the model
    has not answered yet are whole in any case.
    """
    trimmer = Trimmer(
        tool_history_rounds=tool_history_rounds,
        protect_tokens=protect_tokens,
        minimum_saved=minimum_saved,
        step=step,
    )
    return tuple(trimmer.trim(messages))


class Trimmer:
    """`trim` for a history that grows: what is known of its beginning is not looked at again."""

    def __init__(
        self,
        *,
        tool_history_rounds: int,
        protect_tokens: int = PROTECT_TOKENS,
        minimum_saved: int = MINIMUM_SAVED,
        step: int | None = None,
    ) -> None:
        self._rounds = max(0, tool_history_rounds)
        self._protect_tokens = protect_tokens
        self._minimum_saved = max(1, minimum_saved)
        self._step = max(1, min(tool_history_rounds, MAX_STEP) if step is None else step)
        self._known: list[CanonicalMessage] = []
        self._calls: list[str] = []
        self._outputs: list[tuple[str, int]] = []
        self._cut: tuple[set[str], set[str]] = (set(), set())
        self._trimmed: list[CanonicalMessage] = []

    def trim(self, messages: Sequence[CanonicalMessage]) -> list[CanonicalMessage]:
        """The history as it is sent; see `trim`."""
        self._look_at(messages)
        unread = _unread(messages)
        threshold = max(0, len(self._calls) - self._rounds) // self._step * self._step
        bare = {call_id for call_id in self._calls[:threshold] if call_id not in unread}
        pruned = _over_budget(self._outputs, bare, self._protect_tokens, self._minimum_saved) - unread
        if (bare, pruned) != self._cut:
            self._cut = (bare, pruned)
            self._trimmed.clear()
        for message in messages[len(self._trimmed) :]:
            self._trimmed.append(_trimmed(message, bare, pruned) if bare or pruned else message)
        return list(self._trimmed)

    def _look_at(self, messages: Sequence[CanonicalMessage]) -> None:
        """Take up what is new. Another history than the last time is taken up from the start."""
        if not begins_with(messages, self._known):
            for known in (self._known, self._calls, self._outputs, self._trimmed):
                known.clear()
        for message in messages[len(self._known) :]:
            self._known.append(message)
            for part in message.parts:
                if type(part) is ToolCallPart:
                    self._calls.append(part.tool_call_id)
                elif type(part) is ToolReturnPart:
                    self._outputs.append((part.tool_call_id, _return_tokens(part)))


def _unread(messages: Sequence[CanonicalMessage]) -> set[str]:
    """Ids of the calls whose returns are about to be read for the first time."""
    if not messages or messages[-1].is_response:
        return set()
    last = next((message for message in reversed(messages) if message.is_response), None)
    return set() if last is None else last.get_tool_call_ids()


def _over_budget(
    returned: Sequence[tuple[str, int]], bare: set[str], protect_tokens: int, minimum_saved: int
) -> set[str]:
    """Ids of the calls whose output is pruned.

    Outputs are taken together, oldest first, in groups of at least `minimum_saved` tokens; a group goes when
    `protect_tokens` of newer output follow it. Where a group ends depends on what came before it only.
    """
    outputs = [output for output in returned if output[0] not in bare]
    newer = sum(tokens for _, tokens in outputs)
    pruned: set[str] = set()
    group: list[str] = []
    gained = 0
    for call_id, tokens in outputs:
        newer -= tokens
        if newer < protect_tokens:
            break
        group.append(call_id)
        gained += tokens
        if gained >= minimum_saved:
            pruned.update(group)
            group, gained = [], 0
    return pruned


def _trimmed(message: CanonicalMessage, bare: set[str], pruned: set[str]) -> CanonicalMessage:
    touched = [
        part.tool_call_id in bare or (part.tool_call_id in pruned and isinstance(part, ToolReturnPart))
        for part in message.parts
        if isinstance(part, ToolCallPart | ToolReturnPart)
    ]
    if not any(touched):
        return message
    if all(touched):
        return _without_outputs(message)
    return replace(
        message,
        parts=tuple(
            _without_output(part)
            if (isinstance(part, ToolCallPart) and part.tool_call_id in bare)
            or (isinstance(part, ToolReturnPart) and (part.tool_call_id in bare or part.tool_call_id in pruned))
            else part
            for part in message.parts
        ),
    )


def _without_output(part: Part) -> Part:
    match part:
        case ToolCallPart():
            return replace(part, args={}, raw_args=None) if part.args or part.raw_args else part
        case ToolReturnPart():
            return replace(part, content=TRIMMED_OUTPUT)
        case _:
            return part


def _bare(message: CanonicalMessage) -> CanonicalMessage:
    return replace(message, parts=tuple(_without_output(part) for part in message.parts))


_without_outputs: Memo[CanonicalMessage, CanonicalMessage] = Memo(_bare)


def _return_tokens(part: ToolReturnPart) -> int:
    return estimate_tokens(part.text)


def estimate_tokens(text: str) -> int:
    """About how many tokens a text is: four bytes each, whatever the model."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return (size + 3) // 4
