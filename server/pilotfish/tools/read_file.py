"""Read a window of a file's lines, numbered: what the user sees, unsaved text included."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.errors import ToolError
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool, Touch
from pilotfish.workspace.files.disk import TooBig
from pilotfish.workspace.files.encoding import SAMPLE, Binary, Form, decode
from pilotfish.workspace.files.view import View

DEFAULT_LINES = 2000
MAX_LINE = 2000  # characters of a line that are shown
ROOM_FOR_WORDS = 600  # bytes of the output kept for what is said about the file


class ReadFileArgs(Args):
    path: str = Field(description="The file. Relative to the workspace, or absolute.")
    offset: int = Field(default=1, ge=1, description="First line to read, counting from 1.")
    limit: int = Field(default=DEFAULT_LINES, ge=1, description="How many lines to read at most.")


async def run(context: Context, args: ReadFileArgs) -> Result:
    path = context.path(args.path)
    try:
        view = await context.workspace.look(path)
    except TooBig:
        return await _big(context, path, args)
    lines = view.text.split("\n")
    if lines[-1] == "":
        lines.pop()  # the end of the last line is not a line
    if not lines:
        context.workspace.learn(view)
        return Result(text=_words(["the file is empty", *_form(view)]))
    if args.offset > len(lines):
        raise ToolError(f"{args.path} has {len(lines)} lines; offset {args.offset} is past its end")
    shown, count = _window(lines[args.offset - 1 :], args.offset, args.limit, context.max_output - ROOM_FOR_WORDS)
    last = args.offset + count - 1
    context.workspace.learn(view, range(args.offset, last + 1))
    said = _form(view)
    if count < len(lines):
        said.insert(0, f"lines {args.offset}-{last} of {len(lines)}")
    if last < len(lines):
        said.append(f"continue with offset={last + 1}")
    return Result(text=shown + (f"\n{_words(said)}" if said else ""))


async def _big(context: Context, path: Path, args: ReadFileArgs) -> Result:
    window = await context.workspace.read_window(path, args.offset, args.limit)
    if not window.lines:
        raise ToolError(f"{args.path} has no line {args.offset}")
    try:
        decode(b"\n".join(window.lines)[:SAMPLE])
    except Binary:
        raise Binary(f"{args.path} is not text ({window.size:,} bytes); use a command to inspect it") from None
    lines = [line.decode("utf-8", "replace") for line in window.lines]
    shown, count = _window(lines, args.offset, args.limit, context.max_output - ROOM_FOR_WORDS)
    last = args.offset + count - 1
    said = [
        f"lines {args.offset}-{last} of a file of {window.size / 1e6:,.0f} MB, too big to be edited with update_file"
    ]
    if window.more or count < len(lines):
        said.append(f"continue with offset={last + 1}")
    return Result(text=f"{shown}\n{_words(said)}")


def _window(lines: list[str], first: int, limit: int, room: int) -> tuple[str, int]:
    """As many of these lines as fit, at least one, numbered from `first`; and how many those are."""
    rows: list[str] = []
    for number, line in enumerate(lines[:limit], first):
        more = f"… [{len(line) - MAX_LINE:,} more characters in this line]" if len(line) > MAX_LINE else ""
        row = f"{number:>6}\t{line[:MAX_LINE]}{more}"
        room -= len(row.encode("utf-8", "replace")) + 1
        if room < 0 and rows:
            break
        rows.append(row)
    return "\n".join(rows), len(rows)


def _form(view: View) -> list[str]:
    """What is unusual about the file."""
    usual = Form()
    said: list[str] = []
    if view.dirty:
        said.append("open in the editor with unsaved changes; this is the unsaved text")
    if view.form.mixed:
        said.append("mixed line endings; lines that you do not edit keep theirs")
    elif view.newline != usual.newline:
        said.append(f"{_NEWLINES[view.newline]} line endings; edits keep them")
    if view.encoding != usual.encoding:
        said.append(f"encoding {view.encoding}; edits keep it")
    if view.text and not view.final_newline:
        said.append("no newline at the end")
    if view.trouble:
        said.append(f"cannot be edited: {view.trouble}")
    return said


_NEWLINES = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}


def _words(said: list[str]) -> str:
    return f"[{'; '.join(said)}]"


def locations(context: Context, args: ReadFileArgs) -> tuple[Location, ...]:
    uri = context.workspace.resolve(args.path).path.as_uri()
    return (Location(uri=uri, range=(args.offset - 1, 0, args.offset - 1, 0) if args.offset > 1 else None),)


def title(args: ReadFileArgs) -> str:
    if args.offset == 1 and args.limit == DEFAULT_LINES:
        return f"Read {args.path}"
    return f"Read {args.path}, lines {args.offset}-{args.offset + args.limit - 1}"


TOOL = Tool(
    name="read_file",
    description=(
        "Read a file as numbered lines (number, tab, text); the numbers are not part of the file. "
        "Shows what the user sees in the editor, unsaved changes included. "
        f"At most {DEFAULT_LINES} lines at once; use offset and limit for more."
    ),
    args=ReadFileArgs,
    category=Category.READ_ONLY,
    run=run,
    title=title,
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="read"),)),
    locations=locations,
    repeatable=True,
)
