"""The base classes of every payload, the shared enums, and the LSP shapes that payloads contain."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializationInfo, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel

PROTOCOL_VERSION = 1


Mode = Literal["ask", "plan", "edit", "auto"]


StopReason = Literal["end_turn", "max_iterations", "max_tokens", "budget", "refusal", "cancelled", "failed"]


AgentState = Literal["user_input", "assistant", "tool_execution", "response"]


Category = Literal["read_only", "research", "write", "execute"]


CallStatus = Literal["pending", "awaiting_approval", "in_progress", "completed", "failed", "denied", "cancelled"]


OptionId = Literal["allow_once", "allow_real", "allow_session", "allow_always", "reject", "reject_always"]


Change = Literal["created", "edited", "deleted", "renamed"]


FailureKind = Literal[
    "rate_limit",
    "overloaded",
    "authentication",
    "credit",
    "network",
    "stalled",
    "bad_request",
    "context",
    "empty",
    "configuration",
    "storage",
    "restarted",
    "closed",
    "internal",
]


class Wire(BaseModel):
    """The base of every payload: camelCase on the wire, frozen, no unknown fields."""

    # Schemas are built when first used: importing this module must cost an editor's start next to nothing.
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", defer_build=True
    )


class Whole(Wire):
    """The base of payloads that send null for a field without a value, instead of leaving it out."""

    @model_serializer(mode="wrap")
    def _with_nulls(self, serialize: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        fields: dict[str, Any] = serialize(self)
        for name, field in type(self).model_fields.items():
            if field.is_required():
                fields.setdefault(field.alias or name if info.by_alias else name, None)
        return fields


class Lsp(Wire):
    """The base of shapes that belong to LSP: unknown fields are kept."""

    model_config = ConfigDict(extra="allow")


class Empty(Wire):
    """No fields."""


class Position(Lsp):
    """A position in a text document, in the position encoding agreed in `initialize`."""

    line: int = Field(ge=0)
    character: int = Field(ge=0)


class Range(Lsp):
    """The text from `start` up to, but not including, `end`."""

    start: Position
    end: Position


class Location(Lsp):
    """A file, or a range in it."""

    uri: str
    range: Range | None = None


class Diagnostic(Lsp):
    """LSP's Diagnostic, as the editor has it."""

    range: Range
    message: str
    severity: int | None = None
    code: int | str | None = None
    source: str | None = None
