from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pilotfish.workspace.process.process_tree import find

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")

SERVER = """
import asyncio, sys
from pathlib import Path
from pilotfish.workspace.process.processes import Processes
from pilotfish.workspace.sandbox.sandbox import no_sandbox

async def main():
    processes = Processes([Path(sys.argv[1])], sandbox=lambda: no_sandbox("a test"))
    job, _ = await processes.start("setsid sleep 60 & touch up; sleep 60", tell=lambda _: None)
    print(processes._launcher.name, processes._launcher.folders.base, flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_commands_and_the_scratch_folder_of_a_killed_server_go(tmp_path: Path, number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", SERVER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        name, scratch = server.stdout.readline().split()
        for _ in range(3000):
            if (tmp_path / "up").exists():
                break
            time.sleep(0.01)
        assert find(name).sure
        assert Path(scratch).is_dir()
        server.send_signal(number)
        server.wait(60)
    for _ in range(500):
        if not find(name).sure and not Path(scratch).exists():
            break
        time.sleep(0.02)
    assert find(name).sure == frozenset()
    assert not Path(scratch).exists()


async def test_the_reaper_ends_with_the_session(tmp_path: Path) -> None:
    from pilotfish.workspace.process.processes import Processes
    from pilotfish.workspace.sandbox.sandbox import no_sandbox

    processes = Processes([tmp_path], sandbox=lambda: no_sandbox("a test"))
    await processes.run("true", timeout=20, tell=lambda _: None)
    finalizer = processes._launcher._orphan_reaper._close
    assert finalizer is not None
    details = finalizer.peek()
    assert details is not None
    pid = details[2][1]
    os.kill(pid, 0)
    await processes.aclose()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
