"""bash: runs a command to its end or in the background."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.tools.tool import Args, Context, Preview, Result, Subject, Tool
from pilotfish.workspace.process.processes import Finished

FIRST_LOOK = 1.0
"""seconds to watch a background command before the result reports that it runs"""
MAX_NAMES = 20
WALLS = re.compile(
    r"read-only file system|network is unreachable|name resolution|could not resolve host|service not known"
    r"|(?:/home/|/root/|/Users/).*no such file",
    re.IGNORECASE,
)
"""error messages of programs that the workspace sandbox blocked"""
DENIED = re.compile(f"{WALLS.pattern}|permission denied|operation not permitted|not permitted", re.IGNORECASE)
"""error messages of programs that the read-only sandbox blocked"""
OUTPUT_TAIL = 4000
"""characters at the end of the output that are searched for these messages"""


class Bash(Args):
    command: str = Field(min_length=1)
    timeout: float | None = Field(None, gt=0, le=3600, description="seconds")
    background: bool = Field(False, description="for servers and watchers; then use bash_output")
    for_real: bool = Field(False, description="ask the user, after a read-only trial failed")


async def run(context: Context, args: Bash) -> Result:
    workspace = context.workspace
    behind = await workspace.save_own_edits()
    if args.background:
        return await _start(context, args, behind)
    finished = await workspace.processes.run(
        args.command, timeout=args.timeout or context.timeout, tell=context.progress, leave=context.leave
    )
    notes = (*_ending(finished), *_confinement(context, finished), *_state(context, behind))
    return Result(text=_joined(finished.output, notes), failed=finished.code != 0)


async def _start(context: Context, args: Bash, behind: Sequence[Path]) -> Result:
    processes = context.workspace.processes
    job, notes = await processes.start(args.command, tell=context.progress, leave=context.leave)
    try:
        await job.watched(FIRST_LOOK)
    except asyncio.CancelledError:  # no result will name the job, so nobody could stop it
        await processes.stop(job)
        raise
    return Result(
        text=_joined(await job.new_output(), (f"{job.id}: {job.state}", *notes, *_state(context, behind))),
        failed=job.over and job.code != 0,
    )


def _ending(finished: Finished) -> list[str]:
    if finished.stopped:
        ending = f"stopped, with every process it started: {finished.stopped}. For a server, set background"
    elif finished.code is not None and finished.code < 0:
        ending = f"ended by signal {-finished.code}"
    else:
        ending = f"exit code {finished.code}"
    notes = [ending, *finished.notes]
    if finished.left is not None:
        notes.append(f"processes are still running as {finished.left.id}; bash_output reads their output or stops them")
    return notes


def _confinement(context: Context, finished: Finished) -> list[str]:
    """Notes that the sandbox probably blocked the command. Its own error message does not mention a sandbox."""
    sandbox = context.workspace.processes.sandbox
    if context.leave.wall == "read_only":
        if not finished.code or not DENIED.search(finished.output[-OUTPUT_TAIL:]):
            return []
        return [
            "the command ran read-only and without network because the user was not asked; set for_real to ask the user"
        ]
    if sandbox.bwrap is None or not finished.code or not WALLS.search(finished.output[-OUTPUT_TAIL:]):
        return []
    return [f"the command ran in a sandbox ({sandbox.words.partition(';')[0]})"]


def _state(context: Context, behind: Sequence[Path]) -> list[str]:
    """Notes on the working directory, and on files with unsaved or changed text."""
    workspace = context.workspace
    notes: list[str] = []
    if workspace.processes.cwd != workspace.processes.home:
        notes.append(f"working directory: {workspace.relative(workspace.processes.cwd)}")
    if behind:
        notes.append(f"commands do not see the unsaved text of {_names(context, behind)}")
    if changed := workspace.changed_since_read():
        notes.append(f"changed since you read them: {_names(context, changed)}")
    return notes


def _names(context: Context, paths: Sequence[Path]) -> str:
    names = [context.workspace.relative(path) for path in paths[:MAX_NAMES]]
    return ", ".join(names) + (f" and {len(paths) - MAX_NAMES} more" if len(paths) > MAX_NAMES else "")


def _joined(output: str, notes: Sequence[str]) -> str:
    body = output.rstrip("\n")
    return "\n".join(([body] if body else []) + [f"[{note}]" for note in notes])


async def preview(context: Context, args: Bash) -> Preview:
    return Preview(kind="command", command=args.command, cwd=str(context.workspace.processes.cwd))


TOOL = Tool(
    name="bash",
    description=(
        "Run a bash command without terminal or input. The working directory persists. "
        "Prefer the other tools for reading, searching and editing files."
    ),
    args=Bash,
    category=Category.EXECUTE,
    run=run,
    title=lambda args: f"Run {args.command}",
    subject=lambda args: Subject(command=args.command, for_real=args.for_real),
    preview=preview,
)
