"""ARCHITECTURE.md names modules and tests: each is there, by that name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "server" / "ARCHITECTURE.md").read_text("utf-8")
HELD = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
MODULES = sorted(
    set(re.findall(r"`(?:pilotfish/)?((?:core|workspace|store|tools|engine|protocol|lsp|acp|cli)/\w+\.\w+)`", PAGE))
)


def test_the_page_names_tests_and_modules() -> None:
    rows = re.findall(r"^\| (\d{1,2}) \|", PAGE, re.MULTILINE)
    assert rows == [str(number) for number in range(1, len(rows) + 1)]
    assert len(HELD) >= len(rows) > 20
    assert len(MODULES) > 10


@pytest.mark.parametrize(("path", "name"), sorted(set(HELD)))
def test_a_test_that_is_named_is_there(path: str, name: str) -> None:
    text = (ROOT / path).read_text("utf-8")
    assert not name or re.search(rf"^ *(?:(?:async )?def {name}\(|class {name}\b|{name} = )", text, re.MULTILINE)


@pytest.mark.parametrize("module", MODULES)
def test_a_module_that_is_named_is_there(module: str) -> None:
    removed = re.search(rf"`{re.escape(module)}` is not there", PAGE)
    assert (ROOT / "server" / "pilotfish" / module).exists() != bool(removed)
