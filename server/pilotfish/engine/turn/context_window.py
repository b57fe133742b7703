"""The context window of a session's model: its size, and how much of it is used."""

from __future__ import annotations

from typing import NamedTuple

REFUSED_SHARE = 0.9  # a request of this share of a refused one is expected to fit
MIN_WINDOW = 8_000  # a smaller window is not believed


class ContextFill(NamedTuple):
    """How many tokens of the model's context window are used, and its size where that is known."""

    used: int = 0
    window: int | None = None


class WindowLimit:
    """The context window that requests of a session must fit into: as set, as the model's profile says, or less if a
    provider refused a smaller request."""

    def __init__(self) -> None:
        self._refused: int | None = None
        self.size: int | None = None
        self.fixed = 0
        """an estimate of the tokens of instructions and tools"""

    def update(self, configured: int | None, known: int | None) -> int | None:
        """The window for the next request; `known` is what the library says of the model."""
        sizes = [size for size in (configured or known, self._refused) if size]
        self.size = min(sizes, default=None)
        return self.size

    def refused(self, tokens: int) -> None:
        """A provider has refused a request of about so many tokens."""
        self._refused = max(MIN_WINDOW, min(int(tokens * REFUSED_SHARE), self.size or tokens))
