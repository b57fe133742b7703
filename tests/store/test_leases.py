from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.store import makers
from tests.store.makers import opened, store_at

from pilotfish.errors import SessionBusy
from pilotfish.store.ledger import Lease, Ledger

OWNER = """
import asyncio, sys
from pilotfish.store.ledger import Ledger
async def main():
    ledger = Ledger.open(sys.argv[1], label="Another window")
    await ledger.lease("s")
    print("leased", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def release_seconds() -> float:
    """A released session is free at once in SQLite, and when the server has heard of it in PostgreSQL."""
    return 0.0 if makers.backend == "sqlite" else 30.0


async def test_a_leased_session_is_busy_for_others_until_it_is_released(tmp_path: Path):
    async with opened(tmp_path) as (ledger, _), opened(tmp_path) as (other, _):
        lease = await ledger.lease("s")
        assert ledger.has_lease("s")
        with pytest.raises(
            SessionBusy, match=rf"Pilotfish \(process {os.getpid()}(,| on .+, connected) since \d\d:\d\d\)"
        ):
            await other.lease("s")
        (await other.lease("another")).release()
        lease.release()
        lease.release()
        assert not ledger.has_lease("s")
        (await other.lease("s", patience=release_seconds())).release()


async def test_a_session_stays_leased_until_all_callers_of_a_process_release_it(tmp_path: Path):
    async with opened(tmp_path) as (ledger, _), opened(tmp_path) as (other, _):
        first, second = await ledger.lease("s"), await ledger.lease("s")
        first.release()
        first.release()
        assert ledger.has_lease("s")
        with pytest.raises(SessionBusy):
            await other.lease("s")
        second.release()
        (await other.lease("s", patience=release_seconds())).release()


async def test_closing_the_ledger_releases_its_leases(tmp_path: Path):
    async with opened(tmp_path) as (ledger, _):
        await ledger.lease("s")
    async with opened(tmp_path) as (other, _):
        await other.lease("s", patience=release_seconds())
    if makers.backend == "sqlite":
        assert list((tmp_path / "holds").iterdir()) == []


@pytest.mark.sqlite_only
async def test_closing_a_ledger_leaves_the_lease_of_another_one_alone(tmp_path: Path):
    async with opened(tmp_path) as (now, _), opened(tmp_path) as (third, _):
        async with opened(tmp_path) as (before, _):
            (await before.lease("s")).release()
            (await before.lease("another")).release()
            await now.lease("s")
        assert len(list((tmp_path / "holds").iterdir())) == 1
        with pytest.raises(SessionBusy):
            await third.lease("s")
    assert list((tmp_path / "holds").iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
async def test_a_lease_ends_with_its_process_however_that_ends(tmp_path: Path):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, store_at(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        assert await asyncio.to_thread(owner.stdout.readline) == "leased\n"
        async with opened(tmp_path) as (ledger, _):
            with pytest.raises(SessionBusy, match=rf"Another window \(process {owner.pid}(,| on .+, connected) since"):
                await ledger.lease("s")
            owner.send_signal(signal.SIGKILL)
            owner.wait(60)
            (await ledger.lease("s", patience=release_seconds())).release()
    finally:
        owner.kill()
        owner.wait(60)
        if owner.stdout:
            owner.stdout.close()


async def test_a_child_process_does_not_keep_the_lease(tmp_path: Path):
    async with opened(tmp_path) as (ledger, _), opened(tmp_path) as (other, _):
        lease = await ledger.lease("s")
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        lease.release()
        (await other.lease("s", patience=release_seconds())).release()
        child.communicate(b"\n")


async def test_a_session_is_leased_by_one_ledger_at_a_time(tmp_path: Path):
    ledgers = [Ledger.open(store_at(tmp_path)) for _ in range(4)]
    owners = 0
    taken = 0

    async def work(ledger: Ledger) -> None:
        nonlocal owners, taken
        for _ in range(10):
            while True:
                try:
                    lease = await ledger.lease("s")
                except SessionBusy:
                    await asyncio.sleep(0.001)
                    continue
                break
            owners += 1
            taken += 1
            assert owners == 1
            await asyncio.sleep(0)
            owners -= 1
            lease.release()

    await asyncio.gather(*(work(ledger) for ledger in ledgers))
    assert taken == 40
    for ledger in ledgers:
        await ledger.aclose()


@pytest.mark.sqlite_only
async def test_a_disk_too_full_for_the_name_of_the_owner_still_leases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(_fd: int, _text: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with opened(tmp_path) as (ledger, _), opened(tmp_path) as (other, _):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            lease = await ledger.lease("s")
        with pytest.raises(SessionBusy, match="in use by another Pilotfish"):
            await other.lease("s")
        lease.release()
        (await other.lease("s", patience=release_seconds())).release()


@pytest.mark.sqlite_only
async def test_without_a_directory_a_lease_counts_in_this_process(tmp_path: Path):
    (tmp_path / "file").write_text("no directory")
    async with opened(tmp_path / "file") as (ledger, _):
        lease = await ledger.lease("s")
        assert ledger.has_lease("s")
        lease.release()
        assert not ledger.has_lease("s")


async def test_a_lease_is_released_if_its_caller_was_cancelled_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with opened(tmp_path) as (ledger, _), opened(tmp_path) as (other, _):
        take, goes_on, taken = ledger._leases.take, threading.Event(), threading.Event()

        def slow(session_id: str) -> Lease:
            goes_on.wait(10)
            try:
                return take(session_id)
            finally:
                taken.set()

        monkeypatch.setattr(ledger._leases, "take", slow)
        taking = asyncio.ensure_future(ledger.lease("s"))
        await asyncio.sleep(0.01)
        taking.cancel()
        await asyncio.wait((taking,))
        goes_on.set()
        assert await asyncio.to_thread(taken.wait, 10)
        (await other.lease("s", patience=10)).release()


async def test_a_lease_that_another_process_has_for_a_moment_is_waited_for(tmp_path: Path):
    async with opened(tmp_path) as (ours, _), opened(tmp_path) as (other, _):
        short = await other.lease("s")
        asyncio.get_running_loop().call_later(0.05, short.release)
        (await ours.lease("s", patience=30)).release()
        long = await other.lease("s", patience=30)  # PostgreSQL frees a lease in the background
        with pytest.raises(SessionBusy):
            await ours.lease("s", patience=0.05)
        long.release()
