"""delete_file: deletes a file; its content is kept for undo."""

from __future__ import annotations

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.tools.tool import Args, Context, Preview, Result, Subject, Tool, Touch
from pilotfish.workspace.edits.drafts import Delete


class DeleteFile(Args):
    path: str = Field(min_length=1)


async def run(context: Context, args: DeleteFile) -> Result:
    path = context.path(args.path)
    made = await context.workspace.apply_all({path: Delete()}, context.approved)
    changes = tuple(edited.change for edited in made if edited.change is not None)
    return Result(text=f"Deleted {context.workspace.relative(path)}.", changes=changes)


async def preview(context: Context, args: DeleteFile) -> Preview:
    return Preview(kind="diff", files=await context.workspace.preview_all({context.path(args.path): Delete()}))


def locations(context: Context, args: DeleteFile) -> tuple[Location, ...]:
    return (Location(uri=context.workspace.resolve(args.path).path.as_uri()),)


TOOL = Tool(
    name="delete_file",
    description="Delete a file. The user can undo it.",
    args=DeleteFile,
    category=Category.WRITE,
    run=run,
    title=lambda args: f"Delete {args.path}",
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="delete"),)),
    preview=preview,
    locations=locations,
)
