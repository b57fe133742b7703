"""list_dir: lists the entries of a folder."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool, Touch
from pilotfish.workspace.search.listing import listing_text


class ListDir(Args):
    path: str = "."
    depth: int = Field(1, ge=1, le=5)


async def run(context: Context, args: ListDir) -> Result:
    first = context.path(args.path)
    folders = (first,) if Path(args.path).parts else context.workspace.roots or (first,)
    workspace = context.workspace
    texts: list[str] = []
    for folder in folders:
        root = next((root for root in workspace.roots if folder.is_relative_to(root)), folder)
        texts.append(await listing_text(folder, workspace.relative(folder), root, depth=args.depth))
    return Result(text="\n".join(texts))


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
