"""The log of the language server is private to the user and contains no API key."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path

import pytest
from tests.support.client import connect

from pilotfish.telemetry.lsp_log import keep_log, start_log


def test_the_file_is_private_and_a_key_in_a_line_is_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "sk-" + "a1B2" * 12
    path = tmp_path / "server.log"
    path.write_text("earlier\n")
    path.chmod(0o644)
    monkeypatch.setenv("PILOTFISH_LOG", str(path))
    root = logging.getLogger()
    before = list(root.handlers)
    start_log()
    try:
        logging.getLogger("pilotfish.test").warning("refused: %s", key)
        keep_log()
        logging.getLogger("pilotfish.test").warning("again: %s", key)
    finally:
        for handler in [handler for handler in root.handlers if handler not in before]:
            root.removeHandler(handler)
            handler.close()
    text = path.read_text()
    assert text.startswith("earlier\n")
    assert [json.loads(line)["message"].split(":")[0] for line in text.splitlines()[1:]] == ["refused", "again"]
    assert key not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_the_file_is_in_the_users_log_directory_and_off_means_none(tmp_path: Path) -> None:
    folder, home = tmp_path / "work", tmp_path / "home"
    folder.mkdir()
    for wanted in ("", "off"):
        async with connect(folder, home=home, PILOTFISH_LOG=wanted, PILOTFISH_MODEL="demo") as client:
            await client.prompt(await client.new_session(), "hello")
            assert await client.stop() == 0
        (ended,) = [line for line in map(json.loads, log_of(home).splitlines()) if "turn ended" in line["message"]]
        assert ended["request"] != "-"
    assert not Path("off").exists()


def log_of(home: Path) -> str:
    return (home / "state" / "pilotfish" / "log" / "pilotfish.log").read_text("utf-8")
