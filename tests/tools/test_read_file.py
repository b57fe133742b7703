from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.tools import Bench, bench

from pilotfish.conversation.messages import Location
from pilotfish.errors import Refused, ToolError
from pilotfish.tools.files.read_file import TOOL, ReadFileArgs
from pilotfish.tools.tool import Subject, Touch
from pilotfish.workspace.files import view


@pytest.fixture
async def at(tmp_path: Path):
    async with bench(tmp_path.resolve()) as found:
        yield found


def root(at: Bench) -> Path:
    return at.workspace.roots[0]


async def test_lines_are_numbered(at: Bench) -> None:
    (root(at) / "x").write_text("one\n\n\tthree\n")
    assert await at.text(TOOL, path="x") == "     1\tone\n     2\t\n     3\t\tthree"


async def test_a_window_says_where_it_is_and_how_to_go_on(at: Bench) -> None:
    (root(at) / "x").write_text("".join(f"{number}\n" for number in range(1, 11)))
    assert await at.text(TOOL, path="x", offset=4, limit=2) == (
        "     4\t4\n     5\t5\n[lines 4-5 of 10; continue with offset=6]"
    )
    assert await at.text(TOOL, path="x", offset=9) == "     9\t9\n    10\t10\n[lines 9-10 of 10]"
    with pytest.raises(ToolError, match="x has 10 lines; offset 11 is past its end"):
        await at.run(TOOL, path="x", offset=11)


async def test_a_long_file_is_cut_to_what_the_model_is_given(at: Bench) -> None:
    (root(at) / "x").write_text("".join(f"{number} {'x' * 90}\n" for number in range(1, 1001)))
    text = await at.text(TOOL, path="x")
    assert len(text) < 20_000
    assert text.endswith("[lines 1-191 of 1000; continue with offset=192]")


async def test_a_line_without_end_is_cut(at: Bench) -> None:
    (root(at) / "x").write_text("x" * 5000 + "\nnext\n")
    assert await at.text(TOOL, path="x") == (
        f"     1\t{'x' * 2000}… [3,000 more characters in this line]\n     2\tnext"
    )


async def test_what_is_unusual_about_a_file_is_said(at: Bench) -> None:
    (root(at) / "x").write_bytes("één\r\ntwo".encode("latin-1"))
    assert (await at.text(TOOL, path="x")).endswith(
        "[CRLF line endings; edits keep them; encoding latin-1; edits keep it; no newline at the end]"
    )
    (root(at) / "x").write_bytes(b"one\r\ntwo\n")
    assert (await at.text(TOOL, path="x")).endswith("[mixed line endings; lines that you do not edit keep theirs]")
    (root(at) / "x").write_bytes(b"")
    assert await at.text(TOOL, path="x") == "[the file is empty]"


async def test_unsaved_text_is_what_is_read(at: Bench) -> None:
    (root(at) / "x").write_text("saved\n")
    at.editor.type_in(root(at) / "x", "typed\n")
    assert await at.text(TOOL, path="x") == (
        "     1\ttyped\n[open in the editor with unsaved changes; this is the unsaved text]"
    )


async def test_only_lines_that_end_for_an_editor_are_lines(at: Bench) -> None:
    (root(at) / "x").write_text("one\x0ctwo\u2028three\x85\nfour\n")
    assert await at.text(TOOL, path="x", offset=2) == "     2\tfour\n[lines 2-2 of 2]"


async def test_a_folder_is_listed(at: Bench) -> None:
    (root(at) / "sub").mkdir()
    (root(at) / "sub/x.py").touch()
    assert await at.text(TOOL, path="sub") == "sub/\n  x.py"


async def test_what_cannot_be_read_is_an_error_with_advice(at: Bench) -> None:
    (root(at) / "notes.txt").touch()
    with pytest.raises(ToolError, match=r"note.txt does not exist. Did you mean notes.txt\?"):
        await at.run(TOOL, path="note.txt")
    (root(at) / "image").write_bytes(b"\x89PNG\0")
    with pytest.raises(Refused, match="a PNG image"):
        await at.run(TOOL, path="image")
    os.mkfifo(root(at) / "pipe")
    with pytest.raises(Refused, match="is a pipe"):
        await at.run(TOOL, path="pipe")
    with pytest.raises(Refused, match="running system"):
        await at.run(TOOL, path="/proc/self/environ")


async def test_a_directory_that_vanished_is_an_error(at: Bench) -> None:
    root(at).rmdir()
    with pytest.raises(ToolError, match="x does not exist"):
        await at.run(TOOL, path="x")


async def test_a_file_too_big_to_be_edited_is_read_in_windows(at: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    really = view.load
    monkeypatch.setattr(view, "load", lambda path: really(path, 1000))  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType] -- a path
    (root(at) / "x").write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    assert await at.text(TOOL, path="x", offset=500, limit=2) == (
        "   500\tline 500\n   501\tline 501\n"
        "[lines 500-501 of a file of 0 MB, too big to be edited with update_file; continue with offset=502]"
    )
    with pytest.raises(ToolError, match="x has no line 2000"):
        await at.run(TOOL, path="x", offset=2000)
    (root(at) / "disk.img").write_bytes(bytes(5000))
    with pytest.raises(Refused, match=r"^disk.img is not text \(5,000 bytes\)"):
        await at.run(TOOL, path="disk.img")


async def test_a_path_that_leads_elsewhere_since_it_was_judged_is_refused(at: Bench) -> None:
    (root(at) / "x").write_text("fine\n")
    (root(at) / ".env").write_text("SECRET=1\n")
    context = replace(at.context(), judged={"x": root(at) / "x"})
    await TOOL.run(context, ReadFileArgs(path="x"))
    (root(at) / "x").unlink()
    (root(at) / "x").symlink_to(".env")
    with pytest.raises(Refused, match="resolves to a different file than the one that was allowed"):
        await TOOL.run(context, ReadFileArgs(path="x"))


def test_people_and_policy_are_told(at: Bench) -> None:
    args = ReadFileArgs(path="src/x.py")
    assert TOOL.title(args) == "Read src/x.py"
    assert TOOL.title(ReadFileArgs(path="x", offset=10, limit=5)) == "Read x, lines 10-14"
    assert TOOL.subject(args) == Subject(touches=(Touch(path="src/x.py", access="read"),))
    uri = (root(at) / "src/x.py").as_uri()
    assert TOOL.locations(at.context(), args) == (Location(uri=uri),)
    assert TOOL.locations(at.context(), ReadFileArgs(path="src/x.py", offset=10)) == (
        Location(uri=uri, range=(9, 0, 9, 0)),
    )


@pytest.mark.parametrize("bad", [{}, {"path": "x", "offset": 0}, {"path": "x", "limit": 0}, {"path": "x", "lines": 3}])
async def test_bad_arguments_are_named(at: Bench, bad: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        await at.run(TOOL, **bad)
