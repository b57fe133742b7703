"""Builds the prompt for the model: the user's content blocks, facts about the environment, and the instructions.

Hides: how attachments, selections, diagnostics and mentions become text. Promises: an attachment that cannot be sent is
reported in the prompt and as a notice; instructions stay small.
"""

from __future__ import annotations

import base64
import binascii
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from pilotfish.conversation.records import Attachment
from pilotfish.errors import BadRequest, PilotfishError
from pilotfish.policy.secrets import mask
from pilotfish.text.mention_syntax import Mention, mentions
from pilotfish.workspace.files.view import View
from pilotfish.workspace.language_servers import SEVERITIES, UNITS
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.messages import UserContent

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_IMAGE_BYTES = 10 * 1024 * 1024
MAX_RESOURCE_CHARS = 40_000  # limit of one attached file
MAX_RULES_CHARS = 16_000  # limit of one AGENTS.md file


@dataclass(slots=True)
class PreparedPrompt:
    """The content for the model, the attachments to store, and notices for the user."""

    content: list[UserContent] = field(default_factory=list["UserContent"])
    attachments: list[tuple[bytes, Attachment]] = field(default_factory=list[tuple[bytes, Attachment]])
    notices: list[str] = field(default_factory=list[str])


async def prepare(blocks: Sequence[Mapping[str, Any]], workspace: Workspace) -> PreparedPrompt:
    """Build the content for the model from the content blocks of a prompt."""
    prepared = PreparedPrompt()
    mentioned: dict[Mention, None] = {}
    for index, block in enumerate(blocks):
        match block.get("type"):
            case "text":
                text = str(block.get("text", ""))
                prepared.content.append(text)
                mentioned.update(dict.fromkeys(mentions(text)))
            case "resource":
                prepared.content.append(await _resource(block, workspace, prepared.notices))
            case "image":
                _image(block, index, prepared)
            case "diagnostic":
                prepared.content.append(await _diagnostic(block, workspace))
            case kind:
                raise BadRequest(f"prompt.{index}.type: {kind!r} is not a content type", field=f"prompt.{index}.type")
    for mention in mentioned:
        if (text := await _mention(mention, workspace)) is not None:
            prepared.content.append(text)
    if not any(not isinstance(item, str) or item.strip() for item in prepared.content):
        raise BadRequest("prompt: must not be empty", field="prompt")
    return prepared


def plain_text(blocks: Sequence[Mapping[str, Any]]) -> str:
    """The text of a prompt, for titles, search and display."""
    return "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text").strip()


@cache
def standing_instructions() -> str:
    return Path(__file__).with_name("instructions.md").read_text("utf-8").strip()


def environment_facts(workspace: Workspace, *, mode: str, today: date, trusted: bool) -> str:
    """The block of facts that follows the instructions."""
    roots = ", ".join(str(root) for root in workspace.roots) or "none"
    lines = [
        f"Workspace: {roots}",
        f"Platform: {platform.system()} {platform.machine()}",
        f"Date: {today.isoformat()}",
        f"Mode: {mode}. {_MODE_WORDS.get(mode, '')}".rstrip(),
    ]
    if not trusted:
        lines.append("The workspace is not trusted: read and explain only.")
    # Documents outside the workspace are private.
    inside = [
        buffer.path for buffer in workspace.open_documents() if any(map(buffer.path.is_relative_to, workspace.roots))
    ]
    if inside:
        lines.append("Open in the editor: " + ", ".join(map(workspace.relative, inside[:20])))
    return "\n".join(lines)


_MODE_WORDS = {
    "ask": "Changes and commands are shown to the user first.",
    "plan": "Change nothing and run nothing that changes anything: investigate, then present a plan.",
    "edit": "Edits inside the workspace are applied at once; commands are shown to the user first.",
    "auto": "Calls run without a question unless a rule says otherwise.",
}


class InstructionFiles:
    """The `AGENTS.md` files, outermost first, so that nested files take precedence. Cached until a file changes."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._cached: tuple[tuple[tuple[str, int, int], ...], str] | None = None

    def text(self, near: Sequence[Path] = ()) -> str:
        """The text of the files that apply to the roots and to the files in `near`, marked by origin."""
        files = self._files(near)
        stamps = tuple((str(file), stat.st_mtime_ns, stat.st_size) for file in files for stat in (file.stat(),))
        if self._cached is None or self._cached[0] != stamps:
            self._cached = (stamps, "\n\n".join(filter(None, (self._read(file) for file in files))))
        return self._cached[1]

    def there(self, near: Sequence[Path] = ()) -> bool:
        """Whether any file exists, without reading it."""
        return bool(self._files(near))

    def _files(self, near: Sequence[Path]) -> list[Path]:
        directories: dict[Path, None] = dict.fromkeys(self._workspace.roots)
        for file in near:
            for root in self._workspace.roots:
                if file.is_relative_to(root):
                    steps = file.parent.relative_to(root).parts
                    directories.update(dict.fromkeys(root.joinpath(*steps[:count]) for count in range(len(steps) + 1)))
        ordered = sorted(directories, key=lambda directory: len(directory.parts))
        return [file for directory in ordered if self._may_be_read(file := _rules_file(directory))]

    def _may_be_read(self, file: Path) -> bool:
        """Whether the file is inside the workspace, links resolved, and not a secret."""
        try:
            place = self._workspace.resolve(str(file))
            return place.inside and not place.secret and place.path.is_file()
        except (PilotfishError, OSError):
            return False

    def _read(self, file: Path) -> str:
        try:
            with file.open(encoding="utf-8", errors="replace") as opened:
                whole = opened.read(MAX_RULES_CHARS + 1)
        except OSError:
            return ""
        text = mask(whole)[0].strip()
        if len(whole) > MAX_RULES_CHARS:
            text += "\n[cut here: the file is longer]"
        return f'<rules from="{self._workspace.relative(file)}">\n{text}\n</rules>' if text else ""


@lru_cache(maxsize=256)
def _rules_file(directory: Path) -> Path:
    return directory / "AGENTS.md"


async def _resource(block: Mapping[str, Any], workspace: Workspace, notices: list[str]) -> str:
    uri = str(block.get("uri", ""))
    name, lines = _name(uri, workspace), ""
    text = block.get("text")
    bounds = _line_bounds(block.get("range"))
    if text is None:
        try:
            view = await workspace.look(workspace.resolve(_path(uri)).path)
        except PilotfishError as error:
            notices.append(f"{name} was not attached: {error}")
            return f"[{name} could not be attached: {error}]"
        text, is_cut = _shown(view, bounds, workspace)
        lines = _within_line(block.get("range"), view, workspace.editor.encoding)
    else:
        text, is_cut = _cut(str(text))
    if is_cut:
        notices.append(f"{name} is long: its first {MAX_RESOURCE_CHARS:,} characters were attached.")
    if bounds:
        lines = f' lines="{bounds[0] + 1}-{bounds[1] + 1}"{lines}'
    return f'<attached path="{name}"{lines}>\n{text}\n</attached>'


def _image(block: Mapping[str, Any], index: int, prepared: PreparedPrompt) -> None:
    mime = str(block.get("mimeType", ""))
    try:
        data = base64.b64decode(str(block.get("data", "")), validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequest(f"prompt.{index}.data: is not base64", field=f"prompt.{index}.data") from error
    if mime not in IMAGE_TYPES or len(data) > MAX_IMAGE_BYTES:
        why = f"{mime or 'unknown type'} is not supported" if mime not in IMAGE_TYPES else "it is over 10 MB"
        prepared.notices.append(f"An image was not attached: {why}.")
        prepared.content.append(f"[An image was attached but could not be given to you: {why}]")
        return
    from pydantic_ai.messages import BinaryContent  # a slow import that a turn has made already

    content = BinaryContent(data, media_type=mime)
    prepared.content.append(content)
    prepared.attachments.append((data, Attachment(blob="", mime_type=mime)))


async def _diagnostic(block: Mapping[str, Any], workspace: Workspace) -> str:
    uri = str(block.get("uri", ""))
    diagnostic = cast("Mapping[str, Any]", block.get("diagnostic") or {})
    bounds = _line_bounds(diagnostic.get("range")) or (0, 0)
    severity = SEVERITIES.get(diagnostic.get("severity", 1), "error")
    head = f"{_name(uri, workspace)}:{bounds[0] + 1}: {severity}"
    origin = " ".join(str(diagnostic[key]) for key in ("source", "code") if diagnostic.get(key) is not None)
    lines = [f"{head}{f' [{origin}]' if origin else ''}: {diagnostic.get('message', '')}"]
    for related in cast("Sequence[Mapping[str, Any]]", diagnostic.get("relatedInformation") or ()):
        place = cast("Mapping[str, Any]", related.get("location") or {})
        at = _line_bounds(place.get("range"))
        where = f"{_name(str(place.get('uri', '')), workspace)}:{at[0] + 1 if at else '?'}"
        lines.append(f"  related: {where}: {related.get('message', '')}")
    try:
        view = await workspace.look(workspace.resolve(_path(uri)).path)
    except PilotfishError:
        return "<diagnostic>\n" + "\n".join(lines) + "\n</diagnostic>"
    first = max(0, bounds[0] - 5)
    source, _ = _shown(view, (first, bounds[1] + 5), workspace)
    lines += [f"{number:>5} {row}" for number, row in enumerate(source.split("\n"), first + 1)]
    return "<diagnostic>\n" + "\n".join(lines) + "\n</diagnostic>"


async def _mention(mention: Mention, workspace: Workspace) -> str | None:
    """The attachment for a mentioned file. None if the mention is not a file."""
    try:
        place = workspace.resolve(mention.name)
        if not place.inside or place.sensitive or not place.path.is_file():
            return None
        view = await workspace.look(place.path)
    except PilotfishError:
        return None
    bounds, label = None, ""
    if mention.lines is not None:
        begin, end = mention.lines
        bounds, label = (max(0, begin - 1), end - 1), f' lines="{begin}-{end}"'
    text, _ = _shown(view, bounds, workspace)
    return f'<attached path="{workspace.relative(place.path)}"{label}>\n{text}\n</attached>'


def _shown(view: View, bounds: tuple[int, int] | None, workspace: Workspace) -> tuple[str, bool]:
    """The text of a file or of its lines `bounds` (zero-based, inclusive), and whether it was cut. Marks the shown
    lines as read: the model may overwrite only lines that it has read."""
    rows = view.text.split("\n")
    first, last = bounds or (0, len(rows) - 1)
    whole = "\n".join(rows[first : last + 1])
    text, is_cut = _cut(whole)
    if bounds is None and not is_cut:
        workspace.learn(view)
        return text, is_cut
    last = min(last, len(rows) - 1) if not is_cut else first + whole.count("\n", 0, MAX_RESOURCE_CHARS) - 1
    if first <= last:
        workspace.learn(view, range(first + 1, last + 2))
    return text, is_cut


def _cut(text: str) -> tuple[str, bool]:
    if len(text) <= MAX_RESOURCE_CHARS:
        return text, False
    return text[:MAX_RESOURCE_CHARS] + "\n[cut here: read_file gives the rest]", True


def _within_line(value: object, view: View, encoding: str) -> str:
    """The selected text as an attribute, if the selection is a part of one line."""
    bounds = _line_bounds(value)
    rows = view.text.split("\n")
    if bounds is None or bounds[0] != bounds[1] or bounds[0] >= len(rows):
        return ""
    span = cast("Mapping[str, Mapping[str, int]]", value)
    codec, width = UNITS[encoding]
    row = rows[bounds[0]]
    units = row.encode(codec, "surrogatepass")
    end = span["end"]["character"] if span["end"]["line"] == bounds[1] else len(units)
    part = units[span["start"]["character"] * width : end * width].decode(codec, "ignore")
    return f" selected={json.dumps(part, ensure_ascii=False)}" if part.strip() not in ("", row.strip()) else ""


def _line_bounds(value: object) -> tuple[int, int] | None:
    if not isinstance(value, Mapping):
        return None
    span = cast("Mapping[str, Mapping[str, int]]", value)
    try:
        first, last = int(span["start"]["line"]), int(span["end"]["line"])
        if last > first and int(span["end"].get("character", 1)) == 0:
            last -= 1
    except (KeyError, TypeError, ValueError):
        return None
    return first, last


def _path(uri: str) -> str:
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def _name(uri: str, workspace: Workspace) -> str:
    return workspace.relative(Path(_path(uri)))
