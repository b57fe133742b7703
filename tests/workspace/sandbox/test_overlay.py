"""A command that is tried out changes nothing, and what it would change is known to the byte."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

import pytest

from pilotfish.errors import ToolError
from pilotfish.workspace.process import processes
from pilotfish.workspace.process.processes import Processes, TriedOut
from pilotfish.workspace.sandbox import overlay
from pilotfish.workspace.sandbox.overlay import Change, Content, overlay_works
from pilotfish.workspace.sandbox.sandbox import find_sandbox, no_sandbox

if find_sandbox().bwrap is None and not os.environ.get("PILOTFISH_GATE"):
    pytest.skip(f"the workspace sandbox does not work here: {find_sandbox().reason}", allow_module_level=True)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "home/a root, with: odd \\ name"
    (place / "folder").mkdir(parents=True)
    (place / "a").write_text("one\n")
    (place / "folder/x").write_text("x")
    (place / "folder/y").write_text("y")
    (place / "link").symlink_to("a")
    return place


@pytest.fixture(params=["overlay", "copy"])
async def made(
    request: pytest.FixtureRequest, root: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[Processes]:
    if request.param == "copy":
        monkeypatch.setattr(overlay, "overlay_works", lambda: False)
    elif not overlay_works():
        (pytest.fail if os.environ.get("PILOTFISH_GATE") else pytest.skip)("no overlay can be mounted here")
    sandbox = replace(find_sandbox(), home=root.parent)
    found = Processes([root], sandbox=lambda: sandbox, environ={"PATH": os.environ["PATH"], "HOME": str(root.parent)})
    yield found
    await found.aclose()


async def try_out(made: Processes, command: str, timeout: float = 30) -> TriedOut:
    return await made.try_out(command, timeout=timeout, tell=lambda _: None)


def tree(root: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


CASES: list[tuple[str, list[tuple[str, Content, Content]]]] = [
    ("true", []),
    ("touch a; chmod 600 a; mkdir empty; cat a > /tmp/a; echo x > ~/x", []),
    ("sed -i s/one/two/ a", [("a", b"one\n", b"two\n")]),
    ("sed -i s/one/two/ link", [("link", Path("a"), b"two\n")]),
    ("rm folder/x; echo z > folder/z", [("folder/x", b"x", None), ("folder/z", None, b"z\n")]),
    ("rm -r folder", [("folder/x", b"x", None), ("folder/y", b"y", None)]),
    (
        "rm -r folder; mkdir folder; echo z > folder/y",
        [("folder/x", b"x", None), ("folder/y", b"y", b"z\n")],
    ),
    ("rm -r folder; echo f > folder", [("folder", None, b"f\n"), ("folder/x", b"x", None), ("folder/y", b"y", None)]),
    ("rm link; mkdir link; echo i > link/in", [("link", Path("a"), None), ("link/in", None, b"i\n")]),
    ("mv a b; ln -sf b link", [("a", b"one\n", None), ("b", None, b"one\n"), ("link", Path("a"), Path("b"))]),
    (
        "mv folder other",
        [("folder/x", b"x", None), ("folder/y", b"y", None), ("other/x", None, b"x"), ("other/y", None, b"y")],
    ),
    ("mkdir -p .vscode; echo 1 > .vscode/tasks.json", [(".vscode/tasks.json", None, b"1\n")]),
]


@pytest.mark.parametrize(("command", "changes"), CASES, ids=[command for command, _ in CASES])
async def test_the_changes_are_known_and_not_made(
    made: Processes, root: Path, command: str, changes: list[tuple[str, Content, Content]]
) -> None:
    before = tree(root)
    tried = await try_out(made, command)
    assert (tried.finished.code, tried.changes.incomplete) == (0, "")
    found = [(str(change.path.relative_to(root)), change.before, change.after) for change in tried.changes.files]
    assert found == changes
    assert tree(root) == before
    assert made._launcher.folders is not None
    assert sorted(path.name for path in made._launcher.folders.base.iterdir()) == [
        "empty",
        "gitconfig",
        "home",
        "nothing",
        "tmp",
    ]
    assert not any(made._launcher.folders.home.glob("x"))


async def test_a_program_is_known_by_its_mode(made: Processes, root: Path) -> None:
    tried = await try_out(made, "chmod +x a; cd folder")
    assert tried.changes.files == (Change(path=root / "a", before=b"one\n", after=b"one\n", executable=True),)
    assert made.cwd == root


DEEP = """python3 -c 'import os
for _ in range(3000):
    os.mkdir("x")
    os.chdir("x")
'"""
"""deeper than Python's stack and than the longest path"""


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("chmod 600 a", ("it gives a the mode 600",)),
        ("mkdir empty", ("it makes the empty folder empty",)),
        ("mkdir -m 700 p; echo x > p/x", ("it gives the folder p the mode 700",)),
        ("ln a b", ("it makes a a hard link", "it makes b a hard link")),
        ("echo x > new; mkdir full; echo x > full/x", ()),
        ("mkdir -p e/f; rmdir e/f e", ()),
    ],
)
async def test_what_is_no_content_is_told_in_words(made: Processes, command: str, words: tuple[str, ...]) -> None:
    found = (await try_out(made, command)).changes
    assert found.incomplete == ""
    assert set(found.other) <= set(words)
    assert bool(found.other) == bool(words)


async def test_folders_that_are_gone_are_told_with_their_files(made: Processes, root: Path) -> None:
    (root / "folder/deep").mkdir()
    (root / "folder/deep/z").write_text("z")
    found = (await try_out(made, "rm -r folder")).changes
    assert (found.removed_folders, found.other) == ((root / "folder/deep", root / "folder"), ())
    found = (await try_out(made, "rm folder/deep/z; rmdir folder/deep")).changes
    assert (found.removed_folders, found.other) == ((root / "folder/deep",), ())


async def test_folders_that_are_nested_too_deeply_are_told_and_removed(made: Processes) -> None:
    found = (await try_out(made, DEEP)).changes
    assert found.incomplete
    assert made._launcher.folders is not None
    assert not list(made._launcher.folders.base.glob("view-*"))


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("mkfifo p", "p is neither a file nor a link"),
        ("truncate -s 100M big", "the command changed too much to be shown"),
    ],
)
async def test_what_cannot_be_shown_is_said(made: Processes, command: str, why: str) -> None:
    assert (await try_out(made, command)).changes.incomplete == why


async def test_a_file_that_somebody_else_changes_meanwhile_is_told(made: Processes, root: Path) -> None:
    trying = asyncio.ensure_future(
        made.try_out("echo x > a; echo up; sleep 1", timeout=30, tell=lambda _: changed.set())
    )
    changed = asyncio.Event()
    await changed.wait()
    (root / "a").write_text("the user's own")
    assert "changed by somebody else" in (await trying).changes.incomplete


async def test_it_has_no_network_and_ends_when_it_must(made: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    made.confine(replace(made.sandbox, hosts=("*",)))
    tried = await try_out(made, "curl -sSf https://pypi.org/")
    assert tried.finished.denied.hosts == ("pypi.org",)
    assert (await try_out(made, "sleep 60", timeout=0.5)).finished.stopped
    monkeypatch.setattr(processes, "MAX_WRITTEN_BYTES", 1 << 20)
    with pytest.raises(ToolError, match="it wrote more than 1 MB"):
        await try_out(made, "head -c 2000000 /dev/zero > big; sleep 60")


async def test_the_workspace_does_not_provide_the_programs_outside(root: Path) -> None:
    for name in ("unshare", "mount", "sh", "touch"):
        (root / name).write_text(f"#!/bin/bash\ntouch '{root}/sprung'\n")
        (root / name).chmod(0o755)
    environ = {"PATH": f"{root}:{os.environ['PATH']}", "HOME": str(root.parent)}
    made = Processes([root], environ=environ)
    await try_out(made, "echo x > y")
    await made.aclose()
    assert not (root / "sprung").exists()


async def test_where_nothing_can_be_tried_out_it_is_said(
    made: Processes, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overlay, "overlay_works", lambda: False)
    monkeypatch.setattr(overlay, "MAX_COPIED_FILES", 2)
    with pytest.raises(ToolError, match="too large to be copied"):
        await try_out(made, "true")
    made.confine(no_sandbox("turned off"))
    with pytest.raises(ToolError, match="cannot be tried out here: turned off"):
        await try_out(made, "true")
