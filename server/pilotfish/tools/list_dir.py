"""list_dir: lists the entries of a folder."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool, Touch
from pilotfish.workspace.search.ignore import IgnoreRules
from pilotfish.workspace.search.listing import list_folder

MAX_ENTRIES = 500


class ListDir(Args):
    path: str = "."
    depth: int = Field(1, ge=1, le=5)


async def run(context: Context, args: ListDir) -> Result:
    first = context.path(args.path)
    folders = (first,) if Path(args.path).parts else context.workspace.roots or (first,)
    return Result(text="\n".join([await _listed(context, folder, args.depth) for folder in folders]))


async def _listed(context: Context, folder: Path, depth: int) -> str:
    root = next((root for root in context.workspace.roots if folder.is_relative_to(root)), folder)
    rules = IgnoreRules(root)
    listing = await asyncio.to_thread(list_folder, folder, rules, depth=depth, limit=MAX_ENTRIES)
    lines = [f"{context.workspace.relative(folder)}/"]
    for entry in listing.entries:
        notes = [note for note in (entry.note, "ignored" if entry.ignored else "") if note]
        name = entry.name.replace("\n", "\\n")
        lines.append("  " * (entry.depth + 1) + name + entry.kind + (f"  ({', '.join(notes)})" if notes else ""))
    if not listing.entries:
        lines.append("  (empty)")
    if listing.more:
        lines.append(f"[only the first {MAX_ENTRIES} entries; list a subfolder, or use glob]")
    return "\n".join(lines)


def subject(args: ListDir) -> Subject:
    return Subject(touches=(Touch(path=args.path, access="read"),))


def locations(context: Context, args: ListDir) -> tuple[Location, ...]:
    return (Location(uri=context.workspace.resolve(args.path).path.as_uri()),)


TOOL = Tool(
    name="list_dir",
    description="List a folder. Ignored folders are not expanded.",
    args=ListDir,
    category=Category.READ_ONLY,
    run=run,
    title=lambda args: f"List {args.path}",
    subject=subject,
    locations=locations,
    repeatable=True,
)
