"""The editor's buffers: edits go through them, with exact versions, around what the user types."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.client import OURS, never
from tests.support.provider import call, say
from tests.support.scripted_editor import ABILITIES, CAPABILITIES, ScriptedEditor
from tests.support.served import Rig, served

pytestmark = pytest.mark.asyncio(loop_scope="module")


@contextlib.asynccontextmanager
async def edited(
    tmp_path: Path, encoding: str = "utf-16", **abilities: bool
) -> AsyncGenerator[tuple[Rig, ScriptedEditor, Path]]:
    folder = tmp_path / "work"
    folder.mkdir()
    hello = {**OURS, "client": {**ABILITIES, **abilities}}
    capabilities = {**CAPABILITIES, "general": {"positionEncodings": [encoding]}}
    async with served(folder, hello=hello, capabilities=capabilities) as rig:
        assert rig.client.initialized["capabilities"]["positionEncoding"] == encoding
        yield rig, ScriptedEditor(rig.client, encoding), folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    async with edited(tmp_path_factory.mktemp("edited")) as (rig, _, _):
        yield rig


@pytest.fixture
def editor(rig: Rig) -> ScriptedEditor:
    return ScriptedEditor(rig.client)


@pytest.fixture
def folder(rig: Rig, request: pytest.FixtureRequest) -> Path:
    """A folder of this test's own, below the workspace."""
    folder = rig.folder / request.node.name[:40]
    folder.mkdir(exist_ok=True)
    return folder


def replace(path: str, *pairs: tuple[str, str]) -> Any:
    return call("update_file", path=path, edits=[{"old_string": old, "new_string": new} for old, new in pairs])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_an_edit_goes_through_the_open_buffer_and_keeps_what_is_not_saved(tmp_path: Path, encoding: str):
    async with edited(tmp_path, encoding) as (rig, editor, folder):
        file = folder / "a.txt"
        file.write_text("on disk\n")
        editor.open(file, "unsaved 😀 é words\nmore 中 of it, and an old thing\n")
        session = await rig.client.new_session(mode="edit")
        name = rig.script("buffer", call("read_file", path="a.txt"), replace("a.txt", ("old thing", "new 😀 thing")))
        rig.scripts.replies["buffer"].append(say("done"))
        result = await rig.client.prompt(session, name)
        assert result.stop_reason == "end_turn"
        assert editor.text(file) == "unsaved 😀 é words\nmore 中 of it, and an new 😀 thing\n"
        assert "unsaved 😀" in str(rig.provider.requests[-1].messages)
        change = editor.edits[0]["edit"]["documentChanges"][0]
        assert change["textDocument"] == {"uri": file.as_uri(), "version": 1}
        told = [told.update for told in rig.client.updates if told.update.kind == "file_changed"]
        assert [(update.uri, update.via) for update in told] == [(file.as_uri(), "buffer")]


async def test_several_hunks_are_one_edit_and_so_one_undo(rig: Rig, editor: ScriptedEditor, folder: Path):
    file = folder / "a.txt"
    file.write_text("one\ntwo\nthree\n")
    editor.open(file)
    session = await rig.client.new_session(mode="edit", workspaceFolder=folder.as_uri())
    name = rig.script(
        "hunks", call("read_file", path="a.txt"), replace("a.txt", ("one", "1"), ("three", "3")), say("done")
    )
    await rig.client.prompt(session, name)
    assert editor.text(file) == "1\ntwo\n3\n"
    assert len(editor.edits) == 1


async def test_the_users_typing_meanwhile_is_never_lost(rig: Rig, editor: ScriptedEditor, folder: Path):
    file = folder / "a.txt"
    file.write_text("first\nsecond\nthird\n")
    editor.open(file)
    typed: list[int] = []

    def type_once() -> None:
        if not typed:
            typed.append(1)
            editor.type(file, 0, "typed meanwhile\n")

    editor.before_edit = type_once
    session = await rig.client.new_session(mode="edit", workspaceFolder=folder.as_uri())
    name = rig.script("typing", call("read_file", path="a.txt"), replace("a.txt", ("third", "3")), say("done"))
    await rig.client.prompt(session, name)
    assert editor.text(file) == "typed meanwhile\nfirst\nsecond\n3\n"
    assert len(editor.edits) == 2


async def test_a_file_that_is_not_open_is_held_first_so_that_the_edit_can_be_undone(
    rig: Rig, editor: ScriptedEditor, folder: Path
):
    file = folder / "closed.txt"
    file.write_text("old\n")
    session = await rig.client.new_session(mode="edit", workspaceFolder=folder.as_uri())
    name = rig.script("held", call("read_file", path="closed.txt"), replace("closed.txt", ("old", "new")))
    rig.scripts.replies["held"].append(say("done"))
    await rig.client.prompt(session, name)
    assert editor.opened == [file.as_uri()]
    assert editor.text(file) == "new\n"


async def test_an_editor_that_says_nothing_costs_its_answer_and_not_the_turn(rig: Rig):
    rig.client.answers["pilotfish/editor/diagnostics"] = never
    rig.client.answers["pilotfish/editor/symbols"] = never
    answer = await rig.client.request("pilotfish/mention/complete", {"query": "zzz"})
    assert answer == {"mentions": []}


async def test_symbols_of_other_language_servers_can_be_mentioned(rig: Rig, folder: Path):
    where = {"start": {"line": 3, "character": 0}, "end": {"line": 3, "character": 5}}

    async def symbols(params: dict[str, Any]) -> Any:
        assert params == {"query": "Parser"}
        location = {"uri": (folder / "p.py").as_uri(), "range": where}
        return {"symbols": [{"name": "Parser", "kind": 5, "containerName": "p", "location": location}]}

    rig.client.answers["pilotfish/editor/symbols"] = symbols
    answer = await rig.client.request("pilotfish/mention/complete", {"query": "Parser"})
    assert answer["mentions"] == [
        {
            "kind": "symbol",
            "uri": (folder / "p.py").as_uri(),
            "label": "Parser",
            "insert": "Parser",
            "detail": "p",
            "range": where,
        }
    ]


async def test_the_preview_of_a_question_is_shown_by_command(rig: Rig, editor: ScriptedEditor, folder: Path):
    (folder / "a.txt").write_text("old\n")
    rig.client.answers["pilotfish/approval/request"] = never
    session = await rig.client.new_session(workspaceFolder=folder.as_uri())
    name = rig.script("preview", call("read_file", path="a.txt"), replace("a.txt", ("old", "new")), say("done"))
    turn = rig.client.begin(session, name)
    await rig.client.until(lambda: bool(rig.client.of("pilotfish/approval/request")))
    asked = rig.client.of("pilotfish/approval/request")[0]
    run = {"command": "pilotfish.preview", "arguments": [{"approvalId": asked["approvalId"]}]}
    assert await rig.client.request("workspace/executeCommand", run) == {"shown": True}
    assert [(diff["before"], diff["after"]) for diff in editor.diffs] == [("old\n", "new\n")]
    await rig.client.until(lambda: bool(rig.client.of("workspace/codeLens/refresh")))
    await rig.client.request("pilotfish/session/cancel", {"sessionId": session})
    assert (await asyncio.wait_for(turn, 30)).stop_reason == "cancelled"
    resolved = rig.client.of("pilotfish/approval/resolved")
    assert [(one["approvalId"], one["optionId"]) for one in resolved] == [(asked["approvalId"], "cancelled")]
