"""A scripted provider on loopback: real HTTP/1.1 and SSE, four dialects, as strict as the real ones.

    async with serve(say("Hello"), call("read_file", path="a.py"), fails("rate_limit", retry_after=1)) as provider:
        provider.url                    http://127.0.0.1:<port>      (base URL of Anthropic and Google)
        provider.openai_url             the same with /v1            (OpenAI's base URL)
        provider.requests               everything that arrived, with times and disconnects
        await provider.received(2)      the second request, as soon as it arrives

It answers `POST /v1/chat/completions`, `POST /v1/responses`, `POST /v1/messages`, `GET /v1/models`, and Google's
`POST /v1/models/<model>:generateContent` and `…:streamGenerateContent` (`/v1beta` too), and the four requests of
fill-in-the-middle (`provider_http.FILL_IN`), whose answer is the text of the reply. A history the real ones would
refuse is answered with 400 and does not use up a reply; `request.refused` says why.

As a process: `python -m tests.support.provider --script file.json --port 0` prints the port, then
`GET /_requests`, `POST /_script` (a list of replies to append), `POST /_release` (opens the gates),
`POST /_hold` (shuts them again), `POST /_key` (from now on any other key is refused).

The script, as JSON (a list of replies, or an object):

    { "models": ["scripted"], "key": null, "otherwise": REPLY, "replies": [REPLY, …] }

A REPLY is used for one request, in order. Every field may be left out:

    thoughts  "…" or ["…", "…"]     pieces, each one delta
    text      "…" or ["…", "…"]     pieces, each one delta
    refusal   "…"
    calls     [{ "name", "args": {…} or "raw text", "id"?, "split"?: characters per delta }]
    parts     [{ "text" } | { "thought" } | { "call" } | { "refusal" } | { "pause": s } | { "gate": true }
              | { "raw": "…" }], instead of the four above, when the order matters
    times     the text pieces are sent this often (huge answers)
    interleave  arguments of parallel calls are sent in turns (Chat and Responses)
    finish    "stop" | "length" | "tool_calls" | "content_filter" | the provider's own word
    usage     { "input", "output", "cached" }
    delay     seconds between deltas        wait   seconds before the answer begins
    after     stop after so many deltas, then do what `end` says
    end       "done" | "stall" | "drop" (connection reset) | "cut" (clean end, nothing final) | "garbage" (broken JSON)
              | "endless" (the last text again and again) | "error:<kind>" (an error event inside the stream)
    error     KIND: rate_limit, overloaded, server, authentication, permission, credit, context, not_found, bad_request
    status, retryAfter, message, code, body, contentType, headers    the same by hand, or with changes
    wire      bytes to write instead of an HTTP answer
    when      text that the last message must hold, else this reply waits for another request
    repeat    how many requests this reply is used for
    reasoningField  where Chat puts thoughts: "reasoning_content" (DeepSeek, llama.cpp) or "reasoning" (Ollama, vLLM)
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.support.provider_http import Connection, Request
from tests.support.provider_script import (
    Call,
    Gate,
    Part,
    Pause,
    Raw,
    Refusal,
    Reply,
    Text,
    Thought,
    Tokens,
    reply_from,
)
from tests.support.provider_strict import Memory

Answer = Reply | Callable[["Request"], Reply]
"""a reply, or what makes one from the request"""


class Provider:
    """The scripted provider. Replies are used in order; `otherwise` when they are used up."""

    def __init__(
        self,
        *replies: Answer,
        otherwise: Answer | None = None,
        models: Sequence[str | Mapping[str, Any]] = ("scripted",),
        key: str | None = None,
    ) -> None:
        self.replies: deque[Answer] = deque(replies)
        self.otherwise = otherwise
        self.models = models
        self.key = key
        """when set, any other key is answered with 401"""
        self.strict = True
        """whether requests that a real provider refuses are refused; other agents send ids that were never given"""
        self.pages: Mapping[str, object] = {}
        """JSON answers of other paths, such as Ollama's `/api/ps`"""
        self.requests: list[Request] = []
        self.gate = asyncio.Event()
        self.port = 0
        self.memory = Memory()
        self._arrived = asyncio.Condition()
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    def base_url(self, kind: str) -> str:
        """The value of `baseUrl` for this dialect. Only OpenAI's includes the API version."""
        return self.openai_url if kind in ("chat", "responses") else self.url

    async def received(self, count: int, timeout: float = 120.0) -> Request:
        """Wait for the `count`th model request (from 1)."""
        async with asyncio.timeout(timeout), self._arrived:
            await self._arrived.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    def release(self) -> None:
        """Open the gates: waiting replies continue, and later ones do not wait."""
        self.gate.set()

    async def start(self, port: int = 0) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections):
            connection.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def choose(self, request: Request) -> Reply:
        """Remove the reply for this request from the script."""
        last = json.dumps(request.messages[-1:], ensure_ascii=False)
        for index, answer in enumerate(self.replies):
            if isinstance(answer, Reply) and answer.when is not None and answer.when not in last:
                continue
            if isinstance(answer, Reply) and answer.repeat > 1:
                self.replies[index] = replace(answer, repeat=answer.repeat - 1)
            else:
                del self.replies[index]
            return answer if isinstance(answer, Reply) else answer(request)
        if self.otherwise is not None:
            return self.otherwise if isinstance(self.otherwise, Reply) else self.otherwise(request)
        return Reply(status=400, message=f"the script has no reply for request {request.n}")

    async def note(self, request: Request) -> None:
        async with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()

    def begin(self, connection: Connection, request: Request) -> None:
        task = asyncio.ensure_future(connection.reply(request))
        self._connections.add(connection)
        self._tasks.add(task)
        connection.task = task
        task.add_done_callback(self._tasks.discard)

    def forget(self, connection: Connection) -> None:
        self._connections.discard(connection)


@contextlib.asynccontextmanager
async def serve(
    *replies: Answer,
    otherwise: Answer | None = None,
    models: Sequence[str | Mapping[str, Any]] = ("scripted",),
    key: str | None = None,
) -> AsyncGenerator[Provider]:
    """A provider for the length of the block."""
    provider = Provider(*replies, otherwise=otherwise, models=models, key=key)
    await provider.start()
    try:
        yield provider
    finally:
        await provider.stop()


def say(*text: str, thoughts: Sequence[str] = (), **fields: Any) -> Reply:
    """A text reply; every piece is one delta."""
    return Reply(parts=(*map(Thought, thoughts), *map(Text, text)), **fields)


def call(name: str, /, **args: Any) -> Reply:
    """A reply of one call."""
    return calls(Call(name, args))


def calls(*wanted: Call, text: str = "", thoughts: Sequence[str] = (), **fields: Any) -> Reply:
    """A reply of parallel calls, after some thoughts and text."""
    spoken = (Text(text),) if text else ()
    return Reply(parts=(*map(Thought, thoughts), *spoken, *wanted), **fields)


def fails(error: str, **fields: Any) -> Reply:
    """An error answer: see `error` above."""
    return Reply(error=error, **fields)


def said(request: Request) -> str:
    """What the user says in the last message of a request to Chat, without what we say of the environment."""
    return str(request.messages[-1]["content"]).rpartition("</environment>\n\n")[2]


def from_json(script: list[dict[str, Any]] | dict[str, Any]) -> Provider:
    """The provider a JSON script describes."""
    whole: dict[str, Any] = {"replies": script} if isinstance(script, list) else script
    otherwise = whole.get("otherwise")
    return Provider(
        *map(reply_from, whole.get("replies", ())),
        otherwise=reply_from(otherwise) if otherwise is not None else None,
        models=whole.get("models", ("scripted",)),
        key=whole.get("key"),
    )


async def run(script: Path | None, port: int) -> None:
    provider = from_json(json.loads(script.read_text("utf-8")) if script else [])
    await provider.start(port)
    sys.stdout.write(f"{provider.port}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


__all__ = [
    "Answer",
    "Call",
    "Gate",
    "Part",
    "Pause",
    "Provider",
    "Raw",
    "Refusal",
    "Reply",
    "Request",
    "Text",
    "Thought",
    "Tokens",
    "call",
    "calls",
    "fails",
    "from_json",
    "say",
    "serve",
]

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A scripted provider on loopback.")
    parser.add_argument("--script", type=Path)
    parser.add_argument("--port", type=int, default=0)
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(options.script, options.port))
