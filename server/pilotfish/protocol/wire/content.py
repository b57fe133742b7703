"""What a prompt consists of: content blocks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pilotfish.protocol.wire.base import Diagnostic, Range, Wire


class TextBlock(Wire):
    """Text that the user typed."""

    type: Literal["text"] = "text"
    text: str


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


ContentBlock = Annotated[TextBlock | ResourceBlock | ImageBlock | DiagnosticBlock, Field(discriminator="type")]


class ChatDraft(Wire):
    """The argument of the client command `pilotfish.openChat`, which code actions carry for clients with a chat. The
    client opens its chat with this prompt and its context attached, and sends it if `send` is true."""

    prompt: tuple[ContentBlock, ...]
    send: bool = False
