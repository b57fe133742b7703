"""Tasks in the background from a terminal: start, continue, take over, discard."""

from __future__ import annotations

import sys

from rich.console import Console

from pilotfish.background.tasks import BackgroundTasks
from pilotfish.cli.headless import ChatOptions, find_session, open_engine
from pilotfish.cli.sessions import opened
from pilotfish.text.display_safe import display_safe


async def start(options: ChatOptions, text: str) -> int:
    """Start a task and print the id of its session."""
    async with open_engine(options, in_background=True) as (engine, _, _):
        blocks = [{"type": "text", "text": text}]
        started = await BackgroundTasks(engine).start(blocks, folder=options.folder)
    for note in started.notes:
        sys.stderr.write(f"pilotfish: {display_safe(note)}\n")
    sys.stdout.write(f"{started.session.id}\n")
    return 0


async def resume(session: str) -> int:
    async with opened() as engine:
        session_id = await find_session(engine, session)
        await BackgroundTasks(engine).resume(session_id)
    Console(highlight=False).print(f"{session_id}: the task goes on")
    return 0


async def apply(session: str) -> int:
    async with opened() as engine:
        done = await BackgroundTasks(engine).take_over(await find_session(engine, session))
    console = Console(highlight=False, soft_wrap=True)
    for change in done.changes:
        console.print(f"{change.change} {display_safe(str(change.path))} +{change.added} -{change.removed}")
    for path, why in done.refused:
        sys.stderr.write(f"pilotfish: not changed: {display_safe(str(path))}: {display_safe(why)}\n")
    return 1 if done.refused else 0


async def make_branch(session: str, name: str | None) -> int:
    async with opened() as engine:
        made = await BackgroundTasks(engine).branch(await find_session(engine, session), name)
    sys.stdout.write(f"{made}\n")
    return 0


async def discard(session: str) -> int:
    async with opened() as engine:
        session_id = await find_session(engine, session)
        await BackgroundTasks(engine).discard(session_id)
    Console(highlight=False).print(f"{session_id}: the changes of the task are gone")
    return 0
