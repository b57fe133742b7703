"""move_file: moves or renames a file, never onto another."""

from __future__ import annotations

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.tools.tool import Args, Context, Preview, Result, Subject, Tool, Touch
from pilotfish.workspace.edits.drafts import Move


class MoveFile(Args):
    path: str = Field(min_length=1)
    to: str = Field(min_length=1, description="new path; missing folders are created")


async def run(context: Context, args: MoveFile) -> Result:
    path, target = context.path(args.path), context.path(args.to)
    made = await context.workspace.apply_all({path: Move(target)}, context.approved)
    name = context.workspace.relative
    changes = tuple(edited.change for edited in made if edited.change is not None)
    return Result(text=f"Moved {name(path)} to {name(target)}.", changes=changes)


async def preview(context: Context, args: MoveFile) -> Preview:
    intents = {context.path(args.path): Move(context.path(args.to))}
    return Preview(kind="diff", files=await context.workspace.preview_all(intents))


def locations(context: Context, args: MoveFile) -> tuple[Location, ...]:
    return (Location(uri=context.workspace.resolve(args.path).path.as_uri()),)


TOOL = Tool(
    name="move_file",
    description="Move or rename a file. The user can undo it.",
    args=MoveFile,
    category=Category.WRITE,
    run=run,
    title=lambda args: f"Move {args.path} to {args.to}",
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="delete"), Touch(path=args.to, access="write"))),
    preview=preview,
    locations=locations,
)
