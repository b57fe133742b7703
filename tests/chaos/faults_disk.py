"""Faults of the disk, the clock and the memory, and files that change during a turn."""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator
from pathlib import Path

from tests.chaos.world import PATIENCE, Fault, World
from tests.support.client import SERVER, option, spawn
from tests.support.provider import Call, Reply, call, calls, say


@contextlib.contextmanager
def limited(world: World, kind: int, most: int) -> Generator[None]:
    """Limit a resource of the running server inside the block."""
    pid, (soft, hard) = world.pid, resource.prlimit(world.pid, kind)
    resource.prlimit(pid, kind, (min(most, hard) if hard != resource.RLIM_INFINITY else most, hard))
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, kind, (soft, hard))


async def memory_is_short(world: World) -> str:
    """Less memory than an answer needs: the turn fails or the server dies; everything that was sent is stored."""
    session = await world.session()
    await world.turn(session, say("before"))
    size = int(Path(f"/proc/{world.pid}/statm").read_text().split()[0]) * 4096
    with limited(world, resource.RLIMIT_AS, size + 16_000_000):
        turn = world.begin(session, say("x" * 65_535 + "\n", times=480))
        await asyncio.wait({turn}, timeout=PATIENCE)
        if not turn.done():
            world.client.process.kill()
            await world.gone()
    await world.restart()  # an open session keeps its history in memory, and this history is large
    return session


async def disk_is_full(world: World) -> str:
    """No file can grow: that is reported, work continues in memory, and is saved when there is space again."""
    session = await world.session()
    await world.turn(session, say("before"))
    largest = max(path.stat().st_size for path in (world.home / "store").glob("sessions.db*"))
    with limited(world, resource.RLIMIT_FSIZE, largest):
        words = [say("x" * 9000), call("write_file", path="full.txt", content="y" * largest * 2), say("done")]
        answer = await world.turn(session, calls(Call("list_dir", {"path": "."}), text="z" * 9000), *words)
        assert answer.stop_reason == "end_turn"
        assert not (world.folder / "full.txt").exists()
    await world.turn(session, say("after"))
    assert await world.client.stop(PATIENCE) == 0
    return session


async def problems(world: World) -> list[str]:
    status = await world.client.request("pilotfish/status")
    assert status["store"]["state"] == ("unsaved" if status["problems"] else "ok")
    return status["problems"]


async def store_is_deleted(world: World) -> str:
    """The folder with the database is deleted: that is reported, and the open session is saved to a new database."""
    session = await world.session()
    await world.turn(session, say("before"))
    shutil.rmtree(world.home / "store")
    assert (await world.turn(session, say("after"))).stop_reason == "end_turn"
    assert "deleted or replaced" in str(await problems(world))
    notices = [sent.update for sent in world.client.updates if sent.update.kind == "notice"]
    assert "deleted or replaced" in str(notices)
    assert await world.client.stop(PATIENCE) == 0
    return session


async def disk_has_no_room(world: World) -> str:
    """The same with a real full file system, if one can be mounted; otherwise as above."""
    async with mounted(world, "-o", "size=4m") as store:
        if store is None:
            return await disk_is_full(world)
        await world.restart(PILOTFISH_STORAGE=str(store))
        session = await world.session()
        await world.turn(session, say("before"))
        filler = store / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(b"x" * 4096)
                file.flush()
        for text in ("y" * 300_000, "z"):
            assert (await world.turn(session, say(text))).stop_reason == "end_turn"
            assert "disk with the session database is full" in str(await problems(world))
        filler.unlink()
        await world.turn(session, say("after"))
        assert await world.client.stop(PATIENCE) == 0
        await world.restart(PILOTFISH_STORAGE=str(store))
        await world.check(session)
        await world.leave()
    await world.start()
    return await world.session()


async def disk_is_read_only(world: World) -> str:
    """Old sessions can be read and continued in memory; no saved record is lost when it is writable again."""
    session = await world.session()
    await world.turn(session, say("kept"))
    await world.leave()
    delivered = dict(world.delivered)
    store = world.home / "store"
    async with mounted(world, "--bind", source=store) as place:
        if place is not None:
            subprocess.run(["mount", "-o", "remount,bind,ro", place], check=True)
        await world.start(PILOTFISH_STORAGE=str(place or store))
        await world.still_there(session)
        assert (await world.turn(session, say("not kept"))).stop_reason == "end_turn"
        await world.leave()
    world.delivered = delivered
    await world.start()
    return session


@contextlib.asynccontextmanager
async def mounted(world: World, *words: str, source: Path | None = None) -> AsyncGenerator[Path | None]:
    """A new file system, or None if mounting is not permitted."""
    place = world.place / "mounted"
    place.mkdir(exist_ok=True)
    kind = [] if source is not None else ["-t", "tmpfs"]
    done = subprocess.run(["mount", *kind, *words, source or "tmpfs", place], capture_output=True, check=False)
    try:
        yield place if done.returncode == 0 else None
    finally:
        if done.returncode == 0:
            subprocess.run(["umount", "-l", place], check=True)


async def disk_is_slow(world: World) -> str:
    """Another program locks the database, so that every write waits for a second."""
    session = await world.session()
    turn = world.begin(session, *[call("list_dir", path=".") for _ in range(3)], say("done"))
    other = sqlite3.connect(world.home / "store" / "sessions.db", isolation_level=None, timeout=PATIENCE)
    with contextlib.closing(other):
        for _ in range(3):
            other.execute("BEGIN IMMEDIATE")
            await asyncio.sleep(0.7)
            other.execute("ROLLBACK")
            await asyncio.sleep(0.05)
    assert (await asyncio.wait_for(turn, PATIENCE)).stop_reason == "end_turn"
    return session


JUMPING = """
import random, time
real, dice = time.time, random.Random({seed})
def jumping():
    return real() + dice.choice((0, 0, 1e-3, 3600, -3600, 400 * 86400, -400 * 86400))
time.time = jumping
time.time_ns = lambda: int(jumping() * 1e9)
"""


async def clock_jumps(world: World) -> str:
    """The clock jumps by an hour and by a year, forward and back, on every read."""
    clock = world.place / "clock"
    clock.mkdir(exist_ok=True)
    (clock / "sitecustomize.py").write_text(JUMPING.format(seed=world.dice.randrange(1 << 30)))
    await world.restart(spawn, PYTHONPATH=f"{clock}{os.pathsep}{SERVER}")
    session = await world.session()
    world.file("a.txt", "a\n")
    edit = call("update_file", path="a.txt", edits=[{"old_string": "a", "new_string": "b"}])
    answer = await world.turn(
        session, call("read_file", path="a.txt"), edit, call("bash", command="sleep 0.1"), say("x")
    )
    assert answer.stop_reason == "end_turn"
    assert (world.folder / "a.txt").read_text() == "b\n"
    await world.check(session)
    listed = await world.client.request("pilotfish/session/list", {})
    assert session in [row["id"] for row in listed["sessions"]]
    await world.restart()
    return session


# ---- a file that changes during a turn -------------------------------------------------------------------------------


def changed(path: Path, _: Path) -> None:
    path.write_text("the user's line\none\ntwo\n")


def rewritten(path: Path, _: Path) -> None:
    path.write_text("the user's line\n")


def deleted(path: Path, _: Path) -> None:
    path.unlink()


def a_directory(path: Path, _: Path) -> None:
    path.unlink()
    path.mkdir()


def a_link_outside(path: Path, outside: Path) -> None:
    path.unlink()
    path.symlink_to(outside)


def a_link_for_its_folder(path: Path, outside: Path) -> None:
    path.unlink()
    path.parent.rmdir()
    path.parent.symlink_to(outside.parent)


def a_pipe(path: Path, _: Path) -> None:
    path.unlink()
    os.mkfifo(path)


MOVES = (changed, rewritten, deleted, a_directory, a_link_outside, a_link_for_its_folder, a_pipe)


def moved(move: Callable[[Path, Path], None]) -> Fault:
    """The file is replaced between read and edit: nothing outside is changed, and no text of the user is lost."""

    async def fault(world: World) -> str:
        folder = world.folder / f"moving{world.dice.randrange(1 << 30)}"
        folder.mkdir()
        outside = world.place / "outside" / "file.txt"
        outside.parent.mkdir(exist_ok=True)
        outside.write_text("one\ntwo\n")
        path = folder / "file.txt"
        path.write_text("one\ntwo\n")
        name = f"{folder.name}/file.txt"

        def strike() -> Reply:
            move(path, outside)
            return call("update_file", path=name, edits=[{"old_string": "two", "new_string": "2"}])

        session = await world.session(mode="edit")
        world.client.answers["pilotfish/approval/request"] = option("reject")  # every approval is rejected
        answer = await world.turn(session, call("read_file", path=name), strike, say("done"))
        world.client.answers["pilotfish/approval/request"] = option("allow_once")
        assert answer.stop_reason == "end_turn"
        assert outside.read_text() == "one\ntwo\n"
        if move in (changed, rewritten):
            assert path.read_text().startswith("the user's line\n")
        return session

    return fault
