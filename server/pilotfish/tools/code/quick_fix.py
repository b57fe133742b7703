"""quick_fix: applies a fix that a language server offers for a problem, in one file."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.errors import Refused, ToolError
from pilotfish.tools.tool import Args, Context, Preview, Result, Subject, Tool, Touch
from pilotfish.workspace.edits.drafts import Edit, preview_of
from pilotfish.workspace.edits.matching import Replacement
from pilotfish.workspace.language_servers import fix


class QuickFix(Args):
    path: str
    line: int = Field(ge=1)
    title: str = Field(min_length=1, description="as diagnostics shows it")


async def run(context: Context, args: QuickFix) -> Result:
    path = context.path(args.path)
    edited = await context.workspace.apply(path, await _intent(context, args, path), context.approved)
    notes = (f"Note: {note}." for note in edited.notes)
    changes = () if edited.change is None else (edited.change,)
    return Result(text="\n".join((f"Applied: {args.title}.", *notes, edited.diff)), diff=edited.diff, changes=changes)


async def preview(context: Context, args: QuickFix) -> Preview:
    path = context.path(args.path)
    draft = await context.workspace.preview(path, await _intent(context, args, path))
    return Preview(kind="diff", files=(preview_of(draft),))


async def _intent(context: Context, args: QuickFix, path: Path) -> Edit:
    texts = await fix(context.workspace, path, args.line, args.title)
    changed = {file: both for file, both in texts.items() if both[0] != both[1]}
    if set(changed) - {path}:
        # Policy checked only this file.
        raise Refused("the fix also changes other files; make these edits with update_file")
    if not changed:
        raise ToolError("The fix changes nothing; use update_file")
    before, after = changed[path]
    return Edit((Replacement(old=before, new=after),))


def locations(context: Context, args: QuickFix) -> tuple[Location, ...]:
    uri = context.workspace.resolve(args.path).path.as_uri()
    return (Location(uri=uri, range=(args.line - 1, 0, args.line - 1, 0)),)


TOOL = Tool(
    name="quick_fix",
    description="Apply a fix that a language server offers for a problem.",
    args=QuickFix,
    category=Category.WRITE,
    run=run,
    queries="codeActions",
    title=lambda args: f"{args.title} in {args.path}",
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="write"),)),
    preview=preview,
    locations=locations,
    own_words=True,
)
