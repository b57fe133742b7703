"""An HTTP transport that answers requests of OpenAI's Chat API with llama.cpp in this process.

The library's own model class for this API can therefore be used unchanged: messages, tool calls, streaming and usage
are read as from any other server. Everything native runs in threads, which release the interpreter's lock, so the event
loop is never blocked. A request that nobody reads any more is stopped at the next token or, while the prompt is read,
at the next `PROMPT_BATCH` tokens.

llama.cpp insists on listening somewhere. It gets a Unix socket in a private folder where there are such sockets, and
otherwise a port of the loopback interface with a random key.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import secrets
import socket
import tempfile
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import orjson

from pilotfish.engine.model.local.weights import PACKAGE

PROMPT_BATCH = 64  # tokens of a prompt that are read at once: less than a second on a slow machine
MAX_THREADS = 8
MAX_ANSWER = 4_096  # tokens, for requests that set no limit: a small model can repeat itself forever
READING = b": the model reads the prompt\n\n"  # a comment in the event stream, which shows that it is alive

Message = dict[str, Any]


class LlamaTransport(httpx2.AsyncBaseTransport):
    """Answers with the model of one file, which is loaded at the first request."""

    def __init__(self, path: Path, window: int) -> None:
        self._path = path
        self._window = window
        self._server: Any = None
        self._loading = threading.Lock()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        body: Message = orjson.loads(await request.aread())
        try:
            await asyncio.to_thread(self._load)
        except RuntimeError as error:
            return _refusal(400, f"llama.cpp cannot load {self._path.name}: {error}")
        body = {"max_tokens": MAX_ANSWER, **body}
        generation = Generation(self._server, body)
        first = await generation.next()
        if first is None or "error" in first:
            failure: Message = (first or {}).get("error", {})
            return _refusal(int(failure.get("code", 500)), str(failure.get("message", "llama.cpp gave no answer")))
        if not body.get("stream"):
            return httpx2.Response(200, json=first)
        return httpx2.Response(200, headers={"content-type": "text/event-stream"}, stream=_Events(first, generation))

    async def aclose(self) -> None:
        self._server = None
        if self._folder is not None:
            self._folder.cleanup()

    def _load(self) -> None:
        """Load the model, in a thread. A few seconds, and about twice the size of the file in memory."""
        with self._loading:
            if self._server is not None:
                return
            library: Any = importlib.import_module(PACKAGE)
            wanted = library.CommonParams()
            wanted.model.path = str(self._path)
            wanted.n_ctx, wanted.n_parallel = self._window, 1
            wanted.n_batch = wanted.n_ubatch = PROMPT_BATCH
            for threads in (wanted.cpuparams, wanted.cpuparams_batch):
                threads.n_threads = min(os.cpu_count() or 1, MAX_THREADS)
                threads.poll = 0  # waiting threads sleep: other programs need the processor too
            wanted.use_jinja = True  # the model's own template, which has its form of tool calls
            wanted.ui, wanted.offline, wanted.endpoint_slots, wanted.verbosity = False, True, False, -1
            wanted.port, wanted.api_keys = 0, [secrets.token_hex(16)]
            wanted.hostnames = [self._socket()]
            self._server = library.Server(wanted)

    def _socket(self) -> str:
        if not hasattr(socket, "AF_UNIX") or os.name == "nt":
            return "127.0.0.1"
        self._folder = tempfile.TemporaryDirectory(prefix="pilotfish-llama-")  # mode 0700
        return str(Path(self._folder.name) / "llama.sock")


class Generation:
    """One request, in a thread of its own. Its messages arrive in a queue; None is the end."""

    def __init__(self, server: Any, body: Message) -> None:
        self._loop = asyncio.get_running_loop()
        self._messages: asyncio.Queue[Message | None] = asyncio.Queue()
        self._stopped = threading.Event()
        self._server = server
        wanted = {**body, "return_progress": True} if body.get("stream") else body
        # A daemon: the process may end while the model still reads a batch of the prompt.
        threading.Thread(target=self._run, args=(wanted,), name="llama.cpp", daemon=True).start()

    async def next(self) -> Message | None:
        try:
            return await self._messages.get()
        except asyncio.CancelledError:
            self.stop()
            raise

    def stop(self) -> None:
        self._stopped.set()

    def _run(self, body: Message) -> None:
        try:
            self._server.handle_chat_completions(body, self._received)
        except Exception as error:  # what the library raises has no type of its own
            self._put({"error": {"code": 500, "message": str(error)}})
        self._put(None)

    def _received(self, message: Message) -> bool:
        """Called in the thread for each message. Returns whether to stop."""
        self._put(message)
        return self._stopped.is_set()

    def _put(self, message: Message | None) -> None:
        if not self._stopped.is_set() and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._messages.put_nowait, message)


class _Events(httpx2.AsyncByteStream):
    """The messages of a request as server-sent events."""

    def __init__(self, first: Message, generation: Generation) -> None:
        self._first = first
        self._generation = generation

    async def __aiter__(self) -> AsyncIterator[bytes]:
        message: Message | None = self._first
        while message is not None:
            yield READING if "prompt_progress" in message else b"data: %b\n\n" % orjson.dumps(message)
            message = await self._generation.next()
        yield b"data: [DONE]\n\n"

    async def aclose(self) -> None:
        self._generation.stop()


def _refusal(status: int, message: str) -> httpx2.Response:
    return httpx2.Response(status, json={"error": {"message": message, "code": status}})
