from __future__ import annotations

import pytest

from pilotfish.errors import ToolError
from pilotfish.workspace.search.globs import compile_glob, last_name, whole_in_name


@pytest.mark.parametrize(
    ("pattern", "matching", "other"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["a.py", "src/x/a.py", "y/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py", "srcs/a.py"]),
        ("**/test/**", ["test/a", "x/test/y/a"], ["tests/a"]),
        ("**", ["a", "x/y"], []),
        ("/top.txt", ["top.txt", "x/top.txt"], ["top.txt.x"]),
        ("./src/a?.ts", ["src/ab.ts"], ["src/a.ts", "src/a/.ts"]),
        ("*.{ts,tsx}", ["a.ts", "x/b.tsx"], ["a.tsz", "a.t"]),
        ("{src,lib}/*.{js,css}", ["src/a.js", "lib/a.css"], ["bin/a.js"]),
        ("[a-c]*.md", ["b.md"], ["d.md"]),
        ("[!a]x", ["bx"], ["ax", "/x"]),
        (r"\*.py", ["*.py"], ["a.py"]),
        ("a[", ["a["], ["a"]),
        ("a{b", ["a{b"], ["ab"]),
        ("über*.txt", ["übermut.txt"], ["uber.txt"]),
        ("a+b(c).txt", ["a+b(c).txt"], ["aab(c).txt"]),
    ],
)
def test_globs_match_as_people_mean_them(pattern: str, matching: list[str], other: list[str]) -> None:
    found = compile_glob(pattern)
    assert [path for path in matching + other if found.fullmatch(path)] == matching


@pytest.mark.parametrize("pattern", ["", "./", "[z-a]"])
def test_what_is_no_glob_is_said_so(pattern: str) -> None:
    with pytest.raises(ToolError, match="glob"):
        compile_glob(pattern)


@pytest.mark.parametrize(
    ("pattern", "name", "whole"),
    [
        ("*.py", "*.py", True),
        ("**/*.py", "*.py", True),
        ("src/*.py", "*.py", False),
        ("**/*", None, True),
        ("*", None, True),
        ("src/**", None, False),
        ("{a/b,c/d}.ts", None, False),
        ("src/{a,b}.ts", "{a,b}.ts", False),
        ("a:b.ts", None, False),
    ],
)
def test_the_file_name_part_of_a_glob(pattern: str, name: str | None, whole: bool) -> None:
    assert (last_name(pattern), whole_in_name(pattern)) == (name, whole)
