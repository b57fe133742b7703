"""What the editor's language servers say of an edit that was just made: the errors that were not there before.

An edit waits for them a little, and never in vain twice: a kind of file of which nobody spoke in time is not waited
for again until somebody speaks of one, and an editor that does not answer is not asked again.
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
MAX_TOLD = 5


class PostEditDiagnostics:
    """One per workspace: it remembers who speaks."""

    def __init__(self, room: Room, clock: Clock) -> None:
        self._room = room
        self._clock = clock
        self._nobody = False
        self._silent: set[str] = set()
        """kinds of files that no language server spoke of"""

    async def before(self, path: Path) -> Counter[str]:
        """What is wrong with a file already, as the editor knows it; nothing is waited for."""
        return Counter(problem.message for problem in await self._ask(path, wait=False))

    async def after(self, path: Path, before: Counter[str]) -> str | None:
        """The errors that came with an edit, in words; None when there are none, or nobody says."""
        began = self._clock.now()
        wait = path.suffix not in self._silent
        found = await self._ask(path, wait=wait)
        if wait and not found and self._clock.now() - began >= WAIT:
            self._silent.add(path.suffix)
        known = Counter(before)
        fresh: list[CodeProblem] = []
        for problem in found:
            if known[problem.message]:
                known[problem.message] -= 1
            elif problem.severity == "error":
                fresh.append(problem)
        return _words(fresh) if fresh else None

    async def _ask(self, path: Path, *, wait: bool) -> Sequence[CodeProblem]:
        if self._nobody:
            return ()
        try:
            asked = find_problems(self._room, path, WAIT) if wait else known_problems(self._room, path)
            found = [problem for problem in await asked if problem.path == path]
        except ToolError:
            self._nobody = True
            return ()
        if found:
            self._silent.discard(path.suffix)
        return found


def _words(problems: Sequence[CodeProblem]) -> str:
    told = [
        f"line {problem.line}: {problem.message}" + (f" [{problem.source}]" if problem.source else "")
        for problem in problems[:MAX_TOLD]
    ]
    more = f" and {len(problems) - MAX_TOLD} more" if len(problems) > MAX_TOLD else ""
    return f"the language server now reports: {'; '.join(told)}{more}"
