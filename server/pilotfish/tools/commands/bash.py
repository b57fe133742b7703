"""bash: runs a command to its end or in the background."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.text.cutting import cut_middle
from pilotfish.tools.tool import Args, Context, Preview, Result, Subject, Tool, Tried
from pilotfish.workspace.effects import Effects, apply_effects, preview_effects, try_command
from pilotfish.workspace.process.processes import Finished

FIRST_LOOK = 1.0
"""seconds to watch a background command before the result reports that it runs"""
MAX_NAMES = 20
BLOCKED = re.compile(
    r"read-only file system|network is unreachable|name resolution|could not resolve host|service not known"
    r"|(?:/home/|/root/|/Users/).*no such file|permission denied|operation not permitted|not permitted",
    re.IGNORECASE,
)
"""error messages of programs that the read-only sandbox blocked"""
SHOWN_OUTPUT = 20_000
"""bytes of the output of a tried command that its question shows"""
OUTPUT_TAIL = 4000
"""characters at the end of the output that are searched for these messages"""


class Bash(Args):
    command: str = Field(min_length=1)
    timeout: float | None = Field(None, gt=0, le=3600, description="seconds")
    background: bool = Field(False, description="for servers and watchers; then use bash_output")
    for_real: bool = Field(False, description="ask the user, after a sandbox refused something")


async def run(context: Context, args: Bash) -> Result:
    if context.effects is not None:
        return await _apply(context, context.effects)
    workspace = context.workspace
    behind = await workspace.save_own_edits()
    if args.background:
        return await _start(context, args, behind)
    finished = await workspace.processes.run(
        args.command, timeout=args.timeout or context.timeout, tell=context.progress, leave=context.leave
    )
    notes = (*_ending(finished), *_confinement(context, finished), *_state(context, behind))
    return Result(text=_joined(finished.output, notes), failed=finished.code != 0)


async def _apply(context: Context, effects: Effects) -> Result:
    made = await apply_effects(context.workspace, effects, context.approved)
    changes = tuple(edited.change for edited in made if edited.change is not None)
    finished = effects.finished
    how = "the user saw what it changes in a copy of the workspace, and allowed exactly that"
    notes = (*_ending(finished), how, *_state(context, effects.unsaved))
    diff = "\n".join(edited.diff for edited in made if edited.diff)
    return Result(text=_joined(finished.output, notes), diff=diff or None, changes=changes, failed=finished.code != 0)


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
    if context.leave.wall == "read_only":
        if not finished.code or not BLOCKED.search(finished.output[-OUTPUT_TAIL:]):
            return []
        return [
            "the command ran read-only and without network because the user was not asked; set for_real to ask the user"
        ]
    if context.leave.offline and finished.code:
        return ["it ran without network because text from outside was read; set for_real to ask the user for network"]
    if not finished.denied:
        return []
    remedy = "; set for_real to ask the user for the network" if finished.denied.network else ""
    return [f"{finished.denied.words}{remedy}"]


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


async def try_out(context: Context, args: Bash) -> Effects:
    return await try_command(context.workspace, args.command, args.timeout or context.timeout)


async def preview(context: Context, args: Bash) -> Preview:
    effects, files, tried = context.effects, (), None
    if effects is not None:
        files = await preview_effects(context.workspace, effects)
        output, _ = cut_middle(effects.finished.output, SHOWN_OUTPUT)
        unsaved = f"it did not see the unsaved text of {_names(context, effects.unsaved)}" if effects.unsaved else ""
        tried = Tried(output=output, exit_code=effects.finished.code, note=unsaved)
    return Preview(
        kind="command",
        command=args.command,
        cwd=str(context.workspace.processes.cwd),
        background=args.background,
        timeout=None if args.background else args.timeout or context.timeout,
        files=files,
        tried=tried,
    )


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
    subject=lambda args: Subject(command=args.command, for_real=args.for_real, background=args.background),
    preview=preview,
    try_out=try_out,
)
