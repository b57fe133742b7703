"""Clients with no plugin: standard LSP alone, from a prompt on a selection to the edit with undo."""

from __future__ import annotations

import asyncio
import contextlib
import tomllib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.client import RpcError, connect, never
from tests.support.provider import Gate, Reply, Text, call, fails, say
from tests.support.scripted_editor import ScriptedEditor, path_at
from tests.support.served import Rig, served
from tests.support.waiting import until

from pilotfish.lsp.generic_client.generic_client import WAITING_WORDS

CAPABILITIES: dict[str, Any] = {
    "workspace": {"applyEdit": True},
    "window": {"workDoneProgress": True, "showDocument": {"support": True}},
}


class PlainEditor(ScriptedEditor):
    """An editor that shows progress, messages and documents, and presses the buttons it is told to."""

    def __init__(self, rig: Rig) -> None:
        super().__init__(rig.client)
        self.buttons: list[str | None] = []
        """titles (or their beginnings) to press, in order; None dismisses; when there are none left, it waits"""
        self.asked: list[dict[str, Any]] = []
        self.shown: list[Path] = []
        self.lines: list[int] = []
        """the line at which each document was shown"""
        rig.client.answers = {
            "workspace/applyEdit": self._apply,
            "window/workDoneProgress/create": self._nothing,
            "window/showMessageRequest": self._press,
            "window/showDocument": self._show,
        }

    async def _press(self, params: dict[str, Any]) -> Any:
        self.asked.append(params)
        await until(lambda: self.buttons)
        wanted = self.buttons.pop(0)
        if wanted is None:
            return None
        return next(action for action in params["actions"] if action["title"].startswith(wanted))

    async def _show(self, params: dict[str, Any]) -> Any:
        self.shown.append(path_at(params["uri"]))
        self.lines.append(params["selection"]["start"]["line"])
        return {"success": True}

    def messages(self) -> list[str]:
        return [params["message"] for params in self.client.of("window/showMessage")]

    def progress(self) -> list[dict[str, Any]]:
        """Of turns; a server that is still loading shows that too."""
        told = self.client.of("$/progress")
        turns = {params["token"] for params in told if params["value"].get("title") == "Pilotfish"}
        return [params["value"] for params in told if params["token"] in turns]

    async def run(self, command: str, *arguments: Any) -> Any:
        return await self.client.request("workspace/executeCommand", {"command": command, "arguments": list(arguments)})

    async def done(self, turns: int = 1) -> None:
        """That many pieces of work are over, and what they have to say is said."""
        await self.client.until(lambda: [value["kind"] for value in self.progress()].count("end") >= turns)
        await self.client.request("pilotfish/status")


pytestmark = pytest.mark.asyncio(loop_scope="module")


def at(line: int, character: int) -> dict[str, int]:
    return {"line": line, "character": character}


@contextlib.asynccontextmanager
async def plainly(
    tmp_path: Path, capabilities: dict[str, Any] = CAPABILITIES, **more: Any
) -> AsyncGenerator[tuple[Rig, PlainEditor, Path]]:
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    async with served(folder, hello=None, capabilities=capabilities, home=tmp_path / "home", **more) as rig:
        yield rig, PlainEditor(rig), folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    """A server whose folder is trusted already."""
    place = tmp_path_factory.mktemp("plain")
    (place / "home").mkdir()
    (place / "home" / "config.toml").write_text(f'[workspace."{place / "work"}"]\ntrusted = true\n')
    async with plainly(place) as (rig, _, _):
        yield rig


@pytest.fixture
def editor(rig: Rig) -> PlainEditor:
    return PlainEditor(rig)


async def test_the_commands_are_advertised_and_our_own_methods_are_not_needed(rig: Rig):
    offered = rig.client.initialized["capabilities"]["executeCommandProvider"]["commands"]
    names = ("prompt", "cancel", "sessions", "undo", "approve")
    assert {f"pilotfish.{name}" for name in names} <= set(offered)


async def test_a_cancel_right_behind_a_prompt_stops_it(rig: Rig, editor: PlainEditor):
    async def slowly(_: dict[str, Any]) -> None:
        await asyncio.sleep(0.3)

    rig.client.answers["window/workDoneProgress/create"] = slowly
    await editor.run("pilotfish.prompt", rig.script("stopped", say("never said")))
    await editor.run("pilotfish.cancel")
    await editor.done()
    assert editor.messages() == ["Stopped."]


async def test_a_code_action_has_a_session_of_its_own_and_the_chat_goes_on(rig: Rig, editor: PlainEditor):
    file = rig.folder / "own.txt"
    file.write_text("one\ntwo\n")
    uri = editor.open(file)
    chat = await editor.run("pilotfish.prompt", {"prompt": rig.script("long talk", say("Yes.")), "new": True})
    await editor.done()
    where = {"start": at(0, 0), "end": at(1, 0)}
    context: dict[str, Any] = {"diagnostics": []}
    params = {"textDocument": {"uri": uri}, "range": where, "context": context}
    actions = await rig.client.request("textDocument/codeAction", params)
    action = next(one for one in actions if one["title"] == "Explain with Pilotfish")
    rig.scripts.add("Explain this code.", say("It is text."))
    action["command"]["arguments"][0]["prompt"][0]["text"] = "#Explain this code.#"
    own = await editor.run("pilotfish.prompt", *action["command"]["arguments"])
    await editor.done(2)
    assert own["sessionId"] != chat["sessionId"]
    assert "long talk" not in str(rig.provider.requests[-1].messages)
    again = await editor.run("pilotfish.prompt", rig.script("go on", say("Still here.")))
    await editor.done(3)
    assert again["sessionId"] == chat["sessionId"]


async def test_an_inline_edit_is_annotated_and_kept_or_undone_by_lenses(tmp_path: Path):
    annotations: dict[str, Any] = {"workspaceEdit": {"documentChanges": True, "changeAnnotationSupport": {}}}
    capabilities = {**CAPABILITIES, "workspace": {"applyEdit": True, **annotations}}
    async with plainly(tmp_path, capabilities) as (rig, editor, folder):
        file = folder / "a.py"
        file.write_text("def f():\n    return 1\n")
        uri = editor.open(file)
        editor.buttons = ["Trust this folder"]
        edits = [{"old_string": "return 1", "new_string": "return 2"}]
        name = rig.script("two", call("update_file", path="a.py", edits=edits), say("It is 2 now."))
        where = {"start": at(1, 0), "end": at(2, 0)}
        await editor.run("pilotfish.edit", {"uri": uri, "range": where, "prompt": name, "wait": True})
        assert editor.text(file) == "def f():\n    return 2\n"
        assert [value["kind"] for value in editor.progress()][-1] == "end"
        (applied,) = editor.edits
        assert applied["edit"]["changeAnnotations"] == {"Pilotfish": {"label": "Pilotfish"}}
        assert [edit["annotationId"] for edit in applied["edit"]["documentChanges"][0]["edits"]] == ["Pilotfish"]
        lenses = await rig.client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
        assert [lens["command"]["title"] for lens in lenses] == ["Keep", "Undo", "Retry"]
        rig.scripts.add(
            "two", call("update_file", path="a.py", edits=[{**edits[0], "new_string": "return 3"}]), say("3")
        )
        await editor.run(lenses[2]["command"]["command"], *lenses[2]["command"]["arguments"])
        await editor.done(2)
        assert editor.text(file) == "def f():\n    return 3\n"
        lenses = await rig.client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
        await editor.run(lenses[1]["command"]["command"], *lenses[1]["command"]["arguments"])
        assert editor.text(file) == "def f():\n    return 1\n"


async def test_undo_means_the_last_prompt_also_if_it_had_a_session_of_its_own(rig: Rig, editor: PlainEditor):
    file = rig.folder / "fixed.txt"
    file.write_text("one\n")
    editor.buttons = ["Allow once"] * 2
    edit = call("write_file", path="fixed.txt", content="two\n")
    await editor.run("pilotfish.prompt", {"prompt": rig.script("talk", say("Yes.")), "new": True})
    await editor.done()
    await editor.run(
        "pilotfish.prompt",
        {"prompt": rig.script("fix", call("read_file", path="fixed.txt"), edit, say("done")), "own": True},
    )
    await editor.done(2)
    assert file.read_text() == "two\n"
    await editor.run("pilotfish.undo")
    assert file.read_text() == "one\n"


async def test_a_prompt_on_a_selection_edits_with_approval_and_undo(tmp_path: Path):
    async with plainly(tmp_path) as (rig, editor, folder):
        file = folder / "a.py"
        file.write_text("def f():\n    return 1\n")
        uri = editor.open(file, "def f():\n    return 1  # unsaved\n")
        selection = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 12}}
        edits = [{"old_string": "return 1", "new_string": "return 2"}]
        replies = call("read_file", path="a.py"), call("update_file", path="a.py", edits=edits), say("It is 2 now.")
        editor.buttons = ["Trust this folder", "Allow once"]
        name = rig.script("plain", *replies)
        started = await editor.run("pilotfish.prompt", {"prompt": name, "uri": uri, "range": selection})
        assert started["sessionId"]
        await editor.done()
        assert editor.text(file) == "def f():\n    return 2  # unsaved\n"
        assert editor.messages() == ["It is 2 now."]
        assert "return 1" in str(rig.provider.requests[0].messages)
        kinds = [value["kind"] for value in editor.progress()]
        assert kinds[0] == "begin"
        assert kinds[-1] == "end"
        assert "Edit a.py" in str(editor.progress())
        # What the question is about is shown before it is asked, and cleared when it is answered.
        question = editor.asked[1]
        assert question["message"].startswith("Edit a.py?")
        assert len(question["message"]) <= 120
        assert [path.suffix for path in editor.shown] == [".diff"]
        assert editor.shown[0].read_text() == ""
        undone = await editor.run("pilotfish.undo")
        assert len(undone["changes"]) == 1
        assert editor.text(file) == "def f():\n    return 1  # unsaved\n"
        assert editor.messages()[-1] == "1 file put back."
        await editor.run("pilotfish.redo")
        assert editor.text(file) == "def f():\n    return 2  # unsaved\n"
        assert rig.client.of("pilotfish/session/update") == []


async def test_a_comment_for_the_agent_is_sent_by_its_lens_and_removed_by_the_edit(tmp_path: Path):
    async with plainly(tmp_path) as (rig, editor, folder):
        file, other = folder / "a.py", folder / "b.py"
        file.write_text("def f():\n    return 1\n")
        other.write_text("")
        edits = [{"old_string": "    return 1  # make it two AI!", "new_string": "    return 2"}]
        replies = call("read_file", path="a.py"), call("update_file", path="a.py", edits=edits), say("It is 2 now.")
        name = rig.script("comment", *replies)
        uri = editor.open(file, "def f():\n    return 1  # make it two AI!\n")
        editor.open(other, f"# {name} what is this? AI?\n")
        lenses = await rig.client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
        assert [(lens["range"]["start"]["line"], lens["command"]["title"]) for lens in lenses] == [
            (1, "Ask Pilotfish"),
            (1, "Ask about all 2 AI comments"),
        ]
        assert "what is this?" not in str(lenses[0]["command"]["arguments"])
        editor.buttons = ["Trust this folder", "Allow once"]
        await editor.run(lenses[1]["command"]["command"], *lenses[1]["command"]["arguments"])
        await editor.done()
        sent = str(rig.provider.requests[0].messages)
        assert "a.py, line 2, AI! make it two" in sent
        assert "remove the comment with the same edit" in sent
        assert "what is this?" in sent
        assert editor.text(file) == "def f():\n    return 2\n"
        assert await rig.client.request("textDocument/codeLens", {"textDocument": {"uri": uri}}) != lenses


@pytest.mark.parametrize("kept", ["trusted = false\n", ""], ids=["read only", "nobody asked"])
async def test_without_trust_undo_and_redo_change_nothing_and_say_why(tmp_path: Path, kept: str):
    why = "The folder is not trusted: nothing may be changed there. Trust it first."

    async def refused(command: str) -> tuple[int, str]:
        with pytest.raises(RpcError) as caught:
            await editor.run(command)
        return caught.value.code, caught.value.message

    async with plainly(tmp_path) as (rig, editor, folder):
        trust = tmp_path / "home" / "config.toml"
        trust.parent.mkdir(exist_ok=True)
        trusting = f'[workspace."{folder}"]\ntrusted = true\n'
        trust.write_text(trusting)
        editor.buttons = ["Allow once"]
        name = rig.script("written", call("write_file", path="a.txt", content="x\n"), say("Written."))
        await editor.run("pilotfish.prompt", {"prompt": name, "wait": True})
        trust.write_text(trusting.replace("trusted = true\n", kept))
        assert await refused("pilotfish.undo") == (3, why)
        assert (folder / "a.txt").read_text() == "x\n"
        trust.write_text(trusting)
        await editor.run("pilotfish.undo")
        trust.write_text(trusting.replace("trusted = true\n", kept))
        assert await refused("pilotfish.redo") == (3, why)
        assert not (folder / "a.txt").exists()
        assert [asked["actions"][0]["title"] for asked in editor.asked] == ["Allow once"]


async def test_a_long_answer_is_a_transcript_in_an_editor(rig: Rig, editor: PlainEditor):
    await editor.run("pilotfish.prompt", rig.script("long", say("A line of the answer.\n" * 40)))
    await editor.done()
    await rig.client.until(lambda: bool(editor.shown))
    text = editor.shown[0].read_text()
    assert text.count("A line of the answer.") == 40
    assert editor.shown[0].stat().st_mode & 0o077 == 0
    assert editor.messages() == []
    await editor.run("pilotfish.prompt", rig.script("long-2", say("Another line.\n" * 40)))
    await editor.done(2)
    await rig.client.until(lambda: len(editor.shown) == 2)
    assert not editor.shown[0].exists(), "the editor may still show the old file as it was"
    lines = editor.shown[1].read_text().split("\n")
    assert "#long-2#" in "\n".join(lines[editor.lines[1] : editor.lines[1] + 5])


async def test_without_a_place_for_documents_the_answer_is_a_message(tmp_path: Path):
    async with plainly(tmp_path, {}) as (rig, editor, _):
        editor.buttons = ["Read only"]
        name = rig.script("bare", say("A line of the answer.\n" * 40))
        await editor.run("pilotfish.prompt", {"prompt": name, "wait": True})
        (answer,) = editor.messages()
        assert answer.startswith("A line of the answer.\nA line of the answer.")
        assert Path(answer.partition("The whole answer is in ")[2]).read_text().count("A line of the answer.") == 40
        assert editor.progress() == []


async def test_a_client_that_shows_one_line_gets_one_line_and_is_told_where_the_conversation_is(tmp_path: Path):
    async with plainly(tmp_path, {}, client_name="vim-lsp") as (rig, editor, _):
        editor.buttons = ["Read only"]
        name = rig.script("bare", say("A line of the answer.\n" * 40))
        await editor.run("pilotfish.prompt", {"prompt": name, "wait": True})
        begin, _, path = editor.messages()[0].partition("… The whole answer is in ")
        assert begin == ("A line of the answer. " * 4)[:80]
        shown = path_at((await editor.run("pilotfish.transcript"))["uri"])
        assert shown == Path(path)
        assert editor.messages()[1] == f"The conversation is in {path}"


async def test_a_plain_client_sees_the_whole_command_or_cannot_allow_it(tmp_path: Path):
    long = f"touch made && echo {'x' * 2500} && echo end"
    seen: list[str] = []
    for name in ("documents", "messages"):
        (tmp_path / name).mkdir()
    async with plainly(tmp_path / "documents") as (rig, editor, _):

        async def show(params: dict[str, Any]) -> Any:
            seen.append(path_at(params["uri"]).read_text())
            editor.shown.append(path_at(params["uri"]))
            return {"success": True}

        rig.client.answers["window/showDocument"] = show
        editor.buttons = ["Trust this folder", "Deny", "Deny"]
        runs = call("bash", command=long, background=True), call("bash", command="touch a\ntouch b  c"), say("ok")
        await editor.run("pilotfish.prompt", {"prompt": rig.script("long", *runs), "wait": True})
        assert long in seen[0]
        assert "keeps running in the background" in seen[0]
        assert "touch a⏎\ntouch b··c" in seen[1]
        assert [path.read_text() for path in editor.shown] == ["", ""]
        assert len(set(editor.shown)) == 1
    async with plainly(tmp_path / "messages", {}) as (rig, editor, _):
        editor.buttons = ["Trust this folder", "Deny", "Deny"]
        runs = call("bash", command=long), call("bash", command="touch a\ntouch b"), say("ok")
        await editor.run("pilotfish.prompt", {"prompt": rig.script("long", *runs), "wait": True})
        titles = [[action["title"] for action in asked["actions"]] for asked in editor.asked[1:]]
        assert not any(title.startswith(("Allow", "Always allow")) for title in titles[0])
        assert "Allow once" in titles[1]
        assert "touch a⏎\ntouch b" in editor.asked[2]["message"]


async def test_a_plain_client_cannot_allow_by_a_lens_or_command_what_it_could_not_show(tmp_path: Path):
    async with plainly(tmp_path, {}) as (rig, editor, folder):
        (folder / "a.txt").write_text("one\n")
        item = {"uri": (folder / "a.txt").as_uri(), "languageId": "text", "version": 1, "text": "one\n"}
        rig.client.notify("textDocument/didOpen", {"textDocument": item})
        editor.buttons = ["Trust this folder", None]
        replies = call("read_file", path="a.txt"), call("write_file", path="a.txt", content="x\n" * 2000), say("ok")
        prompt = {"prompt": rig.script("unseen", *replies), "wait": True}
        turn = asyncio.ensure_future(editor.run("pilotfish.prompt", prompt))
        await rig.client.until(lambda: len(editor.asked) == 2)
        lenses = await rig.client.request("textDocument/codeLens", {"textDocument": {"uri": item["uri"]}})
        assert [lens["command"]["title"] for lens in lenses] == ["Deny", "Diff"]
        deny = lenses[0]["command"]
        allow = {**deny["arguments"][0], "optionId": "allow_once"}
        with pytest.raises(RpcError, match="cannot be allowed here"):
            await rig.client.request("workspace/executeCommand", {"command": deny["command"], "arguments": [allow]})
        await rig.client.request("workspace/executeCommand", {k: deny[k] for k in ("command", "arguments")})
        await turn
        assert (folder / "a.txt").read_text() == "one\n"


async def test_trust_is_asked_once_and_kept_in_the_users_config(tmp_path: Path):
    async with plainly(tmp_path) as (rig, editor, folder):
        (folder / "AGENTS.md").write_text("Mind the gap.\n")
        editor.buttons = [None, "Trust this folder"]
        for number in range(3):
            await editor.run("pilotfish.prompt", {"prompt": rig.script(f"t{number}", say("ok")), "wait": True})
        assert [asked["actions"] for asked in editor.asked] == [
            [{"title": "Trust this folder"}, {"title": "Read only"}]
        ] * 2
        assert ["Mind the gap." in str(request.messages) for request in rig.provider.requests] == [False, True, True]
        kept = tomllib.loads((tmp_path / "home" / "config.toml").read_text())
        assert kept["workspace"][str(folder)]["trusted"] is True
        assert not (folder / ".pilotfish").exists()
    async with plainly(tmp_path) as (rig, editor, _):
        await editor.run("pilotfish.prompt", {"prompt": rig.script("again", say("ok")), "wait": True})
        assert editor.asked == []


async def test_trust_that_cannot_be_kept_is_said_and_holds_all_the_same(tmp_path: Path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text("broken = = ")
    async with plainly(tmp_path) as (rig, editor, folder):
        editor.buttons = ["Trust this folder", "Allow once"]
        name = rig.script("kept", call("write_file", path="a.txt", content="x\n"), say("done"))
        await editor.run("pilotfish.prompt", {"prompt": name, "wait": True})
        assert (folder / "a.txt").exists()
        assert "could not be changed" in editor.messages()[0]


async def test_trust_is_not_asked_for_before_it_is_needed(tmp_path: Path):
    async with plainly(tmp_path) as (rig, editor, folder):
        (folder / "a.txt").write_text("x\n")
        name = rig.script("reads", call("read_file", path="a.txt"), say("It is x."))
        await editor.run("pilotfish.prompt", {"prompt": name, "wait": True})
        assert (editor.messages(), editor.asked) == (["It is x."], [])
        editor.buttons = ["Trust this folder", "Allow once"]
        name = rig.script("writes", call("write_file", path="b.txt", content="y\n"), say("Written."))
        await editor.run("pilotfish.prompt", {"prompt": name, "wait": True})
        assert [asked["actions"][0]["title"] for asked in editor.asked] == ["Trust this folder", "Allow once"]
        assert (folder / "b.txt").read_text() == "y\n"


async def test_an_editor_without_messages_that_ask_answers_by_code_actions(tmp_path: Path):
    async with plainly(tmp_path) as (rig, editor, folder):
        del rig.client.answers["window/showMessageRequest"]  # the client answers that it has no such method
        file = folder / "a.txt"
        file.write_text("one\n")
        uri = editor.open(file)
        edits = [{"old_string": "one", "new_string": "two"}]
        name = rig.script(
            "actions", call("read_file", path="a.txt"), call("update_file", path="a.txt", edits=edits), say("Changed.")
        )

        async def offered() -> list[dict[str, Any]]:
            nowhere = {"start": at(0, 0), "end": at(0, 0)}
            context: dict[str, Any] = {"diagnostics": []}
            params = {"textDocument": {"uri": uri}, "range": nowhere, "context": context}
            actions = await rig.client.request("textDocument/codeAction", params)
            return [action for action in actions if action["command"]["command"] == "pilotfish.choose"]

        async def press(title: str) -> dict[str, Any]:
            action = next(action for action in await offered() if action["title"].startswith(title))
            return await editor.run("pilotfish.choose", *action["command"]["arguments"])

        await editor.run("pilotfish.prompt", name)
        await rig.client.until(lambda: any("Do you trust" in message for message in editor.messages()))
        assert editor.messages()[-1].startswith("Answer with a code action: Do you trust the folder work?")
        assert [action["title"].split(" (")[0] for action in await offered()] == ["Trust this folder", "Read only"]
        assert await press("Trust this folder") == {"accepted": True}
        await rig.client.until(lambda: any("Edit a.txt?" in message for message in editor.messages()))
        assert "-one\n+two\n" in editor.shown[0].read_text()
        assert await press("Allow once (Edit a.txt?") == {"accepted": True}
        await editor.done()
        assert (editor.text(file), editor.messages()[-1], await offered()) == ("two\n", "Changed.", [])


@pytest.mark.parametrize("rules", [True, False])
async def test_a_turn_is_cancelled_while_trust_is_asked_for(tmp_path: Path, rules: bool):
    async with plainly(tmp_path) as (rig, editor, folder):
        if rules:
            (folder / "AGENTS.md").write_text("Mind the gap.\n")
        rig.client.answers["window/showMessageRequest"] = never
        name = rig.script("asks", call("write_file", path="c.txt", content=""), say("no"))
        await editor.run("pilotfish.prompt", name)
        await rig.client.until(lambda: bool(rig.client.of("window/showMessageRequest")))
        await editor.run("pilotfish.cancel")
        await rig.client.until(lambda: editor.messages() == ["Stopped."])
        assert len(rig.client.taken_back) == 1
        assert not (folder / "c.txt").exists()


async def test_in_a_read_only_folder_nothing_is_changed_and_nothing_asked_again(tmp_path: Path):
    async with plainly(tmp_path) as (rig, editor, folder):
        editor.buttons = ["Read only"]
        name = rig.script("readonly", call("write_file", path="a.txt", content="x"), say("I may not."))
        await editor.run("pilotfish.prompt", {"prompt": name, "wait": True})
        await editor.run("pilotfish.prompt", {"prompt": rig.script("more", say("ok")), "wait": True})
        assert len(editor.asked) == 1
        assert not (folder / "a.txt").exists()
        assert editor.messages() == ["I may not.", "ok"]


async def test_each_of_two_prompts_in_line_gets_its_own_answer_whole(rig: Rig, editor: PlainEditor):
    rig.script("line-1", Reply(parts=(Text("The first "), Gate(), Text("answer."))))
    rig.script("line-2", say("The second answer."))
    before = len(rig.provider.requests)
    await editor.run("pilotfish.prompt", "#line-1#")
    await rig.provider.received(before + 1)
    await editor.run("pilotfish.prompt", "#line-2#")
    rig.provider.release()
    await editor.done(2)
    assert editor.messages() == ["The first answer.", "The second answer."]


async def test_prompts_and_a_cancel_sent_without_waiting_are_taken_up_in_their_order(tmp_path: Path):
    """No session is there yet, and the client makes no place for progress: both prompts are for one session all the
    same, and the cancel finds the first of them."""

    async def never(_: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    async with plainly(tmp_path) as (rig, editor, _):
        rig.client.answers["window/workDoneProgress/create"] = never
        rig.script("at-once-1", say("never ", end="stall"))
        rig.script("at-once-2", say("kept"))
        first, second, receipts = await asyncio.gather(
            editor.run("pilotfish.prompt", "#at-once-1#"),
            editor.run("pilotfish.prompt", "#at-once-2#"),
            editor.run("pilotfish.cancel"),
        )
        assert (first, len(receipts)) == (second, 1)
        queue = await rig.client.request("pilotfish/queue/list", first)
        assert [waiting["prompt"][0]["text"] for waiting in queue["prompts"]] == ["#at-once-2#"]


async def test_a_stop_keeps_the_prompts_behind_it_and_a_second_one_withdraws_them(rig: Rig, editor: PlainEditor):
    rig.script("kept-1", say("never ", end="stall"))
    rig.script("kept-2", say("never said"))
    before = len(rig.provider.requests)
    await editor.run("pilotfish.prompt", "#kept-1#")
    await rig.provider.received(before + 1)
    await editor.run("pilotfish.prompt", "#kept-2#")
    await editor.run("pilotfish.cancel")
    await editor.done()
    waits = {"kind": "report", "message": WAITING_WORDS, "cancellable": True}
    await rig.client.until(lambda: waits in editor.progress())
    await editor.run("pilotfish.cancel")
    await editor.done(2)
    assert (editor.messages(), len(rig.provider.requests)) == (["Stopped.", "Stopped."], before + 1)


async def test_a_prompt_may_be_about_a_document_that_is_no_file(rig: Rig, editor: PlainEditor):
    item = {"uri": "untitled:Untitled-7", "languageId": "text", "version": 1, "text": "left\nright\n"}
    rig.client.notify("textDocument/didOpen", {"textDocument": item})
    name = rig.script("untitled", say("ok"), say("ok"))
    await editor.run("pilotfish.prompt", {"prompt": name, "uri": item["uri"], "wait": True})
    assert "left\nright" in _attached(rig)
    where = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 5}}
    await editor.run("pilotfish.prompt", {"prompt": name, "uri": item["uri"], "range": where, "wait": True})
    assert "left" not in _attached(rig)
    assert "right" in _attached(rig)


def _attached(rig: Rig) -> str:
    """What stands beside the words of the last prompt."""
    return str(rig.provider.requests[-1].messages[-1]["content"]).rpartition("<attached")[2]


@pytest.mark.parametrize("way", ["command", "progress"])
async def test_a_turn_is_cancelled_by_command_or_by_its_progress(rig: Rig, editor: PlainEditor, way: str):
    before = len(rig.provider.requests)
    await editor.run("pilotfish.prompt", rig.script(way, call("bash", command="ls"), say("x ", end="stall")))
    await rig.provider.received(before + 2)
    if way == "command":
        receipts = await editor.run("pilotfish.cancel")
        assert len(receipts) == 1
    else:
        token = rig.client.of("$/progress")[-1]["token"]
        rig.client.notify("window/workDoneProgress/cancel", {"token": token})
    await editor.done()
    assert editor.messages() == ["Stopped."]


async def test_a_client_may_bring_its_own_progress_token(tmp_path: Path):
    async with plainly(tmp_path, {}) as (rig, editor, _):
        editor.buttons = ["Read only"]
        params = {
            "command": "pilotfish.prompt",
            "arguments": [{"prompt": rig.script("own", say("ok")), "wait": True}],
            "workDoneToken": "mine",
        }
        await rig.client.request("workspace/executeCommand", params)
        assert {params["token"] for params in rig.client.of("$/progress")} == {"mine"}


async def test_a_dismissed_question_waits_and_can_be_answered_later(rig: Rig, editor: PlainEditor):
    file = rig.folder / "later.txt"
    editor.buttons = [None]
    await editor.run(
        "pilotfish.prompt", rig.script("later", call("write_file", path=file.name, content="x"), say("done"))
    )
    await rig.client.until(lambda: any("pilotfish.approve" in message for message in editor.messages()))
    assert not file.exists()
    editor.buttons = ["Allow once"]
    await editor.run("pilotfish.approve")
    await editor.done()
    assert file.read_text() == "x"
    assert editor.asked[0]["message"] == editor.asked[1]["message"]


async def test_sessions_are_chosen_and_go_on(rig: Rig, editor: PlainEditor):
    new = {"wait": True, "new": True}
    first = (await editor.run("pilotfish.prompt", {"prompt": rig.script("s1", say("one")), **new}))["sessionId"]
    second = (await editor.run("pilotfish.prompt", {"prompt": rig.script("s2", say("two")), **new}))["sessionId"]
    assert first != second
    editor.buttons = ["2. "]
    listed = await editor.run("pilotfish.sessions")
    assert [session["id"] for session in listed][:2] == [second, first]
    await rig.client.until(lambda: bool(editor.shown))
    params = {"prompt": rig.script("s3", say("three")), "wait": True}
    assert (await editor.run("pilotfish.prompt", params))["sessionId"] == first
    assert "one" in str(rig.provider.requests[-1].messages)
    shown = await editor.run("pilotfish.transcript")
    assert "three" in path_at(shown["uri"]).read_text()


async def test_after_its_session_was_deleted_in_another_window_a_prompt_begins_a_new_one(rig: Rig, editor: PlainEditor):
    said = {"prompt": rig.script("gone", say("one"), say("two")), "wait": True}
    first = (await editor.run("pilotfish.prompt", {**said, "new": True}))["sessionId"]
    async with connect(rig.folder, home=rig.folder.parent / "home") as other:
        await other.request("pilotfish/session/delete", {"sessionId": first})
    second = (await editor.run("pilotfish.prompt", said))["sessionId"]
    assert second != first
    assert editor.messages() == ["one", "two"]


async def test_failures_are_said_with_what_to_do(rig: Rig, editor: PlainEditor):
    await editor.run("pilotfish.prompt", {"prompt": rig.script("key", fails("authentication")), "wait": True})
    assert len(editor.messages()) == 1
    assert rig.client.of("window/showMessage")[0]["type"] == 1
    nothing: list[Any] = [[], [""], [{}], [{"prompt": "  "}], [{"prompt": 5}], [5]]
    for arguments in nothing:
        with pytest.raises(RpcError) as caught:
            await editor.run("pilotfish.prompt", *arguments)
        assert caught.value.code == -32602
    for command, argument in (("undo", "nobody"), ("prompt", {"prompt": "hello", "sessionId": "nobody"})):
        with pytest.raises(RpcError) as caught:
            await editor.run(f"pilotfish.{command}", argument)
        assert caught.value.code == 1


async def test_slash_commands_work_in_a_plain_client_too(editor: PlainEditor):
    await editor.run("pilotfish.prompt", {"prompt": "/mode", "wait": True})
    assert "`ask`" in editor.messages()[0]
    await editor.run("pilotfish.prompt", {"prompt": "/help", "wait": True})
    assert "/compact" in editor.shown[0].read_text()


async def test_the_agents_own_question_is_a_message_with_its_options(rig: Rig, editor: PlainEditor):
    editor.buttons = ["blue"]
    ask = call("ask_user", question="Which colour?", options=["red", "blue"])
    await editor.run("pilotfish.prompt", {"prompt": rig.script("colour", ask, say("ok")), "wait": True})
    assert "blue" in str(rig.provider.requests[-1].messages)
    assert editor.messages() == ["ok"]


async def test_a_question_without_options_is_answered_by_the_next_prompt(rig: Rig, editor: PlainEditor):
    name = rig.script("why", call("ask_user", question="Why?"), say("I see."))
    started = await editor.run("pilotfish.prompt", {"prompt": name, "new": True})
    await rig.client.until(lambda: len(editor.messages()) == 1)
    assert await editor.run("pilotfish.prompt", "because of the rain") == started
    await editor.done()
    assert editor.messages() == ["Why?\n(Your next prompt is the answer.)", "I see."]
    assert "because of the rain" in str(rig.provider.requests[-1].messages[-1])


async def test_a_question_that_the_client_never_answers_is_asked_again(rig: Rig, editor: PlainEditor):
    name = rig.script("never", call("write_file", path="asked.txt", content="x\n"), say("Written."))
    await editor.run("pilotfish.prompt", {"prompt": name, "new": True})
    await rig.client.until(lambda: len(editor.asked) == 1)
    await editor.run("pilotfish.approve")
    await rig.client.until(lambda: len(editor.asked) == 2)
    assert editor.asked[0]["message"] == editor.asked[1]["message"]
    editor.buttons = ["Allow once"]
    await editor.done()
    assert (rig.folder / "asked.txt").read_text() == "x\n"


async def test_a_plain_client_is_offered_no_tools_that_need_language_servers(rig: Rig, editor: PlainEditor):
    name = rig.script("tools", say("ok"))
    await editor.run("pilotfish.prompt", {"prompt": name, "wait": True})
    tools = set(rig.provider.requests[-1].tools)
    assert {"read_file", "bash"} <= tools
    assert tools & {"diagnostics", "symbols", "find_symbol", "rename_symbol", "quick_fix"} == set()


async def test_a_command_sees_edits_of_a_clean_buffer_once_the_user_agreed(tmp_path: Path):
    async with plainly(tmp_path) as (rig, editor, folder):
        file, typed = folder / "a.py", folder / "typed.py"
        file.write_text("one\n")
        typed.write_text("mine\n")
        editor.open(file)
        editor.open(typed)
        editor.type(typed, 0, "unsaved ")
        edits = [{"old_string": "one", "new_string": "two"}]
        turn = call("update_file", path="a.py", edits=edits), call("bash", command="cat a.py"), say("ok")
        editor.buttons = ["Trust this folder", "Allow once", "Always write edits to disk"]
        name = rig.script("write", call("read_file", path="a.py"), *turn)
        await editor.run("pilotfish.prompt", {"prompt": name, "wait": True})
        assert (editor.text(file), file.read_text(), typed.read_text()) == ("two\n", "two\n", "mine\n")
        result = str(rig.provider.requests[-1].messages[-1])
        assert "two" in result
        assert "commands do not see the unsaved text of typed.py" in result
        (answers,) = tomllib.loads((tmp_path / "home" / "config.toml").read_text())["workspace"].values()
        assert answers == {"trusted": True, "writeEdits": True}
        again = [{"old_string": "two", "new_string": "three"}]
        editor.buttons = ["Allow once"]
        name = rig.script("again", call("update_file", path="a.py", edits=again), *turn[1:])
        await editor.run("pilotfish.prompt", {"prompt": name, "wait": True})
        assert (file.read_text(), len(editor.asked)) == ("three\n", 4)


async def test_a_prompt_carries_the_place_of_the_last_code_action_hover_or_edit(rig: Rig, editor: PlainEditor):
    uri = editor.open(rig.folder / "place.py", "".join(f"line {number}\n" for number in range(1, 9)))
    assert rig.client.initialized["capabilities"]["hoverProvider"]
    document, range_ = {"textDocument": {"uri": uri}}, {"start": at(1, 0), "end": at(2, 4)}

    async def act() -> None:
        await rig.client.request(
            "textDocument/codeAction", {**document, "range": range_, "context": {"diagnostics": []}}
        )

    async def hover() -> None:
        assert await rig.client.request("textDocument/hover", {**document, "position": at(4, 2)}) is None

    async def edit() -> None:
        editor.type(rig.folder / "place.py", 6 * len("line 1\n"), "the ")

    places = ['selected="2-3"', 'cursor="5:3"', 'cursor="7:']
    for number, (user, place) in enumerate(zip((act, hover, edit), places, strict=True)):
        await user()
        await editor.run("pilotfish.prompt", {"prompt": rig.script(f"place{number}", say("ok")), "wait": True})
        assert f'<active_file path="place.py" {place}' in str(rig.provider.requests[-1].messages[-1]["content"])


async def test_a_code_action_runs_the_turn(rig: Rig, editor: PlainEditor):
    file = rig.folder / "action.py"
    file.write_text("x = 1\n")
    uri = editor.open(file, "#action# what does it do?\nx = 1\n")
    rig.script("action", say("It binds x."))
    params: dict[str, Any] = {
        "textDocument": {"uri": uri},
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 25}},
        "context": {"diagnostics": []},
    }
    actions = await rig.client.request("textDocument/codeAction", params)
    ask = next(action for action in actions if "selection says" in action["title"])
    await editor.run(ask["command"]["command"], *ask["command"]["arguments"])
    await editor.done()
    assert editor.messages() == ["It binds x."]
