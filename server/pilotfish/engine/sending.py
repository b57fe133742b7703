"""What of a conversation is sent: sound, with ids that its provider takes, and trimmed.

Promises: a message is translated once; what is not touched stays the very object it is, so that nothing behind it is
made anew either.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage

from pilotfish.core.ids import with_plain_ids
from pilotfish.core.messages import CanonicalMessage
from pilotfish.core.sanitizer import repair
from pilotfish.core.trim import Trimmer
from pilotfish.engine.adapter import from_canonical, to_canonical
from pilotfish.settings import Settings


class Sending:
    """The messages of one run."""

    def __init__(self, settings: Settings) -> None:
        self._canonical: dict[int, tuple[ModelMessage, CanonicalMessage]] = {}
        self._messages: list[ModelMessage] = []
        self._before: list[CanonicalMessage] = []
        self._after: list[CanonicalMessage] = []
        self._sent: list[ModelMessage] = []
        self._trimmer = Trimmer(
            tool_history_rounds=settings.tool_history_rounds,
            protect_tokens=settings.protect_tokens,
            minimum_saved=settings.minimum_saved_tokens,
        )

    def begin(self, history: list[CanonicalMessage], provider: str, *, resumed: bool) -> list[ModelMessage]:
        """The whole conversation as the library's messages. `history` is repaired in its place."""
        # The open calls of the last message are what is resumed.
        history[:] = [*repair(history[:-1]), history[-1]] if resumed else repair(history)
        # Ids are every provider's own; another one may refuse them. The ledger keeps them as they were.
        sent = with_plain_ids(history) if _from_another(history, provider) else history
        return [self._vendor(message) for message in sent]

    def know(self, message: ModelMessage, canonical: CanonicalMessage) -> None:
        """A message that somebody else has translated."""
        self._canonical[id(message)] = (message, canonical)

    def trimmed(self, messages: Sequence[ModelMessage]) -> list[ModelMessage]:
        """What of it is sent. A conversation that grew costs what is new of it."""
        if not _begins_with(messages, self._messages):
            self._messages, self._before, self._after, self._sent = [], [], [], []
        for message in messages[len(self._messages) :]:
            self._messages.append(message)
            self._before.append(self._canonical_of(message))
        after = self._trimmer.trim(self._before)
        if not _begins_with(after, self._after):
            self._sent = []  # the cut has moved
        self._after = after
        for place in range(len(self._sent), len(after)):
            as_is = after[place] is self._before[place]
            self._sent.append(messages[place] if as_is else from_canonical(after[place]))
        return list(self._sent)

    def _canonical_of(self, message: ModelMessage) -> CanonicalMessage:
        known = self._canonical.get(id(message))
        if known is None or known[0] is not message:
            canonical = to_canonical(message)
            self.know(message, canonical)
            return canonical
        return known[1]

    def _vendor(self, canonical: CanonicalMessage) -> ModelMessage:
        message = from_canonical(canonical)
        self.know(message, canonical)
        return message


def _from_another(history: Sequence[CanonicalMessage], provider: str) -> bool:
    return any(
        message.is_response and message.extra.get("provider_name") not in (provider, None) for message in history
    )


def _begins_with(whole: Sequence[object], part: Sequence[object]) -> bool:
    """Whether the whole begins with these very objects."""
    return len(part) <= len(whole) and all(map(operator.is_, part, whole))
