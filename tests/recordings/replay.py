"""Replays recorded answers on loopback to the real server and to stock pydantic-ai, and says what each made of them."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import warnings
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from tests.recordings.cassettes import Kind, Recording
from tests.support.client import Client, connect, option
from tests.support.provider import say
from tests.support.provider_anthropic import Anthropic
from tests.support.provider_chat import Chat
from tests.support.provider_dialect import Dialect
from tests.support.provider_responses import Responses
from tests.support.provider_strict import Memory
from tests.support.stock import PARAMETERS

from pilotfish.protocol import wire

DONE = "Done."
MARK = re.compile(rb"#recording(\d+)#")
DIALECTS: dict[str, type[Dialect]] = {"chat": Chat, "responses": Responses, "anthropic": Anthropic}
GOOGLE_DONE = (
    b'data: {"candidates":[{"content":{"parts":[{"text":"Done."}],"role":"model"},"finishReason":"STOP"}]}\r\n\r\n'
)
PREFIXES: Mapping[str, str] = {
    "chat": "openai-chat",
    "responses": "openai-responses",
    "anthropic": "anthropic",
    "google": "google",
}
HOSTS: Mapping[str, str] = {"openrouter.ai": "openrouter", "api.deepseek.com": "deepseek"}
"""hosts of Chat whose answers have fields of their own, which a model class of theirs reads"""
NAMES: Mapping[str, str] = {"openrouter": "scripted/scripted"}
STOPS: Mapping[str | None, str] = {"length": "max_tokens", "content_filter": "refusal"}
KEYS = tuple(f"{name}_API_KEY" for name in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "OPENROUTER", "DEEPSEEK"))


def whole(body: bytes) -> list[bytes]:
    return [body]


def lines(body: bytes) -> list[bytes]:
    return body.splitlines(keepends=True)


def pieces(body: bytes) -> list[bytes]:
    """One to forty bytes each, the same for the same body."""
    dice, at, out = random.Random(body), 0, list[bytes]()
    while at < len(body):
        size = dice.randrange(1, 41) if len(body) < 40_000 else dice.randrange(1, 4001)
        out.append(body[at : at + size])
        at += size
    return out


Chunking = Callable[[bytes], list[bytes]]
CHUNKINGS: Mapping[str, Chunking] = {"whole": whole, "lines": lines, "pieces": pieces}


@dataclass
class Told:
    """What an answer says: the same fields, whoever read it."""

    text: str = ""
    thoughts: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    usage: tuple[int, int, int, int] = (0, 0, 0, 0)
    """tokens: input, output, cached, reasoning"""
    stop: str = "end_turn"
    error: str | None = None
    went_on: bool = False
    """whether the turn asked again before it told the usage, and these fields include the closing answer"""


@dataclass
class Playing:
    prompt: str
    recording: Recording
    chunks: Chunking
    asked: int = 0


class Loopback:
    """An HTTP server. A request that names a recording gets it, the next one the end of the conversation."""

    def __init__(self) -> None:
        self.playing: dict[int, Playing] = {}
        self.url = ""

    def play(self, recording: Recording, chunks: Chunking) -> Playing:
        number = len(self.playing) + 1
        self.playing[number] = playing = Playing(f"#recording{number}#", recording, chunks)
        return playing

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
                body = await reader.readexactly(int(length[1])) if length else b""
                await self._reply(head, body, writer)
        writer.close()

    async def _reply(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        named = MARK.findall(body)
        if not head.startswith(b"POST") or not named:
            writer.write(b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}")
            return
        playing = self.playing[int(named[-1])]
        playing.asked += 1
        recording, chunks = playing.recording, [done(playing.recording.kind)]
        status, streamed = 200, True
        if playing.asked == 1:
            status, streamed = recording.status, recording.is_stream
            chunks = playing.chunks(recording.body)
        shape = "text/event-stream" if streamed else "application/json"
        writer.write(f"HTTP/1.1 {status} -\r\ncontent-type: {shape}\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        for chunk in chunks:
            writer.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")


def done(kind: Kind) -> bytes:
    """A closing answer in this dialect."""
    if kind == "google":
        return GOOGLE_DONE
    dialect = DIALECTS[kind]({"model": "m", "stream_options": {"include_usage": True}}, say(DONE), Memory())
    dialect.n = 1
    return b"".join(piece for piece in (*dialect.pieces(), *dialect.last()) if isinstance(piece, bytes))


class Replay:
    """The loopback server with a real Pilotfish for each provider, started when it is first needed."""

    def __init__(self, folder: Path, loopback: Loopback, stack: contextlib.AsyncExitStack) -> None:
        self._folder = folder
        self._loopback = loopback
        self._stack = stack
        self._clients: dict[str, Client] = {}
        self.http = httpx2.AsyncClient(timeout=60)

    async def ours(self, recording: Recording, chunks: Chunking) -> Told:
        """What the server tells its client of this answer, until it sends the next request."""
        client = await self._client(recording)
        session = await client.new_session()
        before = len(client.updates)
        playing = self._loopback.play(recording, chunks)
        ended = await client.prompt(session, playing.prompt)
        told, first = Told(), True
        calls: dict[str, tuple[str, Any]] = {}
        for update in client.updates[before:]:
            match update.update:
                case wire.MessageChunk(text=text) if first:
                    told.text += text
                case wire.ThoughtChunk(text=text) if first:
                    told.thoughts += text
                case wire.CallUpdate(call=call):
                    calls[call.id] = (call.name, call.raw_args if call.raw_args is not None else call.args)
                case wire.UsageUpdate(usage=usage) if first:
                    first = False
                    told.usage = (
                        usage.input_tokens,
                        usage.output_tokens,
                        usage.cached_tokens,
                        usage.reasoning_tokens,
                    )
                case wire.TurnEnded(stop_reason=stop, error=error):
                    told.stop = stop
                    told.error = error.message if error else None
                case _:
                    pass
        told.calls = list(calls.values())
        # The library itself goes on where an answer paused, and then both answers are told as one.
        told.went_on = playing.asked > 1 and told.text.endswith(DONE)
        assert ended.stop_reason == told.stop
        return told

    async def stock(self, recording: Recording) -> Told:
        """What the unchanged library makes of this answer."""
        model = self._model(recording)
        messages: list[ModelMessage] = [
            ModelRequest(parts=[UserPromptPart(self._loopback.play(recording, whole).prompt)])
        ]
        options, parameters = model.prepare_request(None, PARAMETERS)
        read = ModelResponse(parts=[])
        try:
            warnings.simplefilter("ignore", UserWarning)  # it warns of items that it does not read
            if recording.is_stream:
                async with model.request_stream(model.prepare_messages(messages), options, parameters) as stream:
                    async for _ in stream:
                        read = stream.get()
                    read = stream.get()
            else:
                read = await model.request(model.prepare_messages(messages), options, parameters)
        except Exception as error:  # whatever the library raises is what it makes of the answer
            return replace(
                of_response(read), usage=(0, 0, 0, 0), stop="failed", error=f"{type(error).__name__}: {error}"
            )
        return of_response(read)

    async def _client(self, recording: Recording) -> Client:
        prefix = prefix_of(recording)
        if prefix not in self._clients:
            home = self._folder / prefix
            work = home / "work"
            work.mkdir(parents=True)
            environ: dict[str, Any] = {
                "PILOTFISH_MODEL": f"{prefix}:{NAMES.get(prefix, 'scripted')}",
                "PILOTFISH_BASE_URL": self._base_url(prefix),
                **dict.fromkeys(KEYS, "sk-recorded"),
            }
            self._clients[prefix] = await self._stack.enter_async_context(connect(work, home=home, **environ))
            self._clients[prefix].answers["pilotfish/approval/request"] = option("reject_once")
        client = self._clients[prefix]
        client.updates.clear()
        client.heard.clear()
        return client

    def _base_url(self, prefix: str) -> str:
        return self._loopback.url if prefix in ("anthropic", "google") else f"{self._loopback.url}/v1"

    def _model(self, recording: Recording) -> Model[Any]:
        prefix = prefix_of(recording)
        url = self._base_url(prefix)
        if prefix == "anthropic":
            from anthropic import AsyncAnthropic
            from pydantic_ai.models.anthropic import AnthropicModel
            from pydantic_ai.providers.anthropic import AnthropicProvider

            client = AsyncAnthropic(api_key="k", base_url=url, max_retries=0, http_client=self.http)
            return AnthropicModel("scripted", provider=AnthropicProvider(anthropic_client=client))
        if prefix == "google":
            from pydantic_ai.models.google import GoogleModel
            from pydantic_ai.providers.google import GoogleProvider

            return GoogleModel("scripted", provider=GoogleProvider(api_key="k", base_url=url, http_client=self.http))
        from openai import AsyncOpenAI
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.models.openrouter import OpenRouterModel
        from pydantic_ai.providers.deepseek import DeepSeekProvider
        from pydantic_ai.providers.openai import OpenAIProvider
        from pydantic_ai.providers.openrouter import OpenRouterProvider

        openai = AsyncOpenAI(api_key="k", base_url=url, max_retries=0, http_client=self.http)
        match prefix:
            case "openrouter":
                return OpenRouterModel(NAMES[prefix], provider=OpenRouterProvider(openai_client=openai))
            case "deepseek":
                return OpenAIChatModel("scripted", provider=DeepSeekProvider(openai_client=openai))
            case "openai-responses":
                return OpenAIResponsesModel("scripted", provider=OpenAIProvider(openai_client=openai))
            case _:
                return OpenAIChatModel("scripted", provider=OpenAIProvider(openai_client=openai))


def prefix_of(recording: Recording) -> str:
    return HOSTS.get(recording.host, PREFIXES["chat"]) if recording.kind == "chat" else PREFIXES[recording.kind]


def of_response(response: ModelResponse) -> Told:
    told = Told(stop=STOPS.get(response.finish_reason, "end_turn"))
    for part in response.parts:
        match part:
            case TextPart(content=text):
                told.text += text
            case ThinkingPart(content=text):
                told.thoughts += text
            case ToolCallPart():
                told.calls.append((part.tool_name, part.args_as_dict() if part.args else {}))
            case _:
                pass
    usage = response.usage
    reasoning = usage.output_reasoning_tokens or 0
    told.usage = (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens, reasoning)
    return told


@contextlib.asynccontextmanager
async def replaying(folder: Path) -> AsyncGenerator[Replay]:
    loopback = Loopback()
    async with contextlib.AsyncExitStack() as stack:
        server = await asyncio.start_server(loopback.answer, "127.0.0.1", 0, limit=2**26)
        stack.push_async_callback(server.wait_closed)
        stack.callback(server.close)
        loopback.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        replay = Replay(folder, loopback, stack)
        stack.push_async_callback(replay.http.aclose)
        yield replay
