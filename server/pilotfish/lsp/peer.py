"""One JSON-RPC connection: every request that comes is answered exactly once (law 7), whatever is wrong with it.

Hides: ids, cancellation, error codes, the order of things. Promises: requests start and notifications are handled in
the order they came; nothing a handler raises ends the connection or shows a traceback; a request of ours that is given
up is taken back with `$/cancelRequest`, and its late answer is ignored.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import stat
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson
from pydantic import BaseModel

from pilotfish.errors import (
    BadRequest,
    NotTrusted,
    PilotfishError,
    RequestError,
    SessionBusy,
    StorageError,
    TurnError,
    UnknownCall,
    UnknownSession,
)
from pilotfish.lsp.framing import Broken, Feed, as_object, finite, scrub
from pilotfish.lsp.outbox import Outbox
from pilotfish.protocol.wire import ERROR_CODES

log = logging.getLogger(__name__)

Message = dict[str, Any] | Broken


class Call:
    """A request being served."""

    __slots__ = ("cancelled", "key", "method", "params", "started", "task")

    def __init__(self, key: int | str, method: str, params: Any) -> None:
        self.key = key
        self.method = method
        self.params = params
        self.cancelled = asyncio.Event()
        """set by `$/cancelRequest`"""
        self.started = False
        self.task: asyncio.Task[None] | None = None


Serve = Callable[[Call], Awaitable[Any]]
Hear = Callable[[Any], None]


class ClientError(Exception):
    """The client answered a request of ours with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Peer:
    """The connection. `requests` and `notifications` are the tables of what is served; `graceful` are requests that
    end by themselves when cancelled, and answer all the same."""

    def __init__(
        self,
        outbox: Outbox,
        requests: Mapping[str, Serve],
        notifications: Mapping[str, Hear],
        graceful: frozenset[str] = frozenset(),
    ) -> None:
        self.outbox = outbox
        self.stopping = False
        """after `shutdown`: no request is served any more"""
        self._requests = requests
        self._notifications = notifications
        self._graceful = graceful
        self._serving: dict[int | str, Call] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._ids = itertools.count(1)

    # -- what we say ----------------------------------------------------------------------------------------------

    def notify(self, method: str, params: Any) -> None:
        """Tell the client something."""
        self.outbox.send(b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method.encode(), encode(params)))

    async def request(self, method: str, params: Any, timeout: float | None = None) -> Any:
        """Ask the client something: JSON values back.

        Raises ClientError for an error, TimeoutError when the time is over; both that and being cancelled tell the
        client that the answer is not needed any more.
        """
        key = next(self._ids)
        answer = self._asked[key] = asyncio.get_running_loop().create_future()
        self.outbox.send(
            b'{"jsonrpc":"2.0","id":%d,"method":"%b","params":%b}' % (key, method.encode(), encode(params))
        )
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except (asyncio.CancelledError, TimeoutError):
            self.notify("$/cancelRequest", {"id": key})
            raise
        finally:
            del self._asked[key]

    # -- what we hear ---------------------------------------------------------------------------------------------

    def receive(self, message: Message) -> None:
        """Take a message up; never raises, never waits."""
        if isinstance(message, Broken):
            self._fail(None, message.code, message.words)
            return
        method, key = message.get("method"), message.get("id")
        is_key = type(key) is int or type(key) is str
        if message.get("jsonrpc") != "2.0" or (method is not None and not isinstance(method, str)):
            self._fail(key if is_key else None, ERROR_CODES["invalid_request"], "this is no JSON-RPC 2.0 message")
        elif method is None:
            self._answered(key, message)
        elif "id" not in message:
            self._hear(method, message.get("params"))
        elif not is_key:
            self._fail(None, ERROR_CODES["invalid_request"], "an id is a number or a string")
        elif isinstance(key, int | str):
            self._start(key, method, message.get("params"))

    def cancel_all(self) -> None:
        """Cancel every request being served, apart from the one that asks; each is still answered."""
        asking = asyncio.current_task()
        for call in list(self._serving.values()):
            if call.task is not asking:
                self._cancel(call)

    async def idle(self) -> None:
        """Returns when every request has been answered, apart from the one that asks."""
        asking = asyncio.current_task()
        tasks = [call.task for call in self._serving.values() if call.task and call.task is not asking]
        if tasks:
            await asyncio.wait(tasks)

    def _start(self, key: int | str, method: str, params: Any) -> None:
        serve = self._requests.get(method)
        if self.stopping:
            self._fail(key, ERROR_CODES["invalid_request"], "the server is shutting down")
        elif serve is None:
            self._fail(key, ERROR_CODES["method_not_found"], f"there is no method {method[:200]}")
        elif key in self._serving:
            self._fail(key, ERROR_CODES["invalid_request"], "a request with this id is still being served")
        else:
            call = self._serving[key] = Call(key, method, params)
            call.task = asyncio.get_running_loop().create_task(self._serve(call, serve), name=method)

    async def _serve(self, call: Call, serve: Serve) -> None:
        call.started = True
        try:
            if call.cancelled.is_set() and call.method not in self._graceful:
                raise asyncio.CancelledError
            body = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(call.key), encode(await serve(call)))
        except asyncio.CancelledError:
            body = _error(call.key, ERROR_CODES["cancelled"], "the request was cancelled")
        except PilotfishError as error:
            code, data = code_of(error)
            body = _error(call.key, code, str(error), data)
        except Exception:
            log.exception("%s failed", call.method)
            body = _error(call.key, ERROR_CODES["internal"], f"{call.method} failed; the log says more")
        del self._serving[call.key]
        self.outbox.send_now(body)

    def _hear(self, method: str, params: Any) -> None:
        if method == "$/cancelRequest":
            key = (as_object(params) or {}).get("id")
            call = self._serving.get(key) if isinstance(key, int | str) else None
            if call is not None:
                self._cancel(call)
            return
        hear = self._notifications.get(method)
        if hear is None:
            return
        try:
            hear(params)
        except PilotfishError as error:
            log.warning("%s was ignored: %s", method, error)
        except Exception:
            log.exception("%s failed", method)

    def _cancel(self, call: Call) -> None:
        call.cancelled.set()
        # A task cancelled before its first step would end without a word, and the request without an answer.
        if call.started and call.method not in self._graceful and call.task is not None:
            call.task.cancel()

    def _answered(self, key: Any, message: dict[str, Any]) -> None:
        answer = self._asked.get(key) if type(key) is int else None
        if answer is None:
            if "result" not in message and "error" not in message:
                self._fail(None, ERROR_CODES["invalid_request"], "this is no JSON-RPC 2.0 message")
            return  # late: nobody waits for it any more
        if answer.done():
            return
        error = as_object(message.get("error"))
        if error is None:
            answer.set_result(message.get("result"))
        else:
            code = error.get("code")
            answer.set_exception(ClientError(code if isinstance(code, int) else 0, str(error.get("message"))))

    def _fail(self, key: int | str | None, code: int, words: str) -> None:
        self.outbox.send(_error(key, code, words))


class Inbox:
    """Messages on their way to the loop: from the thread that reads at first, then from the loop itself where stdin is
    a pipe or a socket: one thread less to wake for every message. While the loop is behind, nobody reads."""

    LIMIT = 1000

    def __init__(self, receive: Callable[[Message | None], None]) -> None:
        self._receive = receive
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Message | None] = deque()
        self._scheduled = False
        self._lock = threading.Lock()
        self._room = threading.Semaphore(self.LIMIT)
        self._feed: Feed | None = None
        self._reads = False

    def put(self, message: Message | None) -> None:
        """Called by the reading thread; None is the end."""
        self._room.acquire()
        with self._lock:
            self._waiting.append(message)
            if self._scheduled:
                return
            self._scheduled = True
        self._on_loop(self._drain)

    def take_over(self, feed: Feed) -> bool:
        """Called by the reading thread: whether the loop reads from now on."""
        if os.name != "posix":
            return False
        mode = os.fstat(feed.descriptor).st_mode
        if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
            return False
        self._on_loop(lambda: self._read_from(feed))
        return True

    def _on_loop(self, work: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(work)
        except RuntimeError:  # the loop is closed: the process is ending
            return

    def _read_from(self, feed: Feed) -> None:
        self._feed = feed
        self._read_on()

    def _read_on(self) -> None:
        """Read while the loop is not behind."""
        if self._feed is None or self._reads is (len(self._waiting) < self.LIMIT):
            return
        self._reads = not self._reads
        if self._reads:
            self._loop.add_reader(self._feed.descriptor, self._readable)
        else:
            self._loop.remove_reader(self._feed.descriptor)

    def _readable(self) -> None:
        if self._feed is None:
            return
        if self._feed.read():
            self._waiting.extend(self._feed.ready())
        else:
            self._loop.remove_reader(self._feed.descriptor)
            self._feed = None
            self._waiting.append(None)
        if not self._scheduled:
            self._scheduled = True
            self._drain()
        self._read_on()

    def _drain(self) -> None:
        # Only some at once: what has been taken up gets its turn on the loop while a flood comes in.
        for _ in range(8):
            with self._lock:
                if not self._waiting:
                    self._scheduled = False
                    break
                message = self._waiting.popleft()
            self._room.release()
            self._receive(message)
        else:
            self._loop.call_soon(self._drain)
        self._read_on()


def encode(payload: Any) -> bytes:
    """A payload as JSON. What cannot be said in UTF-8 is said with U+FFFD."""
    try:
        if isinstance(payload, BaseModel):
            return payload.__pydantic_serializer__.to_json(payload, by_alias=True, exclude_none=True)
        return orjson.dumps(payload)
    except (ValueError, TypeError):
        if isinstance(payload, BaseModel):
            payload = payload.model_dump(by_alias=True, exclude_none=True)
        return orjson.dumps(scrub(payload))


def loads(body: bytes) -> Any:
    """JSON, fast; what orjson is too strict for (half surrogate pairs) is mended."""
    try:
        return orjson.loads(body)
    except ValueError:
        if b"\\u" not in body:
            raise
        import json

        return scrub(json.loads(body, parse_float=finite, parse_constant=_no_constant))


def code_of(error: PilotfishError) -> tuple[int, dict[str, Any] | None]:
    """The JSON-RPC code of an error, and what the client may use of it."""
    match error:
        case BadRequest():
            return ERROR_CODES["invalid_params"], {"field": error.field}
        case UnknownSession():
            return ERROR_CODES["unknown_session"], None
        case SessionBusy():
            return ERROR_CODES["session_busy"], None
        case NotTrusted():
            return ERROR_CODES["not_trusted"], None
        case UnknownCall():
            return ERROR_CODES["unknown_call"], None
        case RequestError():
            return ERROR_CODES["invalid_request"], None
        case StorageError():
            return ERROR_CODES["storage"], {"remedy": error.remedy}
        case TurnError():
            return ERROR_CODES["internal"], {"remedy": error.remedy}
        case _:
            return ERROR_CODES["internal"], None


def _error(key: int | str | None, code: int, words: str, data: dict[str, Any] | None = None) -> bytes:
    error: dict[str, Any] = {"code": code, "message": words}
    if data is not None:
        error["data"] = data
    return encode({"jsonrpc": "2.0", "id": key, "error": error})


def _no_constant(name: str) -> float:
    raise ValueError(name)
