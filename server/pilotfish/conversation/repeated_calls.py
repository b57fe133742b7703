"""Detects that a turn repeats the same call, so that it can ask the user whether to continue."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

MAX_REPEATS = 5  # identical calls with identical results in one turn


class Repeats:
    """Counts identical calls of a turn: same tool, same arguments and same result."""

    def __init__(self, limit: int = MAX_REPEATS) -> None:
        self._limit = limit
        self._seen: dict[bytes, int] = {}

    def note(self, tool: str, args: Mapping[str, Any], result: str) -> str | None:
        """Count a finished call. Returns the question to ask if the limit is reached, and starts counting again."""
        mark = _mark(tool, args, result)
        count = self._seen.get(mark, 0) + 1
        self._seen[mark] = 0 if count >= self._limit else count
        if count < self._limit:
            return None
        return f"{tool} was called {count} times with the same arguments and gave the same result each time. Continue?"


def _mark(tool: str, args: Mapping[str, Any], result: str) -> bytes:
    text = json.dumps([tool, args, result], sort_keys=True, ensure_ascii=True, default=repr)
    return hashlib.sha256(text.encode("ascii")).digest()
