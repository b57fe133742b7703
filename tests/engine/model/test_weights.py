"""Weights are downloaded from a hub: with progress, continued after a break, and never used with a wrong checksum."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pilotfish.engine.model.local import weights
from pilotfish.engine.model.local.weights import KNOWN, Weights, download
from pilotfish.errors import BadRequest, StorageError

CONTENT = bytes(range(256)) * 40_000
FILE = replace(KNOWN[0], size=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())


@dataclass
class Hub:
    """A hub on loopback. It redirects to its storage, as the real one does."""

    content: bytes = CONTENT
    breaks_after: list[int] = field(default_factory=list[int])
    """how many bytes the next answers send before they break off"""
    continues: bool = True
    status: int = 200
    ranges: list[int] = field(default_factory=list[int])
    """the first byte of each request"""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path = head.split()[1]
        if path.startswith("/Qwen/"):
            writer.write(
                b"HTTP/1.1 302 Found\r\nlocation: /storage/file\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
            )
        elif self.status != 200:
            writer.write(b"HTTP/1.1 %d No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n" % self.status)
        else:
            found = re.search(r"range: bytes=(\d+)-", head)
            first = int(found[1]) if found and self.continues else 0
            self.ranges.append(int(found[1]) if found else 0)
            body = self.content[first:]
            status = b"206 Partial Content" if first else b"200 OK"
            writer.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % (status, len(body)))
            writer.write(body[: self.breaks_after.pop(0)] if self.breaks_after else body)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def serving(hub: Hub, monkeypatch: pytest.MonkeyPatch, folder: Path) -> AsyncGenerator[None]:
    server = await asyncio.start_server(hub.answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("PILOTFISH_MODELS", str(folder / "models"))
    async with server:
        yield


async def fetched(hub: Hub, monkeypatch: pytest.MonkeyPatch, folder: Path, file: Weights = FILE) -> list[int]:
    """Download it, and return the progress."""
    seen: list[int] = []
    async with serving(hub, monkeypatch, folder):
        path = await download(file, lambda done, total: seen.append(100 * done // total))
    assert path.read_bytes() == CONTENT
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    return seen


async def test_a_file_is_downloaded_with_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = await fetched(Hub(), monkeypatch, tmp_path)
    assert (seen[0], seen[-1]) == (0, 100)
    assert seen == sorted(seen)


async def test_a_broken_download_continues_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(breaks_after=[5_000_000, 4_000_000])
    await fetched(hub, monkeypatch, tmp_path)
    assert len(hub.ranges) == 3
    assert hub.ranges == sorted(hub.ranges)
    assert hub.ranges[2] > hub.ranges[1] > 0


async def test_a_cancelled_download_continues_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    async with serving(hub, monkeypatch, tmp_path):
        reached = asyncio.Event()
        doing = asyncio.ensure_future(download(FILE, lambda done, _: reached.set() if done else None))
        await reached.wait()
        doing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await doing
    await fetched(hub, monkeypatch, tmp_path)
    assert hub.ranges[-1] > 0


async def test_a_server_that_cannot_continue_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(breaks_after=[5_000_000], continues=False)
    await fetched(hub, monkeypatch, tmp_path)
    assert hub.ranges[1] > 0


async def test_a_wrong_checksum_is_refused_and_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub(content=CONTENT[:-1] + b"?")
    with pytest.raises(StorageError, match="is damaged"):
        await fetched(hub, monkeypatch, tmp_path)
    hub.content = CONTENT
    await fetched(hub, monkeypatch, tmp_path)
    assert hub.ranges == [0, 0]


async def test_two_downloads_at_once_exclude_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(Hub(), monkeypatch, tmp_path):
        answers = await asyncio.gather(
            *(download(FILE, lambda _done, _total: None) for _ in range(2)), return_exceptions=True
        )
    assert [str(each).partition(" is being")[0] for each in answers if isinstance(each, StorageError)] == [FILE.file]


@pytest.mark.parametrize("status", [404, 403, 500])
async def test_a_refusal_of_the_hub_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    with pytest.raises(StorageError, match=f"answered with HTTP {status}"):
        await fetched(Hub(status=status), monkeypatch, tmp_path)


async def test_a_full_disk_is_said_before_the_download(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = Hub()
    with pytest.raises(StorageError, match="needs 1000000000"):
        await fetched(hub, monkeypatch, tmp_path, replace(FILE, size=10**18))
    assert hub.ranges == []


def test_only_known_weights_can_be_downloaded() -> None:
    assert weights.known_weights("local:qwen2.5-coder-1.5b") == weights.known_weights("qwen2.5-coder-1.5b")
    with pytest.raises(BadRequest, match=r"these can: local:qwen2\.5-coder-1\.5b"):
        weights.known_weights("local:gpt-9")
