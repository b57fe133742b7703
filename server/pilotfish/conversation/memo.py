"""Caches results by the identity of their argument, for as long as the argument lives.

Frozen values never change, so their identity can be the key. Converting and trimming a history that has grown by one
message then costs only the work for that message. Histories are compared by identity too.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Caches the results of a pure function by the identity of its argument, for as long as that argument lives."""

    __slots__ = ("_compute", "_kept")

    def __init__(self, compute: Callable[[K], V]) -> None:
        self._compute = compute
        self._kept: dict[int, tuple[weakref.ref[K], V | None]] = {}

    def __call__(self, key: K) -> V:
        kept = self._kept.get(id(key))
        if kept is not None and kept[0]() is key:
            return cast("V", key) if kept[1] is None else kept[1]
        value, number = self._compute(key), id(key)
        # a value that is its own key must not keep itself alive
        own = None if cast("object", value) is key else value
        self._kept[number] = (weakref.ref(key, lambda _: self._kept.pop(number, None)), own)
        return value

    def __len__(self) -> int:
        return len(self._kept)


def begins_with(whole: Sequence[object], part: Sequence[object]) -> bool:
    """Whether `whole` begins with the same objects as `part`."""
    return len(part) <= len(whole) and all(map(operator.is_, part, whole))


def count_shared(before: Sequence[object], now: Sequence[object]) -> int:
    """Return the number of identical objects at the start of both sequences."""
    for index, (one, other) in enumerate(zip(before, now, strict=False)):
        if one is not other:
            return index
    return min(len(before), len(now))
