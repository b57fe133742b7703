"""Trims the history by a fixed number of calls, for users who set `toolHistoryRounds`. `budget.py` is the default.

Only the request is trimmed; the ledger keeps everything. Rounds before the threshold are folded (`fold.py`). In a round
that the threshold divides, the older calls keep their ids and names. Old outputs after the threshold are pruned.

Both limits depend only on the earlier history and move in steps. So consecutive requests begin with the same bytes, and
the provider's prompt cache stays valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pilotfish.conversation.history.fold import fold
from pilotfish.conversation.memo import begins_with
from pilotfish.conversation.messages import (
    CanonicalMessage,
    Part,
    ToolCallPart,
    ToolReturnPart,
    with_parts,
)

TRIMMED_OUTPUT = "[old output, no longer shown; call the tool again if it is needed]"
PROTECT_TOKENS = 40_000  # tokens of the newest tool output that are never pruned
MINIMUM_SAVED = 20_000  # tokens that one pruning step must save
MAX_STEP = 20  # maximum number of calls by which the threshold moves at once


def trim(
    messages: Sequence[CanonicalMessage],
    *,
    tool_history_rounds: int,
    protect_tokens: int = PROTECT_TOKENS,
    minimum_saved: int = MINIMUM_SAVED,
    step: int | None = None,
) -> tuple[CanonicalMessage, ...]:
    """Return the history to send. Messages that need no change are returned as the same objects.

    `threshold = total - tool_history_rounds`: calls before it lose their content. The threshold moves in whole steps,
    so at least `tool_history_rounds` calls are always complete. Of the outputs after it, the oldest are pruned when
    `protect_tokens` tokens of newer output follow and pruning saves at least `minimum_saved` tokens. Results that the
    model has not answered yet are always complete.
    """
    trimmer = Trimmer(
        tool_history_rounds=tool_history_rounds,
        protect_tokens=protect_tokens,
        minimum_saved=minimum_saved,
        step=step,
    )
    return tuple(trimmer.trim(messages))


class Trimmer:
    """`trim` for a growing history. It does not process known messages again."""

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
        self._count = 0

    def trim(self, messages: Sequence[CanonicalMessage]) -> list[CanonicalMessage]:
        """Return the history to send; see `trim`."""
        self._add_new_messages(messages)
        waiting = unread(messages)
        threshold = max(0, len(self._calls) - self._rounds) // self._step * self._step
        bare = {call_id for call_id in self._calls[:threshold] if call_id not in waiting}
        pruned = _over_budget(self._outputs, bare, self._protect_tokens, self._minimum_saved) - waiting
        if (bare, pruned) != self._cut:
            self._cut = (bare, pruned)
            self._trimmed = [_trimmed(message, bare, pruned) for message in fold(messages, bare)]
        else:  # new messages have new calls, which are not in the cut
            self._trimmed += messages[self._count :]
        self._count = len(messages)
        return list(self._trimmed)

    def _add_new_messages(self, messages: Sequence[CanonicalMessage]) -> None:
        """Add the new messages. Start again if the history does not continue the last one."""
        if not begins_with(messages, self._known):
            for known in (self._known, self._calls, self._outputs, self._trimmed):
                known.clear()
            self._cut, self._count = (set(), set()), 0
        for message in messages[len(self._known) :]:
            self._known.append(message)
            for part in message.parts:
                if type(part) is ToolCallPart:
                    self._calls.append(part.tool_call_id)
                elif type(part) is ToolReturnPart:
                    self._outputs.append((part.tool_call_id, estimate_tokens(part.text)))


def unread(messages: Sequence[CanonicalMessage]) -> set[str]:
    """Return the ids of the calls whose returns the model has not seen yet."""
    last = next((index for index in range(len(messages) - 1, -1, -1) if messages[index].is_response), None)
    return set() if last is None or last < len(messages) - 2 else messages[last].get_tool_call_ids()


def _over_budget(
    returned: Sequence[tuple[str, int]], bare: set[str], protect_tokens: int, minimum_saved: int
) -> set[str]:
    """Return the ids of the calls whose output is pruned.

    Outputs form groups of at least `minimum_saved` tokens, oldest first. A group is pruned when `protect_tokens` tokens
    of newer output follow it. The end of a group depends only on earlier outputs.
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
    return with_parts(message, [_without_content(part, bare, pruned) for part in message.parts])


def _without_content(part: Part, bare: set[str], pruned: set[str]) -> Part:
    match part:
        case ToolCallPart() if part.tool_call_id in bare and (part.args or part.raw_args):
            return replace(part, args={}, raw_args=None)
        case ToolReturnPart() if part.tool_call_id in bare or part.tool_call_id in pruned:
            return replace(part, content=TRIMMED_OUTPUT)
        case _:
            return part


def estimate_tokens(text: str) -> int:
    """Estimate the number of tokens of a text: four bytes each, for every model."""
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    return (size + 3) // 4
