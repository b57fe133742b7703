"""Messages on their way to the loop: in order, from the reading thread and from the loop itself."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from pilotfish.lsp.framing import Broken, Feed, frame
from pilotfish.lsp.peer import Inbox, Message


class Heard:
    """What came out of an inbox."""

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.over = asyncio.Event()

    def receive(self, message: Message | None) -> None:
        if message is None:
            self.over.set()
        else:
            assert not isinstance(message, Broken)
            self.numbers.append(message["n"])


@contextmanager
def pipe() -> Generator[tuple[Feed, Any]]:
    source, sink = os.pipe()
    with os.fdopen(source, "rb"), os.fdopen(sink, "wb", buffering=0) as file:
        yield Feed(source, orjson.loads), file


def messages(first: int, last: int) -> bytes:
    return b"".join(frame(b'{"n":%d}' % number) for number in range(first, last))


async def test_what_the_thread_read_comes_before_what_the_loop_reads() -> None:
    heard = Heard()
    inbox = Inbox(heard.receive)
    with pipe() as (feed, file):
        file.write(messages(0, 100) + messages(100, 101)[:10])

        def thread() -> None:
            feed.read()
            for message in feed.ready():
                inbox.put(message)
            assert inbox.take_over(feed)

        reading = threading.Thread(target=thread)
        reading.start()
        file.write(messages(100, 101)[10:] + messages(101, 300))
        file.close()
        async with asyncio.timeout(30):
            await heard.over.wait()
        reading.join()
    assert heard.numbers == list(range(300))


async def test_nothing_is_read_while_the_loop_is_behind_and_all_of_it_later() -> None:
    heard = Heard()
    inbox = Inbox(heard.receive)
    count = 20_000
    with pipe() as (feed, file):
        writing = threading.Thread(target=lambda: (file.write(messages(0, count)), file.close()))
        writing.start()
        assert inbox.take_over(feed)
        most = 0
        async with asyncio.timeout(60):
            while not heard.over.is_set():
                most = max(most, len(inbox._waiting))
                await asyncio.sleep(0)
        writing.join()
    assert heard.numbers == list(range(count))
    assert Inbox.LIMIT < most < 10 * Inbox.LIMIT


async def test_a_file_is_left_to_the_thread(tmp_path: Path) -> None:
    (tmp_path / "input").write_bytes(messages(0, 1))
    with (tmp_path / "input").open("rb") as file:
        assert not Inbox(Heard().receive).take_over(Feed(file.fileno(), orjson.loads))
