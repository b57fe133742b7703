"""The written parameters of tools are what the tools themselves say."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotfish.engine import parameters
from pilotfish.tools import TOOLS


def test_what_is_written_is_what_make_generate_writes() -> None:
    assert parameters.TARGET.read_text("utf-8") == parameters.generate(), "stale: run `make generate`"


def test_every_tool_has_what_it_says_itself() -> None:
    assert {tool.name: parameters.parameters(tool) for tool in TOOLS} == {
        tool.name: parameters.made(tool) for tool in TOOLS
    }


def test_who_changes_them_changes_nobody_else_s() -> None:
    tool = TOOLS[0]
    parameters.parameters(tool).clear()
    assert parameters.parameters(tool) == parameters.made(tool)


def test_they_are_made_where_they_cannot_be_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(parameters, "TARGET", tmp_path / "none")
    parameters._written.cache_clear()
    try:
        assert parameters.parameters(TOOLS[0]) == parameters.made(TOOLS[0])
    finally:
        parameters._written.cache_clear()
