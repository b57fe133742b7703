"""apply_patch: applies a patch in OpenAI's format to several files; all of them change, or none."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.errors import ToolError
from pilotfish.tools.tool import Args, Context, Preview, Result, Subject, Tool, Touch
from pilotfish.workspace.edits.drafts import Delete, FileIntent, Move, Patch, Rewrite
from pilotfish.workspace.edits.outcomes import Edited
from pilotfish.workspace.edits.patches import FilePatch, parse


class ApplyPatch(Args):
    patch: str = Field(min_length=1)


async def run(context: Context, args: ApplyPatch) -> Result:
    intents = _intents(context, args)
    match list(intents.items()):
        case [(path, (Rewrite() | Patch()) as intent)]:  # with the diagnostics of the one file
            made: tuple[Edited, ...] = (await context.workspace.apply(path, intent, context.approved),)
        case _:
            made = await context.workspace.apply_all(intents, context.approved)
    changes = tuple(edited.change for edited in made if edited.change is not None)
    if not changes:
        return Result(text="The files already have this content; nothing was written.")
    name = context.workspace.relative
    heads = [
        f"{change.change} {f'{name(change.old_path)} → ' if change.old_path else ''}{name(change.path)} "
        f"(+{change.added} −{change.removed})"
        for change in changes
    ]
    notes = [f"Note: {note}." for edited in made for note in edited.notes]
    diff = "\n".join(edited.diff for edited in made if edited.diff)
    return Result(text="\n".join(("Done.", *heads, *notes, diff)), diff=diff or None, changes=changes)


async def preview(context: Context, args: ApplyPatch) -> Preview:
    return Preview(kind="diff", files=await context.workspace.preview_all(_intents(context, args)))


def _intents(context: Context, args: ApplyPatch) -> dict[Path, FileIntent]:
    intents: dict[Path, FileIntent] = {}
    for file in parse(args.patch):
        path = context.path(file.path)
        if path in intents:
            raise ToolError(f"the patch names {file.path} twice, by different paths")
        intents[path] = _intent(context, file)
    return intents


def _intent(context: Context, file: FilePatch) -> FileIntent:
    match file.action:
        case "add":
            return Rewrite(file.text)
        case "delete":
            return Delete()
        case "update" if file.move_to is not None:
            return Move(context.path(file.move_to), Patch(file.chunks) if file.chunks else None)
        case "update":
            return Patch(file.chunks)


def subject(args: ApplyPatch) -> Subject:
    touches: list[Touch] = []
    for file in parse(args.patch):
        touches.append(Touch(path=file.path, access="delete" if file.action == "delete" or file.move_to else "write"))
        if file.move_to is not None:
            touches.append(Touch(path=file.move_to, access="write"))
    return Subject(touches=tuple(touches))


def title(args: ApplyPatch) -> str:
    try:
        names = [file.path for file in parse(args.patch)]
    except ToolError:
        return "Apply a patch"
    return f"Patch {names[0]}" + (f" and {len(names) - 1} more" if len(names) > 1 else "")


def locations(context: Context, args: ApplyPatch) -> tuple[Location, ...]:
    return tuple(Location(uri=context.workspace.resolve(file.path).path.as_uri()) for file in parse(args.patch))


TOOL = Tool(
    name="apply_patch",
    description=(
        "Apply a patch to files: all of it, or nothing.\n"
        "*** Begin Patch\n*** Update File: path\n@@ line above, e.g. def f():\n line that stays\n-old line\n+new line\n"
        "*** Add File: path\n+line\n*** Delete File: path\n*** End Patch\n"
        "Put 3 lines that stay around each change. *** Move to: path after Update File moves the file."
    ),
    args=ApplyPatch,
    category=Category.WRITE,
    run=run,
    title=title,
    subject=subject,
    preview=preview,
    locations=locations,
)
