"""Builds the prompt for the model from the user's content blocks.

Hides: how attachments, selections, diagnostics and mentions become text. Promises: an attachment that cannot be sent is
reported in the prompt and as a notice.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from pilotfish.conversation.provenance import Source
from pilotfish.conversation.records import Attachment, OutsideAttachment
from pilotfish.engine.prompting.special_mentions import SPECIAL, TERMINAL, folder_text, special_text
from pilotfish.errors import BadRequest, PilotfishError, Refused
from pilotfish.policy.taint import attached_from
from pilotfish.text.mention_syntax import Mention, is_url, mentions
from pilotfish.text.positions import Text, TextPosition
from pilotfish.text.uris import path_of
from pilotfish.workspace.files.view import View
from pilotfish.workspace.language_servers import SEVERITIES, offered_fixes
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.messages import UserContent

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
MAX_IMAGE_BYTES = 10 * 1024 * 1024
MAX_RESOURCE_CHARS = 40_000  # limit of one attached file
_WEB = re.compile(r"https?:", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MentionedText:
    """What a mention that is no file stands for."""

    source: Source
    text: str


ReadMention = Callable[[str], Awaitable[MentionedText | None]]
"""reads a mention; None if it names nothing; raises PilotfishError if that cannot be read"""


@dataclass(slots=True)
class PreparedPrompt:
    """The content for the model, the attachments to store, and notices for the user."""

    content: list[UserContent] = field(default_factory=list["UserContent"])
    attachments: list[tuple[bytes, Attachment]] = field(default_factory=list[tuple[bytes, Attachment]])
    notices: list[str] = field(default_factory=list[str])
    outside: list[OutsideAttachment] = field(default_factory=list[OutsideAttachment])

    def bring(self, kind: Literal["mcp", "web"], name: str, text: str) -> None:
        """Note a text as one from outside the workspace."""
        self.outside.append(OutsideAttachment(source=Source(kind=kind, name=name, outside=True), text=text))


async def prepare(
    blocks: Sequence[Mapping[str, Any]],
    workspace: Workspace,
    read_mention: ReadMention,
    *,
    trusted: bool = False,
    also: Sequence[str] = (),
) -> PreparedPrompt:
    """Build the content for the model from the content blocks of a prompt. `read_mention` reads what is mentioned and
    no file: a web page, a session, the terminal, the text of an MCP server. `trusted`: git may be asked.
    `also`: files that count as mentioned."""
    prepared = PreparedPrompt()
    mentioned: dict[Mention, None] = {}
    fixes = _Fixes(workspace)
    for index, block in enumerate(blocks):
        match block.get("type"):
            case "text":
                text = str(block.get("text", ""))
                prepared.content.append(text)
                if source := block.get("source"):
                    prepared.bring("mcp", str(source), text)
                mentioned.update(dict.fromkeys(mentions(text)))
            case "resource":
                prepared.content.append(await _resource(block, workspace, prepared.notices))
                if _WEB.match(uri := str(block.get("uri", ""))):  # a client has fetched the page
                    prepared.bring("web", uri, str(block.get("text", "")))
            case "image":
                _image(block, index, prepared)
            case "diagnostic":
                prepared.content.append(await _diagnostic(block, workspace, fixes))
            case kind:
                raise BadRequest(f"prompt.{index}.type: {kind!r} is not a content type", field=f"prompt.{index}.type")
    known = {mention.name for mention in mentioned}
    mentioned.update(dict.fromkeys(Mention(name) for name in also if name not in known))
    for mention in mentioned:
        text = None
        if not is_url(mention.name):
            text = await _mention(mention, workspace, prepared.notices, trusted=trusted)
        if text is None:
            text = await _no_file(mention.name, read_mention, prepared)
        if text is not None:
            prepared.content.append(text)
    if not any(not isinstance(item, str) or item.strip() for item in prepared.content):
        raise BadRequest("prompt: must not be empty", field="prompt")
    return prepared


def plain_text(blocks: Sequence[Mapping[str, Any]]) -> str:
    """The text of a prompt, for titles, search and display."""
    return "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text").strip()


async def _resource(block: Mapping[str, Any], workspace: Workspace, notices: list[str]) -> str:
    uri = str(block.get("uri", ""))
    name, lines = _name(uri, workspace), ""
    text = block.get("text")
    bounds = line_bounds(block.get("range"))
    if text is None:
        try:
            view = await workspace.look(workspace.resolve(_path(uri)).path)
        except PilotfishError as error:
            notices.append(f"{name} was not attached: {error}")
            return f"[{name} could not be attached: {error}]"
        text, is_cut = shown(view, bounds, workspace)
        lines = _within_line(block.get("range"), view, workspace.editor.encoding)
    else:
        text, is_cut = _cut(str(text))
    if is_cut:
        notices.append(f"{name} is long: its first {MAX_RESOURCE_CHARS:,} characters were attached.")
    if bounds:
        lines = f' lines="{bounds[0] + 1}-{bounds[1] + 1}"{lines}'
    return f'<attached path="{name}"{lines}>\n{without_tags(text)}\n</attached>'


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


class _Fixes:
    """The fixes that the language servers offer for the problems of a file. Each file is asked about once."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._offered: dict[Path, Mapping[int, Sequence[str]]] = {}

    async def at(self, path: Path, line: int) -> Sequence[str]:
        if path not in self._offered:
            self._offered[path] = await offered_fixes(self._workspace, path)
        return self._offered[path].get(line, ())


async def _diagnostic(block: Mapping[str, Any], workspace: Workspace, fixes: _Fixes) -> str:
    """A problem with what the language server knows about it: related places, documentation, its own fixes."""
    uri = str(block.get("uri", ""))
    diagnostic = cast("Mapping[str, Any]", block.get("diagnostic") or {})
    bounds = line_bounds(diagnostic.get("range")) or (0, 0)
    severity = SEVERITIES.get(diagnostic.get("severity", 1), "error")
    head = f"{_name(uri, workspace)}:{bounds[0] + 1}: {severity}"
    origin = " ".join(str(diagnostic[key]) for key in ("source", "code") if diagnostic.get(key) is not None)
    lines = [f"{head}{f' [{origin}]' if origin else ''}: {diagnostic.get('message', '')}"]
    for related in cast("Sequence[Mapping[str, Any]]", diagnostic.get("relatedInformation") or ()):
        place = cast("Mapping[str, Any]", related.get("location") or {})
        at = line_bounds(place.get("range"))
        where = f"{_name(str(place.get('uri', '')), workspace)}:{at[0] + 1 if at else '?'}"
        lines.append(f"  related: {where}: {related.get('message', '')}")
    about = cast("Mapping[str, Any]", diagnostic.get("codeDescription") or {})
    if about.get("href"):
        lines.append(f"  documentation: {about['href']}")
    try:
        view = await workspace.look(workspace.resolve(_path(uri)).path)
    except PilotfishError:
        return "<diagnostic>\n" + without_tags("\n".join(lines)) + "\n</diagnostic>"
    if titles := await fixes.at(view.path, bounds[0] + 1):
        lines += [f"  quick_fix: {title}" for title in titles]
        lines.append("  If one of these fixes solves the problem, apply it with quick_fix instead of an edit.")
    first = max(0, bounds[0] - 5)
    source, _ = shown(view, (first, bounds[1] + 5), workspace)
    lines += [f"{number:>5} {row}" for number, row in enumerate(source.split("\n"), first + 1)]
    return "<diagnostic>\n" + without_tags("\n".join(lines)) + "\n</diagnostic>"


async def _mention(mention: Mention, workspace: Workspace, notices: list[str], *, trusted: bool) -> str | None:
    """The attachment for a mention, or the reason why it is left out. None if the mention is no file, no folder and
    none of `SPECIAL`."""
    try:
        place = workspace.resolve(mention.name)
    except PilotfishError:
        return None
    is_file = await asyncio.to_thread(place.path.is_file)
    is_folder = not is_file and await asyncio.to_thread(place.path.is_dir)
    if not is_file and not is_folder and (mention.name not in SPECIAL or mention.name == TERMINAL):
        return None
    try:
        if not is_file and not is_folder:
            return _attached(mention.name, await special_text(mention.name, workspace, trusted=trusted), notices)
        if not place.inside:
            raise Refused("it is outside the workspace")
        if place.sensitive:
            raise Refused(place.sensitive)
        if is_folder:
            return _attached(workspace.relative(place.path), await folder_text(place.path, workspace), notices)
        view = await workspace.look(place.path)
    except PilotfishError as error:
        notices.append(f"{mention.name} was not attached: {error}")
        return f"[{mention.name} could not be attached: {error}]"
    bounds, label = None, ""
    if mention.lines is not None:
        begin, end = mention.lines
        bounds, label = (max(0, begin - 1), end - 1), f' lines="{begin}-{end}"'
    text, is_cut = shown(view, bounds, workspace)
    if is_cut:
        notices.append(f"{mention.name} is long: its first {MAX_RESOURCE_CHARS:,} characters were attached.")
    return f'<attached path="{workspace.relative(place.path)}"{label}>\n{without_tags(text)}\n</attached>'


async def _no_file(name: str, read_mention: ReadMention, prepared: PreparedPrompt) -> str | None:
    """The attachment for a mention that is no file. None if it names nothing."""
    try:
        found = await read_mention(name)
    except PilotfishError as error:
        prepared.notices.append(f"{name} was not attached: {error}")
        return f"[{name} could not be attached: {error}]"
    if found is None:
        return None
    if found.source.outside:
        prepared.outside.append(OutsideAttachment(source=found.source, text=found.text))
    origin = attached_from(found.source) if found.source.outside else ""
    return _attached(without_tags(name), found.text, prepared.notices, origin)


def _attached(name: str, text: str, notices: list[str], origin: str = "") -> str:
    """An attachment that is no file, so that nothing counts as read. `origin`: where text from outside comes from."""
    text, is_cut = _cut(text)
    if is_cut:
        notices.append(f"{name} is long: its first {MAX_RESOURCE_CHARS:,} characters were attached.")
    return f'<attached name="{name}"{origin}>\n{without_tags(text)}\n</attached>'


_OWN_TAG = re.compile(
    r"<(\s*/?\s*(?:attached|diagnostic|rules|skills?|memory|environment|active_file|untrusted)\b)", re.IGNORECASE
)


def without_tags(text: str) -> str:
    """The text of a file without anything that looks like our tags, so that it cannot end its own."""
    return _OWN_TAG.sub(r"&lt;\1", text)


def shown(view: View, bounds: tuple[int, int] | None, workspace: Workspace) -> tuple[str, bool]:
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
    bounds = line_bounds(value)
    rows = view.text.split("\n")
    if bounds is None or bounds[0] != bounds[1] or bounds[0] >= len(rows):
        return ""
    span = cast("Mapping[str, Mapping[str, int]]", value)
    row = Text(rows[bounds[0]], encoding)
    start = TextPosition(0, span["start"]["character"])
    end = TextPosition(0, span["end"]["character"]) if span["end"]["line"] == bounds[1] else TextPosition(1, 0)
    part = row.slice(start, end)
    return f" selected={json.dumps(part, ensure_ascii=False)}" if part.strip() not in ("", row.value.strip()) else ""


def line_bounds(value: object) -> tuple[int, int] | None:
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
    path = path_of(uri)
    return uri if path is None else str(path)


def _name(uri: str, workspace: Workspace) -> str:
    return workspace.relative(Path(_path(uri)))
