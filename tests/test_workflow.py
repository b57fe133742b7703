"""`.github/workflows/ci.yml` runs the gate and all three systems, and names only targets and files that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")


def test_the_gate_and_three_systems_are_run() -> None:
    assert {name for name in ("ubuntu", "macos", "windows") if re.search(rf"\b{name}-\d", TEXT)} == {
        "ubuntu",
        "macos",
        "windows",
    }
    assert re.search(r"^ +- run: \.ci/run$", TEXT, re.MULTILINE)


def test_every_target_and_file_that_a_step_names_exists() -> None:
    targets = re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    wanted = [name for words in re.findall(r"run: make (.*)$", TEXT, re.MULTILINE) for name in words.split()]
    assert wanted
    assert set(wanted) <= set(targets)
    assert [name for name in re.findall(r"requirements/\w+\.txt", TEXT) if not (ROOT / name).exists()] == []


def test_it_may_only_read_and_needs_no_secret() -> None:
    assert "permissions:\n  contents: read\n" in TEXT
    assert "secrets." not in TEXT
