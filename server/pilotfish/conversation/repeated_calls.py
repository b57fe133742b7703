"""When a turn should stop and ask: the same call over and over."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

MAX_REPEATS = 5  # identical calls with identical results in one turn


class Repeats:
    """Counts identical calls of a turn: same tool, same arguments, same result."""

    def __init__(self, limit: int = MAX_REPEATS) -> None:
        self._limit = limit
        self._seen: dict[bytes, int] = {}

    def note(self, tool: str, args: Mapping[str, Any], result: str) -> str | None:
        """Note a finished call. At the limit: the question to ask. Whoever goes on is asked again only after as
        many more."""
        mark = _mark(tool, args, result)
        count = self._seen.get(mark, 0) + 1
        self._seen[mark] = 0 if count >= self._limit else count
        if count < self._limit:
            return None
        return f"{tool} was called {count} times with the same arguments and gave the same result each time. Go on?"


def _mark(tool: str, args: Mapping[str, Any], result: str) -> bytes:
    text = json.dumps([tool, args, result], sort_keys=True, ensure_ascii=True, default=repr)
    return hashlib.sha256(text.encode("ascii")).digest()
