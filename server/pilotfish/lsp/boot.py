"""The first milliseconds: `initialize` is answered with nothing imported, and the server loads behind the answer.

One thread reads stdin. Until the server is up it answers what can be answered at once (law 7, `pilotfish/status`,
`shutdown`, `exit`) and keeps every other message in order; then it hands them over, and stdin with them where the
server can read it on its event loop.
stdout is the protocol's alone: descriptor 1 is pointed at stderr, so that a stray print breaks nothing.
"""

from __future__ import annotations

import os
import sys
import time
from _thread import allocate_lock, start_new_thread

from pilotfish.lsp.capabilities_gen import ENCODINGS, VERSION, answer
from pilotfish.lsp.framing import Broken, Feed, as_object, finite, frame, scrub

TYPE_CHECKING = False  # `typing` costs 4 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Deliver = Callable[[dict[str, Any] | Broken | None], None]
    TakeOver = Callable[[Feed], bool]

STARTED = time.monotonic()
_SERVER_IS_DOWN = "the server is shutting down"


def main() -> int:
    """Serve on stdin and stdout until the client is done; the process's exit code."""
    source, sink = _own_stdio()
    if os.isatty(source):
        sys.stderr.write("pilotfish serve waits for an editor to speak to it. To talk to it yourself: pilotfish chat\n")
    try:
        return Boot(Feed(source, quick_loads), sink).run()
    except KeyboardInterrupt:  # before the server is up; then it is a signal like others
        return 130


class Boot:
    """The connection until the server is up, and the hand-over."""

    def __init__(self, feed: Feed, sink: int) -> None:
        self.feed = feed
        self.sink = sink
        self.hello: dict[str, Any] = {}
        """the params of `initialize`"""
        self.encoding = "utf-16"
        self.asked_to_stop = False
        self._lock = allocate_lock()
        self._kept: list[dict[str, Any] | Broken] = []
        self._deliver: Deliver | None = None
        self._take_over: TakeOver = lambda _: False

    def run(self) -> int:
        for message in self.feed.messages():
            if self._greet(message):
                break
            if not isinstance(message, Broken) and message.get("method") == "exit":
                return 1
        else:
            return 1
        start_new_thread(self._pump, ())
        import gc

        gc.disable()  # thousands of objects are made and none freed while modules load
        from pilotfish import compiled

        compiled.install()
        from pilotfish.lsp.server import serve

        gc.enable()
        return serve(self)

    def hand_over(self, deliver: Deliver, take_over: TakeOver) -> list[dict[str, Any] | Broken]:
        """From now on the server gets every message; None is the end of the input. Back come those kept so far.
        `take_over` is called when all that has been read is delivered: True, and the server reads from there on."""
        with self._lock:
            self._deliver, self._take_over = deliver, take_over
            kept, self._kept = self._kept, []
            return kept

    def _greet(self, message: dict[str, Any] | Broken) -> bool:
        """Answer what comes before `initialize`, and `initialize`; True when that was it."""
        if isinstance(message, Broken):
            self._fail(None, message.code, message.words)
            return False
        if "id" not in message or "method" not in message:
            return False
        key, params = message["id"], as_object(message.get("params"))
        if type(key) is not int and type(key) is not str:
            self._fail(None, -32600, "an id is a number or a string")
        elif message.get("jsonrpc") != "2.0":
            self._fail(key, -32600, "this is no JSON-RPC 2.0 message")
        elif message["method"] != "initialize":
            self._fail(key, -32002, "the server is not initialized yet: `initialize` comes first")
        elif params is None or as_object(params.get("capabilities")) is None:
            field = "params" if params is None else "params.capabilities"
            self._fail(key, -32602, f"{field}: an object is needed", b'{"field":"%b"}' % field.encode())
        else:
            self.hello = params
            self.encoding = choose_encoding(params)
            result = answer(self.encoding, "plain" if hello_of(params) is None else "ours")
            self._write(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_id(key), result))
            return True
        return False

    def _pump(self) -> None:
        while True:
            for message in self.feed.ready():
                with self._lock:
                    if self._deliver is not None:
                        self._deliver(message)
                    elif not self._answer_at_once(message):
                        self._kept.append(message)
            if self._take_over(self.feed):
                return
            if not self.feed.read():
                break
        with self._lock:
            if self._deliver is not None:
                self._deliver(None)
            else:
                os._exit(0 if self.asked_to_stop else 1)

    def _answer_at_once(self, message: dict[str, Any] | Broken) -> bool:
        if isinstance(message, Broken):
            self._fail(None, message.code, message.words)
            return True
        method, key = message.get("method"), message.get("id")
        if message.get("jsonrpc") != "2.0":
            return False
        if type(key) is not int and type(key) is not str:
            if method == "exit":
                os._exit(0 if self.asked_to_stop else 1)
            return False
        if method == "shutdown" and not self.asked_to_stop:
            self.asked_to_stop = True
            # What was asked before and kept will not be done any more, but is answered.
            for kept in self._kept:
                if not isinstance(kept, Broken) and type(kept.get("id")) in (int, str) and "method" in kept:
                    self._fail(kept["id"], -32800, _SERVER_IS_DOWN)
            self._kept.clear()
            self._write(b'{"jsonrpc":"2.0","id":%b,"result":null}' % _id(key))
            return True
        if self.asked_to_stop and method is not None:
            self._fail(key, -32600, _SERVER_IS_DOWN)
            return True
        if method == "pilotfish/status" and message.get("params") in (None, {}):
            trusted = (hello_of(self.hello) or {}).get("trusted") is True
            self._write(b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_id(key), _loading(trusted=trusted)))
            return True
        return False

    def _fail(self, key: int | str | None, code: int, words: str, data: bytes = b"") -> None:
        extra = b',"data":%b' % data if data else b""
        error = b'{"code":%d,"message":%b%b}' % (code, _text(words), extra)
        self._write(b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_id(key), error))

    def _write(self, body: bytes) -> None:
        data = frame(body)
        try:
            while data:
                data = data[os.write(self.sink, data) :]
        except OSError:
            os._exit(1)  # nobody reads: there is nothing to serve


def choose_encoding(params: dict[str, Any]) -> str:
    """The client's favourite position encoding of those we know."""
    general = as_object(params["capabilities"].get("general")) or {}
    try:
        return next(offered for offered in general.get("positionEncodings", ()) if offered in ENCODINGS)
    except (TypeError, StopIteration):
        return "utf-16"


def hello_of(params: dict[str, Any]) -> dict[str, Any] | None:
    """`initializationOptions.pilotfish`, or None for a plain client."""
    options = as_object(params.get("initializationOptions")) or {}
    return as_object(options.get("pilotfish"))


def memory_bytes() -> int:
    """Memory this process holds, where the system says so."""
    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123 (pathlib costs 4 ms here)
            return int(file.read().split()[1]) * 4096
    except (OSError, IndexError, ValueError):
        return 0


def _loading(*, trusted: bool) -> bytes:
    return (
        b'{"version":"%b","state":"loading","uptimeMs":%d,"memoryBytes":%d,"model":null,"mode":null,"trusted":%b,'
        b'"store":null,"mcpServers":[],"sandbox":null,"runningTurns":0,"pendingApprovals":0,"problems":[]}'
        % (
            VERSION.encode(),
            (time.monotonic() - STARTED) * 1000,
            memory_bytes(),
            b"true" if trusted else b"false",
        )
    )


def _own_stdio() -> tuple[int, int]:
    """Keep stdin and stdout for the protocol; children and stray prints get neither."""
    try:
        source, sink = os.dup(0), os.dup(1)
    except OSError:
        sys.exit("pilotfish serve speaks with an editor over its input and output, and one of them is closed.")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, sink


try:
    from _json import encode_basestring_ascii, make_scanner

    class _Strict:
        strict = True
        object_hook = object_pairs_hook = None
        parse_float = finite
        parse_int = int

        @staticmethod
        def parse_constant(name: str) -> float:
            raise ValueError(name)

    _rules: Any = _Strict
    _scan: Any = make_scanner(_rules)

    def quick_loads(body: bytes) -> Any:
        """JSON without importing `json`, whose `re` costs 9 ms. The C scanner is private, so optional."""
        text = body.decode().strip(" \t\r\n")
        try:
            value, end = _scan(text, 0)
        except (StopIteration, SystemError):  # the scanner misses `json`, which knows the words for what is wrong
            raise ValueError("no JSON") from None
        if end != len(text):
            raise ValueError("more than one value")
        return scrub(value) if b"\\u" in body else value

    def _text(text: str) -> bytes:
        return encode_basestring_ascii(text).encode()

except ImportError:  # another Python than CPython
    from json import dumps, loads

    def quick_loads(body: bytes) -> Any:
        return scrub(loads(body, parse_float=finite))

    def _text(text: str) -> bytes:
        return dumps(text).encode()


def _id(key: int | str | None) -> bytes:
    if key is None:
        return b"null"
    return b"%d" % key if type(key) is int else _text(str(key))


if __name__ == "__main__":
    sys.exit(main())
