"""Every module and test that ARCHITECTURE.md names exists under that name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "server" / "ARCHITECTURE.md").read_text("utf-8")
NAMED_TESTS = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)
MODULES = sorted(set(re.findall(r"`(?:server/)?(?:pilotfish/)?((?!tests/)[a-z_]+(?:/\w+)*/\w+\.py)`", PAGE)))
"""paths of modules in a package of the server, such as engine/turn/loop.py"""


def test_every_row_is_numbered_and_names_a_test() -> None:
    numbered = re.findall(r"^\| ([1-9]\d*) \| (.*?) \|", PAGE, re.MULTILINE)
    rows = [number for number, _ in numbered]
    assert rows == [str(number) for number in range(1, len(rows) + 1)]
    invariants = [text for _, text in numbered]
    assert [text for text in invariants if invariants.count(text) > 1] == [], "an invariant is written down once"
    assert len(NAMED_TESTS) >= len(rows) > 20
    assert len(MODULES) > 10


@pytest.mark.parametrize(("path", "name"), sorted(set(NAMED_TESTS)))
def test_a_named_test_exists(path: str, name: str) -> None:
    text = (ROOT / path).read_text("utf-8")
    assert not name or re.search(rf"^ *(?:(?:async )?def {name}\(|class {name}\b|{name} = )", text, re.MULTILINE)


@pytest.mark.parametrize("module", MODULES)
def test_a_named_module_exists(module: str) -> None:
    removed = re.search(rf"`{re.escape(module)}` is not there", PAGE)
    assert (ROOT / "server" / "pilotfish" / module).exists() != bool(removed)
