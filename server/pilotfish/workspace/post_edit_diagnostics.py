"""Finds the errors that an edit introduced, through language servers.

An edit waits a short time for diagnostics. If there are none in time for a file suffix, later edits of such files do
not wait until diagnostics for that suffix arrive. An editor that does not answer is not asked again; neither are our
own servers after several edits, because a server that is just starting may be late once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pilotfish.errors import ToolError
from pilotfish.workspace.clock import Clock
from pilotfish.workspace.language_servers import CodeProblem, Room, find_problems, known_problems

WAIT = 1.5
"""seconds a language server is given to look at an edit"""
MAX_SHOWN = 5
MAX_UNANSWERED = 2
"""edits after which our own servers are not asked any more"""


class PostEditDiagnostics:
    """One per workspace: it remembers for which files diagnostics arrive."""

    def __init__(self, room: Room, clock: Clock) -> None:
        self._room = room
        self._clock = clock
        self._unanswered = 0
        self._silent_suffixes: set[str] = set()
        """file suffixes without diagnostics so far"""

    async def before(self, path: Path) -> Counter[str] | None:
        """The messages of the known problems of a file, with their counts; None if nobody answers."""
        found = await self._ask(path, wait=False)
        return None if found is None else Counter(problem.message for problem in found)

    async def after(self, path: Path, before: Counter[str] | None) -> str | None:
        """A note on the errors that the edit introduced; None if there are none or no server answers."""
        if before is None:
            return None
        began = self._clock.now()
        wait = path.suffix not in self._silent_suffixes
        found = await self._ask(path, wait=wait)
        if wait and not found and self._clock.now() - began >= WAIT:
            self._silent_suffixes.add(path.suffix)
        known = Counter(before)
        fresh: list[CodeProblem] = []
        for problem in found or ():
            if known[problem.message]:
                known[problem.message] -= 1
            elif problem.severity == "error":
                fresh.append(problem)
        return _summary(fresh) if fresh else None

    async def _ask(self, path: Path, *, wait: bool) -> Sequence[CodeProblem] | None:
        answerer = self._room.answerer("diagnostics")
        limit = 1 if answerer is self._room.editor else MAX_UNANSWERED
        if self._unanswered >= limit:
            return None
        try:
            asked = find_problems(self._room, path, WAIT) if wait else known_problems(self._room, path)
            found = [problem for problem in await asked if problem.path == path]
        except ToolError:
            self._unanswered += 1
            return None
        self._unanswered = 0
        if found:
            self._silent_suffixes.discard(path.suffix)
        return found


def _summary(problems: Sequence[CodeProblem]) -> str:
    shown = [
        f"line {problem.line}: {problem.message}" + (f" [{problem.source}]" if problem.source else "")
        for problem in problems[:MAX_SHOWN]
    ]
    more = f" and {len(problems) - MAX_SHOWN} more" if len(problems) > MAX_SHOWN else ""
    return f"the language server now reports: {'; '.join(shown)}{more}"
