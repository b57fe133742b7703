"""The start: what is loaded when, what `initialize` answers, and settings and folders that change."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.client import OURS, RpcError, connect, environment, spawn
from tests.support.provider import Call, call, calls, say
from tests.support.served import served

from pilotfish.protocol import wire

HEAVY = ("pydantic_ai", "openai", "anthropic", "pilotfish.engine", "pilotfish.store", "httpx2")


def loaded_by(code: str, home: Path) -> set[str]:
    """The modules a fresh interpreter has after running this, beyond those it starts with."""
    script = f"import sys; before = set(sys.modules)\n{code}\nprint(' '.join(set(sys.modules) - before))"
    run = subprocess.run(
        [sys.executable, "-c", script], env=environment(home), capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


# ---- what is imported when ------------------------------------------------------------------------------------------


def test_initialize_is_answered_before_the_engine_is_loaded(tmp_path: Path):
    loaded = loaded_by("import pilotfish.lsp.server", tmp_path)
    assert [name for name in loaded if name.startswith(HEAVY)] == []


async def test_sessions_are_made_and_listed_and_status_told_without_pydantic_ai(tmp_path: Path, folder: Path):
    """The import of pydantic-ai waits for a file here; nothing that is asked before may need it."""
    site, go = tmp_path / "site", tmp_path / "go"
    (site / "pydantic_ai").mkdir(parents=True)
    (site / "pydantic_ai" / "__init__.py").write_text(
        f"""
import pathlib, sys, time
from importlib.machinery import PathFinder
while not pathlib.Path({str(go)!r}).exists():
    time.sleep(0.02)
sys.path.remove({str(site)!r})
real = PathFinder.find_spec(__name__, sys.path)
__path__[:] = real.submodule_search_locations
exec(compile(pathlib.Path(real.origin).read_text(), real.origin, "exec"))
"""
    )
    path = f"{site}:{environment(tmp_path)['PYTHONPATH']}"
    async with connect(folder, PYTHONPATH=path, PILOTFISH_MODEL="demo") as client:
        session = await client.request("pilotfish/session/new", {"title": "Early"}, timeout=30)
        listed = await client.request("pilotfish/session/list", {}, timeout=30)
        status = await client.request("pilotfish/status", timeout=30)
        assert [one["id"] for one in listed["sessions"]] == [session["session"]["id"]]
        assert status["state"] == "ready"
        turn = client.begin(session["session"]["id"], "hello")
        done, _ = await asyncio.wait((turn,), timeout=0.5)
        assert not done, "a turn needs pydantic-ai"
        go.touch()
        assert (await asyncio.wait_for(turn, 60)).stop_reason == "end_turn"


async def test_a_prompt_is_answered_when_pydantic_ai_cannot_be_imported(tmp_path: Path, folder: Path):
    site = tmp_path / "site"
    (site / "pydantic_ai").mkdir(parents=True)
    (site / "pydantic_ai" / "__init__.py").write_text("raise ImportError('damaged')")
    path = f"{site}:{environment(tmp_path)['PYTHONPATH']}"
    async with connect(folder, PYTHONPATH=path, PILOTFISH_MODEL="demo") as client:
        session = await client.request("pilotfish/session/new", {}, timeout=30)
        with pytest.raises(RpcError, match="A library that Pilotfish needs could not be loaded: damaged"):
            await asyncio.wait_for(client.begin(session["session"]["id"], "hello"), 60)


# ---- initialize -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ours", [True, False])
async def test_the_answer_to_initialize_names_what_is_served(tmp_path: Path, ours: bool):
    client = await spawn(tmp_path)
    try:
        result = await client.initialize(hello=OURS if ours else None, capabilities={}, folders=[])
    finally:
        await client.close()
    capabilities = result["capabilities"]
    said = capabilities.pop("experimental")["pilotfish"]
    assert result["serverInfo"] == {"name": "pilotfish", "version": said["version"]}
    assert said["methods"] == [name for name, row in wire.METHODS.items() if row.sender == "client"]
    shared = ["approve", "preview", "review.keep", "review.undo", "review.next", "edit.retry", "findings.dismiss"]
    plain = ["prompt", "edit", "cancel", "sessions", "undo", "redo", "transcript", "choose"]
    names = [f"pilotfish.{name}" for name in (*shared, *(() if ours else plain))]
    assert capabilities == {
        "positionEncoding": "utf-16",
        "textDocumentSync": {"openClose": True, "change": 2, "save": {"includeText": False}},
        **({} if ours else {"hoverProvider": True}),
        "codeActionProvider": {
            "codeActionKinds": ["quickfix", "refactor.rewrite", "refactor", ""],
            "resolveProvider": True,
        },
        "codeLensProvider": {"resolveProvider": False},
        "executeCommandProvider": {"commands": names},
        "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}, "fileOperations": {}},
    }


@pytest.mark.parametrize(
    ("offered", "chosen"),
    [
        (["utf-8", "utf-16"], "utf-8"),
        (["utf-16", "utf-8"], "utf-16"),
        (["utf-32"], "utf-32"),
        (["latin-1", 5, None], "utf-16"),
        (None, "utf-16"),
        (7, "utf-16"),
    ],
)
async def test_the_clients_favourite_encoding_is_taken(tmp_path: Path, offered: Any, chosen: str):
    client = await spawn(tmp_path)
    try:
        general = {"positionEncodings": offered}
        result = await client.initialize(hello=None, capabilities={"general": general}, folders=[])
        assert result["capabilities"]["positionEncoding"] == chosen
    finally:
        await client.close()


async def test_status_is_answered_while_the_rest_loads(tmp_path: Path):
    client = await spawn(tmp_path)
    try:
        hello = client.ask("initialize", {"processId": None, "capabilities": {}})
        status = client.ask("pilotfish/status")
        await hello
        assert (await status)["state"] == "loading"
        assert (await client.request("pilotfish/session/list", {})) == {"sessions": []}
        assert (await client.request("pilotfish/status"))["state"] == "ready"
    finally:
        await client.close()


async def test_a_hello_that_does_not_fit_costs_what_does_not_fit_and_is_said(tmp_path: Path, folder: Path):
    hello = {
        "protocolVersion": 99,
        "client": {"approvals": True, "save": "often", "telepathy": True},
        "trusted": "very",
        "settings": {"model": "demo", "mode": "yolo", "colour": "red"},
        "other": 1,
    }
    async with connect(folder, hello=hello) as client:
        await client.request("pilotfish/session/list", {})
        status = await client.request("pilotfish/status")
        assert (status["model"], status["mode"], status["trusted"]) == ("demo", "ask", False)
        problems = " ".join(status["problems"])
        for word in ("client", "trusted", "version 99", "mode", "colour"):
            assert word in problems


async def test_a_stray_print_does_not_break_the_protocol(tmp_path: Path, folder: Path):
    site = tmp_path / "site"
    site.mkdir()
    noise = (
        "import threading\nthreading.Timer(0.3, lambda: [print('stray words', flush=True) for _ in range(20)]).start()"
    )
    (site / "sitecustomize.py").write_text(noise)
    path = f"{site}:{environment(tmp_path)['PYTHONPATH']}"
    async with connect(folder, PYTHONPATH=path) as client:
        await client.request("pilotfish/session/list", {})
        await asyncio.sleep(0.5)
        assert (await client.request("pilotfish/status"))["state"] == "ready"


# ---- a load that fails ----------------------------------------------------------------------------------------------


async def test_a_store_that_cannot_be_written_is_said_and_work_goes_on(tmp_path: Path, folder: Path):
    (tmp_path / "file").write_text("in the way")
    async with connect(folder, PILOTFISH_STORAGE=str(tmp_path / "file" / "below")) as client:
        session = await client.new_session(model="demo")
        assert (await client.prompt(session, "hello")).stop_reason == "end_turn"
        status = await client.request("pilotfish/status")
        assert status["store"]["state"] == "unsaved"
        assert "What happened since" in str(status["problems"])


async def test_a_store_that_cannot_be_had_is_a_clear_error_and_is_tried_again(tmp_path: Path, folder: Path):
    async with connect(folder, PILOTFISH_STORAGE="mysql://nowhere/x") as client:
        with pytest.raises(RpcError) as caught:
            await client.request("pilotfish/session/new", {})
        assert caught.value.code == 5
        assert (caught.value.data or {})["remedy"]
        status = await client.request("pilotfish/status")
        assert status["state"] == "failed"
        assert status["error"]["remedy"]
        mended = {"settings": {"pilotfish": {"storage": str(tmp_path / "store")}}}
        client.notify("workspace/didChangeConfiguration", mended)
        await client.new_session()
        assert (await client.request("pilotfish/status"))["state"] == "ready"
        assert await client.stop() == 0


# ---- settings, folders, trust ---------------------------------------------------------------------------------------


async def test_settings_change_while_the_server_runs(folder: Path):
    async with served(folder) as rig:
        await rig.client.new_session()
        for mode in ("auto", "edit", "plan"):  # the last holds, for what is sent right behind it
            settings = {"pilotfish": {"mode": mode, "model": "demo"}}
            rig.client.notify("workspace/didChangeConfiguration", {"settings": settings})
        session = (await rig.client.request("pilotfish/session/new", {}))["session"]
        assert (session["model"], session["mode"]) == ("demo", "plan")
        for odd in (None, 5, {}, {"settings": None}, {"settings": {"pilotfish": 5}}):
            rig.client.notify("workspace/didChangeConfiguration", odd)
        assert (await rig.client.request("pilotfish/session/new", {}))["session"]["mode"] == "plan"


async def test_settings_are_fetched_from_a_client_that_has_them(folder: Path):
    section: dict[str, Any] | None = {"mode": "auto", "nonsense": True}

    async def configuration(params: dict[str, Any]) -> Any:
        assert params == {"items": [{"section": "pilotfish"}]}
        await asyncio.sleep(0.3)
        return [section]

    async def registered(params: dict[str, Any]) -> Any:
        assert params["registrations"][0]["method"] == "workspace/didChangeConfiguration"

    capabilities = {"workspace": {"configuration": True, "didChangeConfiguration": {"dynamicRegistration": True}}}
    client = await spawn(folder.parent / "home")
    client.answers |= {"workspace/configuration": configuration, "client/registerCapability": registered}
    try:
        await client.initialize(hello=OURS, capabilities=capabilities, folders=[folder])
        session = (await client.request("pilotfish/session/new", {}))["session"]
        assert session["mode"] == "auto"
        assert "nonsense" in str((await client.request("pilotfish/status"))["problems"])
        await client.load(session["id"])  # opens the session, which loads what a turn needs
        section = None  # the user took everything out again
        client.notify("workspace/didChangeConfiguration", {"settings": None})
        stop = client.request("pilotfish/session/cancel", {"sessionId": session["id"]})
        again = client.request("pilotfish/session/new", {})
        done, _ = await asyncio.wait(
            (stopped := asyncio.ensure_future(stop), made := asyncio.ensure_future(again)),
            return_when=asyncio.FIRST_COMPLETED,
        )
        assert done == {stopped}, "to stop waits for no settings"
        assert (await made)["session"]["mode"] == "ask"
    finally:
        await client.close()


async def test_with_several_folders_the_agent_looks_into_all_of_them(tmp_path: Path, folder: Path):
    other, private = tmp_path / "other", tmp_path / "private.json"
    other.mkdir()
    for place in (folder, other):
        (place / "same.txt").write_text(f"fish in {place.name}\n")
    private.write_text("{}")
    async with served(folder, folders=[folder, other]) as rig:
        item = {"uri": private.as_uri(), "languageId": "json", "version": 1, "text": "{}"}
        rig.client.notify("textDocument/didOpen", {"textDocument": item})
        looks = [Call("grep", {"pattern": "fish"}), Call("glob", {"pattern": "*.txt"}), Call("list_dir", {})]
        session = await rig.client.new_session()
        block = {"type": "resource", "uri": (other / "same.txt").as_uri()}
        text = {"type": "text", "text": rig.script("look", calls(*looks), say("seen"))}
        await rig.client.request("pilotfish/session/prompt", {"sessionId": session, "prompt": [text, block]})
        sent = rig.provider.requests[-1].messages
    assert "private.json" not in str(sent)
    assert '<attached path="other/same.txt">' in str(sent)
    results = [message["content"].split("\n", 1)[1] for message in sent if message["role"] == "tool"]
    assert [text.rpartition("\n</untrusted-")[0] for text in results] == [
        "other/same.txt\n1: fish in other\nwork/same.txt\n1: fish in work",
        "work/same.txt\nother/same.txt",
        "work/\n  same.txt\nother/\n  same.txt",
    ]


async def test_folders_come_and_go(tmp_path: Path, folder: Path):
    other = tmp_path / "other"
    other.mkdir()
    (other / "elsewhere.txt").write_text("in the other folder\n")
    async with served(folder) as rig:

        async def found() -> list[str]:
            answer = await rig.client.request("pilotfish/mention/complete", {"query": "elsewhere"})
            return [mention["uri"] for mention in answer["mentions"]]

        assert await found() == []
        event: dict[str, Any] = {"added": [{"uri": other.as_uri(), "name": "other"}], "removed": []}
        rig.client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
        assert await found() == [(other / "elsewhere.txt").as_uri()]
        session = await rig.client.new_session(mode="ask")
        name = rig.script("read", call("read_file", path=str(other / "elsewhere.txt")), say("ok"))
        await rig.client.prompt(session, name)
        assert "in the other folder" in str(rig.provider.requests[-1].messages)
        event = {"added": [], "removed": [{"uri": other.as_uri(), "name": "other"}]}
        rig.client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
        assert await found() == []


async def test_trust_given_later_is_enough(folder: Path):
    async with served(folder, hello={**OURS, "trusted": False}) as rig:
        session = await rig.client.new_session()
        write = call("write_file", path="a.txt", content="x")
        await rig.client.prompt(session, rig.script("untrusted", write, say("I may not.")))
        assert not (folder / "a.txt").exists()
        assert (await rig.client.request("pilotfish/status"))["trusted"] is False
        rig.client.notify("pilotfish/trust/changed", {"trusted": True})
        await rig.client.prompt(session, rig.script("trusted", write, say("I did.")))
        assert (folder / "a.txt").read_text() == "x"
        rig.client.notify("pilotfish/trust/changed", {"trusted": "perhaps"})
        assert (await rig.client.request("pilotfish/status"))["trusted"] is True


@pytest.mark.skipif(sys.platform == "win32", reason="no shell to close it with")
def test_a_closed_input_is_said_in_words():
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" -m pilotfish serve <&-', sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("pilotfish serve talks to an editor")
