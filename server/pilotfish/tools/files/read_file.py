"""read_file: reads numbered lines of a file, including unsaved text in the editor."""

from __future__ import annotations

import asyncio
from pathlib import Path, PurePath

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.errors import ToolError
from pilotfish.tools.tool import Args, Context, Image, Result, Subject, Tool, Touch
from pilotfish.workspace.edits.notebooks import cells_text, is_notebook
from pilotfish.workspace.files.disk import TooBig
from pilotfish.workspace.files.encoding import SAMPLE, Binary, Form, decode
from pilotfish.workspace.files.pdf import MAX_FILE, is_pdf, pdf_text
from pilotfish.workspace.files.view import View
from pilotfish.workspace.search.listing import listing_text

DEFAULT_LINES = 2000
MAX_LINE = 2000  # characters of a line that are shown
MAX_IMAGE = 3_500_000  # bytes; some providers take 5 MB as base64
ROOM_FOR_NOTES = 600  # bytes of the output reserved for notes about the file


class ReadFileArgs(Args):
    path: str = Field(description="The file. Relative to the workspace, or absolute.")
    offset: int = Field(default=1, ge=1, description="first line, from 1")
    limit: int = Field(default=DEFAULT_LINES, ge=1, description="lines at most")


async def run(context: Context, args: ReadFileArgs) -> Result:
    path = context.path(args.path)
    if await asyncio.to_thread(path.is_dir):
        root = next((root for root in context.workspace.roots if path.is_relative_to(root)), path)
        return Result(text=await listing_text(path, context.workspace.relative(path), root))
    if path.suffix.lower() == ".pdf" and (found := await _pdf(context, path, args)) is not None:
        return found
    try:
        view = await context.workspace.look(path)
    except TooBig:
        return await _big(context, path, args)
    except Binary:
        if (found := image_type(path.name)) is None:
            raise
        return await _image(context, path, found, args)
    if is_notebook(path.name) and (cells := cells_text(view.text)) is not None:
        context.workspace.learn(view)
        return _page_of_cells(cells.split("\n"), args)
    lines = view.text.split("\n")
    if lines[-1] == "":
        lines.pop()  # the text after the last newline is not a line
    if not lines:
        context.workspace.learn(view)
        return Result(text=_bracketed(["the file is empty", *_form(view)]))
    if args.offset > len(lines):
        raise ToolError(f"{args.path} has {len(lines)} lines; offset {args.offset} is past its end")
    shown, count = _window(lines[args.offset - 1 :], args.offset, args.limit, context.max_output - ROOM_FOR_NOTES)
    last = args.offset + count - 1
    context.workspace.learn(view, range(args.offset, last + 1))
    notes = _form(view)
    if count < len(lines):
        notes.insert(0, f"lines {args.offset}-{last} of {len(lines)}")
    if last < len(lines):
        notes.append(f"continue with offset={last + 1}")
    return Result(text=shown + (f"\n{_bracketed(notes)}" if notes else ""))


async def _pdf(context: Context, path: Path, args: ReadFileArgs) -> Result | None:
    """The text of a PDF, page after page. None if the file is none."""
    try:
        data = await context.workspace.read_bytes(path, MAX_FILE)
    except TooBig:
        raise ToolError(f"{args.path} is a PDF of more than {MAX_FILE // 1_000_000} MB, too big to be read") from None
    if not is_pdf(data):
        return None
    try:
        found = await pdf_text(data)
    except ToolError as error:
        raise ToolError(f"{args.path}: {error}") from None
    lines: list[str] = []
    for number, page in enumerate(found.pages, 1):
        lines += [f"--- page {number} of {found.total} ---", *page.splitlines()]
    if args.offset > max(len(lines), 1):
        raise ToolError(f"the text of {args.path} has {len(lines)} lines; offset {args.offset} is past its end")
    shown, count = _window(lines[args.offset - 1 :], args.offset, args.limit, context.max_output - ROOM_FOR_NOTES)
    notes = ["the text of a PDF, without its pictures and layout"]
    if found.stopped:
        notes.append(f"only the first {len(found.pages)} of {found.total} pages: {found.stopped}")
    if not any(page.strip() for page in found.pages):
        notes.append("these pages have no text; they may be scanned")
    if (last := args.offset + count - 1) < len(lines):
        notes.append(f"lines {args.offset}-{last} of {len(lines)}; continue with offset={last + 1}")
    return Result(text=f"{shown}\n{_bracketed(notes)}")


async def _image(context: Context, path: Path, media_type: str, args: ReadFileArgs) -> Result:
    if not context.takes_images:
        raise ToolError(f"{args.path} is an image, and you cannot be shown images here")
    try:
        data = await context.workspace.read_bytes(path, MAX_IMAGE)
    except TooBig:
        raise ToolError(f"{args.path} is an image of more than {MAX_IMAGE / 1e6:.1f} MB; make it smaller") from None
    if not data.startswith(_SIGNATURES[media_type]):
        raise ToolError(f"{args.path} has the name of an image ({media_type}) but is not one")
    text = f"[{media_type}, {len(data):,} bytes; the image follows in the next message]"
    return Result(text=text, images=(Image(media_type=media_type, data=data),))


def image_type(name: str) -> str | None:
    """The media type of an image that models take, by the name of its file."""
    return _IMAGES.get(PurePath(name).suffix.lower())


_IMAGES = {
    ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
}  # fmt: skip
_SIGNATURES = {"image/png": b"\x89PNG", "image/jpeg": b"\xff\xd8", "image/gif": b"GIF8", "image/webp": b"RIFF"}


def _page_of_cells(lines: list[str], args: ReadFileArgs) -> Result:
    if args.offset > len(lines):
        raise ToolError(f"{args.path} has {len(lines)} lines; offset {args.offset} is past its end")
    shown = lines[args.offset - 1 : args.offset - 1 + args.limit]
    notes = ["a notebook, shown as cells; change it with edit_notebook"]
    if (last := args.offset + len(shown) - 1) < len(lines):
        notes.append(f"lines {args.offset}-{last} of {len(lines)}; continue with offset={last + 1}")
    return Result(text="\n".join(shown) + f"\n{_bracketed(notes)}")


async def _big(context: Context, path: Path, args: ReadFileArgs) -> Result:
    window = await context.workspace.read_window(path, args.offset, args.limit)
    if not window.lines:
        raise ToolError(f"{args.path} has no line {args.offset}")
    try:
        decode(b"\n".join(window.lines)[:SAMPLE])
    except Binary:
        raise Binary(f"{args.path} is not text ({window.size:,} bytes); use a command to inspect it") from None
    lines = [line.decode("utf-8", "replace") for line in window.lines]
    shown, count = _window(lines, args.offset, args.limit, context.max_output - ROOM_FOR_NOTES)
    last = args.offset + count - 1
    notes = [
        f"lines {args.offset}-{last} of a file of {window.size / 1e6:,.0f} MB, too big to be edited with update_file"
    ]
    if window.more or count < len(lines):
        notes.append(f"continue with offset={last + 1}")
    return Result(text=f"{shown}\n{_bracketed(notes)}")


def _window(lines: list[str], first: int, limit: int, room: int) -> tuple[str, int]:
    """(numbered lines, their count): as many lines as fit into `room` bytes, at least one."""
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
    """Notes on unusual properties of the file."""
    usual = Form()
    notes: list[str] = []
    if view.dirty:
        notes.append("open in the editor with unsaved changes; this is the unsaved text")
    if view.form.mixed:
        notes.append("mixed line endings; lines that you do not edit keep theirs")
    elif view.newline != usual.newline:
        notes.append(f"{_NEWLINES[view.newline]} line endings; edits keep them")
    if view.encoding != usual.encoding:
        notes.append(f"encoding {view.encoding}; edits keep it")
    if view.text and not view.final_newline:
        notes.append("no newline at the end")
    if view.trouble:
        notes.append(f"cannot be edited: {view.trouble}")
    return notes


_NEWLINES = {"\n": "LF", "\r\n": "CRLF", "\r": "CR"}


def _bracketed(notes: list[str]) -> str:
    return f"[{'; '.join(notes)}]"


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
