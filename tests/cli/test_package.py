"""What is installed: the wheel and the source archive, and the demo out of them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from tests.support.terminal import environment, terminal

from pilotfish import __version__
from pilotfish.workspace.sandbox.sandbox import find_sandbox

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "server" / "pilotfish"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], cwd=ROOT, check=True)
    return folder


def test_the_wheel_holds_the_package_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob(f"pilotfish-{__version__}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    files = {path.relative_to(ROOT / "server").as_posix() for path in PACKAGE.rglob("*") if path.is_file()}
    assert names == {name for name in files if "__pycache__" not in name} - {"pilotfish/tools/README.md"}


def test_the_source_archive_holds_what_builds_it_and_nothing_else(built: Path) -> None:
    with tarfile.open(built / f"pilotfish-{__version__}.tar.gz") as archive:
        names = {name.partition("/")[2].partition("/")[0] for name in archive.getnames()}
    assert names - {".gitignore", "PKG-INFO"} == {"server", "LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"}


def test_the_demo_plays_out_of_the_wheel(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    env = {**environment(tmp_path), "PYTHONPATH": str(tmp_path / "installed")}
    where = [sys.executable, "-c", "import pilotfish; print(pilotfish.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, env=env, capture_output=True, text=True, check=True).stdout
    assert found.startswith(str(tmp_path / "installed"))
    demo = [sys.executable, "-m", "pilotfish", "demo", "--yes", "--wire"]
    played = subprocess.run(demo, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert (played.returncode, played.stderr) == (0, "")
    assert '"method":"pilotfish/approval/request"' in played.stdout
    told = re.findall(r"tests (\w+ ?\w*): (they pass|one fails)", played.stdout)
    assert told == [
        ("now", "one fails"),
        ("now", "they pass"),
        ("after undo", "one fails"),
        ("after redo", "they pass"),
    ]


async def test_a_person_answers_the_demos_questions(tmp_path: Path) -> None:
    async with terminal(tmp_path, "demo") as screen:
        await screen.sees("Allow? [Y/n] ")
        screen.press("\n")
        if not find_sandbox().read_only.stands:  # otherwise the tests run read-only, without a question
            await screen.sees("Allow? [Y/n] ")
            screen.press("\n")
        await screen.sees("tests after redo: they pass")
        assert await screen.end() == 0


@pytest.mark.parametrize(
    ("keys", "code"), [("n\n", 0), ("\x04", 0), ("\x03", 130)], ids=["no", "end of input", "ctrl-c"]
)
async def test_a_person_may_say_no_or_leave(tmp_path: Path, keys: str, code: int) -> None:
    async with terminal(tmp_path, "demo", env={"TMPDIR": str(tmp_path)}) as screen:
        await screen.sees("Allow? [Y/n] ")
        screen.press(keys)
        assert await screen.end() == code
        assert "Traceback" not in screen.shown
        assert ("You denied the edit" in screen.shown) is (code == 0)
    assert list(tmp_path.glob("pilotfish-demo-*")) == []


def test_every_library_that_is_imported_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = (
        "anthropic",
        "google",
        "mcp",
        "pdf",
        "postgres",
        "telemetry",
        "worker",
    )  # the message about a missing package names its extra
    wanted = [*project["dependencies"], *(line for extra in extras for line in project["optional-dependencies"][extra])]
    declared = {re.split(r"[\[<>=! ]", line)[0].lower().replace("_", "-") for line in wanted}
    # mcp comes with fastmcp, the others with pydantic and pydantic-ai.
    declared |= {"mcp", "pydantic-core", "opentelemetry-api"}
    homes = packages_distributions()
    missing: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for name in _imported(path) - sys.stdlib_module_names - {"pilotfish"}:
            if not {home.lower().replace("_", "-") for home in homes.get(name, ())} & declared:
                missing.setdefault(name, set()).add(path.name)
    assert missing == {}


def _imported(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.partition(".")[0])
    return found
