"""Detects that a turn repeats the same call, so that the model and then the user hear of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_REPEATS = 5  # identical calls with identical results in one turn
MAX_FAILURES = 4  # identical calls that fail identically


@dataclass(frozen=True, slots=True)
class Repeat:
    """What to say about a finished call: to the model, and to the user, who decides whether to continue."""

    warning: str | None = None
    question: str | None = None


class Repeats:
    """Counts identical calls of a turn: same tool, same arguments and same result."""

    def __init__(self) -> None:
        self._seen: dict[bytes, int] = {}
        self._failures: dict[bytes, int] = {}

    def succeeded(self, tool: str, args: Mapping[str, Any], result: str, *, changed: bool) -> Repeat:
        """Count a call that worked. If it changed a file, calls that failed before may work now."""
        if changed:
            self._failures.clear()
        count = _next(self._seen, _mark(tool, args, result), MAX_REPEATS)
        if count < MAX_REPEATS:
            return Repeat()
        return Repeat(question=_question(tool, count, "gave the same result each time"))

    def failed(self, tool: str, args: Mapping[str, Any], error: str) -> Repeat:
        """Count a call that failed. The model is warned the second time, before the user is asked."""
        count = _next(self._failures, _mark(tool, args, error), MAX_FAILURES)
        if count == 1:
            return Repeat()
        warning = (
            f"You made exactly this call {count} times, and it failed in the same way each time; it will fail again. "
            "Do something else: correct the arguments from the error above, use another tool to find out what is "
            "there, or tell the user what is missing."
        )
        return Repeat(warning, _question(tool, count, "failed each time") if count >= MAX_FAILURES else None)


def _next(counts: dict[bytes, int], mark: bytes, limit: int) -> int:
    """The count of this call. After the limit, counting starts again."""
    count = counts.get(mark, 0) + 1
    counts[mark] = 0 if count >= limit else count
    return count


def _question(tool: str, count: int, outcome: str) -> str:
    return f"{tool} was called {count} times with the same arguments and {outcome}. Continue?"


def _mark(tool: str, args: Mapping[str, Any], result: str) -> bytes:
    text = json.dumps([tool, args, result], sort_keys=True, ensure_ascii=True, default=repr)
    return hashlib.sha256(text.encode("ascii")).digest()
