"""bash_output: reads the output of a background command, waits for it, or stops it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.tools.tool import Args, Context, Result, Tool


class BashOutput(Args):
    id: str | None = Field(None, description="e.g. bg1; omit to list all")
    wait: float = Field(0, ge=0, le=600, description="seconds to wait for the exit or for until")
    until: str | None = Field(None, description="text to wait for")
    action: Literal["read", "stop"] = "read"


async def run(context: Context, args: BashOutput) -> Result:
    processes = context.workspace.processes
    if args.id is None:
        lines = [f"{job.id}: {job.state}: {job.command}" for job in processes.jobs]
        return Result(text="\n".join(lines) or "No background commands.")
    job = processes.job(args.id)
    if args.action == "stop":
        await processes.stop(job)
    elif args.wait:
        await job.watched(args.wait, until=args.until)
    output = (await job.new_output()).rstrip("\n")
    return Result(text=f"{output}\n[{job.id}: {job.state}]" if output else f"[no new output]\n[{job.id}: {job.state}]")


TOOL = Tool(
    name="bash_output",
    description="Read new output of a background command, or stop it.",
    args=BashOutput,
    category=Category.READ_ONLY,
    run=run,
    title=lambda args: f"{'Stop' if args.action == 'stop' else 'Look at'} {args.id or 'background commands'}",
)
