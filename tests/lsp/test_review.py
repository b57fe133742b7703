"""The review of the agent's changes, in an editor with a plugin and in one without."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.client import OURS, RpcError, connect
from tests.support.provider import call, say
from tests.support.scripted_editor import ABILITIES, CAPABILITIES, ScriptedEditor
from tests.support.served import Rig, served

pytestmark = pytest.mark.asyncio(loop_scope="module")

LINES = "".join(f"line {number}\n" for number in range(1, 21))
CHANGED = LINES.replace("line 3\n", "LINE 3\n").replace("line 15\n", "LINE 15\nnew\n")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("review") / "work"
    folder.mkdir()
    async with served(folder, hello={**OURS, "client": ABILITIES}, capabilities=CAPABILITIES) as rig:
        yield rig


@pytest.fixture
def editor(rig: Rig) -> ScriptedEditor:
    return ScriptedEditor(rig.client)


@pytest.fixture
def file(rig: Rig, request: pytest.FixtureRequest) -> Path:
    file = rig.folder / f"{request.node.name[:40]}.txt"
    file.write_text(LINES)
    return file


def edits(path: str, *pairs: tuple[str, str]) -> Any:
    return call("update_file", path=path, edits=[{"old_string": old, "new_string": new} for old, new in pairs])


async def changed_session(rig: Rig, file: Path) -> str:
    """A session whose agent has changed lines 3 and 15 of a file."""
    session = await rig.client.new_session(mode="edit")
    change = edits(file.name, ("line 3\n", "LINE 3\n"), ("line 15\n", "LINE 15\nnew\n"))
    await rig.client.prompt(session, rig.script(file.name, call("read_file", path=file.name), change, say("done")))
    return session


async def review(rig: Rig, session: str, **params: Any) -> list[Any]:
    return (await rig.client.request("pilotfish/review/list", {"sessionId": session, **params}))["files"]


async def decide(rig: Rig, decision: str, session: str, **params: Any) -> Any:
    return await rig.client.request(f"pilotfish/review/{decision}", {"sessionId": session, **params})


def type_after(editor: ScriptedEditor, file: Path, words: str, typed: str) -> None:
    editor.type(file, editor.text(file).index(words) + len(words), typed)


def places(found: list[Any]) -> list[tuple[int, str, str]]:
    return [(hunk["range"]["start"]["line"], hunk["before"], hunk["after"]) for one in found for hunk in one["hunks"]]


async def test_pending_hunks_are_kept_and_undone_one_by_one(rig: Rig, editor: ScriptedEditor, file: Path) -> None:
    editor.open(file)
    session = await changed_session(rig, file)
    (found,) = await review(rig, session, uri=file.as_uri())
    assert (found["change"], found["added"], found["removed"], found["before"]) == ("edited", 3, 2, LINES)
    assert places([found]) == [(2, "line 3\n", "LINE 3\n"), (14, "line 15\n", "LINE 15\nnew\n")]
    assert {hunk["turnId"] for hunk in found["hunks"]} == {rig.client.updates[-1].turn_id}
    first, second = (hunk["id"] for hunk in found["hunks"])
    await decide(rig, "keep", session, uri=file.as_uri(), hunkIds=[first])
    undone = await decide(rig, "undo", session, uri=file.as_uri(), hunkIds=[second])
    assert [(one["uri"], one["change"]) for one in undone["changes"]] == [(file.as_uri(), "edited")]
    assert editor.text(file) == LINES.replace("line 3\n", "LINE 3\n")
    assert await review(rig, session) == []
    told = [told.update for told in rig.client.updates if told.update.kind == "review_changed"]
    assert [(one.files[0].uri, one.files[0].decision) for one in told] == [
        (file.as_uri(), "keep"),
        (file.as_uri(), "undo"),
    ]


async def test_what_the_user_types_in_and_beside_a_hunk_survives_its_undo(
    rig: Rig, editor: ScriptedEditor, file: Path
) -> None:
    editor.open(file)
    session = await changed_session(rig, file)
    type_after(editor, file, "LINE 3", " mine")
    editor.type(file, 0, "top\n")
    (found,) = await review(rig, session)
    assert places([found])[0] == (3, "line 3 mine\n", "LINE 3 mine\n")
    await decide(rig, "undo", session)
    assert editor.text(file) == LINES.replace("line 3\n", "line 3 mine\n").replace("line 1\n", "top\nline 1\n")


async def test_a_hunk_that_changed_meanwhile_is_refused_with_words(
    rig: Rig, editor: ScriptedEditor, file: Path
) -> None:
    editor.open(file)
    session = await changed_session(rig, file)
    (found,) = await review(rig, session)
    type_after(editor, file, "LINE 3", " mine")
    with pytest.raises(RpcError, match="not pending any more"):
        await decide(rig, "undo", session, uri=file.as_uri(), hunkIds=[found["hunks"][0]["id"]])
    assert "LINE 3 mine" in editor.text(file)


async def test_a_new_file_is_deleted_by_undo_unless_the_user_typed_in_it(rig: Rig, editor: ScriptedEditor) -> None:
    first, second = rig.folder / "new-1.txt", rig.folder / "new-2.txt"
    session = await rig.client.new_session(mode="edit")
    writes = [call("write_file", path=path.name, content="agent\n") for path in (first, second)]
    await rig.client.prompt(session, rig.script("new files", *writes, say("done")))
    assert [(one["change"], one["added"]) for one in await review(rig, session)] == [("created", 1)] * 2
    second.write_text("agent\nmine\n")
    result = await decide(rig, "undo", session)
    assert [one["uri"] for one in result["changes"]] == [first.as_uri()]
    assert [one["uri"] for one in result["refused"]] == [second.as_uri()]
    assert (first.exists(), second.read_text()) == (False, "agent\nmine\n")


async def test_the_review_is_the_same_after_a_crash(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    file = folder / "a.txt"
    file.write_text(LINES)
    async with served(folder) as rig:
        session = await changed_session(rig, file)
        (found,) = await review(rig, session)
        await decide(rig, "keep", session, uri=file.as_uri(), hunkIds=[found["hunks"][0]["id"]])
        (found,) = await review(rig, session)
        rig.client.process.kill()
        await rig.client.ended()
    async with connect(folder) as client:
        again = (await client.request("pilotfish/review/list", {"sessionId": session}))["files"]
    assert again == [found]


async def test_every_line_of_the_agent_names_its_turn(rig: Rig, editor: ScriptedEditor, file: Path) -> None:
    editor.open(file)
    session = await changed_session(rig, file)
    editor.type(file, 0, "mine\n")
    lines = (await rig.client.request("pilotfish/review/blame", {"uri": file.as_uri()}))["lines"]
    assert [(one["range"]["start"]["line"], one["range"]["end"]["line"], one["sessionId"]) for one in lines] == [
        (3, 4, session),
        (15, 17, session),
    ]
    assert {one["promptTitle"] for one in lines} == {f"#{file.name}#"}


async def test_lenses_and_code_actions_review_in_any_editor(rig: Rig, editor: ScriptedEditor, file: Path) -> None:
    editor.open(file)
    await changed_session(rig, file)
    document = {"textDocument": {"uri": file.as_uri()}}
    lenses = await rig.client.request("textDocument/codeLens", document)
    titles = [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in lenses]
    assert titles == [
        (2, "Keep"),
        (2, "Undo"),
        (2, "Next change (1 of 2)"),
        (14, "Keep"),
        (14, "Undo"),
        (14, "Next change (2 of 2)"),
    ]
    at = {"line": 2, "character": 0}
    actions = await rig.client.request(
        "textDocument/codeAction", {**document, "range": {"start": at, "end": at}, "context": {"diagnostics": []}}
    )
    assert [action["title"] for action in actions] == [
        "Pilotfish: Keep this change",
        "Pilotfish: Undo this change",
        "Pilotfish: Next change",
    ]
    shown = list[Any]()

    async def show(params: dict[str, Any]) -> Any:
        shown.append((params["uri"], params["selection"]["start"]["line"]))
        return {"success": True}

    rig.client.answers["window/showDocument"] = show
    await rig.client.request("workspace/executeCommand", actions[2]["command"])
    await rig.client.request("workspace/executeCommand", actions[1]["command"])
    assert shown == [(file.as_uri(), 14)]
    assert editor.text(file) == CHANGED.replace("LINE 3\n", "line 3\n")


async def test_an_editor_without_a_plugin_shows_which_turn_wrote_a_line_on_hover(tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with served(folder) as plain:
        file, other = plain.folder / "hovered.txt", plain.folder / "other.txt"
        for name in (file, other):
            name.write_text(LINES)
        session = await changed_session(plain, file)
        await decide(plain, "keep", session)
        found: list[Any] = []
        for name, line in ((file, 1), (file, 2), (file, 15), (other, 2)):
            asked = {"textDocument": {"uri": name.as_uri()}, "position": {"line": line, "character": 0}}
            found.append(await plain.client.request("textDocument/hover", asked))
        words = {"kind": "plaintext", "value": "Written by Pilotfish: #hovered.txt#\nSession: hovered.txt#"}
        assert found == [None, {"contents": words}, {"contents": words}, None]
