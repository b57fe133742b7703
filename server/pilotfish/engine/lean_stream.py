"""Server-sent events of OpenAI's two dialects, read cheaply: everything that has arrived at once, deltas joined.

A drop-in for the SDK's SSE decoder (`AsyncOpenAI._make_sse_decoder`): what comes out are the SDK's own events with
fewer, longer deltas. The SDK still builds its objects, raises its errors and closes its response.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any, cast

import anyio
import httpx2
import orjson
from openai._streaming import ServerSentEvent, SSEDecoder

from pilotfish.engine.lean_pieces import Json, Parsed, joined

WINDOW = 0.016  # seconds, one frame: after a piece of text is passed on, what follows is gathered for so long
LAST_LOOK = 0.001  # seconds to read what was gathered
MAX_WAITING = 1_000_000  # bytes taken from the network before somebody wants them
SLICE = 64 * 1024  # bytes read in one go: a few milliseconds, then others get their turn
SHARE = 32  # an answer of megabytes is passed on in such shares: pydantic-ai copies all of its text for every delta
MOST = 256  # events of it in one go: each takes its time, however short it is
DRAIN_SECONDS = 0.1  # for the end of the body after [DONE], so that the connection can be used again


class LeanDecoder:
    """The SDK's `SSEBytesDecoder` protocol, for streams that are read asynchronously."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._held = b""
        self._odd = SSEDecoder()
        self._chat = False
        self._last: Json | None = None
        """the last piece of a chat"""
        self._finished = False
        self._pulling: asyncio.Future[None] | None = None

    def iter_bytes(self, iterator: Iterator[bytes]) -> Iterator[ServerSentEvent]:
        return SSEDecoder().iter_bytes(iterator)

    async def aiter_bytes(self, iterator: AsyncIterator[bytes]) -> AsyncGenerator[ServerSentEvent]:
        intake = Intake(iterator)
        await intake.begin()
        come = seen = 0
        try:
            while block := await intake.take():
                texts = False
                come += len(block)
                step = max(SLICE, min(intake.gather(come // SHARE), MOST * come // max(seen, 1)))
                for number, piece in enumerate(_slices(block, step, _end_of_two(block) if not seen else 0)):
                    if number:
                        await asyncio.sleep(0)
                    found = self._events(piece)
                    seen += len(found)
                    events, has_text = joined(found)
                    texts = texts or has_text
                    for event in events:
                        if event.data.startswith("[DONE]"):
                            if self._last is not None and not self._finished:
                                yield _ended(self._last)
                            self._finished = True
                            pulling = self._pull(intake)
                            await asyncio.wait({pulling}, timeout=DRAIN_SECONDS)
                            if not pulling.done():
                                return  # the SDK would read to the end of the body now, beside us
                        yield event
                if texts:
                    intake.rest(WINDOW)
                self._pull(intake)
            for refusal in () if seen else _refusals(self._buffer):
                yield refusal
            if self._chat and not self._finished:
                raise httpx2.RemoteProtocolError("the stream ended before the answer did")
        finally:
            await self.stop()

    def _pull(self, intake: Intake) -> asyncio.Future[None]:
        """Read on, from the first piece on: that one waits for nothing."""
        if self._pulling is None:
            self._pulling = asyncio.ensure_future(intake.pull())
        return self._pulling

    async def stop(self) -> None:
        """Read no more. Safe to call at any time, and under cancellation."""
        if self._pulling is not None and not self._pulling.done():
            self._pulling.cancel()
            with anyio.CancelScope(shield=True):
                await asyncio.wait({self._pulling})

    def _events(self, block: bytes) -> list[ServerSentEvent]:
        """The events that this block completes."""
        block = self._held + block
        self._held = b""
        if b"\r" in block:
            if block.endswith(b"\r"):
                block, self._held = block[:-1], b"\r"
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        known = len(self._buffer)
        self._buffer += block
        end = self._buffer.rfind(b"\n\n", max(known - 1, 0))
        if end < 0:
            return []
        whole = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return [event for text in whole.split(b"\n\n") if text for event in self._event(text.lstrip(b"\n"))]

    def _event(self, text: bytes) -> list[ServerSentEvent]:
        try:
            return self._decoded(text)
        except UnicodeDecodeError as error:
            return [Unreadable(error)]

    def _decoded(self, text: bytes) -> list[ServerSentEvent]:
        name, data = None, text
        if text.startswith(b"event:"):
            line, _, data = text.partition(b"\n")
            name = line[6:].strip().decode()
        if not data.startswith(b"data:") or b"\n" in data:
            # Comments, several lines of data, ids: as the SDK reads them.
            lines = [*text.decode().split("\n"), ""]
            found = [event for line in lines if (event := self._odd.decode(line)) is not None]
            for event in found:
                self._note_odd(event)
            return found or _refusals(text)
        value = data[5:].removeprefix(b" ")
        try:
            parsed = orjson.loads(value)
        except orjson.JSONDecodeError:
            # [DONE], and what only the SDK's JSON accepts or refuses: lone surrogates, NaN, garbage.
            return [ServerSentEvent(event=name, data=value.decode())]
        if type(parsed) is dict:
            self._note(cast(Json, parsed))
        return [Parsed(name, parsed)]

    def _note_odd(self, event: ServerSentEvent) -> None:
        try:
            said: object = orjson.loads(event.data)
        except orjson.JSONDecodeError:
            return
        if isinstance(said, dict):
            self._note(cast(Json, said))

    def _note(self, event: Json) -> None:
        """Whether this is a chat, and whether its answer has ended."""
        choices = event.get("choices")
        if event.get("error"):
            self._finished = True
        if isinstance(choices, list):
            self._chat, self._last = True, event
            for choice in cast(list[Any], choices):
                if isinstance(choice, dict) and cast(Json, choice).get("finish_reason"):
                    self._finished = True


def _slices(block: bytes, size: int, first: int) -> Iterator[bytes]:
    """A block in pieces of a size, but for the first one, where its size is given."""
    if first:
        yield block[:first]
    for start in range(first, len(block), size):
        yield block[start : start + size]


def _end_of_two(block: bytes) -> int:
    """Where the second event in a block ends, if more comes behind it. The first says who speaks, as a rule, and the
    second has the first words, which wait for nothing that came with them."""
    end = block.find(b"\n\n", block.find(b"\n\n") + 2) + 2
    return end if 2 <= end < len(block) else 0


def _ended(last: Json) -> ServerSentEvent:
    """The end of a chat that its server has marked and given no reason for: without one it would seem to have broken
    off, and be asked for again."""
    return Parsed(None, {**last, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": None})


def _refusals(body: bytes | bytearray) -> list[ServerSentEvent]:
    """What is no stream but an error in JSON, under a status that says all is well: the SDK knows what to do with one
    inside a stream."""
    try:
        said: object = orjson.loads(body)
    except orjson.JSONDecodeError:
        return []
    refused = isinstance(said, dict) and bool(cast("Json", said).get("error"))
    return [ServerSentEvent(data=body.decode())] if refused else []


class Unreadable(ServerSentEvent):
    """An event that is not UTF-8: raised in its place, after the events before it."""

    def __init__(self, error: UnicodeDecodeError) -> None:
        super().__init__()
        self.error = error

    def json(self) -> Any:
        raise self.error


class Intake:
    """Takes what the network gives as it comes, and hands it on in one piece.

    In the quiet after a piece of text, bytes are left to the operating system, which gathers them for nothing: waking
    up is what a stream costs. While nobody takes, no more than `MAX_WAITING` is taken in: the provider feels that the
    client is slow.
    """

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._loop = asyncio.get_running_loop()
        self._got: list[bytes] = []
        self._size = 0
        self._over = False
        self._error: Exception | None = None
        self._quiet_until = 0.0
        self._wanted = 0
        self._held = False
        self._alone: asyncio.TimerHandle | None = None
        self._taker: asyncio.Future[None] | None = None
        self._room = asyncio.Event()

    async def begin(self) -> None:
        """Read the first piece where it is waited for: nothing is gathered yet, and most often it is here already."""
        try:
            self._add(await anext(self._chunks))
        except StopAsyncIteration:
            self._over = True
        except Exception as error:  # raised again in `take`
            self._error, self._over = error, True

    def _add(self, chunk: bytes) -> None:
        self._got.append(chunk)
        self._size += len(chunk)

    async def pull(self) -> None:
        """Read to the end. The error that ends it, if any, is for the one who takes."""
        try:
            async for chunk in self._chunks:
                self._add(chunk)
                rest = self._quiet_until - self._loop.time()
                if rest > 0 and not _is_end(chunk):
                    self._held = True
                    await asyncio.sleep(rest)
                    # What the system gathered comes with the next read. If it has nothing, this piece goes alone.
                    self._alone = self._loop.call_later(LAST_LOOK, self._offer)
                elif self._size < self._wanted and not _is_end(chunk):
                    self._held = True
                    self._alone = self._alone or self._loop.call_later(LAST_LOOK, self._offer)
                else:
                    self._offer()
                if self._size > MAX_WAITING:
                    self._room.clear()
                    await self._room.wait()
        except Exception as error:  # raised again in `take`
            self._error = error
        finally:
            self._over = True
            self._offer()

    async def take(self) -> bytes:
        """Everything that is here, waiting for it when there is nothing; empty at the end."""
        while not self._over and (not self._got or self._held):
            self._taker = self._loop.create_future()
            try:
                await self._taker
            finally:
                self._taker = None
        block = b"".join(self._got)
        self._got.clear()
        self._size = 0
        self._room.set()
        if not block and self._error is not None:
            raise self._error
        return block

    def rest(self, seconds: float) -> None:
        """Let what comes next gather for so long. A piece that comes later waits for nothing."""
        self._quiet_until = self._loop.time() + seconds

    def gather(self, size: int) -> int:
        """Hand on pieces of so many bytes from now on, as far as they are here. Gives what it is, within bounds."""
        self._wanted = min(size, MAX_WAITING // 2) if size > SLICE else 0
        return self._wanted

    def _offer(self) -> None:
        self._held = False
        if self._alone is not None:
            self._alone.cancel()
            self._alone = None
        if self._taker is not None and not self._taker.done():
            self._taker.set_result(None)


def _is_end(chunk: bytes) -> bool:
    return b"[DONE]" in chunk or b"response.completed" in chunk
