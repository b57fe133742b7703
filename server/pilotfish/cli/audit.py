"""`pilotfish audit`: prints the decisions of a session, or checks and exports those of the whole store."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from pilotfish.cli.headless import find_session
from pilotfish.cli.sessions import opened
from pilotfish.engine import audit
from pilotfish.engine.audit import SessionTrail
from pilotfish.engine.engine import Engine
from pilotfish.errors import BadRequest
from pilotfish.text.display_safe import one_line

PAGE = 200


async def print_audit(session: str | None, *, verify: bool, export: Path | None) -> int:
    """Print the decisions of a session, or one line for each session of the store. Returns 1 if `verify` finds a fault
    or the store cannot be read."""
    async with opened() as engine:
        if session is not None:
            trails = [await _trail(engine, await find_session(engine, session))]
        else:
            trails = [trail async for trail in _all(engine)]
        unsaved = engine.ledger.unsaved
    if unsaved:
        sys.stderr.write(f"pilotfish: {unsaved}\n")
        return 1
    if export is not None:
        _write(export, trails)
        return 0
    console = Console(highlight=False, soft_wrap=True)
    if session is None:
        return _print_checks(console, trails)
    for line in audit.lines(trails[0].records):
        console.print(Text(line))
    if not verify:
        return 0
    words, whole = trails[0].check()
    console.print(Text(words, style="" if whole else "red"))
    return 0 if whole else 1


async def verify_file(path: Path) -> int:
    """Check an exported file, also without the store it came from. Returns 1 if something in it was changed."""
    try:
        body = await asyncio.to_thread(path.read_bytes)
    except OSError as error:
        raise BadRequest(f"{path} cannot be read: {error.strerror}.", field="file") from error
    trails, digest = audit.trails_from_json(body)
    console = Console(highlight=False, soft_wrap=True)
    code = _print_checks(console, trails)
    if audit.digest_of(trails) != digest:
        console.print(Text("the digest does not fit: a session was added, removed or changed", style="red"))
        return 1
    console.print(Text(f"digest {digest}: compare it with the one that the export printed"))
    return code


def _write(path: Path, trails: Sequence[SessionTrail]) -> None:
    try:
        path.write_bytes(audit.trails_to_json(trails))
    except OSError as error:
        raise BadRequest(f"{path} cannot be written: {error.strerror}.", field="export") from error
    sys.stdout.write(f"{len(trails)} trails in {path}, digest {audit.digest_of(trails)}\n")


def _print_checks(console: Console, trails: Sequence[SessionTrail]) -> int:
    all_whole = True
    for trail in trails:
        words, whole = trail.check()
        all_whole &= whole
        line = one_line(f"{trail.session_id}  {trail.title or '(untitled)'}  ")
        console.print(Text(f"{line}{words}", style="" if whole else "red"))
    return 0 if all_whole else 1


async def _all(engine: Engine) -> AsyncIterator[SessionTrail]:
    """The trails of all sessions that have one, newest session first."""
    cursor: str | None = None
    while True:
        listed = await engine.list(None, None, cursor, PAGE)
        for session in listed.sessions:
            trail = await _trail(engine, session.id)
            if trail.records or trail.head:
                yield trail
        cursor = listed.next_cursor
        if cursor is None:
            return


async def _trail(engine: Engine, session_id: str) -> SessionTrail:
    session = await engine.catalog.get(session_id)
    heads = await engine.ledger.heads(session_id)
    records = audit.trail(await engine.ledger.history(session_id))
    return SessionTrail(
        session_id=session_id,
        title=session.title,
        workspace=session.workspace,
        head=heads.audit_hash,
        records=records,
    )
