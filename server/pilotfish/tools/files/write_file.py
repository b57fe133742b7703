"""write_file: writes a whole file: a new one, or one that was read before."""

from __future__ import annotations

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.tools.tool import Args, Context, Preview, Result, Subject, Tool, Touch
from pilotfish.workspace.edits.drafts import Rewrite, preview_of
from pilotfish.workspace.edits.outcomes import Edited


class WriteFileArgs(Args):
    path: str = Field(description="missing folders are created")
    content: str


async def run(context: Context, args: WriteFileArgs) -> Result:
    path = context.path(args.path)
    edited = await context.workspace.apply(path, Rewrite(args.content), context.approved)
    return Result(
        text=_summary(context.workspace.relative(path), edited),
        diff=edited.diff or None,
        changes=(edited.change,) if edited.change else (),
    )


async def preview(context: Context, args: WriteFileArgs) -> Preview:
    draft = await context.workspace.preview(context.path(args.path), Rewrite(args.content))
    return Preview(kind="diff", files=(preview_of(draft),))


def _summary(name: str, edited: Edited) -> str:
    match edited.change:
        case None:
            head = f"{name} already has this content; nothing was written."
        case change if change.change == "created":
            head = f"Created {name} ({change.added} lines)."
        case change:
            head = f"Wrote {name} (+{change.added} −{change.removed})."
    diff = f"\n{edited.diff}" if edited.change is not None and edited.change.change != "created" else ""
    return "\n".join((head, *(f"Note: {note}." for note in edited.notes))) + diff


TOOL = Tool(
    name="write_file",
    description=(
        "Write a whole file. For new files, and for rewriting a file you have read; "
        "use update_file for changes to parts of a file. "
        "Changes by others since you read it are kept, or reported as a conflict."
    ),
    args=WriteFileArgs,
    category=Category.WRITE,
    run=run,
    title=lambda args: f"Write {args.path}",
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="write"),)),
    preview=preview,
    locations=lambda context, args: (Location(uri=context.workspace.resolve(args.path).path.as_uri()),),
    own_words=True,
)
