"""`pilotfish sessions`: print, import and delete the sessions of the ledger."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from pilotfish.cli.headless import find_session
from pilotfish.cli.terminal.frontend import TerminalFrontend
from pilotfish.config.settings import load_user
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Background
from pilotfish.errors import BadRequest
from pilotfish.store.ledger import Ledger
from pilotfish.store.tables.tables import ShareLevel
from pilotfish.text.display_safe import display_safe


@asynccontextmanager
async def opened() -> AsyncGenerator[Engine]:
    settings = load_user().settings
    engine = Engine(settings, Ledger.open(settings.storage), TerminalFrontend(Path.cwd(), settings.storage, json=False))
    try:
        yield engine
    finally:
        await engine.aclose()


async def print_list(folder: Path | None, *, query: str | None, limit: int) -> int:
    console = Console(highlight=False)
    async with opened() as engine:
        listed = await engine.list(str(folder) if folder else None, query, None, limit)
        unsaved = engine.ledger.unsaved
    if not listed.sessions and unsaved:
        sys.stderr.write(f"pilotfish: {unsaved}\n")
        return 1
    if not listed.sessions:
        console.print("Nothing matches." if query else "No sessions here yet.")
        return 0
    table = Table(box=None, pad_edge=False, show_header=console.is_terminal)
    for column in ("id", "when", "turns", "title"):
        table.add_column(column, no_wrap=column != "title")
    for session in listed.sessions:
        when = datetime.fromtimestamp(session.updated_at, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
        title = display_safe(session.title or "(untitled)") + (" (imported)" if session.imported else "")
        if session.background is not None:
            title += f" [in the background: {words_of(session.background)}]"
        if snippet := listed.snippets.get(session.id):
            title += f"\n{display_safe(snippet.text)}"
        table.add_row(session.id, when, str(session.turns), Text(title))
    console.print(table)
    return 0


def words_of(background: Background) -> str:
    """The state of a task in the background, in one line."""
    words = background.state
    if background.state == "running" and background.place:
        words += f" on {display_safe(background.place)}"
    if background.state in ("done", "failed", "cancelled"):
        words += ", with changes to take over" if background.has_changes else ", without changes"
    if background.state == "failed" and background.note:
        words += f": {display_safe(background.note)}"
    return words


async def print_export(session: str, form: Literal["markdown", "json"], *, rendered: bool) -> int:
    async with opened() as engine:
        text = await engine.export(await find_session(engine, session), form)
    console = Console()
    if rendered and console.is_terminal:
        console.print(Markdown(display_safe(text)))
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    return 0


async def import_text(text: str) -> int:
    async with opened() as engine:
        row = await engine.import_session(text, str(Path.cwd()))
    Console().print(f"Imported in mode ask, for {row.workspace_folder}, as {row.id}", soft_wrap=True)
    return 0


async def delete(session: str, *, sure: bool) -> int:
    async with opened() as engine:
        session_id = await find_session(engine, session)
        title = display_safe((await engine.session(session_id)).title or "(untitled)")
        if not sure:
            if not sys.stdin.isatty():
                sys.stderr.write("pilotfish: use --yes to delete without confirmation\n")
                return 2
            sys.stderr.write(f"Delete {title} permanently? [y/N] ")
            if sys.stdin.readline().strip().lower() != "y":
                return 1
        await engine.delete(session_id)
    Console().print(f"Deleted {title}")
    return 0


async def share(session: str, level: ShareLevel) -> int:
    async with opened() as engine:
        session_id = await find_session(engine, session)
        await engine.catalog.share(session_id, level)
    allowed = {
        "private": "only you see it",
        "read": "others may read it",
        "continue": "others may read and continue it",
    }
    Console(highlight=False).print(f"{session_id}: {allowed[level]}")
    return 0


async def migrate(to: str) -> int:
    """Copy all sessions of the configured store to another one, and check every copy."""
    from pilotfish.store.migration import Migrated
    from pilotfish.store.migration import migrate as copy_all

    console = Console(highlight=False, soft_wrap=True)
    source = Ledger.open(load_user().settings.storage, label="a migration")
    target = Ledger.open(to, label="a migration")

    def show(done: Migrated) -> None:
        if console.is_terminal:
            console.print(f"{done.copied + done.present} sessions, {done.records} records", end="\r")

    try:
        if source.description == target.description:
            raise BadRequest("All sessions are already there.", field="to")
        done = await copy_all(source, target, show)
    finally:
        await source.aclose()
        await target.aclose()
    for session_id, reason in done.failed.items():
        sys.stderr.write(f"pilotfish: {session_id}: {reason}\n")
    console.print(
        f"Copied {done.copied} session{'' if done.copied == 1 else 's'} to {target.description}; {done.present} were"
        f" there already. All {done.records} records are the same in both."
    )
    console.print(f"Nothing was deleted in {source.description}. Set `storage` to use the new place.")
    return 1 if done.failed else 0
