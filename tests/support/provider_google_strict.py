"""Checks that Google's generateContent API makes: order of contents, calls and results, unknown names, signatures.

The error messages are those of the real API, as far as its documentation and bug reports show them.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import cast

from tests.support.provider_strict import Fault, Json, Memory

NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}\Z")
DUMMIES = frozenset(
    base64.b64encode(words).decode()
    for words in (b"skip_thought_signature_validator", b"context_engineering_is_the_way_to_go")
)
BODY = frozenset(
    {
        "contents",
        "systemInstruction",
        "tools",
        "toolConfig",
        "generationConfig",
        "safetySettings",
        "cachedContent",
        "model",
        "serviceTier",
    }
)
DATA = frozenset(
    {
        "text",
        "inlineData",
        "fileData",
        "functionCall",
        "functionResponse",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
    }
)
PART = DATA | {"thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution"}
FUNCTION = frozenset(
    {"name", "description", "parameters", "parametersJsonSchema", "response", "responseJsonSchema", "behavior"}
)


def google_fault(body: Json, memory: Memory) -> Fault | None:
    """The first reason to refuse this request, or None."""
    if "_" in body:
        return Fault("Invalid JSON payload received.")
    return next(_faults(body, memory), None)


def _faults(body: Json, memory: Memory) -> Iterator[Fault]:
    yield from _unknown_names(body, BODY, "")
    yield from _tools(body.get("tools") or ())
    generation: Json = body.get("generationConfig") or {}
    thinking: Json = generation.get("thinkingConfig") or {}
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        yield Fault("You can only set only one of thinking budget and thinking level.")
    contents: Sequence[Json] = body.get("contents") or ()
    if not contents:
        yield Fault("* GenerateContentRequest.contents: contents is not specified")
    turn = max((index for index, content in enumerate(contents) if _is_prompt(content)), default=0)
    before: Json = {}
    for index, content in enumerate(contents):
        role, parts = content.get("role", "user"), cast(list[Json], content.get("parts") or [])
        if role not in ("user", "model"):
            yield Fault("Please use a valid role: user, model.")
        if not parts:
            yield Fault(f"* GenerateContentRequest.contents[{index}].parts: contents.parts must not be empty.")
        for place, part in enumerate(parts):
            yield from _part(f"contents[{index}].parts[{place}]", part, memory)
        yield from _order(content, before)
        calls = _functions(content, "functionCall")
        if calls and index > turn and not any("thoughtSignature" in part for part in parts if part.get("functionCall")):
            yield Fault(
                "Function call is missing a thought_signature in functionCall parts. This is required for tools to work"
                f" correctly. Additional data, function call `{calls[0].get('name')}`, position {index + 1}."
            )
        before = content
    if _functions(before, "functionCall"):
        yield _unequal()
    elif before.get("role") == "model":
        yield Fault("Please ensure that multiturn requests end with a user role or a function response.")


def _order(content: Json, before: Json) -> Iterator[Fault]:
    """A call follows a user content or a result, and the next content holds all results of its calls."""
    calls, results = _functions(before, "functionCall"), _functions(content, "functionResponse")
    if _functions(content, "functionCall"):
        if content.get("role") != "model":
            yield Fault("Please ensure that function call turns have the role model.")
        if before.get("role", "model") == "model":
            yield Fault(
                "Please ensure that function call turn comes immediately after a user turn or after a function"
                " response turn."
            )
    if results and not calls:
        yield Fault("Please ensure that function response turn comes immediately after a function call turn.")
    elif len(results) != len(calls):
        yield _unequal()


def _unequal() -> Fault:
    return Fault(
        "Please ensure that the number of function response parts is equal to the number of function call parts of the"
        " function call turn."
    )


def _part(at: str, part: Json, memory: Memory) -> Iterator[Fault]:
    yield from _unknown_names(part, PART, at)
    if len(DATA & {_camel(name) for name in part}) != 1:
        yield Fault(f"* GenerateContentRequest.{at}.data: required oneof field 'data' must have one initialized field")
    call, result = cast(Json | None, part.get("functionCall")), cast(Json | None, part.get("functionResponse"))
    if call is not None and not NAME.match(str(call.get("name", ""))):
        yield Fault(f"* GenerateContentRequest.{at}.function_call.name: Invalid function name.")
    if call is not None and not isinstance(call.get("args", {}), dict):
        yield Fault(f"Invalid value at '{at}.function_call.args' (type.googleapis.com/google.protobuf.Struct)")
    if result is not None and not result.get("name"):
        yield Fault(f"* GenerateContentRequest.{at}.function_response.name: Name cannot be empty.")
    if result is not None and not isinstance(result.get("response"), dict):
        yield Fault(f"Invalid value at '{at}.function_response.response' (type.googleapis.com/google.protobuf.Struct)")
    signature = part.get("thoughtSignature")
    if signature is not None and not _is_signature(str(signature), call, memory):
        yield Fault("Thought signature is not valid.")


def _is_signature(signature: str, call: Json | None, memory: Memory) -> bool:
    """Whether the signature was issued for this part, or is one of the two placeholders that Google accepts."""
    signature = signature.replace("-", "+").replace("_", "/")  # Google accepts both alphabets of base64
    if signature in memory.google_signatures:
        return memory.google_signatures[signature] == (call["name"] if call is not None else "")
    return signature in DUMMIES


def _tools(tools: Sequence[Json]) -> Iterator[Fault]:
    seen: set[str] = set()
    for tool in tools:
        for declared in cast(list[Json], tool.get("functionDeclarations") or ()):
            name = str(declared.get("name", ""))
            yield from _unknown_names(declared, FUNCTION, "tools[0].function_declarations[0]")
            if not NAME.match(name):
                yield Fault(
                    "* GenerateContentRequest.tools[0].function_declarations[0].name: Invalid function name. Must start"
                    " with a letter or an underscore."
                )
            if name in seen:
                yield Fault(f"Duplicate function declaration found: {name}")
            seen.add(name)
            if "parameters" in declared and {"parametersJsonSchema", "parameters_json_schema"} & set(declared):
                yield Fault("Only one of parameters and parameters_json_schema may be set.")


def _functions(content: Json, name: str) -> list[Json]:
    return [part[name] for part in content.get("parts") or () if part.get(name) is not None]


def _is_prompt(content: Json) -> bool:
    return content.get("role", "user") == "user" and any("text" in part for part in content.get("parts") or ())


def _unknown_names(value: Json, known: AbstractSet[str], at: str) -> Iterator[Fault]:
    """Google refuses unknown names, and accepts camelCase and snake_case for known ones."""
    for name in value:
        if _camel(name) not in known:
            where = f" at '{at}'" if at else ""
            yield Fault(f'Invalid JSON payload received. Unknown name "{name}"{where}: Cannot find field.')


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)
