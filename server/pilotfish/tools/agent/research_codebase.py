"""research_codebase: gives a question to a read-only subagent."""

from __future__ import annotations

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.tools.tool import Args, Context, Result, Tool

TITLE_CHARS = 80


class ResearchCodebase(Args):
    question: str = Field(min_length=1, description="self-contained: the helper does not see this conversation")


async def run(context: Context, args: ResearchCodebase) -> Result:
    return Result(text=await context.delegate("research", args.question))


TOOL = Tool(
    name="research_codebase",
    description="Let a read-only helper explore the codebase and report. For broad questions.",
    args=ResearchCodebase,
    category=Category.RESEARCH,
    run=run,
    title=lambda args: f"Research: {args.question[:TITLE_CHARS]}",
    repeatable=True,
    delegates=True,
)
