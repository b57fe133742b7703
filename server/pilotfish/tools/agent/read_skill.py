"""read_skill: reads the instructions of a skill, or another file of its folder."""

from __future__ import annotations

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.tools.tool import Args, Context, Result, Tool


class ReadSkill(Args):
    name: str = Field(min_length=1)
    file: str = Field(default="", description="another file of the skill, relative to its folder")


async def run(context: Context, args: ReadSkill) -> Result:
    return Result(text=await context.read_skill(args.name, args.file))


TOOL = Tool(
    name="read_skill",
    description="Read the instructions of a skill.",
    args=ReadSkill,
    category=Category.READ_ONLY,
    run=run,
    title=lambda args: f"Read skill {args.name}" + (f": {args.file}" if args.file else ""),
    repeatable=True,
    own_words=True,
)
