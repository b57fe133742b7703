"""web_fetch: fetches a web page as text."""

from __future__ import annotations

import asyncio

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.errors import Refused
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool
from pilotfish.workspace.web.fetch import MAX_BYTES, Elsewhere, WebPage, fetch
from pilotfish.workspace.web.markdown import to_markdown


class WebFetch(Args):
    url: str = Field(min_length=1, max_length=4000)


async def run(context: Context, args: WebFetch) -> Result:
    if context.network == "none":
        raise Refused("The user has turned the network off; continue without it")
    return await page_text(args.url, local_network=context.network == "local")


async def page_text(url: str, *, local_network: bool) -> Result:
    """The page as the model reads it."""
    page = await fetch(url, local_network=local_network)
    if isinstance(page, Elsewhere):
        return Result(text=f"The page redirects to another site. To follow it, fetch {page.url}")
    text = await asyncio.to_thread(_readable, page)
    failed = page.status >= 400
    head = f"HTTP {page.status} from {page.url}" if failed else f"From {page.url}"
    notes = [f"[only the first {MAX_BYTES // 1_000_000} MB]"] if page.cut else []
    return Result(text="\n".join([head, text, *notes]), failed=failed)


def _readable(page: WebPage) -> str:
    if not page.is_html:
        return page.text
    title, text = to_markdown(page.text, page.url)
    return f"# {title}\n\n{text}" if title and not text.startswith("# ") else text


TOOL = Tool(
    name="web_fetch",
    description="Fetch a web page as Markdown, or a text file.",
    args=WebFetch,
    category=Category.READ_ONLY,
    run=run,
    title=lambda args: f"Fetch {args.url}",
    subject=lambda args: Subject(url=args.url),
    repeatable=True,
)
