"""Prepares a conversation for a request: repaired, with call ids that the provider accepts, and small enough.

Promises: a message is translated once; an unchanged message stays the same object, so later steps can reuse their work
as well.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

from pydantic_ai.messages import ModelMessage

from pilotfish.config.settings import Settings
from pilotfish.conversation.history.budget import Budget, Kept
from pilotfish.conversation.history.call_ids import with_plain_ids
from pilotfish.conversation.history.sanitizer import run_cleanup_loop
from pilotfish.conversation.history.trim import Trimmer
from pilotfish.conversation.history.validation import begins, is_sound
from pilotfish.conversation.memo import begins_with, count_shared
from pilotfish.conversation.messages import CanonicalMessage, Category
from pilotfish.engine.model.adapter import from_canonical, to_canonical
from pilotfish.tools import TOOLS
from pilotfish.tools.agent import update_plan

MANY = 100  # cached translations beyond those of the history
KEPT = Kept(update_plan.TOOL.name, frozenset(tool.name for tool in TOOLS if tool.category is Category.WRITE))


class Size(NamedTuple):
    """The size of a request before it is sent."""

    tokens: int
    """the provider's count of the last request and response, and an estimate of what was added since"""
    is_full: bool
    """it nearly fills the context window, so the conversation needs a summary"""
    just_folded: int
    """older calls whose content is left out from this request on"""


class RequestHistory:
    """The messages to send for one conversation, cached from request to request."""

    def __init__(self, settings: Settings) -> None:
        self._limits = _limits(settings)
        self._settings = settings
        self._rounds: Trimmer | None = None
        if settings.tool_history_rounds is not None:
            self._rounds = Trimmer(
                tool_history_rounds=settings.tool_history_rounds,
                protect_tokens=settings.protect_tokens,
                minimum_saved=settings.minimum_saved_tokens,
            )
        self._budget = self._new_budget(None, 0)
        self._canonical: dict[int, tuple[ModelMessage, CanonicalMessage]] = {}
        self._messages: list[ModelMessage] = []
        self._before: list[CanonicalMessage] = []
        self._after: list[CanonicalMessage] = []
        self._sent: list[ModelMessage] = []
        self._unchanged: dict[int, ModelMessage] = {}
        """canonical message, by identity → the library's message"""
        self._plain_ids = False
        self._last: ModelMessage | None = None
        """the last request of the conversation; a run continues with a copy that shares its parts"""
        self._forget()

    def _forget(self) -> None:
        self._sound: list[CanonicalMessage] = []
        """a valid history; the fields below are derived from it"""
        self._vendors: list[ModelMessage] = []
        self._call_ids: set[str] = set()
        self._providers: set[object] = set()

    def fits(self, settings: Settings) -> bool:
        """Whether these settings lead to the same messages."""
        return self._limits == _limits(settings)

    def begin(self, history: list[CanonicalMessage], provider: str, *, resumed: bool) -> list[ModelMessage]:
        """The whole conversation as the library's messages. `history` is repaired in place."""
        if resumed:
            self._forget()
            # The open calls of the last message are resumed, so it is not repaired.
            history[:] = [*run_cleanup_loop(history[:-1]).messages, history[-1]]
        elif not self._extends_valid_history(history):
            self._forget()
            history[:] = run_cleanup_loop(history).messages
        if len(self._canonical) > 2 * len(history) + MANY:
            self._canonical.clear()
        for message in history[len(self._sound) :]:
            self._sound.append(message)
            self._vendors.append(self._vendor(message))
            self._call_ids |= message.get_tool_call_ids()
            if message.is_response:
                self._providers.add(message.extra.get("provider_name"))
        found = list(self._vendors)
        if begins_with(history, self._before):
            self._messages = found[: len(self._before)]  # a run has its own copy of its first request
            self._unchanged = {id(known): message for known, message in zip(self._before, found, strict=False)}
        if self._plain_ids or self._providers - {provider, None}:
            # A provider may reject the call ids of another one. The ledger keeps the original ids.
            found = [self._vendor(message) for message in with_plain_ids(history)]
        if resumed:
            self._forget()
        self._last = found[-1] if found else None
        return found

    def use_plain_ids(self, history: Sequence[CanonicalMessage]) -> bool:
        """From now on, send call ids that every provider accepts. Returns False if that changes nothing."""
        if self._plain_ids or all(map(operator.is_, with_plain_ids(history), history)):
            return False
        self._plain_ids = True
        return True

    def _extends_valid_history(self, history: Sequence[CanonicalMessage]) -> bool:
        """Whether this is the known valid history plus a valid tail, so that the whole is valid."""
        if not self._sound or not begins_with(history, self._sound):
            return False
        known = len(self._sound)
        ids = {call_id for message in history[known:] for call_id in message.get_tool_call_ids()}
        # The tail is checked alone; it starts with a request.
        tail = history[known - (not history[known - 1].is_response) :]
        return not tail or (
            not tail[0].is_response and begins(tail) and ids.isdisjoint(self._call_ids) and is_sound(tail)
        )

    def know(self, message: ModelMessage, canonical: CanonicalMessage) -> None:
        """Add a translation to the cache."""
        self._canonical[id(message)] = (message, canonical)

    def trimmed(
        self, messages: Sequence[ModelMessage], window: int | None = None, fixed: int = 0
    ) -> list[ModelMessage]:
        """The messages to send to a model with this context window, beside about `fixed` tokens of instructions and
        tools. The cost depends on the new messages only."""
        if not begins_with(messages, self._messages):
            self._messages, self._before, self._after, self._sent = [], [], [], []
            self._unchanged.clear()
        for message in messages[len(self._messages) :]:
            canonical = self._canonical_of(message)
            self._messages.append(message)
            self._before.append(canonical)
            self._unchanged[id(canonical)] = message
        if self._budget.limits != (window, fixed):
            self._budget = self._new_budget(window, fixed)
        after = self._rounds.trim(self._before) if self._rounds is not None else self._before
        after = self._budget.trim(after)
        if self._plain_ids:
            after = list(with_plain_ids(after))
        shared = len(self._after) if begins_with(after, self._after) else count_shared(self._after, after)
        self._after = after
        del self._sent[shared:]
        for canonical in after[shared:]:
            self._sent.append(self._unchanged.get(id(canonical)) or from_canonical(canonical))
        return list(self._sent)

    @property
    def size(self) -> Size:
        """The size of the request that `trimmed` returned last."""
        return Size(self._budget.expected, self._budget.is_full, self._budget.just_folded)

    def _new_budget(self, window: int | None, fixed: int) -> Budget:
        settings = self._settings
        return Budget(
            window,
            fixed,
            protect_tokens=settings.protect_tokens,
            minimum_saved=settings.minimum_saved_tokens,
            kept=KEPT,
        )

    def _canonical_of(self, message: ModelMessage) -> CanonicalMessage:
        known = self._canonical.get(id(message))
        if known is not None and known[0] is message:
            return known[1]
        last = self._last
        is_copy = last is not None and message is not last and message.parts is last.parts
        canonical = self._canonical_of(last) if last is not None and is_copy else to_canonical(message)
        self.know(message, canonical)
        return canonical

    def _vendor(self, canonical: CanonicalMessage) -> ModelMessage:
        message = from_canonical(canonical)
        self.know(message, canonical)
        return message


def _limits(settings: Settings) -> tuple[object, ...]:
    return settings.tool_history_rounds, settings.protect_tokens, settings.minimum_saved_tokens
