"""remember: adds a note to the memory of the workspace or of the user, a file that later sessions are given."""

from __future__ import annotations

import asyncio
from typing import Literal

from pydantic import Field

from pilotfish.config.settings import WORKSPACE_MEMORY, memory_path
from pilotfish.conversation.messages import Category, Location
from pilotfish.errors import ToolError
from pilotfish.text.display_safe import one_line
from pilotfish.tools.tool import Args, Context, Preview, Result, Subject, Tool, Touch
from pilotfish.workspace.edits.drafts import Rewrite, preview_of

MAX_NOTE = 1000
TITLE_CHARS = 80


class Remember(Args):
    note: str = Field(min_length=1, max_length=MAX_NOTE, description="one fact or wish that will matter again")
    scope: Literal["workspace", "user"] = Field("workspace", description="user: for every project")


async def run(context: Context, args: Remember) -> Result:
    path = context.path(_path(args))
    edited = await context.workspace.apply(path, await _with_note(context, args), context.approved)
    return Result(
        text=f"Remembered in {context.workspace.relative(path)}.",
        diff=edited.diff or None,
        changes=(edited.change,) if edited.change else (),
    )


async def preview(context: Context, args: Remember) -> Preview:
    draft = await context.workspace.preview(context.path(_path(args)), await _with_note(context, args))
    return Preview(kind="diff", files=(preview_of(draft),))


async def _with_note(context: Context, args: Remember) -> Rewrite:
    """The file with one more line."""
    path = context.path(_path(args))
    text = (await context.workspace.read(path)).text if await asyncio.to_thread(path.exists) else "# Memory\n\n"
    line = f"- {one_line(args.note)}\n"
    if line in text:
        raise ToolError("The memory already has this note")
    return Rewrite(text + ("" if text.endswith("\n") or not text else "\n") + line)


def _path(args: Remember) -> str:
    return str(memory_path()) if args.scope == "user" else WORKSPACE_MEMORY


TOOL = Tool(
    name="remember",
    description="Keep a note for later sessions, when the user asks for it or corrects you for good.",
    args=Remember,
    category=Category.WRITE,
    run=run,
    title=lambda args: f"Remember: {one_line(args.note)[:TITLE_CHARS]}",
    subject=lambda args: Subject(touches=(Touch(path=_path(args), access="write"),)),
    preview=preview,
    locations=lambda context, args: (Location(uri=context.workspace.resolve(_path(args)).path.as_uri()),),
    own_words=True,
)
