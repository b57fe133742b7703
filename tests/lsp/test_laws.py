"""Laws 1 to 8 of the wire, each against the real process. `Laws` checks 1 to 5 in every other test as well."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.support.client import OURS, SERVER, Client, RpcError, frame, never, spawn
from tests.support.laws import FINAL
from tests.support.provider import Call, call, calls, say
from tests.support.served import Rig, served
from tests.support.waiting import until

from pilotfish.protocol import wire

pytestmark = pytest.mark.asyncio(loop_scope="module")

STOPPED = 10.0 if os.environ.get("PILOTFISH_LONG") else 3.0
"""seconds a client does not read"""


TWO_SECONDS = 2.0
"""law 8: everything is gone by then"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@contextlib.asynccontextmanager
async def raw(tmp_path: Path, **more: str) -> AsyncGenerator[Client]:
    """A server process that has been told nothing."""
    client = await spawn(tmp_path / "home", **more)
    try:
        yield client
    finally:
        await client.close()


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> None:
    async with asyncio.timeout(TWO_SECONDS):
        await until(lambda: not (alive(pid)))


# ---- 1 to 4: order, ends, nothing lost ------------------------------------------------------------------------------


async def test_law_1_numbers_go_on_over_a_restart(folder: Path):
    async with served(folder) as rig:
        session = await rig.client.new_session()
        await rig.client.prompt(session, rig.script("first", say("one")))
        last = rig.client.laws.seq[session]
        assert last == len(rig.client.updates)
        assert await rig.client.stop() == 0
    async with served(folder) as rig:
        loaded = await rig.client.load(session)
        assert loaded.last_seq == last
        await rig.client.prompt(session, rig.script("second", say("two")))
        assert rig.client.updates[0].seq == last + 1


async def test_laws_2_3_and_4_hold_over_a_crash_in_the_middle_of_a_call(folder: Path):
    async with served(folder) as rig:
        session = await rig.client.new_session(mode="auto")
        name = rig.script("crash", calls(Call("bash", {"command": "sleep 600"}), text="Look: I run it"))
        rig.client.begin(session, name).add_done_callback(_seen)
        await rig.client.until(
            lambda: any(call.status == "in_progress" for call in rig.client.laws.calls[session].values())
        )
        rig.client.process.kill()
        await asyncio.wait_for(rig.client.process.wait(), 30.0)
        last, texts = rig.client.laws.seq[session], dict(rig.client.laws.texts[session])
    async with served(folder) as rig:
        loaded = await rig.client.load(session)
        kept = [item.call for item in loaded.items if item.kind == "tool_call"]
        assert [call.status in FINAL for call in kept] == [True]
        assert {item.id: item.text for item in loaded.items if item.kind == "message"} == texts
        assert loaded.items[-1].kind == "turn_end"
        assert loaded.last_seq >= last
        assert (await rig.client.prompt(session, rig.script("on", say("alive")))).stop_reason == "end_turn"


async def test_the_first_load_after_a_crash_has_every_question_that_was_open(folder: Path):
    wanted = [Call("write_file", {"path": f"{name}.txt", "content": "x"}) for name in ("one", "two")]
    async with served(folder) as rig:
        rig.client.answers["pilotfish/approval/request"] = never
        session = await rig.client.new_session()
        rig.client.begin(session, rig.script("ask", calls(*wanted))).add_done_callback(_seen)
        await rig.client.until(lambda: len(rig.client.of("pilotfish/approval/request")) == 2)
        rig.client.process.kill()
        await asyncio.wait_for(rig.client.process.wait(), 30.0)
    async with served(folder) as rig:
        rig.client.answers["pilotfish/approval/request"] = never
        rig.script("ask", say("went on"))
        loaded = await rig.client.load(session)
        assert loaded.session.busy
        assert {question.call.args["path"] for question in loaded.pending_approvals} == {"one.txt", "two.txt"}
        assert [item.call.status for item in loaded.items if item.kind == "tool_call"] == ["awaiting_approval"] * 2
        for question in loaded.pending_approvals:
            said = {"approvalId": question.approval_id, "optionId": "allow_once"}
            assert await rig.client.request("pilotfish/approval/answer", said) == {"accepted": True}
        await rig.client.first_update("turn_ended", session)
        assert (folder / "one.txt").exists()
        assert (folder / "two.txt").exists()


def _seen(task: asyncio.Task[Any]) -> None:
    if not task.cancelled():
        task.exception()


async def test_law_4_text_is_what_was_told_whatever_is_in_it(rig: Rig):
    pieces = [" \n", "a", "\u2028", "😀", "\x00", "<think>", "</think>", "\ufeff", "b\r\n", "\t", "end"]
    session = await rig.client.new_session()
    await rig.client.prompt(session, rig.script("odd", say(*pieces, thoughts=["  t", "\n\n", "h"])))
    await rig.client.load(session)
    assert rig.client.laws.texts[session]


# ---- 5: a client that is slow ---------------------------------------------------------------------------------------


async def test_law_5_a_client_that_stops_reading_stops_nobody_and_costs_no_memory(rig: Rig):
    client = rig.client
    session = await client.new_session()
    flood = rig.script("flood", say("x" * 200 + " ", end="endless"))
    answer = client.ask(
        "pilotfish/session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": flood}]}, key="p"
    )
    await client.first_update("agent_message_chunk", session)
    client.reading.clear()
    await asyncio.sleep(STOPPED / 2)
    halfway = memory(client.process.pid)
    await asyncio.sleep(STOPPED / 2)
    grown = memory(client.process.pid) - halfway
    # The loop is alive while the pipe is full: the cancel is heard, and the provider is let go.
    client.notify("$/cancelRequest", {"id": "p"})
    await asyncio.wait_for(rig.provider.requests[-1].disconnected.wait(), 30)
    client.reading.set()
    result = client.laws.answer(await asyncio.wait_for(answer, 30))
    assert result.stop_reason == "cancelled"
    await client.load(session)
    assert grown < 60_000_000
    assert len("".join(client.laws.texts[session].values())) > 10_000


async def test_law_5_approvals_and_status_get_through_while_another_session_floods(rig: Rig):
    client = rig.client
    flooded, asking = await client.new_session(), await client.new_session()
    turn = client.begin(flooded, rig.script("flood", say("x" * 100 + " ", end="endless")))
    await client.first_update("agent_message_chunk", flooded)
    name = rig.script("ask", call("write_file", path="a.txt", content="x"), say("done"))
    assert (await client.prompt(asking, name)).stop_reason == "end_turn"
    assert (await client.request("pilotfish/status"))["runningTurns"] == 1
    await client.request("pilotfish/session/cancel", {"sessionId": flooded})
    assert (await asyncio.wait_for(turn, 30)).stop_reason == "cancelled"
    await client.load(flooded)


async def test_law_5_a_client_that_reads_slowly_gets_everything_in_fewer_pieces(rig: Rig):
    client = rig.client
    session = await client.new_session()
    turn = client.begin(session, rig.script("much", say("word " * 40, times=4000)))

    async def stutter() -> None:
        while not turn.done():
            client.reading.clear()
            await asyncio.sleep(0.03)
            client.reading.set()
            await asyncio.sleep(0.003)

    stuttering = asyncio.create_task(stutter())
    assert (await asyncio.wait_for(turn, 60)).stop_reason == "end_turn"
    stuttering.cancel()
    client.reading.set()
    assert "".join(client.laws.texts[session].values()).strip() == ("word " * 40 * 4000).strip()
    await client.load(session)


async def test_laws_1_to_5_hold_for_a_client_that_sends_garbage_meanwhile(rig: Rig):
    client = rig.client
    session = await client.new_session()
    turn = client.begin(session, rig.script("calm", say("word ", times=300, delay=0.002)))
    await client.first_update("agent_message_chunk", session)
    for rubbish in (b"\x00\xff" * 500, b"Content-Length: 5\r\n\r\n{{{{{", b"Content-Length: x\r\n\r\n", b"{}" * 99):
        client.write(rubbish + b"\r\n")
        assert (await client.request("pilotfish/status"))["state"] == "ready"
    assert (await asyncio.wait_for(turn, 30)).stop_reason == "end_turn"
    assert [message["error"]["code"] for message in client.unasked] == [-32700]
    await client.load(session)


# ---- 6: an approval is for one digest -------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["disk", "buffer"])
async def test_law_6_a_document_that_moved_on_is_asked_for_again(rig: Rig, where: str):
    file = rig.folder / f"{where}.txt"
    file.write_text("one\ntwo\n")
    if where == "buffer":
        item = {"uri": file.as_uri(), "languageId": "text", "version": 1, "text": "one\ntwo\n"}
        rig.client.notify("textDocument/didOpen", {"textDocument": item})
    asked: list[wire.ApprovalRequest] = []

    async def answer(params: dict[str, Any]) -> Any:
        asked.append(wire.ApprovalRequest.model_validate(params))
        if len(asked) == 1 and where == "disk":
            file.write_text("zero\none\ntwo\n")
        elif len(asked) == 1:
            changed = {"textDocument": {"uri": file.as_uri(), "version": 2}}
            change = {"contentChanges": [{"text": "zero\none\ntwo\n"}]}
            rig.client.notify("textDocument/didChange", {**changed, **change})
        return {"optionId": "allow_once"}

    rig.client.answers["pilotfish/approval/request"] = answer
    session = await rig.client.new_session()
    edits = [{"old_string": "two", "new_string": "2"}]
    replies = call("read_file", path=file.name), call("update_file", path=file.name, edits=edits), say("done")
    await rig.client.prompt(session, rig.script("stale", *replies))
    assert len(asked) == 2
    assert asked[0].digest != asked[1].digest
    preview = asked[1].preview
    assert isinstance(preview, wire.DiffPreview)
    assert [(shown.uri, shown.before, shown.after) for shown in preview.files] == [
        (file.as_uri(), "zero\none\ntwo\n", "zero\none\n2\n")
    ]


# ---- 7: every request gets an answer --------------------------------------------------------------------------------

INITIALIZE: dict[str, Any] = {"processId": None, "rootUri": None, "capabilities": {}}


async def code(answer: asyncio.Future[Any]) -> int | None:
    try:
        await asyncio.wait_for(answer, 30)
    except RpcError as error:
        shown = f"{error.message}{error.data}"
        if "Traceback" in shown or str(SERVER) in shown:
            raise AssertionError(shown) from error
        return error.code
    return None


async def test_law_7_before_initialize(tmp_path: Path):
    async with raw(tmp_path) as client:
        assert await code(client.ask("pilotfish/status")) == -32002
        assert await code(client.ask("shutdown", key="text")) == -32002
        client.write(b"Content-Length: 3\r\n\r\n{{{")
        client.send({"jsonrpc": "2.0", "id": None, "method": "initialize", "params": INITIALIZE})
        client.notify("initialized", {})
        client.write(frame([]))
        wrong: list[tuple[Any, str]] = [([], "params"), ({}, "params.capabilities")]
        for bad, field in (*wrong, ({"capabilities": 5}, "params.capabilities")):
            with pytest.raises(RpcError) as caught:
                await client.request("initialize", bad)
            assert (caught.value.code, caught.value.data) == (-32602, {"field": field})
        codes = [message["error"]["code"] for message in client.unasked]
        assert codes == [-32700, -32600, -32600]
        assert "capabilities" in await client.request("initialize", INITIALIZE)


async def test_law_7_while_the_rest_is_loading_and_after(tmp_path: Path):
    async with raw(tmp_path) as client:
        asked = {
            "hello": client.ask("initialize", INITIALIZE),
            "status": client.ask("pilotfish/status", {}),
            "bad status": client.ask("pilotfish/status", {"x": 1}),
            "again": client.ask("initialize", INITIALIZE),
            "unknown": client.ask("no/such/method", {"a": 1}),
            "ours from us": client.ask("pilotfish/session/update", {}),
            "no params": client.ask("pilotfish/session/load"),
            "array": client.ask("pilotfish/session/load", [1]),
            "stranger": client.ask("pilotfish/session/load", {"sessionId": "nobody"}),
            "extra": client.ask("pilotfish/session/new", {"titel": "x"}),
            "action": client.ask("textDocument/codeAction", {"textDocument": 5}),
            "no action": client.ask("textDocument/codeAction"),
            "command": client.ask("workspace/executeCommand", {"command": "no.such"}),
            "nothing": client.ask("workspace/executeCommand", {}),
        }
        client.write(b"Content-Length: 2\r\n\r\n}}")
        client.write(frame([{"jsonrpc": "2.0", "id": 1, "method": "shutdown"}]))
        client.send({"id": "v1", "method": "pilotfish/status"})
        client.send({"jsonrpc": "2.0", "id": {"a": 1}, "method": "pilotfish/status"})
        client.send({"jsonrpc": "2.0", "id": 1.5, "method": "pilotfish/status"})
        client.send({"jsonrpc": "2.0", "id": "odd", "method": 5})
        client.send({"jsonrpc": "2.0", "id": 12345, "result": None})
        client.send({"jsonrpc": "2.0"})
        got = {name: await code(answer) for name, answer in asked.items()}
        assert got == {
            "hello": None,
            "status": None,
            "bad status": -32602,
            "again": -32600,
            "unknown": -32601,
            "ours from us": -32601,
            "no params": -32602,
            "array": -32602,
            "stranger": 1,
            "extra": -32602,
            "action": -32602,
            "no action": -32602,
            "command": -32602,
            "nothing": -32602,
        }
        await client.until(lambda: len(client.unasked) >= 7)
        errors = [(message["id"], message["error"]["code"]) for message in client.unasked]
        assert sorted(errors, key=str) == sorted(
            [(None, -32700), *[(None, -32600)] * 4, ("odd", -32600), ("v1", -32600)], key=str
        )


async def test_law_7_names_the_field_that_is_wrong(rig: Rig):
    client = rig.client
    wrong: dict[str, tuple[str, Any]] = {
        "sessionId": ("pilotfish/session/load", {}),
        "titel": ("pilotfish/session/new", {"titel": 1}),
        "limit": ("pilotfish/session/list", {"limit": 0}),
        "prompt": ("pilotfish/session/prompt", {"sessionId": "x", "prompt": []}),
        "prompt.0.type": ("pilotfish/session/prompt", {"sessionId": "x", "prompt": [{"type": "video"}]}),
        "mode": ("pilotfish/session/new", {"mode": "yolo"}),
        "workspaceFolder": ("pilotfish/session/new", {"workspaceFolder": "http://x"}),
    }
    for field, (method, params) in wrong.items():
        with pytest.raises(RpcError) as caught:
            await client.request(method, params)
        assert (caught.value.code, (caught.value.data or {})["field"]) == (-32602, field)


async def test_law_7_an_id_is_answered_once_and_a_second_use_of_it_is_refused(rig: Rig):
    session = await rig.client.new_session()
    prompt = [{"type": "text", "text": rig.script("slow", say("never ", end="stall"))}]
    answer = rig.client.ask("pilotfish/session/prompt", {"sessionId": session, "prompt": prompt}, key="same")
    await rig.client.first_update("agent_message_chunk")
    rig.client.send({"jsonrpc": "2.0", "id": "same", "method": "pilotfish/status"})
    assert await code(answer) == -32600
    rig.client.notify("$/cancelRequest", {"id": "same"})
    await rig.client.until(lambda: bool(rig.client.unasked))
    assert rig.client.unasked[0]["result"]["stopReason"] == "cancelled"


async def test_law_7_a_cancelled_request_is_answered_at_once(rig: Rig):
    session = await rig.client.new_session()
    name = rig.script("slow", say("never ", end="stall"))
    command = {"command": "pilotfish.prompt", "arguments": [{"prompt": name, "sessionId": session, "wait": True}]}
    before = len(rig.provider.requests)
    answer = rig.client.ask("workspace/executeCommand", command, key=77)
    await rig.provider.received(before + 1)
    rig.client.notify("$/cancelRequest", {"id": 77})
    assert await code(answer) == -32800
    # Cancelled in the same breath: it never starts, and is answered all the same.
    command["arguments"] = [{"prompt": "#nothing#", "wait": True}]
    at_once = rig.client.ask("workspace/executeCommand", command, key=78)
    rig.client.notify("$/cancelRequest", {"id": 78})
    assert await code(at_once) == -32800
    other = await rig.client.new_session()
    prompt = {"sessionId": other, "prompt": [{"type": "text", "text": "x"}]}
    turn = rig.client.ask("pilotfish/session/prompt", prompt, key=79)
    rig.client.notify("$/cancelRequest", {"id": 79})
    assert (await asyncio.wait_for(turn, 30))["stopReason"] == "cancelled"
    for odd in ({"id": "nobody"}, {"id": [1]}, {}, None, 5):
        rig.client.notify("$/cancelRequest", odd)
    assert (await rig.client.request("pilotfish/status"))["state"] == "ready"


async def test_law_7_after_shutdown(tmp_path: Path, folder: Path):
    async with served(folder) as rig:
        client = rig.client
        session = await client.new_session()
        turn = client.begin(session, rig.script("slow", say("never ", end="stall")))
        await client.first_update("agent_message_chunk")
        assert await client.request("shutdown") is None
        assert (await asyncio.wait_for(turn, 30)).stop_reason == "cancelled"
        assert await code(client.ask("pilotfish/status")) == -32600
        assert await code(client.ask("shutdown")) == -32600
        assert await code(client.ask("no/such")) == -32600
        client.notify("exit")
        assert await client.ended() == 0


# ---- 8: the end -----------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def with_a_running_command(folder: Path) -> AsyncGenerator[tuple[Rig, list[int]]]:
    """A server whose agent runs a command with a child and one that ignores SIGTERM; the process ids of all of it."""
    mark = f"600.{secrets.randbelow(10**9):09}"
    script = f"(trap '' TERM; exec sleep {mark}1) & sleep {mark}2"
    async with served(folder) as rig:
        session = await rig.client.new_session(mode="auto")
        rig.client.begin(session, rig.script("run", call("bash", command=script))).add_done_callback(_seen)
        async with asyncio.timeout(120):
            await until(lambda: bool(running(f"sleep\x00{mark}1") and running(f"sleep\x00{mark}2")))
        yield rig, running(mark)


def running(words: str) -> list[int]:
    """The processes with these words in their command line. A sandbox has numbers of its own: only from outside are
    they the right ones."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if words.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


async def test_law_8_when_stdin_closes_everything_is_gone_within_two_seconds(folder: Path):
    async with with_a_running_command(folder) as (rig, pids):
        assert rig.client.process.stdin is not None
        rig.client.process.stdin.close()
        async with asyncio.timeout(TWO_SECONDS):
            assert await rig.client.process.wait() == 1
            for pid in pids:
                await gone(pid)


@pytest.mark.parametrize("name", [signal.SIGTERM, signal.SIGINT])
async def test_law_8_a_signal_ends_everything_too(folder: Path, name: signal.Signals):
    async with with_a_running_command(folder) as (rig, pids):
        rig.client.process.send_signal(name)
        assert await asyncio.wait_for(rig.client.process.wait(), TWO_SECONDS) == 1
        for pid in pids:
            await gone(pid)


async def test_law_8_shutdown_and_exit_end_everything(folder: Path):
    async with with_a_running_command(folder) as (rig, pids):
        assert await rig.client.stop(timeout=20.0) == 0
        for pid in pids:
            await gone(pid)


async def test_law_8_when_the_clients_process_is_gone_the_server_goes(tmp_path: Path, folder: Path):
    editor = await asyncio.create_subprocess_exec("sleep", "600")
    async with raw(tmp_path) as client:
        await client.initialize(hello=OURS, capabilities={}, folders=[folder], process_id=editor.pid)
        await client.new_session()
        editor.kill()  # not waited for: a dead process that nobody has buried is gone all the same
        assert await asyncio.wait_for(client.process.wait(), TWO_SECONDS) == 1
    await editor.wait()


async def test_law_8_a_client_that_is_gone_already_is_noticed(tmp_path: Path):
    editor = await asyncio.create_subprocess_exec("true")
    await editor.wait()
    async with raw(tmp_path) as client:
        await client.initialize(hello=OURS, capabilities={}, folders=[], process_id=editor.pid)
        assert await asyncio.wait_for(client.process.wait(), 30.0) == 1


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], 1),
        (["exit"], 1),
        (["initialize", "exit"], 1),
        (["initialize", "shutdown", "exit"], 0),
        (["initialize", "shutdown"], 0),
        (["initialize"], 1),
    ],
)
async def test_law_8_exit_codes_hold_while_the_server_is_still_loading(
    tmp_path: Path, messages: list[str], expected: int
):
    async with raw(tmp_path) as client:
        answers = list[asyncio.Future[Any]]()
        for method in messages:
            if method == "exit":
                client.notify("exit")
            else:
                answers.append(client.ask(method, INITIALIZE if method == "initialize" else None))
        assert client.process.stdin is not None
        client.process.stdin.close()
        assert await asyncio.wait_for(client.process.wait(), 30.0) == expected
        for answer in answers:
            assert answer.done()
            assert not answer.exception()


async def test_law_8_a_client_that_never_reads_does_not_keep_the_server_alive(folder: Path):
    async with served(folder) as rig:
        session = await rig.client.new_session()
        rig.client.begin(session, rig.script("flood", say("x" * 500, end="endless"))).add_done_callback(_seen)
        await rig.client.first_update("agent_message_chunk")
        rig.client.reading.clear()
        await asyncio.sleep(0.5)
        assert rig.client.process.stdin is not None
        rig.client.process.stdin.close()
        assert await asyncio.wait_for(rig.client.process.wait(), TWO_SECONDS) == 1
