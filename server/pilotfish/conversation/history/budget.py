"""Keeps a history within the model's context window: nothing is cut until the next request would fill most of it.

Then the oldest rounds of calls are folded (`fold.py`) until the history is well below the limit, so that consecutive
requests begin with the same bytes over many rounds. What is never folded: the newest output, the newest plan, edits of
files that recent calls name, and results that the model has not read. The size comes from the provider's own counts,
which each response carries; only what was added after it is estimated.

Promises: what is folded depends only on the history and the window, so a conversation that goes on is sent as if it
were read for the first time; one round never takes more than a part of the window.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from pilotfish.conversation.history.fold import fold
from pilotfish.conversation.memo import begins_with
from pilotfish.conversation.messages import (
    CanonicalMessage,
    OtherPart,
    Part,
    RetryPart,
    SystemPromptPart,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    json_text,
    text_of,
    with_parts,
)

FOLD_ABOVE = 0.75  # of the window: the next request would be larger, so old rounds are folded
FOLD_TO = 0.5  # of the window: the size after folding
FULL = 0.85  # of the window: folding was not enough, so the conversation needs a summary
PROTECTED = 0.3  # of the window: the newest output that is not folded, at most
ONE_ROUND = 0.4  # of the window: the output of one round, at most
WORTHWHILE = 0.1  # of the window: a smaller saving does not justify losing the provider's prompt cache
RECENT_CALLS = 20  # calls that say which files are still being worked on
MIN_SHOWN = 400  # bytes of an output that is cut to fit


class Kept(NamedTuple):
    """The tools whose calls are kept longer than others."""

    plan: str
    edits: frozenset[str]


@dataclass(slots=True, eq=False)
class _Round:
    calls: tuple[ToolCallPart, ...]
    size: int
    """bytes of the calls and their returns"""
    output: int = 0
    """bytes of the returns"""
    foldable: bool = True
    measured: bool = False
    """a provider has counted it"""
    folded: bool = False


class Budget:
    """The history of one conversation within a window. `fixed` is an estimate of the tokens of instructions and tools.
    It does not process known messages again."""

    def __init__(self, window: int | None, fixed: int, *, protect_tokens: int, minimum_saved: int, kept: Kept) -> None:
        self.limits = (window, fixed)
        self._window = window
        self._fixed = fixed
        self.expected = 0
        """tokens of the next request, as far as known"""
        self.just_folded = 0
        """calls that were folded for the newest request"""
        self._kept = kept
        self._protected = min(protect_tokens, int(PROTECTED * window)) if window else protect_tokens
        self._worthwhile = min(minimum_saved, int(WORTHWHILE * window)) if window else minimum_saved
        self._forget()

    def _forget(self) -> None:
        self._known: list[CanonicalMessage] = []
        self._shown: list[CanonicalMessage] = []
        self._rounds: list[_Round] = []
        self._folded: set[str] = set()
        self._measured = self._fixed
        self._measured_rounds = 0
        self._added = 0
        """bytes after the last measurement"""
        self._sent: list[CanonicalMessage] = []
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether the next request would nearly fill the window, although everything is folded that may be."""
        return self._window is not None and self.expected > FULL * self._window

    def trim(self, messages: Sequence[CanonicalMessage]) -> list[CanonicalMessage]:
        """Return the history to send. Messages that need no change are returned as the same objects."""
        if not begins_with(messages, self._known):
            self._forget()
        before = len(self._folded)
        for message in messages[len(self._known) :]:
            self._known.append(message)
            self._shown.append(self._add(message))
        if len(self._folded) != before:
            self._sent = fold(self._shown, self._folded)
        else:
            self._sent += self._shown[self._count :]
        self._count = len(messages)
        return list(self._sent)

    def _add(self, message: CanonicalMessage) -> CanonicalMessage:
        if message.is_response:
            counted = _counted(message)
            if counted:
                self._measured, self._added = counted, 0
                for round_ in self._rounds[self._measured_rounds :]:
                    round_.measured = True
                self._measured_rounds = len(self._rounds)
            else:
                self._added += _size(message)
            if calls := message.calls:
                foldable = not any(isinstance(part, OtherPart) for part in message.parts)
                self._rounds.append(_Round(calls, sum(map(_call_size, calls)), foldable=foldable))
        else:
            message = self._within_one_round(message)
            if self._rounds and not self._rounds[-1].output:
                self._rounds[-1].output = output = sum(_length(part.text) for part in message.returns)
                self._rounds[-1].size += output
            self._added += _size(message)
            self._fold()
        self.expected = max(0, self._measured + _many(self._added))
        return message

    def _within_one_round(self, message: CanonicalMessage) -> CanonicalMessage:
        """Cut the results of a round that would take too much of the window; the longest ones are cut."""
        sizes = sorted(len(part.text) for part in message.returns)
        room = int(ONE_ROUND * self._window) * 3 if self._window else 0
        if not room or sum(sizes) <= room:
            return message
        limit = room // len(sizes)
        for index, size in enumerate(sizes):  # what short results do not need is left to the long ones
            limit = room // (len(sizes) - index)
            if size > limit:
                break
            room -= size
        limit = max(limit, MIN_SHOWN)
        return with_parts(message, [_cut(part, limit) for part in message.parts])

    def _fold(self) -> None:
        """Fold the oldest rounds if the next request would be too large."""
        self.just_folded = 0
        if self._window is None or self._measured + _many(self._added) <= FOLD_ABOVE * self._window:
            return
        needed = self._measured + _many(self._added) - int(FOLD_TO * self._window)
        saved, chosen = 0, list[_Round]()
        for oldest in self._candidates():
            if saved >= needed:
                break
            # What was estimated high is saved at the same rate; what the provider counted, at the lower one.
            saved += _few(oldest.size) if oldest.measured else _many(oldest.size)
            chosen.append(oldest)
        if saved < self._worthwhile:
            return
        for round_ in chosen:
            round_.folded = True
            self._folded.update(call.tool_call_id for call in round_.calls)
            self.just_folded += len(round_.calls)
        self._measured -= saved

    def _candidates(self) -> list[_Round]:
        """The rounds that may be folded, oldest first."""
        recent = [call for round_ in self._rounds for call in round_.calls][-RECENT_CALLS:]
        worked_on = {path for call in recent for path in _paths(call)}
        plan = next((round_ for round_ in reversed(self._rounds) if self._has_plan(round_)), None)
        newest, found = 0, list[_Round]()
        for round_ in reversed(self._rounds[:-1]):  # the last one is not read yet
            newest += _few(round_.output)
            if newest <= self._protected or round_ is plan or round_.folded or not round_.foldable:
                continue
            if not any(self._edits(call) and worked_on.intersection(_paths(call)) for call in round_.calls):
                found.append(round_)
        return found[::-1]

    def _has_plan(self, round_: _Round) -> bool:
        return any(call.tool_name == self._kept.plan for call in round_.calls)

    def _edits(self, call: ToolCallPart) -> bool:
        return call.tool_name in self._kept.edits


def content_tokens(message: CanonicalMessage) -> int:
    """Estimate the tokens of a message."""
    return _few(_size(message))


def _many(size: int) -> int:
    """Tokens of so many bytes of code, estimated high."""
    return size // 3


def _few(size: int) -> int:
    """Tokens of so many bytes of code, estimated low."""
    return size // 4


def _counted(response: CanonicalMessage) -> int:
    """The provider's own count of everything up to the end of this response. 0 if it sent none."""
    usage = response.extra.get("usage")
    if not isinstance(usage, dict):
        return 0
    counts = cast("dict[str, Any]", usage)
    sent, answered = counts.get("input_tokens"), counts.get("output_tokens")
    return sent + (answered if isinstance(answered, int) else 0) if isinstance(sent, int) and sent > 0 else 0


def _size(message: CanonicalMessage) -> int:
    return sum(map(_part_size, message.parts))


def _part_size(part: Part) -> int:
    match part:
        case ToolCallPart():
            return _call_size(part)
        case ToolReturnPart():
            return _length(part.text)
        case OtherPart():
            return _length(json_text(part.data))
        case RetryPart():
            return _length(str(part.content))
        case SystemPromptPart():
            return _length(part.content)
        case TextPart() | ThoughtPart() | UserPromptPart():
            return _length(text_of(part) or "")


def _call_size(call: ToolCallPart) -> int:
    return _length(call.raw_args or json_text(call.args)) + len(call.tool_name)


def _cut(part: Part, limit: int) -> Part:
    if not isinstance(part, ToolReturnPart) or len(part.text) <= limit:
        return part
    text = part.text
    more = f'read_output(call_id="{part.tool_call_id}") shows it'
    middle = f"\n[… {len(text) - limit:,} characters left out to fit the context; {more} …]\n"
    return replace(part, content=text[: limit * 2 // 3] + middle + text[len(text) - limit // 3 :])


def _paths(call: ToolCallPart) -> AbstractSet[str]:
    """The paths that a call names, as it wrote them, also inside a patch."""
    texts = {name: value for name, value in call.args.items() if isinstance(value, str)}
    found = {texts[name] for name in ("path", "old_path", "new_path") if name in texts}
    return found.union(*(_PATCHED.findall(texts[name]) for name in ("patch", "input") if name in texts))


_PATCHED = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.MULTILINE)


def _length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
