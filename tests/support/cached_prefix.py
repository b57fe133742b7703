"""How much of the requests of a conversation a provider can take from its cache."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, cast

from tests.support.provider import Request

HEADS = ("tools", "system", "instructions", "systemInstruction")
CHARS_PER_TOKEN = 4
CACHED_PRICE = 0.1  # of the price of other input


def sections(body: Mapping[str, Any]) -> str:
    """A request in the order in which providers cache it: tools, instructions, messages. Marks of the cache move with
    every request and are not a part of what is cached."""
    parts = [body.get(name) for name in (*HEADS, "messages", "input", "contents")]
    return json.dumps([without_cache_marks(part) for part in parts if part is not None], ensure_ascii=False)


def without_cache_marks(value: Any) -> Any:
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        return {name: without_cache_marks(item) for name, item in fields.items() if name != "cache_control"}
    return [without_cache_marks(item) for item in cast("list[Any]", value)] if isinstance(value, list) else value


class InputCost(NamedTuple):
    """Estimates, in tokens."""

    first: int
    total: int
    cached: int
    """begins as the request before it did"""

    @property
    def share(self) -> float:
        return self.cached / self.total

    @property
    def paid(self) -> float:
        return self.total - self.cached + CACHED_PRICE * self.cached


def input_cost(requests: Sequence[Request]) -> InputCost:
    bodies = [sections(request.body) for request in requests]
    shared = sum(len(os.path.commonprefix(pair)) for pair in pairwise(bodies))  # noqa: RUF071 - characters, not paths
    tokens = [chars // CHARS_PER_TOKEN for chars in (len(bodies[0]), sum(map(len, bodies)), shared)]
    return InputCost(*tokens)
