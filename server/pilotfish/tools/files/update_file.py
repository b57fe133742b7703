"""update_file: replaces quoted text in a file; applies all edits or none."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.tools.tool import Args, Context, Preview, Result, Subject, Tool, Touch
from pilotfish.workspace.edits.drafts import Edit, preview_of
from pilotfish.workspace.edits.matching import Replacement


class FileEdit(Args):
    old_string: str = Field(
        description="The text to replace, exactly as it is in the file, with enough lines around it to be unique."
    )
    new_string: str = Field(description="The text to put there; empty to delete.")
    replace_all: bool = False


class UpdateFileArgs(Args):
    path: str
    edits: Annotated[tuple[FileEdit, ...], Field(min_length=1)] = Field(
        description="Applied in order, each to the result of the one before. All are applied, or none."
    )


async def run(context: Context, args: UpdateFileArgs) -> Result:
    path = context.path(args.path)
    edited = await context.workspace.apply(path, _intent(args), context.approved)
    name = context.workspace.relative(path)
    if edited.change is None:
        return Result(text=f"{name} already has this content; nothing was written.")
    head = f"Edited {name} (+{edited.change.added} −{edited.change.removed})."
    notes = (f"Note: {note}." for note in edited.notes)
    return Result(text="\n".join((head, *notes, edited.diff)), diff=edited.diff, changes=(edited.change,))


async def preview(context: Context, args: UpdateFileArgs) -> Preview:
    draft = await context.workspace.preview(context.path(args.path), _intent(args))
    return Preview(kind="diff", files=(preview_of(draft),))


def _intent(args: UpdateFileArgs) -> Edit:
    return Edit(
        tuple(Replacement(old=edit.old_string, new=edit.new_string, everywhere=edit.replace_all) for edit in args.edits)
    )


def title(args: UpdateFileArgs) -> str:
    return f"Edit {args.path}" + (f" ({len(args.edits)} edits)" if len(args.edits) > 1 else "")


TOOL = Tool(
    name="update_file",
    description=(
        "Change parts of a file by replacing quoted text. Quote old_string exactly as read_file shows it, without the "
        "line numbers; it must occur exactly once unless replace_all is set. Put all edits of one file into one call. "
        "Returns the diff that was made."
    ),
    args=UpdateFileArgs,
    category=Category.WRITE,
    run=run,
    title=title,
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="write"),)),
    preview=preview,
    locations=lambda context, args: (Location(uri=context.workspace.resolve(args.path).path.as_uri()),),
    own_words=True,
)
