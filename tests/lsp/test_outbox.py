"""The bounded writer: never blocks, keeps order, tells when the client is behind or gone."""

from __future__ import annotations

import asyncio
import os
import tempfile
import threading
from collections.abc import Callable

import pytest

from pilotfish.lsp import outbox as module
from pilotfish.lsp.outbox import HIGH, Outbox

Open = Callable[[], tuple[int, int]]


def _never(_: int) -> bool:
    return False


def pipe() -> tuple[int, int]:
    return os.pipe()


@pytest.fixture(params=["direct", "threaded"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to write; a pipe is written directly unless it is made to look like anything else."""
    if request.param == "threaded":
        monkeypatch.setattr(module, "_is_our_own", _never)
    return request.param


def unframe(data: bytes) -> list[bytes]:
    found: list[bytes] = []
    while data:
        head, _, rest = data.partition(b"\r\n\r\n")
        length = int(head.removeprefix(b"Content-Length: "))
        found.append(rest[:length])
        data = rest[length:]
    return found


async def drain(source: int) -> bytes:
    """Everything until the other side closes."""

    def read() -> bytes:
        found: list[bytes] = []
        while data := os.read(source, 65536):
            found.append(data)
        return b"".join(found)

    return await asyncio.to_thread(read)


async def test_frames_leave_whole_and_in_order(kind: str):
    source, sink = pipe()
    outbox = Outbox(sink, on_gone=lambda: None)
    bodies = [b"%d" % number * (number % 700 + 1) for number in range(3000)]
    reading = asyncio.create_task(drain(source))
    for body in bodies:
        outbox.send(body)
    await outbox.flushed()
    os.close(sink)
    assert unframe(await reading) == bodies
    os.close(source)


async def test_a_lone_frame_is_written_before_anything_else_runs():
    source, sink = pipe()
    os.set_blocking(source, False)
    outbox = Outbox(sink, on_gone=lambda: None)
    for number in range(3):
        outbox.send(b"%d" % number)
        assert unframe(os.read(source, 65536)) == [b"%d" % number]
        await outbox.flushed()
    os.close(source)
    os.close(sink)


async def test_what_follows_in_the_same_turn_of_the_loop_is_written_together(monkeypatch: pytest.MonkeyPatch):
    source, sink = pipe()
    outbox = Outbox(sink, on_gone=lambda: None)
    writes = list[int]()
    write = os.write

    def counted(descriptor: int, data: bytes) -> int:
        if descriptor == sink:
            writes.append(len(unframe(data)))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", counted)
    for number in range(100):
        outbox.send(b"%d" % number)
    await outbox.flushed()
    assert writes == [1, 99]
    os.close(source)
    os.close(sink)


async def test_a_client_that_does_not_read_blocks_nobody_and_is_known_to_be_behind(kind: str):
    source, sink = pipe()
    outbox = Outbox(sink, on_gone=lambda: None)
    bodies = [b"x" * 1000 for _ in range(2 * HIGH // 1000)]
    for body in bodies:
        outbox.send(body)
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


async def test_a_client_that_is_gone_is_told_once_and_frees_everyone(kind: str):
    source, sink = pipe()
    gone = asyncio.Event()
    count: list[int] = []
    outbox = Outbox(sink, on_gone=lambda: (count.append(1), gone.set())[0])
    for _ in range(2 * HIGH // 1000):
        outbox.send(b"x" * 1000)
    os.close(source)
    outbox.send(b"y")
    await asyncio.wait_for(gone.wait(), 5)
    await asyncio.wait_for(outbox.room(), 5)
    await asyncio.wait_for(outbox.flushed(), 5)
    outbox.send(b"z")
    await asyncio.sleep(0.01)
    assert count == [1]
    os.close(sink)


async def test_more_than_anyone_will_read_is_a_client_that_is_gone(kind: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "FATAL", 1_000_000)
    source, sink = pipe()
    gone = asyncio.Event()
    outbox = Outbox(sink, on_gone=gone.set)
    for _ in range(1200):
        outbox.send(b"x" * 1000)
    await asyncio.wait_for(gone.wait(), 5)
    os.close(source)
    await asyncio.sleep(0.05)
    os.close(sink)


async def test_a_large_frame_is_written_piece_by_piece(kind: str):
    source, sink = pipe()
    outbox = Outbox(sink, on_gone=lambda: None)
    body = os.urandom(3_000_000)
    reading = asyncio.create_task(drain(source))
    outbox.send(body)
    outbox.send(b"after")
    await asyncio.wait_for(outbox.flushed(), 10)
    os.close(sink)
    assert unframe(await reading) == [body, b"after"]
    os.close(source)


async def test_only_a_pipe_or_socket_of_our_own_is_made_non_blocking():
    source, sink = pipe()
    assert module._is_our_own(sink)
    with tempfile.TemporaryFile() as file:
        assert not module._is_our_own(file.fileno())
    saved = os.dup(2)
    try:
        os.dup2(sink, 2)
        assert not module._is_our_own(sink)
    finally:
        os.dup2(saved, 2)
        for descriptor in (saved, source, sink):
            os.close(descriptor)
    assert threading.active_count() >= 1


async def test_an_answer_leaves_at_once_behind_what_was_sent_before():
    source, sink = pipe()
    outbox = Outbox(sink, on_gone=lambda: None)
    outbox.send(b"an update")
    outbox.send_now(b"the answer")
    os.set_blocking(source, False)
    assert unframe(os.read(source, 65536)) == [b"an update", b"the answer"]
    await outbox.flushed()
    os.close(source)
    os.close(sink)
