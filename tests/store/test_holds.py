from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.store.makers import opened

from pilotfish.errors import SessionBusy
from pilotfish.store.ledger import Ledger

HOLDER = """
import asyncio, sys
from pilotfish.store.ledger import Ledger
async def main():
    ledger = Ledger.open(sys.argv[1], label="Another window")
    await ledger.hold("s")
    print("held", flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


async def test_a_held_session_is_busy_for_others_until_it_is_released(tmp_path: Path):
    async with opened(tmp_path) as (ledger, _), opened(tmp_path) as (other, _):
        hold = await ledger.hold("s")
        assert ledger.holds("s")
        with pytest.raises(SessionBusy, match=rf"Pilotfish \(process {os.getpid()}, since \d\d:\d\d\)"):
            await other.hold("s")
        (await other.hold("another")).release()
        hold.release()
        hold.release()
        assert not ledger.holds("s")
        (await other.hold("s")).release()


async def test_a_session_is_held_until_all_of_a_process_who_hold_it_release_it(tmp_path: Path):
    async with opened(tmp_path) as (ledger, _), opened(tmp_path) as (other, _):
        first, second = await ledger.hold("s"), await ledger.hold("s")
        first.release()
        first.release()
        assert ledger.holds("s")
        with pytest.raises(SessionBusy):
            await other.hold("s")
        second.release()
        (await other.hold("s")).release()


async def test_closing_the_ledger_releases_its_holds(tmp_path: Path):
    async with opened(tmp_path) as (ledger, _):
        await ledger.hold("s")
    async with opened(tmp_path) as (other, _):
        await other.hold("s")
    assert list((tmp_path / "holds").iterdir()) == []


async def test_closing_a_ledger_leaves_a_session_to_whoever_holds_it_now(tmp_path: Path):
    async with opened(tmp_path) as (now, _), opened(tmp_path) as (third, _):
        async with opened(tmp_path) as (before, _):
            (await before.hold("s")).release()
            (await before.hold("another")).release()
            await now.hold("s")
        assert len(list((tmp_path / "holds").iterdir())) == 1
        with pytest.raises(SessionBusy):
            await third.hold("s")
    assert list((tmp_path / "holds").iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
async def test_a_hold_ends_with_its_process_however_that_ends(tmp_path: Path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == "held\n"
        async with opened(tmp_path) as (ledger, _):
            with pytest.raises(SessionBusy, match=rf"Another window \(process {holder.pid}, since"):
                await ledger.hold("s")
            holder.send_signal(signal.SIGKILL)
            holder.wait(60)
            (await ledger.hold("s")).release()
    finally:
        holder.kill()
        holder.wait(60)
        if holder.stdout:
            holder.stdout.close()


async def test_a_child_of_the_holder_does_not_keep_the_hold(tmp_path: Path):
    async with opened(tmp_path) as (ledger, _), opened(tmp_path) as (other, _):
        hold = await ledger.hold("s")
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        hold.release()
        (await other.hold("s")).release()
        child.communicate(b"\n")


async def test_many_who_want_one_session_get_it_one_after_another(tmp_path: Path):
    ledgers = [Ledger.open(tmp_path) for _ in range(4)]
    holders = 0
    taken = 0

    async def work(ledger: Ledger) -> None:
        nonlocal holders, taken
        for _ in range(10):
            while True:
                try:
                    hold = await ledger.hold("s")
                except SessionBusy:
                    await asyncio.sleep(0.001)
                    continue
                break
            holders += 1
            taken += 1
            assert holders == 1
            await asyncio.sleep(0)
            holders -= 1
            hold.release()

    await asyncio.gather(*(work(ledger) for ledger in ledgers))
    assert taken == 40
    for ledger in ledgers:
        await ledger.aclose()


async def test_a_disk_too_full_for_the_holders_name_holds_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(_fd: int, _text: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    async with opened(tmp_path) as (ledger, _), opened(tmp_path) as (other, _):
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            hold = await ledger.hold("s")
        with pytest.raises(SessionBusy, match="in use by another Pilotfish"):
            await other.hold("s")
        hold.release()
        (await other.hold("s")).release()


async def test_without_a_directory_a_hold_counts_in_this_process(tmp_path: Path):
    (tmp_path / "file").write_text("no directory")
    async with opened(tmp_path / "file") as (ledger, _):
        hold = await ledger.hold("s")
        assert ledger.holds("s")
        hold.release()
        assert not ledger.holds("s")
