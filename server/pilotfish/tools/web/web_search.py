"""web_search: asks the search of the model's provider, and returns its answer with the pages that it cites."""

from __future__ import annotations

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.errors import Refused
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool

TITLE_CHARS = 120


class WebSearch(Args):
    query: str = Field(min_length=1, max_length=1000)


async def run(context: Context, args: WebSearch) -> Result:
    if context.network == "none":
        raise Refused("The user has turned the network off; continue without it")
    return Result(text=await context.search_web(args.query))


TOOL = Tool(
    name="web_search",
    description="Search the web. Returns an answer and its sources; read a page with web_fetch.",
    args=WebSearch,
    category=Category.RESEARCH,
    run=run,
    title=lambda args: f"Search the web: {args.query[:TITLE_CHARS]}",
    subject=lambda args: Subject(search=args.query),
)
