"""What was computed for a value once, for as long as the value lives.

Frozen values never change, so their identity is a key: a history that grows by a message is converted, trimmed and
sent again at the cost of that message. Whether it is the history from before is told by identity too.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Results of a pure function, by the identity of its argument, for as long as that argument lives."""

    __slots__ = ("_compute", "_kept")

    def __init__(self, compute: Callable[[K], V]) -> None:
        self._compute = compute
        self._kept: dict[int, tuple[weakref.ref[K], V | None]] = {}

    def __call__(self, key: K) -> V:
        kept = self._kept.get(id(key))
        if kept is not None and kept[0]() is key:
            return cast("V", key) if kept[1] is None else kept[1]
        value = self._compute(key)
        self.know(key, value)
        return value

    def know(self, key: K, value: V) -> None:
        """What the function would give, when somebody has it already."""
        number = id(key)
        # a value that is its own key must not keep itself alive
        own = None if cast("object", value) is key else value
        self._kept[number] = (weakref.ref(key, lambda _: self._kept.pop(number, None)), own)

    def __len__(self) -> int:
        return len(self._kept)


def begins_with(whole: Sequence[object], part: Sequence[object]) -> bool:
    """Whether the whole begins with these very objects."""
    return len(part) <= len(whole) and all(map(operator.is_, part, whole))


def count_shared(before: Sequence[object], now: Sequence[object]) -> int:
    """With how many of the very same objects both begin."""
    for index, (one, other) in enumerate(zip(before, now, strict=False)):
        if one is not other:
            return index
    return min(len(before), len(now))
