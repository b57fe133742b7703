"""The sandboxes hold for an ordinary user as for root, and need no right that only root has."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
NUMBER = 54_321
"""of a user that no account is needed for"""
TESTS = (
    "test_workspace_sandbox.py",
    "test_readonly_sandbox.py",
    "test_overlay.py",
)
CHOSEN = "not_left or network_is_off or ordinary_work or killed_server or needs_more or changes_are_known or home_lasts"


PYTHONS = (str(Path(sys.executable).resolve()), f"/usr/bin/python3.{sys.version_info.minor}")


def works(place: Path, python: str) -> bool:
    try:
        return as_user(place, python, "-c", "import pilotfish, pytest, pydantic_core").returncode == 0
    except OSError:
        return False


def as_user(place: Path, *command: str) -> subprocess.CompletedProcess[str]:
    packages = (REPOSITORY / "server", REPOSITORY, sysconfig.get_path("purelib"))
    environment = {
        "PATH": os.defpath, "HOME": str(place), "PYTHONPATH": os.pathsep.join(map(str, packages)), "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
    }  # fmt: skip
    return subprocess.run(
        command, cwd=place, env=environment, user=NUMBER, group=NUMBER, extra_groups=(), capture_output=True, text=True,
        check=False, timeout=600,
    )  # fmt: skip


@pytest.fixture
def place() -> Iterator[Path]:
    """A home of the user's own: pytest's folders are for root alone."""
    with tempfile.TemporaryDirectory(prefix="pilotfish-user-") as name:
        os.chown(name, NUMBER, NUMBER)
        yield Path(name)


@pytest.mark.skipif(sys.platform != "linux", reason="the tests are about Linux")
@pytest.mark.skipif(os.getuid() != 0, reason="the other tests run as an ordinary user already")
def test_the_attacks_fail_for_an_ordinary_user(place: Path) -> None:
    python = next(filter(lambda path: works(place, path), PYTHONS), None)
    if python is None:
        pytest.skip("an ordinary user can run no Python that has our packages: they lie in root's home")
    config = ("-c", str(REPOSITORY / "pyproject.toml"), "--rootdir", str(REPOSITORY), "--basetemp", str(place / "base"))
    tests = [str(Path(__file__).parent / name) for name in TESTS]
    done = as_user(place, python, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *config, "-k", CHOSEN, *tests)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
