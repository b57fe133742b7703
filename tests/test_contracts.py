"""The import contracts can fail: each is broken once, in a copy, and must say so by name."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

BREACHES = [
    ("conversation/messages.py", "import pilotfish.workspace.editor", "The rooms: imports go down only"),
    ("new_room.py", "", "The rooms: imports go down only"),
    ("conversation/history/trim.py", "import pydantic_ai", "Only engine knows pydantic-ai"),
    ("engine/turn/call_order.py", "import pygls", "Only lsp knows pygls and lsprotocol"),
    ("engine/turn/call_order.py", "import acp", "Only acp knows the ACP SDK"),
    ("tools/glob.py", "import pilotfish.tools.grep", "Tools do not know each other"),
    ("protocol/wire/base.py", "import pilotfish.conversation.messages", "The wire knows no room"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "line", "contract"), BREACHES, ids=[f"{file}: {line}" for file, line, _ in BREACHES])
def test_a_forbidden_import_breaks_its_contract(tmp_path: Path, file: str, line: str, contract: str) -> None:
    shutil.copytree(ROOT / "server", tmp_path / "server", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "server" / "pilotfish" / file
    path.write_text((path.read_text("utf-8") if path.exists() else "") + f"\n{line}\n", "utf-8")
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path / "server"), "PATH": "", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert run.returncode != 0, run.stdout
    assert f"{contract} BROKEN" in run.stdout, run.stdout[-2000:]
