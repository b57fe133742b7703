"""The interface to the language models of the user's editor, such as VS Code's. A frontend that has them implements it.

Imports no library: the engine uses it before the libraries of models are loaded.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

PREFIX = "vscode"
LABEL = "VS Code’s language models"

FailureReason = Literal["permission", "quota", "rate_limit", "blocked", "not_found", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedModel:
    """A model of the editor. `id` is its name after `PREFIX`."""

    id: str
    label: str
    context_window: int | None = None
    images: bool | None = None
    tools: bool | None = None


@dataclass(frozen=True, slots=True)
class TextBlock:
    text: str
    type: Literal["text"] = "text"


@dataclass(frozen=True, slots=True)
class ImageBlock:
    data: str
    """base64"""
    mime_type: str
    type: Literal["image"] = "image"


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    id: str
    name: str
    input: Mapping[str, Any]
    type: Literal["tool_call"] = "tool_call"


@dataclass(frozen=True, slots=True)
class ModelToolResult:
    id: str
    text: str
    type: Literal["tool_result"] = "tool_result"


ModelPart = TextBlock | ImageBlock | ModelToolCall | ModelToolResult


@dataclass(frozen=True, slots=True)
class ModelMessage:
    role: Literal["system", "user", "assistant"]
    parts: tuple[ModelPart, ...]


@dataclass(frozen=True, slots=True)
class ModelTool:
    name: str
    description: str
    input_schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class EditorRequest:
    """A request to a model of the editor."""

    model: str
    messages: tuple[ModelMessage, ...]
    tools: tuple[ModelTool, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class ModelUsage:
    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of an answer."""

    finish: Literal["stop", "length", "content_filter"] = "stop"
    usage: ModelUsage | None = None
    """None if the editor does not know it"""


class EditorModelError(Exception):
    """The editor or its provider refused a request. The message has their own words."""

    def __init__(self, reason: FailureReason, message: str) -> None:
        super().__init__(message)
        self.reason: FailureReason = reason


class EditorModels(Protocol):
    """The language models of an editor."""

    @property
    def offered(self) -> Sequence[OfferedModel]:
        """The models as the editor last reported them. A model that is missing here may become available later."""
        ...

    def stream(self, request: EditorRequest) -> AsyncGenerator[TextBlock | ModelToolCall | Finished]:
        """The answer; its last event is `Finished`. Closing the generator stops the request in the editor.

        Raises `EditorModelError`.
        """
        ...


def offered_windows(editor: EditorModels | None) -> dict[str, int]:
    """The context windows of the editor's models, by model string."""
    models = editor.offered if editor is not None else ()
    return {f"{PREFIX}:{model.id}": model.context_window for model in models if model.context_window is not None}
