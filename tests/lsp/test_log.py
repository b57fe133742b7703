"""The log of the language server is for the user's eyes, and holds no key."""

from __future__ import annotations

import logging
import stat
from pathlib import Path

import pytest

from pilotfish.lsp.log import start_log


def test_the_file_is_the_users_alone_and_a_key_in_a_line_is_masked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    finally:
        for handler in [handler for handler in root.handlers if handler not in before]:
            root.removeHandler(handler)
            handler.close()
    text = path.read_text()
    assert text.startswith("earlier\n")
    assert "refused: " in text
    assert key not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
