"""The generated pages of `docs/`: settings, commands, tools."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from pilotfish.cli.reference import commands_page, settings_page, tools_page
from pilotfish.tools import TOOLS

SERVER = Path(__file__).parents[2] / "server"
OF_OUR_OWN = {"PILOTFISH_COMMAND"}
"""set by the server for the processes it starts"""


@pytest.mark.parametrize("page", [settings_page, commands_page, tools_page], ids=lambda page: page.__name__)
def test_the_page_is_current(page: ModuleType) -> None:
    assert page.TARGET.read_text("utf-8") == page.render(), "run `make generate`"


def test_every_environment_variable_is_listed() -> None:
    named = {name for file in SERVER.rglob("*.py") for name in re.findall(r"\bPILOTFISH_[A-Z_]+\b", file.read_text())}
    assert named - OF_OUR_OWN == set(re.findall(r"^\| `(PILOTFISH_\w+)`", settings_page.render(), re.MULTILINE))


def test_every_tool_is_on_the_page_of_its_subject() -> None:
    assert sorted(re.findall(r"^\| `(\w+)` \|", tools_page.render(), re.MULTILINE)) == sorted(
        tool.name for tool in TOOLS
    )


def test_every_command_has_its_options() -> None:
    page = commands_page.render()
    assert len(re.findall(r"^### `pilotfish ", page, re.MULTILINE)) == page.count("```text\nUsage: pilotfish ") > 15
