"""Inline edits, in an editor with a plugin and in one without."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.client import OURS, RpcError
from tests.support.provider import Gate, Reply, Text, call, say
from tests.support.scripted_editor import ABILITIES, CAPABILITIES, ScriptedEditor
from tests.support.served import Rig, served
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

LINES = "".join(f"line {number}\n" for number in range(1, 21))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("inline") / "work"
    folder.mkdir()
    hello = {**OURS, "client": {**ABILITIES, "inlineEdit": True}}
    async with served(folder, hello=hello, capabilities=CAPABILITIES) as rig:
        yield rig


@pytest.fixture
def editor(rig: Rig) -> ScriptedEditor:
    return ScriptedEditor(rig.client)


@pytest.fixture
def file(rig: Rig, editor: ScriptedEditor, request: pytest.FixtureRequest) -> Path:
    file = rig.folder / f"{request.node.name[:40]}.txt"
    file.write_text(LINES)
    editor.open(file)
    return file


def change(path: str, old: str, new: str) -> Reply:
    return call("update_file", path=path, edits=[{"old_string": old, "new_string": new}])


def lines(first: int, end: int) -> dict[str, Any]:
    return {"start": {"line": first, "character": 0}, "end": {"line": end, "character": 0}}


async def edit(rig: Rig, file: Path, words: str, **more: Any) -> Any:
    params: dict[str, Any] = {"uri": file.as_uri(), "range": lines(2, 3), "prompt": words, **more}
    return await rig.client.request("pilotfish/edit/inline", params)


async def hunks(rig: Rig, session: str) -> list[tuple[str, str]]:
    found = (await rig.client.request("pilotfish/review/list", {"sessionId": session}))["files"]
    return [(hunk["before"], hunk["after"]) for one in found for hunk in one["hunks"]]


async def lens_titles(rig: Rig, file: Path) -> list[str]:
    found = await rig.client.request("textDocument/codeLens", {"textDocument": {"uri": file.as_uri()}})
    return [lens["command"]["title"] for lens in found]


async def test_an_edit_runs_in_a_session_of_its_own_and_is_pending(rig: Rig, editor: ScriptedEditor, file: Path):
    name = rig.script("shout", change(file.name, "line 3\n", "LINE 3\n"), say("Louder now."))
    result = await edit(rig, file, name)
    assert result["stopReason"] == "end_turn"
    assert editor.text(file) == LINES.replace("line 3\n", "LINE 3\n")
    assert [len(edit["edit"]["documentChanges"]) for edit in editor.edits] == [1]
    assert await hunks(rig, result["sessionId"]) == [("line 3\n", "LINE 3\n")]
    assert len(result["hunkIds"]) == 1
    assert await lens_titles(rig, file) == ["Keep", "Undo", "Retry"]
    asked = rig.provider.requests[-2].messages[-1]
    assert "At line 3 of" in str(asked)
    assert "line 20" in str(asked)


async def test_a_follow_up_refines_the_same_hunk(rig: Rig, editor: ScriptedEditor, file: Path):
    first = await edit(rig, file, rig.script("loud", change(file.name, "line 3\n", "LINE 3\n"), say("ok")))
    name = rig.script("louder", change(file.name, "LINE 3\n", "LINE 3!\n"), say("ok"))
    second = await edit(rig, file, name, sessionId=first["sessionId"])
    assert second["sessionId"] == first["sessionId"]
    assert await hunks(rig, first["sessionId"]) == [("line 3\n", "LINE 3!\n")]
    await rig.client.request(
        "pilotfish/review/undo",
        {"sessionId": first["sessionId"], "uri": file.as_uri(), "hunkIds": second["hunkIds"]},
    )
    assert editor.text(file) == LINES


async def test_retry_undoes_the_edit_and_asks_the_model_again(rig: Rig, editor: ScriptedEditor, file: Path):
    replies = change(file.name, "line 3\n", "LINE 3\n"), say("ok"), change(file.name, "line 3\n", "Line 3\n"), say("ok")
    first = await edit(rig, file, rig.script("as a title", *replies))
    again = await rig.client.request("pilotfish/edit/retry", {"sessionId": first["sessionId"]})
    assert "I have undone your edit" in str(rig.provider.requests[-2].messages[-1])
    assert await hunks(rig, again["sessionId"]) == [("line 3\n", "Line 3\n")]
    assert editor.text(file) == LINES.replace("line 3\n", "Line 3\n")


async def test_an_undo_waits_for_an_edit_that_is_being_made(rig: Rig, editor: ScriptedEditor, file: Path):
    first = await edit(rig, file, rig.script("made", change(file.name, "line 3\n", "LINE 3\n"), say("ok")))
    save, may_save = rig.client.answers["pilotfish/editor/save"], asyncio.Event()

    async def slow(params: Any) -> Any:
        await may_save.wait()
        return await save(params)

    rig.client.answers["pilotfish/editor/save"] = slow
    more = rig.script("more", change(file.name, "LINE 3\n", "the LINE\n"), say("ok"))
    refining = asyncio.create_task(edit(rig, file, more, sessionId=first["sessionId"]))
    await until(lambda: "the LINE\n" in editor.text(file))
    undo = {"sessionId": first["sessionId"], "uri": file.as_uri()}
    undoing = asyncio.create_task(rig.client.request("pilotfish/review/undo", undo))
    await rig.client.request("pilotfish/status")
    may_save.set()
    await asyncio.gather(refining, undoing)
    assert editor.text(file) == LINES


async def test_an_undo_waits_for_an_edit_that_is_being_stopped(rig: Rig, editor: ScriptedEditor, file: Path):
    first = await edit(rig, file, rig.script("once", change(file.name, "line 3\n", "LINE 3\n"), say("ok")))
    save, may_save = rig.client.answers["pilotfish/editor/save"], asyncio.Event()

    async def slow(params: Any) -> Any:
        await may_save.wait()
        return await save(params)

    rig.client.answers["pilotfish/editor/save"] = slow
    more = rig.script("stopped", change(file.name, "LINE 3\n", "the LINE\n"), say("ok"))
    refining = asyncio.create_task(edit(rig, file, more, sessionId=first["sessionId"]))
    await until(lambda: "the LINE\n" in editor.text(file))
    session = {"sessionId": first["sessionId"]}
    stopping = asyncio.create_task(rig.client.request("pilotfish/session/cancel", session))
    undo = {**session, "uri": file.as_uri()}
    undoing = asyncio.create_task(rig.client.request("pilotfish/review/undo", undo))
    await rig.client.request("pilotfish/status")
    may_save.set()
    await asyncio.gather(refining, stopping, undoing)
    assert editor.text(file) == LINES


async def test_only_the_file_itself_is_edited_without_a_question(rig: Rig, file: Path):
    asked: list[Any] = []

    async def refuse(params: Any) -> Any:
        asked.append([one["uri"] for one in params["preview"]["files"]])
        return {"optionId": "reject"}

    rig.client.answers["pilotfish/approval/request"] = refuse
    other = rig.folder / "other.txt"
    write = call("write_file", path="other.txt", content="new\n")
    result = await edit(rig, file, rig.script("two", change(file.name, "line 3\n", "3\n"), write, say("ok")))
    assert asked == [[other.as_uri()]]
    assert not other.exists()
    assert await hunks(rig, result["sessionId"]) == [("line 3\n", "3\n")]


async def test_a_file_that_could_hold_a_secret_is_asked_about(rig: Rig, editor: ScriptedEditor):
    file = rig.folder / ".env"
    file.write_text("KEY=1\n")
    editor.open(file)
    asked: list[Any] = []

    async def refuse(params: Any) -> Any:
        asked.append(params["call"]["name"])
        return {"optionId": "reject"}

    rig.client.answers["pilotfish/approval/request"] = refuse
    result = await edit(rig, file, rig.script("env", change(".env", "KEY=1", "KEY=2"), say("ok")), range=lines(0, 1))
    assert (asked, result["hunkIds"], file.read_text()) == (["update_file"], [], "KEY=1\n")


async def test_an_instruction_that_begins_with_a_slash_is_no_command(rig: Rig, file: Path):
    result = await edit(rig, file, "/undo " + rig.script("slash", say("Nothing to do.")))
    assert result.get("reply") is None
    assert "/undo" in str(rig.provider.requests[-1].messages[-1])


async def test_a_cancelled_edit_is_answered_and_changes_nothing(rig: Rig, editor: ScriptedEditor, file: Path):
    name = rig.script("slow", Reply(parts=(Gate(), Text("never"))))
    params = {"uri": file.as_uri(), "range": lines(2, 3), "prompt": name}
    waiting = rig.client.ask("pilotfish/edit/inline", params, "the-edit")
    await rig.client.until(lambda: any(update.update.kind == "turn_started" for update in rig.client.updates))
    rig.client.notify("$/cancelRequest", {"id": "the-edit"})
    assert (await waiting)["stopReason"] == "cancelled"
    assert editor.text(file) == LINES


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"uri": "untitled:1"}, "not a file URI"),
        ({"prompt": "  "}, "say what to change"),
        ({"sessionId": "ses_x"}, "not belong to this window"),
    ],
)
async def test_what_cannot_be_edited_is_refused_with_words(rig: Rig, file: Path, params: dict[str, Any], words: str):
    with pytest.raises(RpcError, match=words):
        await edit(rig, file, "x", **params)


async def test_an_untrusted_folder_is_not_edited(tmp_path: Path):
    (tmp_path / "work").mkdir()
    async with served(tmp_path / "work", hello={**OURS, "client": ABILITIES, "trusted": False}) as rig:
        file = rig.folder / "a.txt"
        file.write_text(LINES)
        with pytest.raises(RpcError, match="not trusted"):
            await edit(rig, file, "x")
        assert (await rig.client.request("pilotfish/session/list", {}))["sessions"] == []


async def test_a_client_that_can_ask_is_offered_the_edit(rig: Rig, file: Path):
    context: dict[str, Any] = {"diagnostics": []}
    params = {"textDocument": {"uri": file.as_uri()}, "range": lines(2, 3), "context": context}
    offered = [
        await rig.client.request("codeAction/resolve", action)
        for action in await rig.client.request("textDocument/codeAction", params)
    ]
    action = next(one for one in offered if one["title"] == "Edit with Pilotfish…")
    assert action["command"]["command"] == "pilotfish.edit"
    assert action["command"]["arguments"] == [{"uri": file.as_uri(), "range": lines(2, 3)}]
