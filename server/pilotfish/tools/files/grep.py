"""grep: searches lines by regular expression, in unsaved buffers and on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.errors import ToolError
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool, Touch, encodable
from pilotfish.workspace.search.search import Hit, Mode, Query, SearchResult, TextSearch, unsaved_texts

PROGRESS_HITS = 50
"""maximum number of hits reported as progress"""


class Grep(Args):
    pattern: str = Field(min_length=1, description="Rust regex, no lookaround")
    path: str | None = Field(None, description="file or folder")
    glob: str | None = Field(None, description="e.g. *.py, src/**/*.{ts,tsx}, !*.lock")
    mode: Mode = "lines"
    literal: bool = False
    ignore_case: bool = False
    context: int = Field(0, ge=0, le=20)
    include_ignored: bool = False
    limit: int = Field(200, ge=1, le=2000)


async def run(context: Context, args: Grep) -> Result:
    places = tuple(context.workspace.roots) if args.path is None else (context.path(args.path),)
    if not places:
        raise ToolError("No folder is open; give an absolute path")
    query = Query(
        pattern=args.pattern,
        mode=args.mode,
        literal=args.literal,
        ignore_case=args.ignore_case,
        context=args.context,
        glob=args.glob,
        include_ignored=args.include_ignored,
    )
    reported = 0
    relative = context.workspace.relative

    def tell(hits: Sequence[Hit]) -> None:
        nonlocal reported
        shown = hits[: max(0, PROGRESS_HITS - reported)]
        reported += len(shown)
        if shown:
            lines = [f"{relative(Path(hit.path))}:{hit.line}: {hit.text}\n" for hit in shown]
            context.progress(encodable("".join(lines)))

    search = TextSearch(
        query=query,
        roots=context.workspace.roots,
        unsaved=await unsaved_texts(context.workspace, places),
        on_hits=tell,
    )
    try:
        async with asyncio.timeout(context.timeout):
            await search.over(places)
    except TimeoutError:
        late = f"\n[stopped after {context.timeout:g} s; narrow the search]"
        return Result(text=_text(context, args, search.found) + late)
    return Result(text=_text(context, args, search.found))


def _text(context: Context, args: Grep, found: SearchResult) -> str:
    shown, total = _cut(found.hits, args.limit)
    lines: list[str] = []
    for path, hits in groupby(shown, lambda hit: hit.path):
        name = context.workspace.relative(Path(path))
        match args.mode:
            case "files":
                lines.append(name)
            case "count":
                lines += [f"{name}: {hit.line}" for hit in hits]
            case "lines":
                lines.append(name)
                lines += [f"{hit.line}{':' if hit.matched else '-'} {hit.text}" for hit in hits]
    if not lines:
        where = "" if args.include_ignored else " (ignored and binary files are left out)"
        lines.append(f"Nothing matches{where}")
    if found.more or total > args.limit:
        count = f"more than {total:,}" if found.more else f"{total:,}"
        lines.append(f"[{args.limit} of {count} hits; narrow the search or raise limit]")
    if found.unreadable:
        lines.append(f"[{len(found.unreadable)} paths could not be read: {'; '.join(found.unreadable[:3])}]")
    return "\n".join(lines)


def _cut(hits: Sequence[Hit], limit: int) -> tuple[Sequence[Hit], int]:
    """The first `limit` matches with the lines around them, and how many matches there are."""
    matched = 0
    end = len(hits)
    for index, hit in enumerate(hits):
        matched += hit.matched
        if matched == limit + 1 and hit.matched:
            end = index
    return hits[:end], matched


def subject(args: Grep) -> Subject:
    return Subject(touches=(Touch(path=args.path or ".", access="read", recursive=True),))


TOOL = Tool(
    name="grep",
    description="Search file contents, including unsaved text. mode=files lists paths, mode=count counts matches.",
    args=Grep,
    category=Category.READ_ONLY,
    run=run,
    title=lambda args: f"Search {args.pattern!r}" + (f" in {args.path or args.glob}" if args.path or args.glob else ""),
    subject=subject,
    repeatable=True,
)
