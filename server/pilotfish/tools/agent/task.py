"""task: gives a part of the work to a subagent with a context of its own."""

from __future__ import annotations

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.tools.tool import Args, Context, Result, Tool

TITLE_CHARS = 80


class Task(Args):
    title: str = Field(min_length=1, description="a few words for the user")
    prompt: str = Field(min_length=1, description="everything it must know: it does not see this conversation")


async def run(context: Context, args: Task) -> Result:
    return Result(text=await context.delegate("task", args.prompt))


TOOL = Tool(
    name="task",
    description=(
        "Let a helper do a part of the work in a context of its own, with your tools; its last message is the result. "
        "Call several at once for parts that do not touch the same files."
    ),
    args=Task,
    category=Category.RESEARCH,
    run=run,
    title=lambda args: f"Task: {args.title[:TITLE_CHARS]}",
    delegates=True,
)
