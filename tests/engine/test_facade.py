"""Sessions are created, listed and opened before the model libraries are loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

IMPORTED = "import sys, pilotfish.engine.engine; print('pydantic_ai' in sys.modules)"

SERVED = """
import asyncio, sys
from pathlib import Path
from tests.support.frontends import SilentFrontend
from pilotfish.engine.engine import Engine
from pilotfish.config.settings import Settings
from pilotfish.store.ledger import Ledger
from pilotfish.workspace.editor import NoEditor

async def main():
    engine = Engine(Settings(), Ledger.open(Path(sys.argv[1])), SilentFrontend(NoEditor()))
    session = await engine.new()
    await engine.list()
    await engine.load(session.id)
    engine.status()
    await engine.rename(session.id, "a name")
    await engine.aclose()

asyncio.run(main())
print('pydantic_ai' in sys.modules)
"""


def run(program: str, *arguments: str) -> str:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout.strip()


def test_importing_the_engine_does_not_load_pydantic_ai() -> None:
    assert run(IMPORTED) == "False"


def test_sessions_are_served_without_pydantic_ai(tmp_path: Path) -> None:
    assert run(SERVED, str(tmp_path)) == "False"
