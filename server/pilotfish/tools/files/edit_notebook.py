"""edit_notebook: replaces, inserts or removes one cell of a Jupyter notebook."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.errors import StaleEdit, ToolError
from pilotfish.tools.tool import Args, Context, Preview, Result, Subject, Tool, Touch
from pilotfish.workspace.edits import notebooks
from pilotfish.workspace.edits.drafts import Rewrite, preview_of


class EditNotebook(Args):
    path: str
    cell: int = Field(ge=1, description="its number; with insert the number of the new cell")
    source: str = Field(default="", description="the whole text of the cell")
    action: Literal["replace", "insert", "delete"] = "replace"
    kind: Literal["code", "markdown"] = Field(default="code", description="of a new cell")


async def run(context: Context, args: EditNotebook) -> Result:
    path = context.path(args.path)
    edited = await context.workspace.apply(path, await _intent(context, args), context.approved)
    return Result(
        text=f"{title(args)}: done. The numbers of later cells may have changed.",
        diff=edited.diff or None,
        changes=(edited.change,) if edited.change else (),
    )


async def preview(context: Context, args: EditNotebook) -> Preview:
    draft = await context.workspace.preview(context.path(args.path), await _intent(context, args))
    return Preview(kind="diff", files=(preview_of(draft),))


async def _intent(context: Context, args: EditNotebook) -> Rewrite:
    path, workspace = context.path(args.path), context.workspace
    text = (await workspace.look(path)).text
    if path not in workspace.known_files:
        raise ToolError(f"{args.path} has not been read; read it first, for the numbers of its cells")
    if path in workspace.changed_since_read():
        raise StaleEdit(f"{args.path} changed since it was read; read it again for the numbers of its cells")
    match args.action:
        case "replace":
            return Rewrite(notebooks.replaced(text, args.cell, args.source))
        case "insert":
            return Rewrite(notebooks.inserted(text, args.cell, args.source, args.kind))
        case "delete":
            return Rewrite(notebooks.removed(text, args.cell))


def title(args: EditNotebook) -> str:
    verb = {"replace": "Edit", "insert": "Insert", "delete": "Delete"}[args.action]
    return f"{verb} cell {args.cell} of {args.path}"


TOOL = Tool(
    name="edit_notebook",
    description="Change one cell of a Jupyter notebook. Read the notebook first for the numbers of its cells.",
    args=EditNotebook,
    category=Category.WRITE,
    run=run,
    title=title,
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="write"),)),
    preview=preview,
    locations=lambda context, args: (Location(uri=context.workspace.resolve(args.path).path.as_uri()),),
    own_words=True,
)
