"""rename_symbol: renames a symbol through the language server, in all files or in none."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.errors import Refused
from pilotfish.tools.tool import (
    Args,
    Context,
    Preview,
    Result,
    Subject,
    Tool,
    Touch,
)
from pilotfish.workspace.edits.drafts import Edit
from pilotfish.workspace.edits.matching import Replacement
from pilotfish.workspace.language_servers import rename


class RenameSymbol(Args):
    path: str
    line: int = Field(ge=1)
    name: str = Field(min_length=1, description="as written in that line")
    new_name: str = Field(min_length=1)


async def run(context: Context, args: RenameSymbol) -> Result:
    made = await context.workspace.apply_all(await _intents(context, args), context.approved)
    changes = tuple(edited.change for edited in made if edited.change is not None)
    notes = [f"Note: {note}." for edited in made for note in edited.notes]
    diff = "\n".join(edited.diff for edited in made)
    head = f"Renamed {args.name} to {args.new_name} in {len(changes)} files."
    return Result(text="\n".join([head, *notes, diff]), diff=diff, changes=changes)


async def preview(context: Context, args: RenameSymbol) -> Preview:
    return Preview(kind="diff", files=await context.workspace.preview_all(await _intents(context, args)))


async def _intents(context: Context, args: RenameSymbol) -> dict[Path, Edit]:
    texts = await rename(context.workspace, context.path(args.path), args.line, args.name, args.new_name)
    for path in texts:
        resolved = context.workspace.resolve(str(path))
        if not resolved.inside:
            raise Refused(f"the rename would change {path}, which is outside the workspace")
        if resolved.sensitive is not None:  # policy did not check this file
            raise Refused(f"the rename would change {path}: {resolved.sensitive}; make this change with update_file")
    return {
        path: Edit((Replacement(old=before, new=after),)) for path, (before, after) in texts.items() if before != after
    }


def locations(context: Context, args: RenameSymbol) -> tuple[Location, ...]:
    uri = context.workspace.resolve(args.path).path.as_uri()
    return (Location(uri=uri, range=(args.line - 1, 0, args.line - 1, 0)),)


TOOL = Tool(
    name="rename_symbol",
    description="Rename a symbol everywhere with the language server.",
    args=RenameSymbol,
    category=Category.WRITE,
    run=run,
    queries="rename",
    title=lambda args: f"Rename {args.name} to {args.new_name}",
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="write"),)),
    preview=preview,
    locations=locations,
    own_words=True,
)
