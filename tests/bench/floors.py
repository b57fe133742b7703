"""Baselines for the benchmark: minimal programs that serve the same client.

    pygls    a language server with nothing in it
    stock    pydantic-ai and pygls put together as their manuals say: no ledger, no policy, no approvals; it offers the
             tools of Pilotfish by name, description and schema, and only `read_file` does something
    socket   a bare asyncio connection to the provider, each delta parsed, framed and written (Chat only)

`stock` and `socket` know as much of `pilotfish/session/*` as the benchmark asks for. Run as
`python -m tests.bench.floors <kind> <wire> <provider's base URL> [<file with the tools>]`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


def pygls() -> None:
    from pygls.lsp.server import LanguageServer

    LanguageServer("bare", "1").start_io()


def model(wire: str, url: str) -> Any:
    """The library's model of this wire, at this address."""
    match wire:
        case "chat":
            from pydantic_ai.models.openai import OpenAIChatModel
            from pydantic_ai.providers.openai import OpenAIProvider

            return OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=url, api_key="key"))
        case "responses":
            from pydantic_ai.models.openai import OpenAIResponsesModel
            from pydantic_ai.providers.openai import OpenAIProvider

            return OpenAIResponsesModel("scripted", provider=OpenAIProvider(base_url=url, api_key="key"))
        case "anthropic":
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            return AnthropicModel("scripted", provider=AnthropicProvider(base_url=url, api_key="key"))
        case _:
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel("scripted", provider=GoogleProvider(base_url=url, api_key="key"))


def stock(wire: str, url: str, tools: Path) -> None:
    from pygls.lsp.server import LanguageServer

    server = LanguageServer("stock", "1")
    running: dict[str, asyncio.Task[Any]] = {}
    history: list[Any] = []
    built: list[Any] = []

    def update(**fields: Any) -> None:
        server.protocol.notify("pilotfish/session/update", {"update": fields})

    def agent() -> Any:
        if not built:
            from pydantic_ai import Agent, Tool

            async def read_file(**args: Any) -> str:
                return Path(args["path"]).read_text("utf-8")  # deliberately minimal

            offered = [Tool.from_schema(read_file, **tool) for tool in json.loads(tools.read_text("utf-8"))]
            built.append(Agent(model(wire, url), tools=offered))
        return built[0]

    async def forward(_: Any, events: Any) -> None:
        async for event in events:
            if event.event_kind == "part_start" and event.index == 0:  # calls have a stream of events too
                update(kind="state", state="assistant")
            part = getattr(event, "part", None) if event.event_kind == "part_start" else getattr(event, "delta", None)
            text = getattr(part, "content_delta", None) or getattr(part, "content", None)
            if text:
                update(kind="agent_message_chunk", text=text)

    @server.feature("pilotfish/session/new")
    def _new(_: Any) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]  # the decorator takes it
        history.clear()
        return {"session": {"id": "only"}}

    @server.feature("pilotfish/session/prompt")
    async def _prompt(params: Any) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]  # the decorator takes it
        from pydantic_ai import UsageLimits

        run = agent().run(
            params.prompt[0].text,
            message_history=list(history),
            event_stream_handler=forward,
            usage_limits=UsageLimits(request_limit=None),
        )
        running["only"] = task = asyncio.ensure_future(run)
        await asyncio.wait((task,))
        if task.cancelled():
            return {"stopReason": "cancelled"}
        history[:] = task.result().all_messages()
        return {"stopReason": "end_turn"}

    @server.feature("pilotfish/session/cancel")
    def _cancel(_: Any) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]  # the decorator takes it
        running["only"].cancel()
        return {}

    server.start_io()


async def socket(url: str) -> None:
    loop = asyncio.get_running_loop()
    place = urlsplit(url)
    stdin = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stdin), sys.stdin)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    while header := await stdin.readuntil(b"\r\n\r\n"):
        message = json.loads(await stdin.readexactly(int(header.split(b":")[1].split(b"\r\n")[0])))
        if message["method"] == "pilotfish/session/prompt":
            words = message["params"]["prompt"][0]["text"]
            asked = {"model": "scripted", "stream": True, "messages": [{"role": "user", "content": words}]}
            body = json.dumps(asked).encode()
            head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {place.netloc}\r\nauthorization: Bearer key\r\n"
            writer.write(
                head.encode() + b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            )
            async for line in reader:
                if line.startswith(b"data: [DONE]"):
                    break
                choices = json.loads(line[6:])["choices"] if line.startswith(b"data: ") else ()
                if choices and (text := choices[0]["delta"].get("content")):
                    update = {"kind": "agent_message_chunk", "text": text}
                    frame({"method": "pilotfish/session/update", "params": {"update": update}})
            await reader.readuntil(b"0\r\n\r\n")
        if "id" in message:
            frame({"id": message["id"], "result": {"session": {"id": "only"}}})


def frame(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    os.write(1, b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["stock", wire, url, tools]:
            stock(wire, url, Path(tools))
        case ["socket", _, url, *_]:
            asyncio.run(socket(url))
        case _:
            pygls()
