"""`pilotfish sessions` and `pilotfish audit`: print, import and delete the sessions of the ledger."""

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

from pilotfish.cli.frontend import TerminalFrontend
from pilotfish.cli.headless import find_session
from pilotfish.config.settings import load_user
from pilotfish.engine import audit
from pilotfish.engine.engine import Engine
from pilotfish.store.ledger import Ledger
from pilotfish.text.display_safe import display_safe


@asynccontextmanager
async def opened() -> AsyncGenerator[Engine]:
    settings = load_user().settings
    live = Engine(settings, Ledger.open(settings.storage), TerminalFrontend(Path.cwd(), settings.storage, json=False))
    try:
        yield live
    finally:
        await live.aclose()


async def print_list(folder: Path | None, *, query: str | None, limit: int) -> int:
    console = Console(highlight=False)
    async with opened() as live:
        listed = await live.list(str(folder) if folder else None, query, None, limit)
        unsaved = live.ledger.unsaved
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
        title = display_safe(session.title or "(untitled)")
        if snippet := listed.snippets.get(session.id):
            title += f"\n{display_safe(snippet.text)}"
        table.add_row(session.id, when, str(session.turns), Text(title))
    console.print(table)
    return 0


async def print_export(session: str, form: Literal["markdown", "json"], *, rendered: bool) -> int:
    async with opened() as live:
        text = await live.export(await find_session(live, session), form)
    console = Console()
    if rendered and console.is_terminal:
        console.print(Markdown(display_safe(text)))
    else:
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
    return 0


async def import_text(text: str) -> int:
    async with opened() as live:
        row = await live.import_session(text)
    Console().print(f"Imported as {row.id}")
    return 0


async def delete(session: str, *, sure: bool) -> int:
    async with opened() as live:
        session_id = await find_session(live, session)
        title = display_safe((await live.session(session_id)).title or "(untitled)")
        if not sure:
            if not sys.stdin.isatty():
                sys.stderr.write("pilotfish: use --yes to delete without confirmation\n")
                return 2
            sys.stderr.write(f"Delete {title} permanently? [y/N] ")
            if sys.stdin.readline().strip().lower() != "y":
                return 1
        await live.delete(session_id)
    Console().print(f"Deleted {title}")
    return 0


async def print_audit(session: str, *, verify: bool) -> int:
    console = Console(highlight=False, soft_wrap=True)
    async with opened() as live:
        session_id = await find_session(live, session)
        heads = await live.ledger.heads(session_id)
        records = audit.trail(await live.ledger.history(session_id))
    for line in audit.lines(records):
        console.print(Text(line))
    if not verify:
        return 0
    words, whole = audit.check(records, heads.audit_hash)
    console.print(Text(words, style="" if whole else "red"))
    return 0 if whole else 1
