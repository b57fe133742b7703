"""read_output: reads pages of an earlier output that was truncated."""

from __future__ import annotations

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.tools.tool import Args, Context, Result, Tool


class ReadOutput(Args):
    call_id: str = Field(min_length=1, description="as named where the output was cut")
    line: int = Field(1, ge=1, description="first line")
    count: int = Field(200, ge=1, le=2000)


async def run(context: Context, args: ReadOutput) -> Result:
    return Result(text=await context.read_output(args.call_id, args.line, args.count))


TOOL = Tool(
    name="read_output",
    description="Read more of an earlier output that was cut.",
    args=ReadOutput,
    category=Category.READ_ONLY,
    run=run,
    title=lambda args: f"Read on at line {args.line}",
    repeatable=True,
)
