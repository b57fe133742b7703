"""Every import contract of pyproject.toml can fail: a copy of the server with one forbidden import breaks it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

LAYERS = "Layers: imports go down only"
ENGINE_LAYERS = "Inside the engine: imports go down only"

BREACHES = [
    ("conversation/messages.py", "import pilotfish.workspace.editor", LAYERS),
    ("new_package.py", "", LAYERS),
    ("engine/turn/calls/order.py", "import pilotfish.engine.session.session", ENGINE_LAYERS),
    ("engine/new_module.py", "", ENGINE_LAYERS),
    ("conversation/history/trim.py", "import pydantic_ai", "Only engine knows pydantic-ai"),
    ("engine/turn/calls/order.py", "import pygls", "Only lsp and language_servers know pygls and lsprotocol"),
    ("engine/turn/calls/order.py", "import acp", "Only acp knows the ACP SDK"),
    ("tools/files/glob.py", "import pilotfish.tools.files.grep", "Tools do not know each other"),
    ("protocol/wire/base.py", "import pilotfish.conversation.messages", "The wire knows no other package"),
    ("store/tables/heads.py", "import pilotfish.store.tables.tables", "No cycles between the modules of a package"),
]


def test_every_contract_has_a_breach() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = {contract["name"] for contract in settings["tool"]["importlinter"]["contracts"]}
    assert {contract for _, _, contract in BREACHES} == contracts


def test_the_server_breaks_no_contract() -> None:
    assert broken_contracts(ROOT) == []


@pytest.mark.slow
@pytest.mark.parametrize(("file", "line", "contract"), BREACHES, ids=[f"{file}: {line}" for file, line, _ in BREACHES])
def test_a_forbidden_import_breaks_its_contract(tmp_path: Path, file: str, line: str, contract: str) -> None:
    shutil.copytree(ROOT / "server", tmp_path / "server", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    path = tmp_path / "server" / "pilotfish" / file
    path.write_text((path.read_text("utf-8") if path.exists() else "") + f"\n{line}\n", "utf-8")
    assert contract in broken_contracts(tmp_path)


def broken_contracts(root: Path) -> list[str]:
    """The names of the contracts that `lint-imports` reports as broken."""
    run = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as lint; lint()", "--no-cache"],
        cwd=root,
        env={"PYTHONPATH": str(root / "server"), "PATH": "", "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    broken = re.findall(r"^(.+) BROKEN\b", run.stdout, re.MULTILINE)
    assert bool(broken) == (run.returncode != 0), run.stdout + run.stderr
    return broken
