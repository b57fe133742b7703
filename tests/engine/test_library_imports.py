"""Libraries are imported by one thread at a time: two that import circular modules can get unfinished ones."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.engine import rig

from pilotfish.engine import commands
from pilotfish.engine.library_imports import import_library

MODULE = """
import slow_library.meeting as meeting
meeting.together.append(meeting.inside.acquire(blocking=False))
try:
    meeting.second.wait(0.3)
finally:
    meeting.inside.release()
"""


def test_two_threads_never_import_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "slow_library"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "meeting.py").write_text(
        "import threading\ntogether = []\ninside = threading.Semaphore(1)\nsecond = threading.Event()\n"
    )
    for name in ("one", "two"):
        (package / f"{name}.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    try:
        import_library("slow_library.meeting")
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(import_library, ("slow_library.one", "slow_library.two")))
        assert sys.modules["slow_library.meeting"].together == [True, True]
    finally:
        for name in [name for name in sys.modules if name.startswith("slow_library")]:
            del sys.modules[name]


async def test_a_model_is_checked_when_the_libraries_are_loaded(tmp_path: Path) -> None:
    async with rig(tmp_path) as turn:
        turn.engine.warmed = asyncio.Event()
        checking = asyncio.create_task(commands.check_model(turn.engine, "openai-chat:scripted"))
        await asyncio.sleep(0.1)
        assert not checking.done()
        turn.engine.warmed.set()
        await checking
