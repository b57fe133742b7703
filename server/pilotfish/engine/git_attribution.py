"""Says in git which turns wrote what is committed: notes on new commits, or trailers in their messages.

Works for every commit in a trusted folder, whoever makes it and with what: the reflog tells of new commits, a hook adds
trailers. Hides: when git is asked. Promises: with the setting off nothing is started, asked or written, and a hook that
the setting had installed is removed; a commit never waits for us and never fails because of us.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pilotfish.engine.context import EngineContext
from pilotfish.engine.session.blame import WrittenFiles, new_lines
from pilotfish.store.rows import SessionRow
from pilotfish.workspace.git import attribution as git
from pilotfish.workspace.sandbox.sandbox import clean_environment

log = logging.getLogger(__name__)

SEARCHED_SESSIONS = 20
"""how many sessions of a folder are searched for the turn that wrote a line"""
LOOK_SECONDS = 2.0
"""between two looks at the size of the reflog"""
CLOSE_SECONDS = 5.0
"""for the last look when the process ends"""
MAX_TURNS = 20
"""turns that one commit names"""


@dataclass(frozen=True, slots=True)
class Contribution:
    """The lines of one file that one turn wrote, counted from 1, the last included. None: the turn deleted the file."""

    path: str
    session_id: str
    turn_id: str
    lines: tuple[tuple[int, int], ...]


class GitAttribution:
    """The attribution of one process. `persisted` waits until what the turns did is in the ledger."""

    def __init__(self, engine: EngineContext, persisted: Callable[[], Awaitable[None]]) -> None:
        self._engine = engine
        self._persisted = persisted
        self._watching: asyncio.Task[None] | None = None
        self._looking = asyncio.Lock()
        self._seen: dict[Path, int] = {}
        """reflog → where its next entries begin"""
        self._places: dict[Path, git.Repository] = {}
        """folder → its repository, asked again when a turn changes files"""
        self._hooked: dict[Path, git.Repository] = {}
        self._hooks_looked_for = False
        self._problems: dict[Path, str] = {}

    def start(self) -> None:
        """Watch the folders while the setting asks for it."""
        if self._watching is None or self._watching.done():
            wanted = self._engine.settings.git_attribution != "off"
            if wanted or self._watching is None:
                self._watching = asyncio.create_task(self._watch(), name="git attribution")

    async def aclose(self) -> None:
        """End. What was committed since the last look is attributed before, if git answers in time."""
        if self._watching is None:
            return
        self._watching.cancel()
        await asyncio.wait((self._watching,))
        if self._seen:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._for_each(self._look)

    def problems(self) -> tuple[str, ...]:
        """Why commits of a folder get no trailers."""
        return tuple(self._problems.values())

    async def files_changed(self) -> None:
        """A turn has changed files: the next commit may have them."""
        if self._engine.settings.git_attribution == "trailer":
            self._places.clear()
            await self._for_each(self._offer_trailers)

    async def _for_each(self, work: Callable[[git.Repository], Awaitable[None]]) -> None:
        async with self._looking:
            for place in await self._repositories():
                try:
                    await work(place)
                except Exception:
                    log.exception("commits of %s could not be attributed", place.top)

    async def _watch(self) -> None:
        while (wanted := self._engine.settings.git_attribution) != "off":
            if wanted != "trailer":
                await self._remove_hooks()
            await self._for_each(self._look)
            await asyncio.sleep(LOOK_SECONDS)
        await self._remove_hooks()
        self._seen.clear()

    async def _remove_hooks(self) -> None:
        """Remove the hooks that this process has installed, or that an earlier one may have left."""
        places = list(self._hooked.values()) if self._hooks_looked_for else await self._left_behind()
        self._hooks_looked_for = True
        for place in places:
            await asyncio.to_thread(git.remove_hook, place)
        self._hooked.clear()
        self._problems.clear()

    async def _look(self, place: git.Repository) -> None:
        known = self._seen.get(place.reflog)
        size = place.reflog.stat().st_size if place.reflog.exists() else 0
        if known == size:
            return
        # Before the first look there is nothing to attribute: what is committed from now on counts.
        commits, self._seen[place.reflog] = await asyncio.to_thread(
            git.new_commits, place.reflog, size if known is None else known
        )
        if self._engine.settings.git_attribution == "trailer":
            await self._offer_trailers(place)
        elif commits:
            await self._write_notes(place, commits)

    async def _write_notes(self, place: git.Repository, commits: Sequence[str]) -> None:
        rows, files = await self._written(place)
        environ = clean_environment(os.environ)
        for commit in commits:
            changed = await asyncio.to_thread(git.committed_files, place.top, environ, commit, files.paths)
            found = await contributions(place.top, changed, files)
            if found:
                await asyncio.to_thread(git.write_note, place.top, environ, commit, note_text(found, rows))

    async def _offer_trailers(self, place: git.Repository) -> None:
        problem = await asyncio.to_thread(git.install_hook, place)
        if problem is not None:
            self._problems[place.top] = f"Commits in {place.top} get no trailers: {problem}"
            return
        self._problems.pop(place.top, None)
        self._hooked[place.top] = place
        rows, files = await self._written(place)
        environ = clean_environment(os.environ)
        inside = [path for path in files.paths if path.is_relative_to(place.top)]
        commit = await asyncio.to_thread(git.head, place.top, environ)
        changed = await asyncio.to_thread(git.changed_files, place.top, environ, inside)
        found = await contributions(place.top, changed, files)
        offered = [(each.path, trailer) for each in found for trailer in trailers((each,), rows)]
        with contextlib.suppress(OSError):
            await asyncio.to_thread(git.write_trailers, place, commit, offered)

    async def _repositories(self) -> list[git.Repository]:
        """The repositories of the trusted folders, each once."""
        engine = self._engine
        roots = [root for root in engine.roots if engine.trusted(str(root))]
        for root in roots:
            if root not in self._places:
                place = await asyncio.to_thread(git.repository, root, clean_environment(os.environ))
                if place is not None:
                    self._places[root] = place
        found = [self._places[root] for root in roots if root in self._places]
        return list({place.top: place for place in found}.values())

    async def _left_behind(self) -> list[git.Repository]:
        """The repositories that still have our hook."""
        near = [root for root in self._engine.roots if git.is_ours(root / ".git/hooks/prepare-commit-msg")]
        environ = clean_environment(os.environ)
        found = [await asyncio.to_thread(git.repository, root, environ) for root in near]
        return [*self._hooked.values(), *(place for place in found if place is not None)]

    async def _written(self, place: git.Repository) -> tuple[dict[str, SessionRow], WrittenFiles]:
        """The newest sessions of a repository, and what they wrote."""
        await self._persisted()
        rows: dict[str, SessionRow] = {}
        for root in self._engine.roots:
            if root.is_relative_to(place.top):
                listed = await self._engine.catalog.list(str(root), None, None, SEARCHED_SESSIONS)
                rows |= {row.id: row for row in listed.sessions}
        return rows, await WrittenFiles.read(self._engine.ledger, list(rows))


async def contributions(
    top: Path, changed: Sequence[git.CommittedFile], files: WrittenFiles
) -> tuple[Contribution, ...]:
    """Which turns wrote the new lines of these files, or deleted them."""
    found: list[Contribution] = []
    for file in changed:
        name = file.path.relative_to(top).as_posix()
        if file.after is None:
            if (owner := files.deleted_by(file.path)) is not None:
                found.append(Contribution(name, *owner, ()))
            continue
        fresh = new_lines(file.before or "", file.after)
        written = await files.blame(file.path, file.after)
        if not written and "\r" not in file.after:  # git may have stored the file with other line ends
            written = await files.blame(file.path, file.after.replace("\n", "\r\n"))
        by_turn: dict[tuple[str, str], list[int]] = {}
        for part in written:
            mine = [line for line in range(part.start, part.end) if line in fresh]
            if mine:
                by_turn.setdefault((part.session_id, part.turn_id), []).extend(mine)
        found += (Contribution(name, *owner, _ranges(lines)) for owner, lines in by_turn.items())
    return tuple(found)


def trailers(found: Sequence[Contribution], rows: dict[str, SessionRow]) -> tuple[str, ...]:
    """The trailers of a commit: the models, then the turns."""
    turns = list(dict.fromkeys((each.session_id, each.turn_id) for each in found))[:MAX_TURNS]
    models = dict.fromkeys(rows[session].model for session, _ in turns)
    return (
        *(f"Assisted-by: Pilotfish ({model})" for model in models),
        *(f"Pilotfish-Turn: {session}/{turn}" for session, turn in turns),
    )


def note_text(found: Sequence[Contribution], rows: dict[str, SessionRow]) -> str:
    """The trailers, and which lines of the commit each turn wrote."""
    lines: list[str] = []
    for each in found:
        where = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in each.lines)
        lines.append(f"{each.path}:{where or 'deleted'} {each.session_id}/{each.turn_id}")
    return "\n".join((*lines, "", *trailers(found, rows)))


def _ranges(lines: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Runs of lines in a row, counted from 1."""
    runs: list[tuple[int, int]] = []
    for line in (index + 1 for index in sorted(lines)):
        first = runs.pop()[0] if runs and runs[-1][1] == line - 1 else line
        runs.append((first, line))
    return tuple(runs)
