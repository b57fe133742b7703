"""Checks that the real providers make on the order of messages, calls and results, with their error messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

Json = dict[str, Any]
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
CACHE_POINTS = 4
CHAT_ID, RESPONSES_ID = 40, 64  # the maximum id lengths of the two dialects


@dataclass(frozen=True)
class Fault:
    message: str
    param: str | None = None


@dataclass
class Memory:
    """What a provider issued in earlier answers: a request may contain only these values."""

    signatures: dict[str, str] = field(default_factory=dict[str, str])
    """signature → the thought it was given for"""
    thought_before: set[str] = field(default_factory=set[str])
    """ids of Anthropic calls that were answered after a thought"""
    reasoning_of: dict[str, str] = field(default_factory=dict[str, str])
    """id of a Responses item → id of the reasoning item it followed"""
    items: set[str] = field(default_factory=set[str])
    """ids of every Responses item given out"""
    responses: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """id of a response → the calls it made"""
    google_signatures: dict[str, str] = field(default_factory=dict[str, str])
    """Google's thought signature → the name of the function whose call it was given for, or "" for a text"""


def fault(kind: str, headers: Mapping[str, str], body: Json, memory: Memory) -> Fault | None:
    """The first reason to refuse this request, or None."""
    if "_" in body:
        return Fault("We could not parse the JSON body of your request.")
    if not isinstance(body.get("model"), str) or not body["model"]:
        return Fault("model: Field required" if kind == "anthropic" else "you must provide a model parameter")
    match kind:
        case "chat":
            found = _chat(body)
        case "responses":
            found = _responses(body, memory)
        case _:
            found = _anthropic(headers, body, memory)
    return next(found, None)


def _chat(body: Json) -> Iterator[Fault]:
    messages: Sequence[Json] = body.get("messages") or ()
    if not messages:
        yield Fault("Invalid 'messages': empty array. Expected an array with minimum length 1.", "messages")
    yield from _tools([tool.get("function", {}) for tool in body.get("tools") or ()], "parameters")
    if body.get("tools") == []:
        yield Fault("Invalid 'tools': empty array. Expected an array with minimum length 1.", "tools")
    waiting: list[str] = []
    answered: set[str] = set()
    for index, message in enumerate(messages):
        at, role, content = f"messages.[{index}]", message.get("role"), message.get("content")
        if role == "tool":
            name = cast(str, message.get("tool_call_id"))
            if not waiting and not answered:
                yield Fault(
                    "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with"
                    " 'tool_calls'.",
                    f"{at}.role",
                )
            elif name in answered:
                yield Fault(f"Duplicate value for 'tool_call_id' of '{name}' in message[{index}].", at)
            elif name not in waiting:
                yield Fault(
                    f"Invalid parameter: 'tool_call_id' of '{name}' not found in 'tool_calls' of previous message.",
                    f"{at}.tool_call_id",
                )
            else:
                waiting.remove(name)
                answered.add(name)
            yield from _content(content, at)
            continue
        if waiting:
            yield Fault(_unanswered(waiting), f"{at}.role")
        answered = set()
        match role:
            case "assistant":
                calls: list[Json] | None = message.get("tool_calls")
                if calls == []:
                    yield Fault(f"Invalid '{at}.tool_calls': empty array.", f"{at}.tool_calls")
                for call in calls or ():
                    yield from _chat_call(call, at, waiting)
                    waiting.append(call["id"])
                if not calls and content is None and message.get("refusal") is None:
                    yield Fault("Invalid value for 'content': expected a string, got null.", f"{at}.content")
            case "system" | "developer" | "user":
                yield from _content(content, at)
            case _:
                yield Fault(
                    f"Invalid value: '{role}'. Supported values are: 'system', 'assistant', 'user', 'function',"
                    " 'tool', and 'developer'.",
                    f"{at}.role",
                )
    if waiting:
        yield Fault(_unanswered(waiting), "messages")


def _unanswered(waiting: Sequence[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        f" The following tool_call_ids did not have response messages: {', '.join(waiting)}"
    )


def _chat_call(call: Json, at: str, waiting: Sequence[str]) -> Iterator[Fault]:
    name, function = call.get("id"), cast(Json, call.get("function", {}))
    if not isinstance(name, str) or not name:
        yield Fault(f"Missing required parameter: '{at}.tool_calls[0].id'.", f"{at}.tool_calls")
    elif len(name) > CHAT_ID:
        yield Fault(f"Invalid '{at}.tool_calls[0].id': string too long. Expected maximum length {CHAT_ID}.", at)
    elif name in waiting:
        yield Fault(f"Duplicate value for 'tool_call_id' of '{name}' in {at}.", at)
    if not NAME.match(str(function.get("name", ""))):
        yield Fault(f"Invalid '{at}.tool_calls[0].function.name': string does not match pattern.", at)
    if not isinstance(function.get("arguments"), str):
        yield Fault(f"Invalid type for '{at}.tool_calls[0].function.arguments': expected a string.", at)


def _content(content: Any, at: str) -> Iterator[Fault]:
    if content is None:
        yield Fault("Invalid value for 'content': expected a string, got null.", f"{at}.content")
    elif content == []:
        yield Fault(f"Invalid '{at}.content': empty array. Expected an array with minimum length 1.", at)


def _tools(tools: Sequence[Json], schema: str) -> Iterator[Fault]:
    seen: set[str] = set()
    for index, tool in enumerate(tools):
        name = str(tool.get("name", ""))
        if not NAME.match(name):
            yield Fault(f"Invalid 'tools[{index}].name': string does not match pattern '^[a-zA-Z0-9_-]+$'.", "tools")
        if name in seen:
            yield Fault(f"Tool names must be unique: {name}", "tools")
        seen.add(name)
        if cast(Json, tool.get(schema) or {"type": "object"}).get("type") != "object":
            yield Fault(f"Invalid schema for function '{name}': schema must be of type \"object\".", "tools")


def _responses(body: Json, memory: Memory) -> Iterator[Fault]:
    given = body.get("input")
    previous = body.get("previous_response_id")
    if not given and not previous:
        yield Fault("Missing required parameter: 'input'.", "input")
    if previous is not None and previous not in memory.responses:
        yield Fault(f"Previous response with id '{previous}' not found.", "previous_response_id")
    yield from _tools([tool for tool in body.get("tools") or () if tool.get("type") == "function"], "parameters")
    items: Sequence[Json] = () if isinstance(given, str) else given or ()
    waiting = list(memory.responses.get(previous, ()) if isinstance(previous, str) else ())
    known = set(waiting)
    seen: set[str] = set()
    for index, item in enumerate(items):
        kind, name = item.get("type", "message"), item.get("id")
        if isinstance(name, str):
            if name in seen:
                yield Fault(f"Duplicate item found with id {name}. Remove duplicate items from your input.", "input")
            if name.startswith(("rs_", "fc_", "msg_")) and name not in memory.items:
                yield Fault(f"Item with id '{name}' not found.", "input")
            needed = memory.reasoning_of.get(name)
            if needed is not None and needed not in seen and previous is None:
                yield Fault(
                    f"Item '{name}' of type '{kind}' was provided without its required 'reasoning' item: '{needed}'.",
                    "input",
                )
            seen.add(name)
        match kind:
            case "function_call":
                call = str(item.get("call_id", ""))
                if not call or len(call) > RESPONSES_ID:
                    yield Fault(f"Invalid 'input[{index}].call_id': string too long or missing.", "input")
                if not isinstance(item.get("arguments"), str):
                    yield Fault(f"Invalid type for 'input[{index}].arguments': expected a string.", "input")
                waiting.append(call)
                known.add(call)
            case "function_call_output":
                call = str(item.get("call_id", ""))
                if call not in known:
                    yield Fault(f"No tool call found for function call output with call_id {call}.", "input")
                elif call in waiting:
                    waiting.remove(call)
            case "reasoning":
                follows = items[index + 1].get("type", "message") if index + 1 < len(items) else None
                if follows in (None, "function_call_output") or items[index + 1].get("role") in ("user", "system"):
                    yield Fault(
                        f"Item '{name}' of type 'reasoning' was provided without its required following item.", "input"
                    )
            case "message":
                if item.get("role") not in ("user", "assistant", "system", "developer"):
                    yield Fault(f"Invalid value: '{item.get('role')}'.", f"input[{index}].role")
                yield from _content(item.get("content"), f"input[{index}]")
            case _:
                pass
    if waiting:
        yield Fault(f"No tool output found for function call {waiting[0]}.", "input")


def _anthropic(headers: Mapping[str, str], body: Json, memory: Memory) -> Iterator[Fault]:
    if "anthropic-version" not in headers:
        yield Fault("anthropic-version: header is required")
    if not isinstance(body.get("max_tokens"), int):
        yield Fault("max_tokens: Field required")
    yield from _tools(
        [tool for tool in body.get("tools") or () if tool.get("type", "custom") == "custom"], "input_schema"
    )
    thinking: Json = body.get("thinking") or {}
    if thinking.get("type") == "enabled":
        if body.get("max_tokens", 0) <= thinking.get("budget_tokens", 0):
            yield Fault("`max_tokens` must be greater than `thinking.budget_tokens`.")
        if body.get("temperature", 1) != 1:
            yield Fault("`temperature` may only be set to 1 when thinking is enabled.")
    points = sum(1 for _ in _cache_points(body))
    if points > CACHE_POINTS:
        yield Fault(f"A maximum of 4 blocks with cache_control may be provided. Found {points}.")
    messages = _merged(body.get("messages") or ())
    if not messages:
        yield Fault("messages: at least one message is required")
    waiting: list[str] = []
    used: set[str] = set()
    for index, (role, blocks) in enumerate(messages):
        at = f"messages.{index}"
        if role not in ("user", "assistant"):
            yield Fault(
                f'messages: Unexpected role "{role}". The Messages API accepts a top-level `system` parameter, not'
                ' "system" as an input message role.'
            )
        if index == 0 and role != "user":
            yield Fault('messages: first message must use the "user" role')
        if not blocks:
            yield Fault(f"{at}: {role} messages must have non-empty content")
        yield from _results(at, blocks, waiting) if role == "user" else iter(())
        waiting = []
        for place, block in enumerate(blocks):
            yield from _block(f"{at}.content.{place}", role, block, memory)
            if block.get("type") == "tool_use":
                name = str(block.get("id", ""))
                if name in used:
                    yield Fault("messages: `tool_use` ids must be unique")
                needs_thought = name in memory.thought_before and thinking and index == len(messages) - 2
                if needs_thought and blocks[0].get("type") not in ("thinking", "redacted_thinking"):
                    yield Fault(
                        f"{at}.content.0.type: Expected `thinking` or `redacted_thinking`, but found"
                        f" `{blocks[0].get('type')}`. When `thinking` is enabled, a final `assistant` message must"
                        " start with a thinking block."
                    )
                used.add(name)
                waiting.append(name)
    if waiting:
        yield _unresolved(f"messages.{len(messages) - 1}", waiting)
    if messages and messages[-1][0] == "assistant":
        yield Fault(
            "This model does not support assistant message prefill. The conversation must end with a user message."
        )


def _merged(messages: Sequence[Json]) -> list[tuple[str, list[Json]]]:
    """Joins adjacent messages of one role, as the API does. Strings become text blocks."""
    out: list[tuple[str, list[Json]]] = []
    for message in messages:
        content: Any = message.get("content") or []
        blocks: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        role = str(message.get("role"))
        if out and out[-1][0] == role and blocks and out[-1][1]:
            out[-1][1].extend(blocks)
        else:
            out.append((role, blocks))
    return out


def _results(at: str, blocks: Sequence[Json], waiting: Sequence[str]) -> Iterator[Fault]:
    missing, over = list(waiting), False
    for place, block in enumerate(blocks):
        if block.get("type") != "tool_result":
            over = True
            continue
        name = block.get("tool_use_id")
        if name not in waiting:
            yield Fault(
                f"{at}.content.{place}: unexpected `tool_use_id` found in `tool_result` blocks: {name}. Each"
                " `tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
        elif name not in missing:
            yield Fault(
                f"{at}.content.{place}: each tool_use must have a single result. Found multiple `tool_result` blocks"
                f" with id: {name}"
            )
        elif not over:
            missing.remove(name)
    if missing:
        yield _unresolved(at, missing)


def _unresolved(at: str, missing: Sequence[str]) -> Fault:
    return Fault(
        f"{at}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}. Each"
        " `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


def _block(at: str, role: str, block: Json, memory: Memory) -> Iterator[Fault]:
    match block.get("type"):
        case "text":
            text = str(block.get("text", ""))
            if not text:
                yield Fault("messages: text content blocks must be non-empty")
            elif not text.strip():
                yield Fault("messages: text content blocks must contain non-whitespace text")
        case "tool_use":
            if role != "assistant":
                yield Fault(f"{at}: `tool_use` blocks can only be in `assistant` messages")
            if not NAME.match(str(block.get("id", ""))):
                yield Fault(f"{at}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
            if not isinstance(block.get("input"), dict):
                yield Fault(f"{at}.tool_use.input: Input should be a valid dictionary")
        case "tool_result":
            if role != "user":
                yield Fault(f"{at}: `tool_result` blocks can only be in `user` messages")
        case "thinking":
            if memory.signatures.get(str(block.get("signature"))) != block.get("thinking"):
                yield Fault(f"{at}: Invalid `signature` in `thinking` block")
        case "redacted_thinking" | "image" | "document":
            pass
        case other:
            yield Fault(f"{at}: Input tag '{other}' found using 'type' does not match any of the expected tags")


def _cache_points(value: Any) -> Iterator[None]:
    if isinstance(value, dict):
        whole = cast(Json, value)
        if "cache_control" in whole:
            yield None
        for each in whole.values():
            yield from _cache_points(each)
    elif isinstance(value, list):
        for each in cast(list[Any], value):
            yield from _cache_points(each)
