"""Subclasses of the library's models that send files as they are and denials as errors, and transform schemas once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, cast

from pydantic_ai.messages import (
    CachePoint,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    SystemPromptPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.profiles import ModelProfile, merge_profile

MAX_CACHED_SCHEMAS = 500
CACHED_REQUESTS = 2  # with the tools and the instructions, these are the four breakpoints that Anthropic allows


@cache
def own_class(model_class: Any) -> Any:
    """A subclass of a model class of the library that prepares messages as `prepared` says."""

    class OwnModel(model_class):
        def prepare_messages(
            self, messages: list[ModelMessage], model_request_parameters: ModelRequestParameters | None = None
        ) -> list[ModelMessage]:
            library_s: Any = super()
            return library_s.prepare_messages(prepared(messages, self.system), model_request_parameters)

    OwnModel.__name__ = OwnModel.__qualname__ = model_class.__name__
    return OwnModel


def own_profile(profile: ModelProfile, known: ModelProfile | None = None) -> ModelProfile:
    """The profile of an own model, with what else is known about it.

    Without `supports_inline_system_prompts` the library writes `&lt;system>` for every `<system>` in a file, and the
    model then edits a text that is not there. The flag is safe because `prepared` leaves no such prompt.
    """
    return _with_schema_cache(merge_profile(profile, known, ModelProfile(supports_inline_system_prompts=True)))


def prepared(messages: Sequence[ModelMessage], system: str) -> list[ModelMessage]:
    """The messages with later system prompts as user prompts. For Anthropic, denials are marked as errors, and the last
    two requests end with a cache breakpoint: the last one is written to the cache, the one before it is read from it,
    however many blocks are between them."""
    out = [_prepared(message, system, first=index == 0) for index, message in enumerate(messages)]
    if system == "anthropic":
        requests = [index for index, message in enumerate(out) if isinstance(message, ModelRequest)]
        for index in requests[-CACHED_REQUESTS:]:
            message = cast("ModelRequest", out[index])
            out[index] = replace(message, parts=[*message.parts, UserPromptPart([CachePoint()])])
    return out


def _prepared(message: ModelMessage, system: str, *, first: bool) -> ModelMessage:
    if not isinstance(message, ModelRequest):
        return message
    leading = 0
    while first and leading < len(message.parts) and message.parts[leading].part_kind == "system-prompt":
        leading += 1
    parts = [*message.parts[:leading], *(_prepared_part(part, system) for part in message.parts[leading:])]
    changed = any(new is not old for new, old in zip(parts, message.parts, strict=True))
    return replace(message, parts=parts) if changed else message


def _prepared_part(part: ModelRequestPart, system: str) -> ModelRequestPart:
    if isinstance(part, SystemPromptPart):
        return UserPromptPart(part.content, timestamp=part.timestamp)
    if isinstance(part, ToolReturnPart) and part.outcome == "denied" and system == "anthropic":
        return replace(part, outcome="failed")
    return part


def _with_schema_cache(profile: ModelProfile) -> ModelProfile:
    """The profile with a JSON schema transformer that keeps its results: the library asks for them in every request.

    A tool's schema is known by its identity, because no tool changes its schema in place.
    """
    transformer = profile.get("json_schema_transformer")
    if transformer is None:
        return profile
    results: dict[tuple[int, bool | None], tuple[dict[str, Any], dict[str, Any], bool]] = {}

    class CachingTransformer(transformer):
        def walk(self) -> dict[str, Any]:
            key = (id(self.schema), self.strict)
            if key not in results:
                if len(results) >= MAX_CACHED_SCHEMAS:
                    results.clear()
                # The original is kept as well, so that no other schema gets its id.
                results[key] = (self.schema, super().walk(), self.is_strict_compatible)
            _, transformed, self.is_strict_compatible = results[key]
            return transformed

    return merge_profile(profile, ModelProfile(json_schema_transformer=CachingTransformer))
