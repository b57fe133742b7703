"""stdin and stdout: messages are read whatever the bytes, and writing never blocks."""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tries import tries

from pilotfish.lsp.connection import stdio
from pilotfish.lsp.connection.json_values import loads, without_lone_surrogates
from pilotfish.lsp.connection.stdio import HIGH, FrameReader, Outbox

A: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "a"}
B: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "b"}
EXIT = {"jsonrpc": "2.0", "method": "exit"}


def read(data: bytes, *, chunk: int = 1 << 20) -> list[Any]:
    """Every message in these bytes; a broken one as its code. The last is the `exit` that ends the input."""
    chunks = iter([data[start : start + chunk] for start in range(0, len(data), chunk)])
    reader, found = FrameReader(lambda: next(chunks, b"")), list[Any]()
    while not found or found[-1] != EXIT:
        header = reader.readline()
        assert reader.readline() == b"\r\n"
        text = reader.read()
        assert header == b"Content-Length: %d\r\n" % len(text)
        message = json.loads(text)
        found.append(message[0] if isinstance(message, list) else message)
    return found[:-1]


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


def body(message: Any) -> bytes:
    return json.dumps(message).encode()


def test_messages_come_in_order_however_the_bytes_are_cut():
    data = frame(body(A)) + frame(body(B))
    for chunk in (1, 2, 3, 7, 1000):
        assert read(data, chunk=chunk) == [A, B]


@pytest.mark.parametrize(
    "header",
    [
        b"content-length: %d\r\n\r\n",
        b"CONTENT-LENGTH:%d\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: %d\r\nContent-Type: x\r\n\r\n",
        b"Content-Length: %d\n\n",
        b"garbage\r\nContent-Length: %d\r\n\r\n",
        b"garbageContent-Length: %d\r\n\r\n",
        b"\r\n\r\n\r\nContent-Length: %d\r\n\r\n",
    ],
)
def test_a_header_is_read_however_it_is_written(header: bytes):
    assert read(header % len(body(A)) + body(A) + frame(body(B))) == [A, B]


def test_a_length_that_is_too_short_costs_one_message():
    assert read(b"Content-Length: 10\r\n\r\n" + body(A) + frame(body(B))) == [-32700, B]


def test_a_length_that_is_too_long_costs_one_message():
    whole = body(A)
    assert read(b"Content-Length: %d\r\n\r\n%b" % (len(whole) + 30, whole) + frame(body(B))) == [-32700, B]


def test_a_length_that_is_no_number_costs_one_message():
    for length in (b"x", b"-5", b"", b"1e3", b"9" * 400):
        assert read(b"Content-Length: %b\r\n\r\n%b" % (length, body(A)) + frame(body(B))) == [B]


def test_broken_json_is_reported_once_and_read_over():
    for broken in (b"{", b"nonsense", b"", b"\xff\xfe", b'{"a": NaN}', b"[" * 5000, b'{"a":1}{"b":2}'):
        assert read(frame(broken) + frame(body(B))) == [-32700, B]


def test_what_is_no_object_is_no_message():
    for text in (body([A, B]), b"[]", b'"text"', b"5", b"null", b"{}"):
        assert read(frame(text) + frame(body(B))) == [-32600, B]


def test_a_frame_larger_than_any_message_is_skipped_without_being_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stdio, "MAX_FRAME", 1000)
    assert read(frame(b"x" * 200_000) + frame(body(B)), chunk=999) == [-32600, B]


def test_garbage_without_a_line_end_does_not_grow():
    sizes: list[int] = []
    rest = iter([b"x" * 4096] * 200 + [b"\r\n" + frame(body(B))])

    def more() -> bytes:
        sizes.append(len(reader._buffer))
        return next(rest, b"")

    reader = FrameReader(more)
    reader.readline()
    assert json.loads(reader.read()) == B
    assert max(sizes) < 200_000


def test_half_surrogate_pairs_become_replacement_characters_of_the_same_length():
    text = rb'{"a": ["x\ud83d", "\uDE00", "\ud83d\ude00", "\\ud83d", "\ud55c"]}'
    assert loads(text) == {"a": ["x\ufffd", "\ufffd", "\U0001f600", "\\ud83d", "\ud55c"]}
    assert len(without_lone_surrogates(text)) == len(text)


def test_numbers_that_python_cannot_read_end_nothing():
    (found,) = read(frame(b'{"a":' + b"1" * 5000 + b"}"))
    assert found == -32700 or isinstance(found["a"], float)


pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [b"Content-Length: ", b"content-length:3", b"\r\n", b"\r\n\r\n", b"{", b"}", b"5\r\n\r\n", b"null"]
    ),
)


@settings(deadline=None, max_examples=tries(60))
@given(st.lists(pieces, max_size=12), st.integers(1, 50))
def test_after_any_garbage_the_next_messages_are_read(garbage: list[bytes], chunk: int):
    # A length in the garbage may swallow what follows, so several messages are sent; none of them may be mangled.
    messages = [{"jsonrpc": "2.0", "id": number, "method": "m" * 20} for number in range(6)]
    found = read(b"".join(garbage) + b"\r\n" + b"".join(frame(body(message)) for message in messages), chunk=chunk)
    good = [message for message in found if message in messages]
    assert len(good) >= 4
    assert good == messages[-len(good) :]


# ---- the writer -----------------------------------------------------------------------------------------------------


def unframe(data: bytes) -> list[bytes]:
    found: list[bytes] = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        length = int(head.removeprefix(b"Content-Length: "))
        found.append(rest[:length])
        data = rest[length:]
    return found


def send(outbox: Outbox, body: bytes) -> None:
    outbox.write(frame(body))


async def drain(source: int) -> bytes:
    """Everything until the other side closes."""

    def read() -> bytes:
        found: list[bytes] = []
        while data := os.read(source, 65536):
            found.append(data)
        return b"".join(found)

    return await asyncio.to_thread(read)


async def test_frames_leave_whole_and_in_order():
    source, sink = os.pipe()
    outbox = Outbox(sink, lambda: None)
    bodies = [b"%d" % number * (number % 700 + 1) for number in range(3000)]
    reading = asyncio.create_task(drain(source))
    for body in bodies:
        send(outbox, body)
    await outbox.flushed()
    os.close(sink)
    assert unframe(await reading) == bodies
    os.close(source)


async def test_a_client_that_does_not_read_blocks_nobody_and_is_known_to_be_behind():
    source, sink = os.pipe()
    outbox = Outbox(sink, lambda: None)
    bodies = [b"x" * 1000 for _ in range(2 * HIGH // 1000)]
    for body in bodies:
        send(outbox, body)
    assert not outbox.keeps_up
    waiting = asyncio.create_task(outbox.room())
    await asyncio.sleep(0.05)
    assert not waiting.done()
    reading = asyncio.create_task(drain(source))
    await asyncio.wait_for(waiting, 30)
    assert outbox.keeps_up
    await outbox.flushed()
    os.close(sink)
    assert unframe(await reading) == bodies
    os.close(source)


async def test_a_client_that_is_gone_is_told_once_and_frees_everyone():
    source, sink = os.pipe()
    gone, loop = asyncio.Event(), asyncio.get_running_loop()
    count: list[int] = []
    outbox = Outbox(sink, lambda: (count.append(1), loop.call_soon_threadsafe(gone.set)))
    for _ in range(2 * HIGH // 1000):
        send(outbox, b"x" * 1000)
    os.close(source)
    send(outbox, b"y")
    await asyncio.wait_for(gone.wait(), 5)
    await asyncio.wait_for(outbox.room(), 5)
    await asyncio.wait_for(outbox.flushed(), 5)
    send(outbox, b"z")
    await asyncio.sleep(0.01)
    assert count == [1]
    os.close(sink)


async def test_more_than_anyone_will_read_is_a_client_that_is_gone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(stdio, "FATAL", 1_000_000)
    source, sink = os.pipe()
    gone, loop = asyncio.Event(), asyncio.get_running_loop()
    outbox = Outbox(sink, lambda: loop.call_soon_threadsafe(gone.set))
    for _ in range(1200):
        send(outbox, b"x" * 1000)
    await asyncio.wait_for(gone.wait(), 5)
    os.close(source)
    await asyncio.sleep(0.05)
    os.close(sink)


async def test_a_large_frame_is_written_piece_by_piece():
    source, sink = os.pipe()
    outbox = Outbox(sink, lambda: None)
    body = os.urandom(3_000_000)
    reading = asyncio.create_task(drain(source))
    send(outbox, body)
    send(outbox, b"after")
    await asyncio.wait_for(outbox.flushed(), 10)
    os.close(sink)
    assert unframe(await reading) == [body, b"after"]
    os.close(source)
