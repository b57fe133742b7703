"""Reads the arguments of the commands of a generic client."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pilotfish.errors import BadRequest
from pilotfish.lsp.connection.json_values import as_object, as_objects
from pilotfish.lsp.connection.params import read
from pilotfish.protocol import wire

Starts = Literal["none", "new", "own"]
"""which session a prompt starts: none, one that later prompts go on in, or one for itself alone"""


@dataclass(frozen=True, slots=True)
class PromptArguments:
    prompt: tuple[wire.ContentBlock, ...]
    session_id: str | None
    starts: Starts
    wait: bool


def prompt_arguments(arguments: Sequence[Any]) -> PromptArguments:
    """The argument of `pilotfish.prompt`: a text, or `{prompt, uri?, range?, sessionId?, new?, own?, wait?}`, where
    `prompt` is a text or content blocks and `uri` with `range` is the selection it is about. `new` starts a session
    that later prompts go on in, `own` one for this prompt alone."""
    first = arguments[0] if arguments else None
    argument: dict[str, Any] = {"prompt": first} if isinstance(first, str) else as_object(first) or {}
    prompt = argument.get("prompt")
    blocks: list[Any] = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else as_objects(prompt)
    if isinstance(uri := argument.get("uri"), str):
        blocks.append({"type": "resource", "uri": uri, "range": argument.get("range")})
    session_id = argument.get("sessionId")
    checked = read(wire.PromptParams, {"sessionId": session_id or "", "prompt": blocks})
    if not any(isinstance(block, wire.TextBlock) and block.text.strip() for block in checked.prompt):
        raise BadRequest("arguments: a prompt needs a text", field="arguments")
    starts: Starts = "own" if argument.get("own") is True else "new" if argument.get("new") is True else "none"
    return PromptArguments(checked.prompt, checked.session_id or None, starts, argument.get("wait") is True)


def text_argument(arguments: Sequence[Any], name: str) -> str | None:
    """The first argument: a string, or an object with one of this name."""
    first = arguments[0] if arguments else None
    value = first if isinstance(first, str) else (as_object(first) or {}).get(name)
    return value if isinstance(value, str) and value else None
