"""Every method of the contract, through the real process over stdio."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.support.client import RpcError, never, option
from tests.support.provider import Call, call, calls, fails, say
from tests.support.served import Rig, served

from pilotfish.protocol import wire

pytestmark = pytest.mark.asyncio(loop_scope="module")


def edit(path: str, old: str, new: str) -> Any:
    return call("update_file", path=path, edits=[{"old_string": old, "new_string": new}])


def statuses(rig: Rig, name: str) -> list[str]:
    """The ways a call went, without repeats."""
    found: list[str] = []
    for told in rig.client.updates:
        if isinstance(told.update, wire.CallUpdate) and told.update.call.name == name:
            status = told.update.call.status
            if not found or found[-1] != status:
                found.append(status)
    return found


async def refused(rig: Rig, method: str, params: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await rig.client.request(method, params)
    return caught.value


# ---- sessions -------------------------------------------------------------------------------------------------------


async def test_a_new_session_has_what_was_asked_for(rig: Rig):
    result = await rig.client.request(
        "pilotfish/session/new",
        {"workspaceFolder": rig.folder.as_uri(), "title": "Mine", "model": "demo", "mode": "plan"},
    )
    session = wire.SessionResult.model_validate(result).session
    assert (session.title, session.model, session.mode) == ("Mine", "demo", "plan")
    assert (session.workspace_folder, session.turns, session.busy) == (rig.folder.as_uri(), 0, False)


async def test_a_new_session_takes_the_rest_from_the_settings(rig: Rig):
    session = wire.SessionResult.model_validate(await rig.client.request("pilotfish/session/new", {})).session
    assert (session.model, session.mode) == ("openai-chat:scripted", "ask")
    assert session.workspace_folder == rig.folder.as_uri()


async def test_sessions_are_listed_newest_first_in_pages_and_found_by_text(rig: Rig):
    first, second = await rig.client.new_session(title="Apfelkuchen"), await rig.client.new_session(title="Birnen")
    await rig.client.prompt(first, "something about zweifelsohne")
    page = await rig.client.request("pilotfish/session/list", {"limit": 1})
    assert len(page["sessions"]) == 1
    rest = await rig.client.request("pilotfish/session/list", {"limit": 500, "cursor": page["nextCursor"]})
    listed = [session["id"] for session in page["sessions"] + rest["sessions"]]
    assert {first, second} <= set(listed)
    assert len(listed) == len(set(listed))
    for query, texts in (("Apfel", []), ("zweifelsohne", ["something about zweifelsohne"])):
        found = await rig.client.request("pilotfish/session/list", {"query": query})
        assert [session["id"] for session in found["sessions"]] == [first]
        assert found.get("matches", []) == [{"sessionId": first, "text": text} for text in texts]


async def test_the_sessions_of_a_folder_are_found_by_every_name_of_it(rig: Rig, tmp_path: Path):
    folder, link = tmp_path / "folder", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    made = [await rig.client.new_session(workspaceFolder=name.as_uri()) for name in (folder, link)]
    for name in (folder, link):
        listed = await rig.client.request("pilotfish/session/list", {"workspaceFolder": name.as_uri()})
        assert {session["id"] for session in listed["sessions"]} == set(made)
        assert {session["workspaceFolder"] for session in listed["sessions"]} == {folder.as_uri()}


async def test_a_transcript_is_loaded_whole_or_in_pages(rig: Rig):
    session = await rig.client.new_session()
    for number in range(3):
        await rig.client.prompt(session, rig.script(f"page{number}", say(f"answer {number}")))
    whole = await rig.client.load(session)
    assert not whole.has_more
    assert [item.kind for item in whole.items] == ["prompt", "message", "turn_end"] * 3
    newest = await rig.client.load(session, limit=4)
    assert newest.has_more
    assert newest.items == whole.items[-4:]
    older = await rig.client.load(session, before=newest.items[0].id, limit=100)
    assert older.items == whole.items[:-4]
    assert not older.has_more


async def test_a_session_is_renamed_configured_exported_forked_and_deleted(rig: Rig):
    session = await rig.client.new_session(title="Old")
    await rig.client.prompt(session, rig.script("life", say("So it is.")))
    renamed = await rig.client.request("pilotfish/session/rename", {"sessionId": session, "title": "New"})
    assert renamed["session"]["title"] == "New"
    configured = await rig.client.request(
        "pilotfish/session/configure", {"sessionId": session, "model": "demo", "mode": "auto"}
    )
    assert (configured["session"]["model"], configured["session"]["mode"]) == ("demo", "auto")
    told = [told.update.session for told in rig.client.updates if isinstance(told.update, wire.SessionInfo)]
    assert (told[-1].title, told[-1].model, told[-1].mode) == ("New", "demo", "auto")
    for form, word in (("markdown", "So it is."), ("json", '"')):
        text = (await rig.client.request("pilotfish/session/export", {"sessionId": session, "format": form}))["text"]
        assert word in text
    fork = (await rig.client.request("pilotfish/session/fork", {"sessionId": session}))["session"]["id"]
    assert fork != session
    assert [item.kind for item in (await rig.client.load(fork)).items] == ["prompt", "message", "turn_end"]
    assert await rig.client.request("pilotfish/session/delete", {"sessionId": session}) == {}
    error = await refused(rig, "pilotfish/session/load", {"sessionId": session})
    assert error.code == 1


async def test_a_fork_ends_with_the_item_it_was_made_at(rig: Rig):
    session = await rig.client.new_session()
    for number in range(2):
        await rig.client.prompt(session, rig.script(f"fork{number}", say(f"answer {number}")))
    items = (await rig.client.load(session)).items
    forked = await rig.client.request("pilotfish/session/fork", {"sessionId": session, "itemId": items[1].id})
    kept = (await rig.client.load(forked["session"]["id"])).items
    assert [item.kind for item in kept][:2] == ["prompt", "message"]
    assert not any(item.kind == "message" and item.text == "answer 1" for item in kept)


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"workspaceFolder": "file:///there/is/no/such/folder"}, "workspaceFolder"),
        ({"workspaceFolder": "https://example.com/"}, "workspaceFolder"),
        ({"model": "nosuchprovider:large"}, "model"),
        ({"model": "openai-chat:"}, "model"),
        ({"model": ""}, "model"),
    ],
)
async def test_a_session_is_not_made_where_it_could_never_run(rig: Rig, params: dict[str, str], field: str):
    error = await refused(rig, "pilotfish/session/new", params)
    assert (error.code, error.data) == (-32602, {"field": field})


async def test_a_session_is_not_given_a_model_that_can_be_none(rig: Rig):
    session = await rig.client.new_session()
    params = {"sessionId": session, "model": "nosuchprovider:large"}
    error = await refused(rig, "pilotfish/session/configure", params)
    assert (error.code, error.data) == (-32602, {"field": "model"})
    assert (await rig.client.load(session)).session.model == "openai-chat:scripted"


NOWHERE = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}


async def test_every_method_with_a_session_refuses_an_unknown_one(rig: Rig):
    more: dict[str, dict[str, Any]] = {
        "session/rename": {"title": "x"},
        "session/export": {"format": "json"},
        "session/restore": {"turnId": "t"},
        "session/prompt": {"prompt": [text_block("x")]},
        "queue/remove": {"promptId": "p"},
        "edit/inline": {"uri": (rig.folder / "a.py").as_uri(), "range": NOWHERE, "prompt": "x"},
        "rule/add": {"decision": "ask", "scope": "session"},
        "rule/remove": {"id": "x"},
        "mention/complete": {"query": ""},
        "mention/find": {"text": ""},
    }
    for method, row in wire.METHODS.items():
        name = method.removeprefix("pilotfish/")
        if row.sender != "client" or "session_id" not in row.params.model_fields:
            continue
        error = await refused(rig, method, {"sessionId": "nobody", **more.get(name, {})})
        assert (method, error.code) == (method, 1)


# ---- turns ----------------------------------------------------------------------------------------------------------


async def test_a_prompt_streams_and_is_answered_at_its_end(rig: Rig):
    session = await rig.client.new_session()
    name = rig.script("stream", say("Hello ", "there", thoughts=["let me see"]))
    result = await rig.client.prompt(session, name, promptId="mine")
    assert (result.stop_reason, result.error, result.receipt) == ("end_turn", None, None)
    kinds = [told.update.kind for told in rig.client.updates]
    assert kinds[0] == "turn_started"
    assert kinds[-1] == "turn_ended"
    started = rig.client.updates[0].update
    assert isinstance(started, wire.TurnStarted)
    assert (started.prompt_id, started.prompt) == ("mine", (wire.TextBlock(text=name),))
    assert "".join(rig.client.laws.texts[session].values()) == "let me seeHello there"
    await rig.client.load(session)


async def test_a_prompt_may_bring_files_selections_images_and_problems(rig: Rig):
    (rig.folder / "context.py").write_text("first = 1\nsecond = 2\n")
    uri = (rig.folder / "context.py").as_uri()
    session = await rig.client.new_session()
    span = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 10}}
    blocks = [
        {"type": "text", "text": rig.script("context", say("seen"))},
        {"type": "resource", "uri": uri, "range": span},
        {"type": "resource", "uri": "untitled:Untitled-1", "text": "typed and never saved"},
        {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"},
        {"type": "diagnostic", "uri": uri, "diagnostic": {"range": span, "message": "two is wrong", "code": "E2"}},
    ]
    params = {"sessionId": session, "prompt": blocks}
    result = await rig.client.request("pilotfish/session/prompt", params)
    assert rig.client.laws.answer(result).stop_reason == "end_turn"
    sent = str(rig.provider.requests[-1].messages)
    for words in ("second = 2", "typed and never saved", "two is wrong", "iVBORw0KGgo="):
        assert words in sent
    assert "first = 1" not in sent.split("diagnostic", maxsplit=1)[0]


async def test_a_provider_that_is_waited_for_is_asked_at_once_on_request(rig: Rig):
    session = await rig.client.new_session()
    turn = rig.client.begin(session, rig.script("limited", fails("rate_limit", retry_after=50), say("There.")))
    notice = (await rig.client.first_update("notice", session)).update
    assert isinstance(notice, wire.Notice)
    assert (notice.retry_after, notice.message.rpartition(". ")[2]) == (50, "Retrying in 50 s.")
    assert notice.cause == "rate_limit"
    assert await rig.client.request("pilotfish/session/retry", {"sessionId": session}) == {}
    assert (await asyncio.wait_for(turn, 30)).stop_reason == "end_turn"


async def test_a_turn_is_cancelled_by_the_method_with_a_receipt(rig: Rig):
    session = await rig.client.new_session()
    turn = rig.client.begin(session, rig.script("slow", say("never ", "ending ", end="stall")))
    await rig.client.first_update("agent_message_chunk", session)
    receipt = wire.Receipt.model_validate(await rig.client.request("pilotfish/session/cancel", {"sessionId": session}))
    result = await asyncio.wait_for(turn, 30)
    assert (result.stop_reason, result.turn_id) == ("cancelled", receipt.turn_id)
    assert result.receipt == receipt
    assert (await rig.client.prompt(session, rig.script("after", say("alive")))).stop_reason == "end_turn"


async def test_a_turn_is_cancelled_by_cancelling_its_request_and_still_answered(rig: Rig):
    session = await rig.client.new_session()
    prompt = [{"type": "text", "text": rig.script("slower", say("never ", end="stall"))}]
    answer = rig.client.ask("pilotfish/session/prompt", {"sessionId": session, "prompt": prompt}, key="the-prompt")
    await rig.client.first_update("agent_message_chunk", session)
    rig.client.notify("$/cancelRequest", {"id": "the-prompt"})
    result = rig.client.laws.answer(await asyncio.wait_for(answer, 30))
    assert result.stop_reason == "cancelled"


async def test_one_call_is_stopped_and_the_turn_goes_on(rig: Rig):
    session = await rig.client.new_session(mode="auto")
    name = rig.script("sleep", call("bash", command="sleep 600"), say("went on"))
    turn = rig.client.begin(session, name)

    def running() -> list[wire.ToolCall]:
        found = [told.update.call for told in rig.client.updates if isinstance(told.update, wire.CallUpdate)]
        return [call for call in found if call.status == "in_progress"]

    await rig.client.until(lambda: bool(running()))
    stop = {"sessionId": session, "toolCallId": running()[0].id}
    receipt = wire.Receipt.model_validate(await rig.client.request("pilotfish/session/cancel", stop))
    assert receipt.cancelled_calls == (running()[0].id,)
    assert (await asyncio.wait_for(turn, 30)).stop_reason == "end_turn"
    assert statuses(rig, "bash")[-1] == "cancelled"
    error = await refused(rig, "pilotfish/session/cancel", {"sessionId": session, "toolCallId": "nobody"})
    assert error.code == 4


async def test_a_busy_session_rejects_queues_and_steers(rig: Rig):
    session = await rig.client.new_session(mode="auto")
    name = rig.script("busy", call("bash", command="sleep 0.8"), say("first"), say("second"))
    turn = rig.client.begin(session, name)
    await rig.client.first_update("turn_started", session)
    error = await refused(rig, "pilotfish/session/prompt", {"sessionId": session, "prompt": [text_block("no")]})
    assert error.code == 2
    queued = rig.client.begin(session, "queued words", promptId="q", whenBusy="queue")
    withdrawn = rig.client.begin(session, "withdrawn words", promptId="w", whenBusy="queue")

    async def waiting() -> list[str]:
        listed = await rig.client.request("pilotfish/queue/list", {"sessionId": session})
        return [prompt["promptId"] for prompt in listed["prompts"]]

    while await waiting() != ["q", "w"]:
        await asyncio.sleep(0.01)
    assert await rig.client.request("pilotfish/queue/remove", {"sessionId": session, "promptId": "w"}) == {}
    assert (await asyncio.wait_for(withdrawn, 30)).stop_reason == "cancelled"
    steered = rig.client.begin(session, "steering words", promptId="s", whenBusy="steer")
    assert (await asyncio.wait_for(turn, 30)).stop_reason == "end_turn"
    assert (await asyncio.wait_for(steered, 30)).stop_reason == "end_turn"
    assert (await asyncio.wait_for(queued, 30)).stop_reason == "end_turn"
    error = await refused(rig, "pilotfish/queue/remove", {"sessionId": session, "promptId": "q"})
    assert error.code == 4
    prompts = [item for item in (await rig.client.load(session)).items if item.kind == "prompt"]
    assert "withdrawn" not in str(prompts)
    sent = [str(request.messages) for request in rig.provider.requests]
    assert any("steering words" in said for said in sent)
    assert any("queued words" in said for said in sent)


async def test_a_restore_goes_back_to_before_a_turn_with_files_and_conversation_and_can_be_redone(rig: Rig):
    file, made = rig.folder / "restore.txt", rig.folder / "made.txt"
    file.write_text("one\n")
    session = await rig.client.new_session(mode="auto")
    first = rig.script("restore-1", call("read_file", path="restore.txt"), edit("restore.txt", "one", "two"), say("a"))
    second = rig.script("restore-2", edit("restore.txt", "two", "three"), say("b"))
    third = rig.script(
        "restore-3", call("write_file", path="made.txt", content="x"), call("bash", command="touch t"), say("c")
    )
    await rig.client.prompt(session, first)
    later = [(await rig.client.prompt(session, name)).turn_id for name in (second, third)]
    restored = await rig.client.request("pilotfish/session/restore", {"sessionId": session, "turnId": later[0]})
    assert (file.read_text(), made.exists()) == ("two\n", False)
    assert restored["refused"] == []
    assert (restored["turns"], restored["commands"]) == (later, ["touch t"])
    copy = await rig.client.load(restored["session"]["id"])
    assert [item.kind for item in copy.items if item.kind in ("prompt", "turn_end")] == ["prompt", "turn_end"]
    for turn in restored["turns"]:
        await rig.client.request("pilotfish/session/redo", {"sessionId": session, "turnId": turn})
    assert (file.read_text(), made.read_text()) == ("three\n", "x")


async def test_a_turns_files_are_put_back_and_forward_again(rig: Rig):
    file = rig.folder / "undo.txt"
    file.write_text("before\n")
    session = await rig.client.new_session(mode="auto")
    name = rig.script("undo", call("read_file", path="undo.txt"), edit("undo.txt", "before", "after"), say("done"))
    turn = (await rig.client.prompt(session, name)).turn_id
    assert file.read_text() == "after\n"
    dry = await rig.client.request("pilotfish/session/undo", {"sessionId": session, "dryRun": True})
    assert [change["uri"] for change in dry["changes"]] == [file.as_uri()]
    assert file.read_text() == "after\n"
    done = await rig.client.request("pilotfish/session/undo", {"sessionId": session, "turnId": turn})
    assert done["refused"] == []
    assert file.read_text() == "before\n"
    ends = [item for item in (await rig.client.load(session)).items if item.kind == "turn_end"]
    assert [item.undone for item in ends] == [True]
    await rig.client.request("pilotfish/session/redo", {"sessionId": session})
    assert file.read_text() == "after\n"


# ---- approvals ------------------------------------------------------------------------------------------------------


async def test_an_edit_is_asked_for_with_its_diff_and_runs_when_allowed(rig: Rig):
    (rig.folder / "ask.txt").write_text("old\n")
    asked: list[wire.ApprovalRequest] = []

    async def answer(params: dict[str, Any]) -> Any:
        asked.append(wire.ApprovalRequest.model_validate(params))
        return {"optionId": "allow_once"}

    rig.client.answers["pilotfish/approval/request"] = answer
    session = await rig.client.new_session()
    name = rig.script("ask", call("read_file", path="ask.txt"), edit("ask.txt", "old", "new"), say("done"))
    assert (await rig.client.prompt(session, name)).stop_reason == "end_turn"
    question = asked[0]
    assert isinstance(question.preview, wire.DiffPreview)
    assert [(file.uri, file.before, file.after) for file in question.preview.files] == [
        ((rig.folder / "ask.txt").as_uri(), "old\n", "new\n")
    ]
    assert [option.id for option in question.options][:1] == ["allow_once"]
    assert question.call.status in ("awaiting_approval", "pending")
    assert statuses(rig, "update_file") == ["pending", "awaiting_approval", "in_progress", "completed"]
    resolved = rig.client.of("pilotfish/approval/resolved")
    assert resolved == [
        {"approvalId": question.approval_id, "sessionId": session, "optionId": "allow_once", "by": "client"}
    ]
    assert (rig.folder / "ask.txt").read_text() == "new\n"


async def test_a_refusal_reaches_the_model_with_its_words_and_the_turn_goes_on(rig: Rig):
    rig.client.answers["pilotfish/approval/request"] = option("reject", feedback="use the other file instead")
    session = await rig.client.new_session()
    name = rig.script("refuse", call("write_file", path="no.txt", content="x"), say("all right"))
    assert (await rig.client.prompt(session, name)).stop_reason == "end_turn"
    assert statuses(rig, "write_file")[-1] == "denied"
    assert not (rig.folder / "no.txt").exists()
    assert "use the other file instead" in str(rig.provider.requests[-1].messages)


async def test_amended_arguments_are_what_runs_and_what_is_recorded(rig: Rig):
    rig.client.answers["pilotfish/approval/request"] = option(
        "allow_once", args={"path": "amended.txt", "content": "as the user wants it\n"}
    )
    session = await rig.client.new_session()
    name = rig.script("amend", call("write_file", path="model.txt", content="x"), say("done"))
    assert (await rig.client.prompt(session, name)).stop_reason == "end_turn"
    assert (rig.folder / "amended.txt").read_text() == "as the user wants it\n"
    assert not (rig.folder / "model.txt").exists()
    items = [item for item in (await rig.client.load(session)).items if item.kind == "tool_call"]
    assert items[0].call.args["path"] == "amended.txt"
    assert items[0].call.approval is not None
    assert items[0].call.approval.amended


async def test_the_first_answer_wins_and_every_other_surface_clears(rig: Rig):
    rig.client.answers["pilotfish/approval/request"] = never
    session = await rig.client.new_session()
    turn = rig.client.begin(session, rig.script("race", call("write_file", path="race.txt", content="x"), say("done")))
    await rig.client.until(lambda: bool(rig.client.of("pilotfish/approval/request")))
    asked = [message for message in rig.client.heard if message.get("method") == "pilotfish/approval/request"][-1]
    listed = await rig.client.request("pilotfish/approval/list", {"sessionId": session})
    approval = listed["approvals"][0]["approvalId"]
    assert approval == asked["params"]["approvalId"]
    assert [question.approval_id for question in (await rig.client.load(session)).pending_approvals] == [approval]
    said = {"approvalId": approval, "optionId": "reject"}
    assert await rig.client.request("pilotfish/approval/answer", said) == {"accepted": True}
    assert (await asyncio.wait_for(turn, 30)).stop_reason == "end_turn"
    assert asked["id"] in rig.client.taken_back
    assert rig.client.of("pilotfish/approval/resolved")[-1]["optionId"] == "reject"
    assert (await refused(rig, "pilotfish/approval/answer", said)).code == 4
    assert (await rig.client.request("pilotfish/approval/list", {}))["approvals"] == []


async def test_a_question_is_answered_by_the_command_that_lenses_run(rig: Rig):
    rig.client.answers["pilotfish/approval/request"] = never
    (rig.folder / "lens.txt").write_text("one\ntwo\nthree\n")
    uri = (rig.folder / "lens.txt").as_uri()
    item = {"uri": uri, "languageId": "text", "version": 1, "text": "one\ntwo\nthree\n"}
    rig.client.notify("textDocument/didOpen", {"textDocument": item})
    session = await rig.client.new_session()
    replies = call("read_file", path="lens.txt"), edit("lens.txt", "three", "3"), say("done")
    turn = rig.client.begin(session, rig.script("lens", *replies))
    await rig.client.until(lambda: bool(rig.client.of("pilotfish/approval/request")))
    lenses = await rig.client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
    assert [lens["range"]["start"]["line"] for lens in lenses] == [2, 2, 2]
    assert [lens["command"]["title"] for lens in lenses] == ["Allow edit", "Deny", "Diff"]
    deny = lenses[1]["command"]
    run = {"command": deny["command"], "arguments": deny["arguments"]}
    assert await rig.client.request("workspace/executeCommand", run) == {"accepted": True}
    assert (await asyncio.wait_for(turn, 30)).stop_reason == "end_turn"
    assert await rig.client.request("textDocument/codeLens", {"textDocument": {"uri": uri}}) == []
    rig.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})


async def test_an_answer_that_does_not_fit_is_no_answer_and_the_question_is_asked_again(rig: Rig):
    said = iter([{"optionId": "yes please"}, {"answer": True}, {"optionId": "allow_once"}])

    async def answer(_: dict[str, Any]) -> Any:
        return next(said)

    rig.client.answers["pilotfish/approval/request"] = answer
    session = await rig.client.new_session()
    name = rig.script("unfit", call("write_file", path="unfit.txt", content="x"), say("done"))
    assert (await rig.client.prompt(session, name)).stop_reason == "end_turn"
    assert (rig.folder / "unfit.txt").exists()


async def test_a_question_whose_answers_never_fit_waits_and_the_user_is_told(rig: Rig):
    rig.client.answers["pilotfish/approval/request"] = option("allow_forever")
    session = await rig.client.new_session()
    turn = rig.client.begin(session, rig.script("misfit", call("write_file", path="misfit.txt", content="x")))
    await rig.client.until(lambda: bool(rig.client.of("window/showMessage")))
    assert "optionId" in rig.client.of("window/showMessage")[-1]["message"]
    assert len(rig.client.of("pilotfish/approval/request")) == 3
    (waiting,) = (await rig.client.request("pilotfish/approval/list", {"sessionId": session}))["approvals"]
    answer = {"approvalId": waiting["approvalId"], "optionId": "allow_forever"}
    error = await refused(rig, "pilotfish/approval/answer", answer)
    assert (error.code, error.data) == (-32602, {"field": "optionId"})
    await rig.client.request("pilotfish/session/cancel", {"sessionId": session})
    assert (await asyncio.wait_for(turn, 30)).stop_reason == "cancelled"
    assert not (rig.folder / "misfit.txt").exists()


async def test_a_client_that_does_not_know_our_question_is_asked_by_a_message(rig: Rig):
    async def deny(params: dict[str, Any]) -> Any:
        return next(action for action in params["actions"] if action["title"] == "Deny")

    del rig.client.answers["pilotfish/approval/request"]
    rig.client.answers["window/showMessageRequest"] = deny
    session = await rig.client.new_session()
    name = rig.script("unknown", call("write_file", path="unknown.txt", content="x"), say("all right"))
    assert (await rig.client.prompt(session, name)).stop_reason == "end_turn"
    assert statuses(rig, "write_file")[-1] == "denied"


async def test_a_client_that_fails_to_ask_leaves_the_question_waiting(rig: Rig):
    async def broken(_: dict[str, Any]) -> Any:
        raise RpcError("no window", -32603)

    rig.client.answers["pilotfish/approval/request"] = broken
    session = await rig.client.new_session()
    turn = rig.client.begin(
        session, rig.script("window", call("write_file", path="window.txt", content="x"), say("done"))
    )
    await rig.client.until(lambda: bool(rig.client.of("pilotfish/approval/request")))
    await asyncio.sleep(0.1)
    listed = await rig.client.request("pilotfish/approval/list", {})
    assert not turn.done()
    said = {"approvalId": listed["approvals"][0]["approvalId"], "optionId": "allow_once"}
    assert await rig.client.request("pilotfish/approval/answer", said) == {"accepted": True}
    assert (await asyncio.wait_for(turn, 30)).stop_reason == "end_turn"


async def test_always_allow_writes_a_rule_that_is_listed_and_can_be_removed(rig: Rig):
    rig.client.answers["pilotfish/approval/request"] = option("allow_always")
    session = await rig.client.new_session()
    replies = call("bash", command="touch ruled"), call("bash", command="touch ruled"), say("done")
    assert (await rig.client.prompt(session, rig.script("always", *replies))).stop_reason == "end_turn"
    assert len(rig.client.of("pilotfish/approval/request")) == 1
    listed = wire.RuleListResult.model_validate(await rig.client.request("pilotfish/rule/list", {})).rules
    mine = [rule for rule in listed if "touch" in rule.pattern]
    assert [(rule.decision, rule.tool, rule.scope) for rule in mine] == [("allow", "bash", "workspace")]
    assert await rig.client.request("pilotfish/rule/remove", {"id": mine[0].id}) == {}
    assert (await refused(rig, "pilotfish/rule/remove", {"id": mine[0].id})).code == 4


async def test_an_option_names_its_rule_as_it_would_be_added_with_what_it_does_not_cover(rig: Rig):
    rig.client.answers["pilotfish/approval/request"] = option("reject")
    session = await rig.client.new_session()
    await rig.client.prompt(session, rig.script("offered", call("bash", command="touch offered"), say("done")))
    offered = {each["id"]: each for each in rig.client.of("pilotfish/approval/request")[-1]["options"]}
    assert offered["allow_always"] == {
        "id": "allow_always",
        "label": "Always allow",
        "rule": "Allow running exactly `touch offered`, in this workspace",
        "tool": "bash",
        "pattern": "touch offered",
        "matches": ["touch offered"],
        "excludes": ["touch offered --verbose", "touch offered && rm x"],
    }
    assert offered["allow_once"] == {"id": "allow_once", "label": "Allow once", "matches": [], "excludes": []}


@pytest.mark.parametrize("scope", ["session", "workspace", "user"])
async def test_a_rule_is_added_in_each_scope_and_removed(rig: Rig, scope: str):
    session = await rig.client.new_session()
    added = await rig.client.request(
        "pilotfish/rule/add",
        {"decision": "deny", "tool": "bash", "pattern": f"curl {scope} *", "scope": scope, "sessionId": session},
    )
    rule = wire.RuleAddResult.model_validate(added).rule
    listed = await rig.client.request("pilotfish/rule/list", {"sessionId": session})
    assert rule.id in [one["id"] for one in listed["rules"]]
    assert await rig.client.request("pilotfish/rule/remove", {"id": rule.id, "sessionId": session}) == {}
    listed = await rig.client.request("pilotfish/rule/list", {"sessionId": session})
    assert rule.id not in [one["id"] for one in listed["rules"]]


@pytest.mark.parametrize(("field", "params"), [("pattern", {"pattern": ""}), ("tool", {"tool": ""})])
async def test_a_rule_that_can_never_hold_is_refused(rig: Rig, field: str, params: dict[str, str]):
    error = await refused(rig, "pilotfish/rule/add", {"decision": "allow", **params})
    assert (error.code, error.data) == (-32602, {"field": field})


async def test_a_rule_holds_for_the_very_next_call(rig: Rig):
    session = await rig.client.new_session()
    rule = {"decision": "allow", "tool": "write_file", "pattern": "ruled.txt", "scope": "session"}
    await rig.client.request("pilotfish/rule/add", {**rule, "sessionId": session})
    replies = call("write_file", path="ruled.txt", content="x"), say("done")
    await rig.client.prompt(session, rig.script("ruled", *replies))
    assert rig.client.of("pilotfish/approval/request") == []
    denial = {"decision": "deny", "tool": "write_file", "pattern": "*", "scope": "session", "sessionId": session}
    await rig.client.request("pilotfish/rule/add", denial)
    await rig.client.prompt(session, rig.script("ruled", *replies))
    assert rig.client.of("pilotfish/approval/request") == []
    assert statuses(rig, "write_file")[-2:] == ["pending", "denied"]


async def test_nothing_is_changed_and_no_command_of_the_folder_is_known_without_trust(rig: Rig):
    session = await rig.client.new_session(mode="auto")
    await rig.client.prompt(session, rig.script("trust", call("write_file", path="kept.txt", content="x"), say("ok")))
    commands = rig.folder / ".pilotfish" / "commands"
    commands.mkdir(parents=True, exist_ok=True)
    (commands / "trusting.md").write_text("Do it.\n")

    async def known() -> bool:
        listed = await rig.client.request("pilotfish/command/list", {})
        return "trusting" in [command["name"] for command in listed["commands"]]

    assert await known()
    rig.client.notify("pilotfish/trust/changed", {"trusted": False})
    try:
        assert not await known()
        assert (await refused(rig, "pilotfish/session/undo", {"sessionId": session})).code == 3
        typed = {"sessionId": session, "prompt": [text_block("/undo")]}
        assert (await refused(rig, "pilotfish/session/prompt", typed)).code == 3
        assert (rig.folder / "kept.txt").exists()
        dry = await rig.client.request("pilotfish/session/undo", {"sessionId": session, "dryRun": True})
        assert [change["change"] for change in dry["changes"]] == ["deleted"]
        replies = call("write_file", path="never.txt", content="x"), say("ok")
        await rig.client.prompt(session, rig.script("untrusted", *replies))
        assert statuses(rig, "write_file")[-1] == "denied"
    finally:
        rig.client.notify("pilotfish/trust/changed", {"trusted": True})
    assert not (rig.folder / "never.txt").exists()
    await rig.client.request("pilotfish/session/undo", {"sessionId": session})
    assert not (rig.folder / "kept.txt").exists()


async def test_an_export_says_its_format(rig: Rig):
    error = await refused(rig, "pilotfish/session/export", {"sessionId": await rig.client.new_session()})
    assert (error.code, error.data) == (-32602, {"field": "format"})


async def test_a_session_rule_needs_a_session(rig: Rig):
    error = await refused(rig, "pilotfish/rule/add", {"decision": "allow", "tool": "bash", "scope": "session"})
    assert (error.code, error.data) == (-32602, {"field": "sessionId"})


async def test_the_agent_asks_the_user_and_hears_the_answer_or_none(rig: Rig):
    async def answer(params: dict[str, Any]) -> Any:
        asked = wire.AskParams.model_validate(params)
        return {"answer": asked.options[1]} if asked.options else {"dismissed": True}

    rig.client.answers["pilotfish/user/ask"] = answer
    session = await rig.client.new_session()
    which = call("ask_user", question="Which?", options=["left", "right it is"])
    name = rig.script("asks", which, call("ask_user", question="Why?"), say("done"))
    assert (await rig.client.prompt(session, name)).stop_reason == "end_turn"
    sent = str(rig.provider.requests[-1].messages)
    assert "right it is" in sent
    assert "did not answer" in sent


# ---- the rest -------------------------------------------------------------------------------------------------------


async def test_models_are_listed_with_the_reason_they_are_not_available(rig: Rig):
    listed = wire.ModelListResult.model_validate(await rig.client.request("pilotfish/model/list", {}))
    assert listed.current == "openai-chat:scripted"
    assert all(model.available or model.reason for model in listed.models)
    assert [(model.id, model.images) for model in listed.models if model.id == "demo"] == [("demo", False)]


async def test_a_secret_is_taken_and_never_told(rig: Rig):
    assert await rig.client.request("pilotfish/secret/set", {"provider": "anthropic", "key": "sk-ant-geheim"}) == {}
    everything = str(rig.client.heard) + str(await rig.client.request("pilotfish/status", {}))
    assert "geheim" not in everything
    await rig.client.request("pilotfish/secret/set", {"provider": "anthropic", "key": ""})


@pytest.mark.parametrize("key", ["schlüssel", "sk-😀", "sk-two\nlines", "sk-\x00"])
async def test_a_key_that_can_be_none_is_refused(rig: Rig, key: str):
    error = await refused(rig, "pilotfish/secret/set", {"provider": "openai", "key": key})
    assert (error.code, error.data) == (-32602, {"field": "key"})
    assert key not in error.message


async def test_a_key_that_can_be_none_in_the_environment_costs_a_turn_its_end_and_nothing_else(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    async with served(folder, settings={"model": "openai-chat:scripted"}, OPENAI_API_KEY="schlüssel 😀") as rig:
        listed = wire.ModelListResult.model_validate(await rig.client.request("pilotfish/model/list", {}))
        chosen = next(model for model in listed.models if model.id == "openai-chat:scripted")
        assert (chosen.available, chosen.reason) == (False, "The API key has invalid characters. Set it again.")
        result = await rig.client.prompt(await rig.client.new_session(), rig.script("key", say("never")))
        assert result.stop_reason == "failed"
        assert result.error is not None
        assert (result.error.kind, result.error.retryable) == ("authentication", False)


async def test_the_status_says_how_the_server_is(rig: Rig):
    await rig.client.new_session()
    status = wire.Status.model_validate(await rig.client.request("pilotfish/status"))
    assert (status.state, status.model, status.mode, status.trusted) == ("ready", "openai-chat:scripted", "ask", True)
    assert status.store is not None
    assert status.sandbox is not None
    assert status.sandbox.startswith(("bubblewrap: ", "no sandbox: "))
    assert status.memory_bytes > 10_000_000
    assert (status.running_turns, status.pending_approvals, status.problems) == (0, 0, ())


async def test_mentions_find_files_folders_and_open_buffers(rig: Rig):
    (rig.folder / "src").mkdir(exist_ok=True)
    (rig.folder / "src" / "mentionable.py").write_text("")
    found = wire.MentionResult.model_validate(
        await rig.client.request("pilotfish/mention/complete", {"query": "mentionab", "limit": 5})
    ).mentions
    assert [(mention.kind, mention.label) for mention in found] == [("file", "src/mentionable.py")]
    uri = (rig.folder / "src" / "mentionable.py").as_uri()
    item = {"uri": uri, "languageId": "python", "version": 1, "text": ""}
    rig.client.notify("textDocument/didOpen", {"textDocument": item})
    found = await rig.client.request("pilotfish/mention/complete", {"query": "", "limit": 1})
    assert [(mention["kind"], mention["uri"]) for mention in found["mentions"]] == [("buffer", uri)]
    rig.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})


@pytest.mark.parametrize("name", ["with space.txt", "routes/[id].tsx", "@scope/a+b.js"])
async def test_what_a_mention_inserts_is_attached_whatever_the_file_is_called(rig: Rig, name: str):
    file = rig.folder / "odd names" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("what stands in it\n")
    found = await rig.client.request("pilotfish/mention/complete", {"query": file.name})
    (insert,) = [mention["insert"] for mention in found["mentions"] if mention["uri"] == file.as_uri()]
    session = await rig.client.new_session()
    await rig.client.prompt(session, f"{rig.script('mention', say('ok'))} look at @{insert}")
    assert "what stands in it" in str(rig.provider.requests[-1].messages[-1])


async def test_commands_are_the_built_in_ones_and_the_users_own(rig: Rig):
    own = rig.folder / ".pilotfish" / "commands"
    own.mkdir(parents=True, exist_ok=True)
    (own / "review.md").write_text("---\ndescription: Look closely\nargument-hint: [file]\n---\n#review# of $1\n")
    listed = wire.CommandListResult.model_validate(await rig.client.request("pilotfish/command/list", {})).commands
    names = [command.name for command in listed]
    assert names[:9] == ["help", "clear", "model", "mode", "undo", "compact", "export", "memory", "plan"]
    assert wire.Command(name="review", description="Look closely", argument_hint="[file]", source="workspace") in listed
    session = await rig.client.new_session()
    rig.script("review", say("It is good."))
    assert (await rig.client.prompt(session, "/review a.py")).stop_reason == "end_turn"
    assert "#review# of a.py" in str(rig.provider.requests[-1].messages)


async def test_a_command_of_another_agent_is_used_with_its_files(rig: Rig):
    own = rig.folder / ".claude" / "commands" / "check"
    own.mkdir(parents=True, exist_ok=True)
    (rig.folder / "rules.txt").write_text("be strict\n")
    (own / "all.md").write_text("#strict# Check $ARGUMENTS by @rules.txt\n")
    rig.script("strict", say("It is good."))
    await rig.client.prompt(await rig.client.new_session(), "/check:all a.py b.py")
    sent = str(rig.provider.requests[-1].messages)
    assert "Check a.py b.py by @rules.txt" in sent
    assert "be strict" in sent


async def test_slash_commands_answer_without_a_turn(rig: Rig):
    session = await rig.client.new_session()

    async def say_slash(text: str) -> wire.PromptResult:
        result = await rig.client.prompt(session, text)
        assert (result.turn_id, result.stop_reason) == ("", "end_turn")
        return result

    assert "/compact" in ((await say_slash("/help")).reply or "")
    assert "openai-chat:scripted" in ((await say_slash("/model")).reply or "")
    assert "`demo`" in ((await say_slash("/model demo")).reply or "")
    assert "Of this workspace: `" in ((await say_slash("/memory")).reply or "")
    assert "Plan mode" in ((await say_slash("/plan")).reply or "")
    assert "`plan`" in ((await say_slash("/mode")).reply or "")
    assert "`edit`" in ((await say_slash("/mode edit")).reply or "")
    assert "No files" in ((await say_slash("/undo")).reply or "")
    assert "too short" in ((await say_slash("/compact")).reply or "")
    assert (await say_slash("/export")).reply is not None
    fresh = (await say_slash("/clear")).session_id
    assert fresh not in (None, session)
    assert (await rig.client.load(session)).items == ()
    error = await refused(rig, "pilotfish/session/prompt", {"sessionId": session, "prompt": [text_block("/mode x")]})
    assert (error.code, error.data) == (-32602, {"field": "mode"})


async def test_plan_with_words_plans_them_and_what_is_no_command_is_said(rig: Rig):
    session = await rig.client.new_session()
    result = await rig.client.prompt(session, "/plan " + rig.script("plan", say("First this.")))
    assert result.stop_reason == "end_turn"
    assert (await rig.client.load(session)).session.mode == "plan"
    for text in ("/usr/bin/env is missing", "/nosuch command"):
        assert (await rig.client.prompt(session, text)).turn_id != ""
        assert text in str(rig.provider.requests[-1].messages)


def text_block(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


async def test_a_command_whose_provider_fails_is_answered_like_a_turn(rig: Rig):
    session = await rig.client.new_session()
    for number in range(6):
        await rig.client.prompt(session, rig.script(f"long-{number}", say("much is said. " * 200)))
    rig.script("long-0", *(fails("authentication") for _ in range(4)))
    params = {"sessionId": session, "prompt": [text_block("/compact")]}
    result = wire.PromptResult.model_validate(await rig.client.request("pilotfish/session/prompt", params))
    assert result.error is not None
    assert (result.stop_reason, result.error.kind) == ("failed", "authentication")
    assert (await rig.client.prompt(session, rig.script("after", say("fine")))).stop_reason == "end_turn"


async def test_parallel_calls_are_all_told_and_ended(rig: Rig):
    for number in range(4):
        (rig.folder / f"p{number}.txt").write_text(str(number))
    session = await rig.client.new_session()
    wanted = [Call("read_file", {"path": f"p{number}.txt"}) for number in range(4)]
    assert (await rig.client.prompt(session, rig.script("par", calls(*wanted), say("ok")))).stop_reason == "end_turn"
    ended = rig.client.laws.calls[session].values()
    assert [call.status for call in ended] == ["completed"] * 4


async def test_a_turn_in_a_folder_of_its_own(rig: Rig, tmp_path: Path):
    (tmp_path / "there.txt").write_text("found it\n")
    session = await rig.client.new_session(workspaceFolder=tmp_path.as_uri())
    await rig.client.prompt(session, rig.script("own", call("read_file", path="there.txt"), say("ok")))
    assert "found it" in str(rig.provider.requests[-1].messages)


@pytest.mark.parametrize("name", ["google", "Google", " GOOGLE "])
async def test_a_key_is_taken_for_a_provider_as_models_name_it(rig: Rig, name: str):
    async def available() -> set[bool]:
        listed = await rig.client.request("pilotfish/model/list", {})
        return {model["available"] for model in listed["models"] if model["id"].startswith("google:")}

    assert await available() == {False}
    await rig.client.request("pilotfish/secret/set", {"provider": name, "key": "k"})
    assert await available() == {True}
    await rig.client.request("pilotfish/secret/set", {"provider": name, "key": ""})
    assert await available() == {False}


@pytest.mark.parametrize("name", ["openai-chat", " OpenAI-Chat ", "openai-responses", "openai", "OpenAI"])
async def test_a_key_under_any_of_openai_s_names_is_the_one_that_is_sent(rig: Rig, name: str):
    async def sent() -> str:
        await rig.client.prompt(await rig.client.new_session(), "hello")
        return rig.provider.requests[-1].headers["authorization"]

    await rig.client.request("pilotfish/secret/set", {"provider": name, "key": "sk-handed-over"})
    try:
        assert await sent() == "Bearer sk-handed-over"
    finally:
        await rig.client.request("pilotfish/secret/set", {"provider": name, "key": ""})
    assert await sent() == "Bearer sk-scripted"


async def test_more_than_fits_on_a_page_may_be_asked_for(rig: Rig):
    session = await rig.client.new_session()
    asked = {
        "pilotfish/session/list": {"limit": 1_000_000},
        "pilotfish/session/load": {"sessionId": session, "limit": 1_000_000},
        "pilotfish/mention/complete": {"query": "", "limit": 1_000_000},
    }
    for method, params in asked.items():
        await rig.client.request(method, params)
        assert (await refused(rig, method, {**params, "limit": 0})).data == {"field": "limit"}


async def test_a_client_is_asked_what_the_user_looks_at_if_the_prompt_does_not_say_it(tmp_path: Path):
    hello = {"protocolVersion": 1, "client": {"context": True}, "trusted": True}
    async with served(tmp_path, hello=hello) as rig:
        file = rig.folder / "asked.py"
        file.write_text("first = 1\nsecond = 2\n")
        answers: list[Any] = [{"active": {"uri": file.as_uri(), "cursor": {"line": 1, "character": 0}}}, {}, None]

        async def looking(_: dict[str, Any]) -> Any:
            return answers.pop(0)

        rig.client.answers["pilotfish/editor/context"] = looking
        session = await rig.client.new_session()
        for _ in range(3):
            await rig.client.prompt(session, "hello")
        said = [str(request.messages[-1]["content"]) for request in rig.provider.requests]
        assert [' cursor="2:1"' in text for text in said] == [True, False, False]


async def test_what_the_user_looks_at_goes_with_the_prompt_and_not_into_the_transcript(rig: Rig):
    file = rig.folder / "active.py"
    file.write_text("first = 1\nsecond = 2\n")
    cursor = {"line": 1, "character": 3}
    context = {"type": "context", "active": {"uri": file.as_uri(), "cursor": cursor}, "git": False}
    session = await rig.client.new_session()
    words = {"type": "text", "text": rig.script("active", say("seen"), say("not seen"))}
    prompts = [[context, words], [{"type": "context"}, words]]
    for prompt in prompts:
        await rig.client.request("pilotfish/session/prompt", {"sessionId": session, "prompt": prompt})
    first, second = (str(request.messages[-1]["content"]) for request in rig.provider.requests[-2:])
    assert '<active_file path="active.py" cursor="2:4">' in first
    assert "second = 2" in first
    assert "active_file" not in second
    shown = [item for item in (await rig.client.load(session)).items if item.kind == "prompt"]
    assert [[block.type for block in item.prompt] for item in shown] == [["text"], ["text"]]
    with pytest.raises(RpcError, match="must not be empty"):
        await rig.client.request("pilotfish/session/prompt", {"sessionId": session, "prompt": [context]})
