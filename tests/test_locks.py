"""The lock files: what is installed for development, in the gate and by the VS Code extension."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
FILES = ("runtime", "dev", "fuzz", "local", "uv", "docs")
LOCKED_EXTRAS = ("anthropic", "google", "mcp")
"""what every lock of the program has beside its dependencies"""


def entries(name: str) -> list[tuple[Requirement, int]]:
    """The pinned packages of a lock file, and how many hashes each has."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text()
    blocks = re.split(r"\n(?=\S)", text.replace("\\\n", " "))
    return [
        (Requirement(block.split(" --hash", 1)[0]), block.count("--hash=sha256:")) for block in blocks if block.strip()
    ]


def wanted(extra: str | None) -> list[Requirement]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names: list[str] = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    return [Requirement(name) for name in names]


@pytest.mark.parametrize("name", FILES)
def test_every_package_is_pinned_with_hashes_and_no_address_is_named(name: str) -> None:
    found = entries(name)
    assert found
    loose = [str(one) for one, hashes in found if hashes == 0 or [spec.operator for spec in one.specifier] != ["=="]]
    assert loose == []
    assert not re.search(r"://|^\s*-", re.sub(r"--hash=\S+", "", (ROOT / "requirements" / f"{name}.txt").read_text()))


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("fuzz", "fuzz"),
        ("local", "local"),
        ("dev", "dev"),
        *((name, each) for name in ("runtime", "dev") for each in (None, *LOCKED_EXTRAS)),
    ],
)
def test_the_pins_are_inside_the_ranges_of_the_project(name: str, extra: str | None) -> None:
    pins = {one.name.lower().replace("_", "-"): one for one, _ in entries(name)}
    stale = [
        str(one)
        for one in wanted(extra)
        if (pin := pins.get(one.name.lower().replace("_", "-"))) is None
        or not one.specifier.contains(next(iter(pin.specifier)).version, prereleases=True)
    ]
    assert stale == [], "run `make lock`"


def test_development_uses_the_versions_that_users_get() -> None:
    def versions(name: str) -> set[str]:
        return {f"{one.name}{one.specifier}" for one, _ in entries(name)}

    assert versions("runtime") - versions("dev") == set()


def test_make_vsix_lists_every_package_of_the_server_with_its_hashes(tmp_path: Path) -> None:
    told = subprocess.run(["make", "-n", "vsix"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    (line,) = [line for line in told.splitlines() if "cyclonedx-py" in line]
    command = shlex.split(line)
    command[0] = str(Path(sys.executable).with_name("cyclonedx-py"))
    command[command.index("--output-file") + 1] = str(tmp_path / "sbom.json")
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    listed = json.loads((tmp_path / "sbom.json").read_text())
    assert listed["bomFormat"] == "CycloneDX"
    found = {f"{one['name']}=={one['version']}": _hashes(one) for one in listed["components"]}
    assert found == {f"{one.name}{one.specifier}": hashes for one, hashes in entries("runtime")}
    # The files are packed into the extension.
    assert "!sbom-*.cdx.json" in (ROOT / "client-vscode/.vscodeignore").read_text().splitlines()


def _hashes(component: dict[str, Any]) -> int:
    return sum(len(place.get("hashes", ())) for place in component["externalReferences"])
