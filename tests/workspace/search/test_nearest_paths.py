from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tools import plant_empty

from pilotfish.workspace.search.nearest_paths import nearest_paths


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("calc.py", ["tests/calc.py", "src/app/calc.py"]),
        ("app/calc.py", ["src/app/calc.py", "tests/calc.py"]),
        ("lib/app/calc.py", ["src/app/calc.py", "tests/calc.py"]),
        ("readme.md", ["README.md"]),
        ("SRC/App/Calc.py", ["src/app/calc.py", "tests/calc.py"]),
        ("src/app/setings.py", ["src/app/Settings.py"]),
        ("src/nothing.rs", []),
        ("ignored.py", []),
    ],
)
async def test_a_missing_path_is_answered_with_the_nearest(tmp_path: Path, asked: str, meant: list[str]) -> None:
    root = tmp_path.resolve()
    plant_empty(root, "src/app/calc.py", "src/app/Settings.py", "tests/calc.py", "README.md", "out/ignored.py")
    (root / ".gitignore").write_text("out/\n")
    assert await nearest_paths(root / asked, [root]) == [root / name for name in meant]


async def test_a_path_without_its_leading_slash_is_the_same_path_with_it(tmp_path: Path) -> None:
    root = tmp_path.resolve()
    plant_empty(root, "calc.py", "other/calc.py")
    asked = root / str(root / "calc.py").removeprefix("/")
    assert (await nearest_paths(asked, [root]))[0] == root / "calc.py"
