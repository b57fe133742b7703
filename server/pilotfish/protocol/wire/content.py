"""What a prompt consists of: content blocks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pilotfish.protocol.wire.base import Diagnostic, Position, Range, Wire


class TextBlock(Wire):
    """Text of a prompt, or of a message to or from a model."""

    type: Literal["text"] = "text"
    text: str
    source: str | None = None
    """the MCP server whose prompt the text is, as `server/prompt`; absent for what the user typed"""


class ResourceBlock(Wire):
    """A file, or a selection in it."""

    type: Literal["resource"] = "resource"
    uri: str
    range: Range | None = None
    """the selection; absent for the whole file"""
    text: str | None = None
    """the text; if absent, the server reads it, from the open buffer if there is one"""


class ImageBlock(Wire):
    """An image, encoded as base64."""

    type: Literal["image"] = "image"
    data: str
    mime_type: str


class DiagnosticBlock(Wire):
    """A problem that another language server reported."""

    type: Literal["diagnostic"] = "diagnostic"
    uri: str
    diagnostic: Diagnostic


class ActiveDocument(Wire):
    """The document that the user works in. The server reads its text, from the open buffer."""

    uri: str
    version: int | None = None
    cursor: Position
    selection: Range | None = None
    """the selection, if it is not empty"""
    visible: Range | None = None
    """the lines on screen"""
    diagnostics: tuple[Diagnostic, ...] = ()
    """the problems of this document"""


class EditorContext(Wire):
    """What the user looks at."""

    active: ActiveDocument | None = None
    """absent if there is none, or if the user does not want to give it"""
    git: bool = True
    """whether the branch and the number of changed files are given"""


class ContextBlock(EditorContext):
    """What the user looks at. The model is given it with the prompt; the transcript does not show it. If a prompt has
    no such block, the server asks the client (`editor/context`); a client that cannot answer has as its active document
    the one of the last edit, code action or hover."""

    type: Literal["context"] = "context"


ContentBlock = Annotated[
    TextBlock | ResourceBlock | ImageBlock | DiagnosticBlock | ContextBlock, Field(discriminator="type")
]


class ChatDraft(Wire):
    """The argument of the client command `pilotfish.openChat`, which code actions carry for clients with a chat. The
    client opens its chat with this prompt and its context attached, and sends it if `send` is true."""

    prompt: tuple[ContentBlock, ...]
    send: bool = False
    new_session: bool = False
    """whether the prompt is the first one of a new session; a code action has nothing to do with the open chat"""
