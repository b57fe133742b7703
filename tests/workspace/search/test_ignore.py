from __future__ import annotations

import asyncio
import subprocess
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.tools import plant
from tests.support.tries import tries

from pilotfish.workspace.search.file_index import walk
from pilotfish.workspace.search.globs import compile_glob
from pilotfish.workspace.search.ignore import IgnoreRules
from pilotfish.workspace.search.ripgrep import WALK, find_rg


def seen(root: Path) -> set[str]:
    """The files our rules let through."""
    rules = IgnoreRules(root)
    return {
        path.relative_to(root).as_posix()
        for path in root.rglob("*")
        if path.is_file() and not rules.ignored(path, is_dir=False)
    }


def seen_by_ripgrep(root: Path) -> set[str]:
    command = [find_rg(), *WALK, *IgnoreRules(root).options(root), "--files", "--null", "."]
    done = subprocess.run(command, cwd=root, capture_output=True)
    return {name.decode().removeprefix("./") for name in done.stdout.split(b"\0") if name}


def check(tmp_path: Path, files: dict[str, str], expected: set[str]) -> None:
    plant(tmp_path, files)
    assert seen(tmp_path) == expected


def test_rules_of_every_level_hold_and_the_nearest_wins(tmp_path: Path) -> None:
    check(
        tmp_path,
        {
            ".gitignore": "*.log\n/build/\n",
            "a.log": "",
            "a.txt": "",
            "build/x": "",
            "sub/build/x": "",
            "sub/.gitignore": "!keep.log\n*.tmp\n",
            "sub/keep.log": "",
            "sub/b.log": "",
            "sub/b.tmp": "",
        },
        {".gitignore", "a.txt", "sub/build/x", "sub/.gitignore", "sub/keep.log"},
    )


def test_a_file_in_an_ignored_folder_cannot_be_brought_back(tmp_path: Path) -> None:
    check(tmp_path, {".gitignore": "out/\n!out/keep\n", "out/keep": ""}, {".gitignore"})


def test_own_rules_hide_and_never_show(tmp_path: Path) -> None:
    check(
        tmp_path,
        {".gitignore": "a\n", ".pilotfishignore": "!a\nb\nsub/deep/\n", "a": "", "b": "", "c": "", "sub/deep/x": ""},
        {".gitignore", ".pilotfishignore", "c"},
    )


def test_own_rules_hold_at_every_level(tmp_path: Path) -> None:
    check(tmp_path, {"sub/.pilotfishignore": "x\n", "sub/x": "", "x": ""}, {"sub/.pilotfishignore", "x"})


def test_version_control_is_never_seen(tmp_path: Path) -> None:
    check(tmp_path, {".git/config": "", ".hg/x": "", "sub/.svn/x": "", ".github/ci.yml": ""}, {".github/ci.yml"})


def test_a_repositorys_own_excludes_hold(tmp_path: Path) -> None:
    check(tmp_path, {".git/info/exclude": "private\n", "private": "", "public": ""}, {"public"})


def test_rules_above_the_root_hold_up_to_its_repository(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*.a\n", "repo/.git/HEAD": "", "repo/.gitignore": "*.b\n"})
    plant(tmp_path, {"repo/in/x.a": "", "repo/in/x.b": ""})
    assert seen(tmp_path / "repo/in") == seen_by_ripgrep(tmp_path / "repo/in") == {"x.a"}


def test_outside_a_repository_nothing_above_the_root_counts(tmp_path: Path) -> None:
    plant(tmp_path, {".gitignore": "*\n", "project/.gitignore": "x\n", "project/x": "", "project/y": ""})
    assert seen(tmp_path / "project") == seen_by_ripgrep(tmp_path / "project") == {".gitignore", "y"}


def test_a_line_that_is_no_pattern_is_skipped(tmp_path: Path) -> None:
    check(tmp_path, {".gitignore": "[z-a]\n*.log\n", "a.log": "", "b": ""}, {".gitignore", "b"})


def test_rules_that_are_not_text_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_bytes(b"\xff\xfe\n*.log\n")
    plant(tmp_path, {"a.log": "", "b": ""})
    assert seen(tmp_path) == {".gitignore", "b"}


NAMES = st.sampled_from(["a", "b", "c.log", "d.txt", "build"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
BODIES = ["a", "b", "*.log", "build", "a/b", "a/*", "a/**", "?", "*", "[ab]", "d.txt", "**/b"]
PATTERN = st.tuples(
    st.sampled_from(["", "", "!"]),
    st.sampled_from(["", "/", "**/"]),
    st.sampled_from(BODIES),
    st.sampled_from(["", "", "/"]),
).map("".join)
RULES = st.dictionaries(st.sampled_from(["", "a/", "a/b/"]), st.lists(PATTERN, max_size=4).map("\n".join))


GLOBS = st.sampled_from(
    ["*.log", "a", "b*", "*d*", "build", "[ab]", "*.{txt,log}", "a/*", "a/**/*.log", "**/b", ".git*"]
)


def make_tree(root: Path, paths: set[str], rules: dict[str, str], *, repository: bool) -> None:
    if repository:
        (root / ".git").mkdir()
    for path in sorted(paths, key=len):
        file = root / path
        if not any(parent.is_file() for parent in file.parents) and not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("fish\n")
    for folder, text in rules.items():
        if (root / folder).is_dir():
            (root / folder / ".gitignore").write_text(text + "\n")


@given(paths=st.sets(PATHS, min_size=1, max_size=8), rules=RULES, repository=st.booleans())
@settings(max_examples=tries(40), deadline=None)
def test_single_paths_are_judged_as_ripgrep_judges_them(
    paths: set[str], rules: dict[str, str], repository: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        make_tree(root, paths, rules, repository=repository)
        assert seen(root) == seen_by_ripgrep(root)


@given(paths=st.sets(PATHS, min_size=1, max_size=8), rules=RULES, glob=GLOBS, repository=st.booleans())
@settings(max_examples=tries(40), deadline=None)
def test_a_glob_gives_what_is_not_ignored_and_matches(
    paths: set[str], rules: dict[str, str], glob: str, repository: bool
) -> None:
    """ripgrep's own `--glob` would bring ignored files back."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        make_tree(root, paths, rules, repository=repository)
        every = {path for path in seen_by_ripgrep(root) if compile_glob(glob).fullmatch(path)}
        assert set(asyncio.run(walk(root, rules=IgnoreRules(root), glob=glob))) == every


async def test_hidden_rules_still_hold(tmp_path: Path) -> None:
    plant(tmp_path, {".pilotfishignore": ".gitignore\n", ".gitignore": "a.py\n", "a.py": "", "b.py": ""})
    assert await walk(tmp_path, rules=IgnoreRules(tmp_path), glob="*.py") == ["b.py"]


async def test_rules_above_hold_for_a_glob_in_a_folder_below(tmp_path: Path) -> None:
    plant(tmp_path, {".git/info/exclude": "mine.py\n", ".gitignore": "*.tmp.py\n/sub/gone.py\nout*\n"})
    plant(
        tmp_path, {f"sub/{name}": "" for name in ("a.py", "x.tmp.py", "gone.py", "mine.py", "out.py/b.py", "deep/c.py")}
    )
    assert sorted(await walk(tmp_path / "sub", rules=IgnoreRules(tmp_path), glob="*.py")) == ["a.py", "deep/c.py"]


def test_a_rule_that_brings_a_folder_back_says_nothing_of_what_is_in_it(tmp_path: Path) -> None:
    check(tmp_path, {".gitignore": "a\n!build\n", "build/a/b": "", "build/c": ""}, {".gitignore", "build/c"})
