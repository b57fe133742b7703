"""An HTTP transport that answers requests of OpenAI's Chat API with a language model of the user's editor.

The library's own model class for this API can therefore be used unchanged, and everything that holds for other
providers holds here: the watchdog for stalled answers, retries, the fallback model, usage and budget. A request that
nobody reads any more is stopped in the editor.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from typing import Any, cast

import httpx2
import orjson

from pilotfish.conversation.calls import normalise_args
from pilotfish.engine.model.editor.editor_models import (
    EditorModelError,
    EditorModels,
    EditorRequest,
    FailureReason,
    Finished,
    ImageBlock,
    ModelMessage,
    ModelPart,
    ModelTool,
    ModelToolCall,
    ModelToolResult,
    ModelUsage,
    TextBlock,
)

OPTIONS = ("temperature", "reasoning_effort", "max_tokens", "max_completion_tokens")
"""fields of a Chat request that are passed on if they are set"""
STATUS: Mapping[FailureReason, int] = {
    "permission": 403,
    "quota": 402,
    "rate_limit": 429,
    "blocked": 400,
    "not_found": 404,
    "other": 500,
}
ERROR_TYPE = "editor_"
"""before the reason, in the `type` of an error: `failures/errors.py` has other words for these"""
IMAGE_TOKENS = 1_000  # an estimate

Json = dict[str, Any]
Answer = AsyncGenerator[TextBlock | ModelToolCall | Finished]


class EditorTransport(httpx2.AsyncBaseTransport):
    """Answers with the models of one editor."""

    def __init__(self, models: EditorModels) -> None:
        self._models = models

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body: Json = orjson.loads(await request.aread())
        asked = editor_request(body)
        events = _Events(self._models.stream(asked), asked)  # the engine streams every request
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=events)


def editor_request(body: Json) -> EditorRequest:
    """The request that a body of the Chat API makes."""
    tools = [cast("Json", tool["function"]) for tool in body.get("tools") or ()]
    return EditorRequest(
        model=str(body["model"]),
        messages=tuple(_messages(body["messages"])),
        tools=tuple(
            ModelTool(tool["name"], tool.get("description") or "", tool.get("parameters") or {}) for tool in tools
        ),
        options={name: body[name] for name in OPTIONS if body.get(name) is not None},
    )


def _messages(messages: Sequence[Json]) -> list[ModelMessage]:
    """The messages. Results that follow each other are one message, because they answer one message of the model."""
    out: list[ModelMessage] = []
    for message in messages:
        match message["role"]:
            case "tool":
                result = ModelToolResult(message["tool_call_id"], _text(message.get("content")))
                if out and isinstance(out[-1].parts[-1], ModelToolResult):
                    out[-1] = ModelMessage("user", (*out[-1].parts, result))
                else:
                    out.append(ModelMessage("user", (result,)))
            case "assistant":
                calls = [_call(call) for call in message.get("tool_calls") or ()]
                if parts := (*_parts(message.get("content")), *calls):
                    out.append(ModelMessage("assistant", parts))
            case "user":
                if parts := _parts(message.get("content")):
                    out.append(ModelMessage("user", parts))
            case _:  # `system` or `developer`
                if parts := _parts(message.get("content")):
                    out.append(ModelMessage("system", parts))
    return out


def _parts(content: str | Sequence[Json] | None) -> tuple[ModelPart, ...]:
    if content is None or isinstance(content, str):
        return (TextBlock(content),) if content else ()
    return tuple(_part(part) for part in content)


def _part(part: Json) -> ModelPart:
    if part.get("type") == "image_url":
        head, _, data = str(part["image_url"]["url"]).partition(";base64,")
        if data:
            return ImageBlock(data, head.removeprefix("data:"))
    return TextBlock(str(part.get("text") or f"[A part of type {part.get('type')} was left out.]"))


def _text(content: str | Sequence[Json] | None) -> str:
    return "\n".join(part.text for part in _parts(content) if isinstance(part, TextBlock))


def _call(call: Json) -> ModelToolCall:
    function: Json = call["function"]
    return ModelToolCall(call["id"], function["name"], normalise_args(function.get("arguments"))[0])


class _Events(httpx2.AsyncByteStream):
    """An answer as the server-sent events of the Chat API. An error is an event too, wherever it happens."""

    def __init__(self, answer: Answer, asked: EditorRequest) -> None:
        self._answer = answer
        self._asked = asked
        self._written = 0
        self._calls = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for event in self._answer:
                yield b"data: %b\n\n" % orjson.dumps(self._chunk(event))
        except EditorModelError as error:
            code = str(STATUS[error.reason])
            failed = {"message": str(error), "type": f"{ERROR_TYPE}{error.reason}", "code": code}
            yield b"data: %b\n\n" % orjson.dumps({"error": failed})
        yield b"data: [DONE]\n\n"

    async def aclose(self) -> None:
        await self._answer.aclose()

    def _chunk(self, event: TextBlock | ModelToolCall | Finished) -> Json:
        match event:
            case TextBlock(text=text):
                self._written += len(text.encode())
                return self._delta({"content": text})
            case ModelToolCall():
                arguments = orjson.dumps(event.input).decode()
                self._written += len(arguments)
                function = {"name": event.name, "arguments": arguments}
                call = {"index": self._calls, "id": event.id, "type": "function", "function": function}
                self._calls += 1
                return self._delta({"tool_calls": [call]})
            case Finished(finish=finish, usage=usage):
                if finish == "stop" and self._calls:
                    return self._delta({}, "tool_calls", usage or self._estimate())
                return self._delta({}, finish, usage or self._estimate())

    def _delta(self, delta: Json, finish: str | None = None, usage: ModelUsage | None = None) -> Json:
        counted = {"prompt_tokens": usage.input_tokens, "completion_tokens": usage.output_tokens} if usage else None
        if counted is not None:
            counted["total_tokens"] = sum(counted.values())
        return {
            "id": "editor",
            "object": "chat.completion.chunk",
            "created": 0,
            "model": self._asked.model,
            "choices": [{"index": 0, "delta": {"role": "assistant", **delta}, "finish_reason": finish}],
            **({"usage": counted} if counted else {}),
        }

    def _estimate(self) -> ModelUsage:
        """Tokens by the size of the texts: no editor counts them, and the budget of a turn needs a number."""
        sizes = [_size(part) for message in self._asked.messages for part in message.parts]
        tools = [len(tool.description) + len(orjson.dumps(tool.input_schema)) for tool in self._asked.tools]
        return ModelUsage((sum(sizes) + sum(tools)) // 4, self._written // 4)


def _size(part: ModelPart) -> int:
    match part:
        case TextBlock(text=text) | ModelToolResult(text=text):
            return len(text.encode())
        case ImageBlock():
            return 4 * IMAGE_TOKENS
        case ModelToolCall(input=arguments):
            return len(orjson.dumps(arguments))
