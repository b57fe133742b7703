"""Four checkers of request bodies, written from the providers' documentation and error messages.

They are independent of the code that creates a request. Each returns the problems that it finds; a provider would
accept a body without problems.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Body = Mapping[str, Any]

_OPENAI_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_GOOGLE_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}\Z")
_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+\Z")
_ANTHROPIC_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}\Z")


def openai_chat(body: Body) -> list[str]:
    """Chat Completions: an assistant message with tool calls is followed at once by one tool message for each call."""
    problems: list[str] = []
    open_ids: list[str] = []
    messages: Sequence[Any] = body["messages"]
    if not messages:
        problems.append("messages is empty")
    for index, message in enumerate(messages):
        place = f"messages[{index}]"
        role = message.get("role")
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id in open_ids:
                open_ids.remove(call_id)
            else:
                problems.append(f"{place}: role 'tool' must be a response to a preceding message with 'tool_calls'")
            if not isinstance(message.get("content"), str | list):
                problems.append(f"{place}: content is missing")
            continue
        if open_ids:
            problems.append(f"{place}: 'tool_calls' must be followed by tool messages for {open_ids}")
            open_ids = []
        if role == "assistant":
            calls: Sequence[Any] = message.get("tool_calls") or []
            if message.get("content") is None and not calls:
                problems.append(f"{place}: an assistant message must have content or tool_calls")
            problems.extend(_chat_calls(calls, place))
            open_ids = [call["id"] for call in calls]
        elif role in ("user", "system", "developer"):
            if message.get("content") in (None, []):
                problems.append(f"{place}: content is missing")
        else:
            problems.append(f"{place}: unknown role {role!r}")
    if open_ids:
        problems.append(f"the last 'tool_calls' have no tool messages for {open_ids}")
    return problems


def _chat_calls(calls: Sequence[Any], place: str) -> Iterator[str]:
    ids = [call.get("id") for call in calls]
    if len(set(ids)) != len(ids):
        yield f"{place}: duplicate tool call ids {ids}"
    for call in calls:
        if not 0 < len(call.get("id") or "") <= 40:
            yield f"{place}: a tool call's id is empty or longer than 40"
        if not _OPENAI_NAME.match(call["function"].get("name") or ""):
            yield f"{place}: function.name does not match the pattern: {call['function'].get('name')!r}"
        if not isinstance(call["function"].get("arguments"), str):
            yield f"{place}: function.arguments is not a string"


def openai_responses(body: Body) -> list[str]:
    """Responses: every function call has one later output, every output has a call, and reasoning precedes an item."""
    problems: list[str] = []
    items: Sequence[Any] = body["input"]
    if not items:
        problems.append("input is empty")
    called: dict[str, int] = {}
    answered: set[str] = set()
    for index, item in enumerate(items):
        place = f"input[{index}]"
        match item.get("type", "message"):
            case "function_call":
                call_id = item.get("call_id")
                if not 0 < len(call_id or "") <= 64:
                    problems.append(f"{place}: call_id is empty or longer than 64")
                elif call_id in called:
                    problems.append(f"{place}: duplicate function call {call_id}")
                called[call_id] = index
                if not _OPENAI_NAME.match(item.get("name") or ""):
                    problems.append(f"{place}: name does not match the pattern: {item.get('name')!r}")
                if not isinstance(item.get("arguments"), str):
                    problems.append(f"{place}: arguments is not a string")
            case "function_call_output":
                call_id = item.get("call_id")
                if call_id not in called:
                    problems.append(f"{place}: No tool call found for function call output with call_id {call_id}")
                elif call_id in answered:
                    problems.append(f"{place}: a second output for {call_id}")
                answered.add(call_id)
                if item.get("output") is None:
                    problems.append(f"{place}: output is missing")
            case "reasoning":
                after: Body = items[index + 1] if index + 1 < len(items) else {}
                if after.get("role") != "assistant" and after.get("type") not in (
                    "function_call",
                    "reasoning",
                    "message",
                ):
                    problems.append(f"{place}: 'reasoning' was provided without its required following item")
            case "message":
                if item.get("role") not in ("user", "assistant", "system", "developer"):
                    problems.append(f"{place}: unknown role {item.get('role')!r}")
                if item.get("content") in (None, []):
                    problems.append(f"{place}: content is missing")
            case _:
                pass
    problems.extend(
        f"No tool output found for function call {call_id}" for call_id in called if call_id not in answered
    )
    return problems


def anthropic(body: Body) -> list[str]:
    """Messages: the message after tool uses begins with their results, no text is blank, and the user begins."""
    problems: list[str] = []
    turns = _merged_turns(body["messages"])
    if not turns:
        return ["messages: at least one message is required"]
    if turns[0][0] != "user":
        problems.append("messages: first message must use the user role")
    seen: set[str] = set()
    open_ids: list[str] = []
    for index, (role, blocks) in enumerate(turns):
        place = f"turn {index}"
        if not blocks:
            problems.append(f"{place}: all messages must have non-empty content")
        problems.extend(_blank_blocks(blocks, place))
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        if role == "user":
            problems.extend(
                f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}"
                for call_id in results
                if call_id not in open_ids
            )
            if len(set(results)) != len(results):
                problems.append(f"{place}: each tool_use must have a single result: {results}")
            if missing := [call_id for call_id in open_ids if call_id not in results]:
                problems.append(
                    f"{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}"
                )
            kinds = [block["type"] == "tool_result" for block in blocks]
            if kinds != sorted(kinds, reverse=True):
                problems.append(f"{place}: tool_result blocks must come first")
            open_ids = []
        else:
            if results:
                problems.append(f"{place}: `tool_result` blocks can only be in user messages")
            uses = [block for block in blocks if block["type"] == "tool_use"]
            problems.extend(_uses(uses, seen, place))
            open_ids = [block["id"] for block in uses]
    if open_ids:
        problems.append(f"`tool_use` ids were found without `tool_result` blocks immediately after: {open_ids}")
    return problems


def google(body: Body) -> list[str]:
    """generateContent: a call follows a user content or a result, and the next content holds all its results."""
    problems: list[str] = []
    contents: Sequence[Any] = body["contents"]
    if not contents:
        return ["contents is not specified"]
    waiting: list[str] = []
    before = "model"
    for index, content in enumerate(contents):
        place = f"contents[{index}]"
        role = content.get("role")
        parts: Sequence[Any] = content.get("parts") or []
        if role not in ("user", "model"):
            problems.append(f"{place}: not a valid role: {role!r}")
        if not parts:
            problems.append(f"{place}: parts must not be empty")
        calls: list[Any] = [part["functionCall"] for part in parts if "functionCall" in part]
        results: list[Any] = [part["functionResponse"] for part in parts if "functionResponse" in part]
        if calls and (role, before) != ("model", "user"):
            problems.append(f"{place}: a function call turn comes immediately after a user or a function response turn")
        if results and not waiting:
            problems.append(f"{place}: a function response turn comes immediately after a function call turn")
        elif len(results) != len(waiting):
            problems.append(f"{place}: the number of function responses is not that of the function calls {waiting}")
        problems.extend(
            f"{place}: function name does not match the pattern: {call.get('name')!r}"
            for call in calls
            if not _GOOGLE_NAME.match(call.get("name") or "")
        )
        problems.extend(
            f"{place}: response is not an object" for each in results if not isinstance(each.get("response"), dict)
        )
        if any("functionCall" in part for part in parts) and not _has_signature(parts):
            problems.append(f"{place}: the first function call has no thought_signature")
        waiting = [call.get("name") or "" for call in calls]
        before = role
    if waiting:
        problems.append(f"the last function calls have no function responses: {waiting}")
    return problems


def _has_signature(parts: Sequence[Any]) -> bool:
    return "thoughtSignature" in next(part for part in parts if "functionCall" in part)


def _merged_turns(messages: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """The API joins consecutive messages of one role; text content is one text block."""
    turns: list[tuple[str, list[Any]]] = []
    for message in messages:
        content = message["content"]
        blocks: list[Any] = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        if message["role"] == "system":
            continue  # a system message in the conversation does not end a turn
        if turns and turns[-1][0] == message["role"] and blocks:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], blocks))
    return turns


def _blank_blocks(blocks: Sequence[Any], place: str) -> Iterator[str]:
    for block in blocks:
        if block["type"] == "text" and not block["text"].strip():
            yield f"{place}: text content blocks must contain non-whitespace text"
        if block["type"] == "tool_result" and isinstance(block.get("content"), list):
            yield from _blank_blocks(block["content"], f"{place}, tool_result {block['tool_use_id']}")


def _uses(uses: Sequence[Any], seen: set[str], place: str) -> Iterator[str]:
    for block in uses:
        call_id = block.get("id") or ""
        if not _ANTHROPIC_ID.match(call_id):
            yield f"{place}: tool_use.id does not match the pattern: {call_id!r}"
        if call_id in seen:
            yield f"{place}: `tool_use` ids must be unique: {call_id}"
        seen.add(call_id)
        if not _ANTHROPIC_NAME.match(block.get("name") or ""):
            yield f"{place}: tool_use.name does not match the pattern: {block.get('name')!r}"
        if not isinstance(block.get("input"), dict):
            yield f"{place}: tool_use.input is not an object: {json.dumps(block.get('input'))}"
