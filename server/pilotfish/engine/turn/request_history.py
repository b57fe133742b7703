"""What of a conversation is sent: sound, with ids that its provider takes, and trimmed.

Promises: a message is translated once; what is not touched stays the very object it is, so that nothing behind it is
made anew either.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage

from pilotfish.config.settings import Settings
from pilotfish.conversation.history.call_ids import with_plain_ids
from pilotfish.conversation.history.sanitizer import repair
from pilotfish.conversation.history.trim import Trimmer
from pilotfish.conversation.history.validation import begins, is_sound
from pilotfish.conversation.memo import begins_with
from pilotfish.conversation.messages import CanonicalMessage
from pilotfish.engine.model.adapter import from_canonical, to_canonical

MANY = 100  # translations that are kept beyond those of the history


class RequestHistory:
    """A conversation on its way out, for as long as it lives: what is sent again costs nothing again."""

    def __init__(self, settings: Settings) -> None:
        self._limits = _limits(settings)
        self._trimmer = Trimmer(
            tool_history_rounds=settings.tool_history_rounds,
            protect_tokens=settings.protect_tokens,
            minimum_saved=settings.minimum_saved_tokens,
        )
        self._canonical: dict[int, tuple[ModelMessage, CanonicalMessage]] = {}
        self._messages: list[ModelMessage] = []
        self._before: list[CanonicalMessage] = []
        self._after: list[CanonicalMessage] = []
        self._sent: list[ModelMessage] = []
        self._plain_ids = False
        self._last: ModelMessage | None = None
        """the request that the conversation ends in: a run goes on with a copy of it, which has the same parts"""
        self._forget()

    def _forget(self) -> None:
        self._sound: list[CanonicalMessage] = []
        """a history without fault, and below what is in it"""
        self._vendors: list[ModelMessage] = []
        self._call_ids: set[str] = set()
        self._providers: set[object] = set()

    def fits(self, settings: Settings) -> bool:
        """Whether it would send the same under these settings."""
        return self._limits == _limits(settings)

    def begin(self, history: list[CanonicalMessage], provider: str, *, resumed: bool) -> list[ModelMessage]:
        """The whole conversation as the library's messages. `history` is repaired in its place."""
        if resumed:
            self._forget()
            # The open calls of the last message are what is resumed.
            history[:] = [*repair(history[:-1]), history[-1]]
        elif not self._goes_on(history):
            self._forget()
            history[:] = repair(history)
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
            self._messages = found[: len(self._before)]  # a run has its own copy of the request it begins with
        if self._plain_ids or self._providers - {provider, None}:
            # Ids are every provider's own; another one may refuse them. The ledger keeps them as they were.
            found = [self._vendor(message) for message in with_plain_ids(history)]
        if resumed:
            self._forget()
        self._last = found[-1] if found else None
        return found

    def use_plain_ids(self, history: Sequence[CanonicalMessage]) -> bool:
        """From now on, send ids that every provider takes. False: that would change nothing."""
        if self._plain_ids or all(map(operator.is_, with_plain_ids(history), history)):
            return False
        self._plain_ids = True
        return True

    def _goes_on(self, history: Sequence[CanonicalMessage]) -> bool:
        """Whether it is the history from before with a sound piece behind it, so that the whole is sound."""
        if not self._sound or not begins_with(history, self._sound):
            return False
        known = len(self._sound)
        ids = {call_id for message in history[known:] for call_id in message.get_tool_call_ids()}
        # A request, and what is behind it, is looked at without what is before it.
        piece = history[known - (not history[known - 1].is_response) :]
        return not piece or (
            not piece[0].is_response and begins(piece) and ids.isdisjoint(self._call_ids) and is_sound(piece)
        )

    def know(self, message: ModelMessage, canonical: CanonicalMessage) -> None:
        """A message that somebody else has translated."""
        self._canonical[id(message)] = (message, canonical)

    def trimmed(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """What of it is sent. A conversation that grew costs what is new of it."""
        if not begins_with(messages, self._messages):
            self._messages, self._before, self._after, self._sent = [], [], [], []
        for message in messages[len(self._messages) :]:
            self._messages.append(message)
            self._before.append(self._canonical_of(message))
        after = self._trimmer.trim(self._before)
        if self._plain_ids:
            after = list(with_plain_ids(after))
        if not begins_with(after, self._after):
            self._sent = []  # the cut has moved
        self._after = after
        for place in range(len(self._sent), len(after)):
            as_is = after[place] is self._before[place]
            self._sent.append(messages[place] if as_is else from_canonical(after[place]))
        return list(self._sent)

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
