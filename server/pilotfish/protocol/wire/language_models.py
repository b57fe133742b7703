"""Language models that the client serves, such as those of VS Code (`vscode.lm`): the list, a request and its answer.

Only for clients that announce `languageModels`. The server sends `model/request`; the client streams the answer in
`model/chunk` notifications and answers the request when the model is done. `$/cancelRequest` stops it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from pilotfish.protocol.wire.base import Wire
from pilotfish.protocol.wire.content import ImageBlock, TextBlock


class OfferedModel(Wire):
    """A language model of the client."""

    id: str = Field(min_length=1)
    """unique in the client; the model is called `vscode:` and this id"""
    label: str
    context_window: int | None = Field(default=None, gt=0)
    """tokens, if known"""
    images: bool | None = None
    """whether it accepts images; absent if unknown"""
    tools: bool | None = None
    """whether it can call tools; absent if unknown"""


class ModelsOfferedParams(Wire):
    """All language models of the client. Sent after `initialized` and whenever they change."""

    models: tuple[OfferedModel, ...]


class ModelToolCall(Wire):
    """A tool call of the model."""

    type: Literal["tool_call"] = "tool_call"
    id: str
    name: str
    input: dict[str, Any] = Field(default_factory=dict)


class ModelToolResult(Wire):
    """The result of a tool call, for the model."""

    type: Literal["tool_result"] = "tool_result"
    id: str
    """of the call"""
    text: str


ModelPart = Annotated[TextBlock | ImageBlock | ModelToolCall | ModelToolResult, Field(discriminator="type")]


class ModelMessage(Wire):
    """One message of the conversation. Results of tools are in a message of the user."""

    role: Literal["system", "user", "assistant"]
    parts: tuple[ModelPart, ...]


class ModelTool(Wire):
    """A tool that the model may call. The server runs it."""

    name: str
    description: str
    input_schema: dict[str, Any]


class ModelRequestParams(Wire):
    """A request to a language model of the client."""

    request_id: str
    model: str
    """the id of the model in the client, without `vscode:`"""
    messages: tuple[ModelMessage, ...]
    tools: tuple[ModelTool, ...] = ()
    options: dict[str, Any] = Field(default_factory=dict)
    """options that the user set, such as `temperature`, in the names of OpenAI's Chat API"""


ModelChunkPart = Annotated[TextBlock | ModelToolCall, Field(discriminator="type")]


class ModelChunkParams(Wire):
    """A part of the answer to a `model/request`, in order. A tool call is whole."""

    request_id: str
    part: ModelChunkPart


class ModelUsage(Wire):
    """The tokens of one request, as the provider counted them."""

    input_tokens: int = Field(ge=0)
    output_tokens: int = Field(ge=0)


class ModelFailure(Wire):
    """Why a request failed."""

    kind: Literal["permission", "quota", "rate_limit", "blocked", "not_found", "other"]
    """`permission`: the user has not allowed the client to use the model"""
    message: str
    """the provider's own words"""


class ModelRequestResult(Wire):
    """The end of an answer, after its last chunk."""

    finish: Literal["stop", "length", "content_filter"] = "stop"
    usage: ModelUsage | None = None
    """if known; otherwise the server estimates it"""
    error: ModelFailure | None = None
