"""Record traffic of the real server for PROTOCOL.md: `python -m tests.protocol.record` writes `recorded.json`.

Plays one long conversation with every method and every kind of update in it, then names ids, times and places anew,
so that recording again changes nothing that has not changed.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support import mcp_server
from tests.support.client import OURS, Client, allow, never
from tests.support.provider import Call, call, calls, fails, say
from tests.support.repository import make_repository
from tests.support.scripted_editor import ABILITIES, CAPABILITIES, ScriptedEditor
from tests.support.served import Rig, served

from pilotfish.engine.model.local.weights import KNOWN
from pilotfish.protocol import wire

TARGET = Path(__file__).with_name("recorded.json")
PLAYED = "/home/me/project"
MOMENT = "2026-01-02T03:04:05.678Z"
FIGURES: dict[str, Any] = {
    "nextCursor": "WzE3…",
    "tookMs": 12,
    "durationMs": 34,
    "uptimeMs": 5678,
    "memoryBytes": 98304000,
    "pid": 4242,
}
PLAN = [
    {"content": "Read the code", "status": "completed", "priority": "high"},
    {"content": "Mend it", "status": "in_progress", "priority": "medium"},
]


async def record() -> dict[str, dict[str, Any]]:
    """The examples, by method and by kind of update."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve() / "project"
        folder.mkdir()
        (folder / "greet.py").write_text('def greet(name):\n    return "Helo " + name\n')
        (folder / "notes.txt").write_text("todo\n")
        abilities = {**ABILITIES, "context": True, "terminal": True, "mcp": True, "languageModels": True}
        hello = {**OURS, "client": abilities}
        models = folder.parent / f"{folder.name}-home" / "models"
        models.mkdir(parents=True)
        (models / KNOWN[0].file).touch()  # so that nothing is downloaded
        environ: dict[str, Any] = {"PILOTFISH_MODELS": str(models)}
        async with served(folder, hello=hello, capabilities=CAPABILITIES, **environ) as rig:
            conversation = await _converse(rig)
        return _tidy(conversation, folder)


async def _converse(rig: Rig) -> dict[str, dict[str, Any]]:
    client, kept = rig.client, dict[str, Any]()
    editor = ScriptedEditor(client)
    uri = editor.open(rig.folder / "greet.py")
    where = {"start": {"line": 0, "character": 4}, "end": {"line": 0, "character": 9}}

    async def symbols(_: Any) -> Any:
        location = {"uri": uri, "range": where}
        return {"symbols": [{"name": "greet", "kind": 12, "location": location}]}

    async def ask(_: Any) -> Any:
        return {"answer": "Hello"}

    async def diagnostics(_: Any) -> Any:
        problem = {"range": where, "message": "Unused function", "severity": 2, "source": "lint", "code": "U1"}
        return {"documents": [{"uri": uri, "version": 1, "diagnostics": [problem]}]}

    async def places(_: Any) -> Any:
        return {"locations": [{"uri": uri, "range": where}]}

    async def rename(params: Any) -> Any:
        edits = [{"range": where, "newText": params["newName"]}]
        return {"edit": {"documentChanges": [{"textDocument": {"uri": uri, "version": 1}, "edits": edits}]}}

    async def fixes(_: Any) -> Any:
        return {"actions": []}

    async def looking(_: Any) -> Any:
        return {"active": {"uri": uri, "version": 1, "cursor": where["start"], "selection": where}}

    async def terminal(_: Any) -> Any:
        return {"command": "make test", "text": "1 failed, 2 passed"}

    client.answers["pilotfish/editor/context"] = looking
    client.answers["pilotfish/editor/terminal"] = terminal
    answers = {"codeActions": fixes, "symbols": symbols, "diagnostics": diagnostics, "rename": rename}
    client.answers.update({f"pilotfish/editor/{name}": answer for name, answer in answers.items()})
    client.answers.update(dict.fromkeys(("pilotfish/editor/definition", "pilotfish/editor/references"), places))
    client.answers["pilotfish/user/ask"] = ask

    async def say_it(method: str, **params: Any) -> Any:
        result = await client.request(f"pilotfish/{method}", params)
        kept.setdefault(f"pilotfish/{method}", {"params": params, "result": result})
        return result

    await say_it("status")
    session = (await say_it("session/new", title="Mend the greeting"))["session"]["id"]
    edit = {"path": "greet.py", "edits": [{"old_string": "Helo", "new_string": "Hello"}]}
    mend = rig.script(
        "mend",
        calls(Call("read_file", {"path": "greet.py"}), text="Let me look.", thoughts=["A typo, I think."]),
        calls(Call("update_plan", {"steps": PLAN}), Call("ask_user", {"question": "How?", "options": ["Hello", "Hi"]})),
        call("update_file", **edit),
        call("bash", command="echo checking; ls"),
        say("It says ", "Hello now."),
    )
    prompt = [{"type": "text", "text": f"Mend the greeting {mend}"}, {"type": "resource", "uri": uri, "range": where}]
    result = await say_it("session/prompt", sessionId=session, prompt=prompt, promptId="p1")
    await say_it("session/load", sessionId=session, limit=3)
    await say_it("session/undo", sessionId=session, turnId=result["turnId"])
    await say_it("session/redo", sessionId=session)
    await say_it("session/restore", sessionId=session, turnId=result["turnId"])
    await say_it("session/redo", sessionId=session)
    hunk = (await say_it("review/list", sessionId=session, uri=uri))["files"][0]["hunks"][0]["id"]
    await say_it("review/blame", uri=uri)
    await say_it("review/keep", sessionId=session, uri=uri, hunkIds=[hunk])
    await say_it("review/undo", sessionId=session)
    await _inline_edit(rig, say_it, uri)
    await say_it("session/rename", sessionId=session, title="The greeting")
    await say_it("session/configure", sessionId=session, mode="edit")
    await say_it("session/export", sessionId=session, format="markdown")
    fork = (await say_it("session/fork", sessionId=session))["session"]["id"]
    await say_it("session/list", query="greeting", limit=1)
    await say_it("session/delete", sessionId=fork)
    await _questions(rig, say_it)
    spot = {"path": "greet.py", "line": 1, "name": "greet"}
    look = rig.script(
        "look",
        calls(
            Call("diagnostics", {"path": "greet.py"}),
            Call("find_symbol", spot),
            Call("find_symbol", {**spot, "find": "references"}),
            Call("symbols", {"path": "greet.py"}),
        ),
        call("rename_symbol", **spot, new_name="salute"),
        call("read_file", path="notes.txt"),
        call("update_file", path="notes.txt", edits=[{"old_string": "todo", "new_string": "done"}]),
        say("Renamed. All tests pass."),
        say("I have not run any tests."),
    )
    await client.prompt(session, look)
    await say_it("rule/add", decision="deny", tool="bash", pattern="git push *", scope="workspace")
    rules = (await say_it("rule/list"))["rules"]
    await say_it("rule/remove", id=rules[0]["id"])
    await say_it("secret/set", provider="openai", key="sk-your-key")
    await say_it("model/list")
    await say_it("model/download", id=f"local:{KNOWN[0].name}")
    await _connections(rig, say_it)
    await say_it("sample/create")
    await say_it("command/list")
    await say_it("mention/complete", query="greet")
    await say_it("mention/find", text="Mend @greet.py and explain @problems")
    await client.prompt(session, rig.script("failed", say("One test fails.")) + " What says @terminal?")
    client.notify("pilotfish/trust/changed", {"trusted": True})
    kept["pilotfish/trust/changed"] = {"params": {"trusted": True}}
    await _overflow(rig, session, say_it)
    await _background(rig, say_it)
    served_by_client = await _language_model(client)
    return {"methods": {**kept, **_of_server(client), **served_by_client}, "updates": _updates(client)}


async def _connections(rig: Rig, say_it: Any) -> None:
    """An endpoint and an MCP server that are tried, stored, listed and removed."""
    endpoint = {"name": "gateway", "url": rig.provider.openai_url}
    await say_it("endpoint/test", endpoint=endpoint, key="sk-your-key")
    await say_it("endpoint/add", endpoint=endpoint)
    await say_it("endpoint/list")
    await say_it("endpoint/remove", name="gateway")
    program = rig.folder.parent / f"{rig.folder.name}-home" / "tiny-server"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} {mcp_server.__file__}\n")
    program.chmod(0o700)
    server = {"name": "tiny", "command": str(program), "env": {"TOKEN": "${input:token}"}}
    await say_it("mcp/add", server=server)
    await rig.client.request("pilotfish/secret/set", {"provider": "input:token", "key": "secret"})
    await rig.client.until(lambda: '"state": "ready"' in json.dumps(rig.client.of("pilotfish/mcp/changed")))
    await say_it("mcp/test", name="tiny")
    await say_it("mcp/list")
    await say_it("mcp/restart", name="tiny")
    await say_it("mcp/enable", name="tiny", enabled=False)
    await say_it("mcp/remove", name="tiny")


async def _inline_edit(rig: Rig, say_it: Any, uri: str) -> None:
    """An inline edit that is tried again and then undone, and the place of a code block."""
    where = {"start": {"line": 1, "character": 0}, "end": {"line": 2, "character": 0}}
    edits = [{"old_string": "Hello", "new_string": "Hi"}]
    change = call("update_file", path="greet.py", edits=edits)
    words = rig.script("shorter", change, say("It is shorter."), change, say("Shorter again."))
    edited = await say_it("edit/inline", uri=uri, range=where, prompt=f"Make it shorter {words}")
    await say_it("edit/retry", sessionId=edited["sessionId"])
    await rig.client.request("pilotfish/review/undo", {"sessionId": edited["sessionId"]})
    await say_it("edit/locate", code='def greet():\n    return "Hey"\n', info="python", uri=uri)


async def _questions(rig: Rig, say_it: Any) -> None:
    """An approval that is answered through the list, a queued prompt, and a cancel with a receipt."""
    client = rig.client
    client.answers["pilotfish/approval/request"] = never
    before = len(client.of("pilotfish/approval/request"))
    session = await client.new_session()
    turn = client.begin(session, rig.script("wait", call("write_file", path="new.txt", content="new\n"), say("ok")))
    await client.until(lambda: len(client.of("pilotfish/approval/request")) > before)
    queued = client.begin(session, "And then?", promptId="p2", whenBusy="queue")
    while not (await client.request("pilotfish/queue/list", {"sessionId": session}))["prompts"]:
        await asyncio.sleep(0.01)
    await say_it("queue/list", sessionId=session)
    await say_it("queue/remove", sessionId=session, promptId="p2")
    listed = await say_it("approval/list", sessionId=session)
    shown = {"command": "pilotfish.preview", "arguments": [{"approvalId": listed["approvals"][0]["approvalId"]}]}
    await client.request("workspace/executeCommand", shown)
    await say_it("approval/answer", approvalId=listed["approvals"][0]["approvalId"], optionId="allow_once")
    await turn
    await queued
    client.answers["pilotfish/approval/request"] = allow
    stopped = client.begin(session, rig.script("long", call("bash", command="sleep 600")))
    await client.until(lambda: any(one.status == "in_progress" for one in client.laws.calls[session].values()))
    await say_it("session/cancel", sessionId=session)
    await stopped


async def _background(rig: Rig, say_it: Any) -> None:
    """A task in the background that fails, is continued, is made a branch and taken over, and one that is discarded."""
    make_repository(rig.folder, {"README.md": "# Greetings\n"})
    mend = rig.script(
        "readme", fails("bad_request"), call("write_file", path="AUTHORS.md", content="Ada\n"), say("It names Ada now.")
    )
    prompt = [{"type": "text", "text": f"Write AUTHORS.md {mend}"}]
    task = (await say_it("background/start", prompt=prompt, mode="edit"))["session"]["id"]

    async def ended() -> str:
        while True:
            state = (await rig.client.load(task, limit=1)).session.background
            assert state is not None
            if state.state not in ("queued", "running"):
                return state.state
            await asyncio.sleep(0.1)

    assert await ended() == "failed"
    await say_it("background/resume", sessionId=task)
    assert await ended() == "done"
    await say_it("background/branch", sessionId=task, name="authors")
    await say_it("background/takeOver", sessionId=task)
    await say_it("background/discard", sessionId=task)


async def _overflow(rig: Rig, session: str, say_it: Any) -> None:
    """Compaction of a full context, and a rate limit whose wait is skipped."""
    for number in range(4):
        await rig.client.prompt(session, rig.script(f"fill{number}", say("More and more words. " * 30)))
    await rig.client.prompt(
        session, rig.script("full", fails("context"), say("They mended a greeting."), say("Going on."))
    )
    before = len(_notices(rig.client))
    limited = rig.client.begin(session, rig.script("limit", fails("rate_limit", retry_after=18), say("There.")))
    await rig.client.until(lambda: len(_notices(rig.client)) > before)
    await say_it("session/retry", sessionId=session)
    await limited


async def _language_model(client: Client) -> dict[str, Any]:
    """A turn with a language model of the client. Its long texts and all tools but one are left out."""
    offered = {"models": [{"id": "copilot/gpt-4.1", "label": "GPT-4.1", "contextWindow": 111_000, "images": False}]}
    part, result = {"type": "text", "text": "Hello!"}, {"finish": "stop"}

    async def answer(params: Any) -> Any:
        client.notify("pilotfish/model/chunk", {"requestId": params["requestId"], "part": part})
        return result

    client.answers["pilotfish/model/request"] = answer
    client.notify("pilotfish/model/offered", offered)
    await client.prompt(await client.new_session(model="vscode:copilot/gpt-4.1"), "Hello?")
    sent = client.of("pilotfish/model/request")[0]
    messages = [
        {**message, "parts": [{**each, "text": f"{each['text'][:20]}…"} for each in message["parts"]]}
        for message in sent["messages"]
    ]
    params = {**sent, "requestId": "r1", "messages": messages, "tools": sent["tools"][:1]}
    return {
        "pilotfish/model/offered": {"params": offered},
        "pilotfish/model/request": {"params": params, "result": result},
        "pilotfish/model/chunk": {"params": {"requestId": "r1", "part": part}},
    }


def _notices(client: Client) -> list[Any]:
    return [params for params in client.of("pilotfish/session/update") if params["update"]["kind"] == "notice"]


def _of_server(client: Client) -> dict[str, Any]:
    """The server's requests and notifications, with the client's responses."""
    found: dict[str, Any] = {}
    for message in client.heard:
        method = message.get("method", "")
        if method.startswith("pilotfish/") and method not in found:
            found[method] = {"params": message["params"]}
            if "id" in message and message["id"] in client.said:
                found[method]["result"] = client.said[message["id"]]
    return found


def _updates(client: Client) -> dict[str, Any]:
    """One update of each kind; of calls the longest one."""
    found: dict[str, Any] = {}
    for params in client.of("pilotfish/session/update"):
        kind, before = params["update"]["kind"], found.get(params["update"]["kind"])
        if before is None or (kind == "tool_call" and len(str(params)) > len(str(before))):
            found[kind] = params
    return found


def _tidy(value: Any, folder: Path) -> Any:
    """Replace ids, times, paths and numbers with stable ones, in order of appearance."""
    names: dict[str, str] = {}

    def rename(match: re.Match[str]) -> str:
        kind = match.group(1)
        count = sum(name.startswith(f"{kind}_") for name in names.values())
        return names.setdefault(match.group(0), f"{kind}_{count + 1}")

    def go(value: Any) -> Any:
        match value:
            case str():
                text = value.replace(str(folder.parent / f"{folder.name}-home"), "/home/me/.pilotfish")
                text = text.replace(str(folder), PLAYED).replace("127.0.0.1", "localhost")
                text = re.sub(r"localhost:\d+", "localhost:8000", text)
                text = re.sub(r" ?#\w+#", "", text)
                text = re.sub(r"\b(ses|turn|msg|apr|prompt)_[0-9a-f]{20}\b", rename, text)
                text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", MOMENT, text)
                text = re.sub(r"\(\d+\.\d s\)", "(0.1 s)", text)
                text = re.sub(r"\b[0-9a-f]{64}\b", "5f1a…", text)
                text = re.sub(r"\b(?=[0-9a-f]*[a-f])(?=[a-f]*\d)[0-9a-f]{16}\b", "3c9d…", text)
                text = re.sub(r"\b(?=\d*[a-f])[0-9a-f]{32}\b", "8b0e…", text)
                return re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-01-02 03:04", text)
            case list():
                return [go(item) for item in value]  # pyright: ignore[reportUnknownVariableType] (JSON)
            case dict():
                return {go(name): FIGURES.get(name, go(item)) for name, item in value.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType] (JSON)
            case _:
                return value

    return go(value)


def check(recorded: Mapping[str, Mapping[str, Any]]) -> None:
    """Validate what was recorded against the wire types."""
    for method, example in recorded["methods"].items():
        row = wire.METHODS[method]
        row.params.model_validate(example["params"])
        if row.result is not None and "result" in example:
            row.result.model_validate(example["result"])
    for kind, params in recorded["updates"].items():
        assert wire.UpdateParams.model_validate(params).update.kind == kind


if __name__ == "__main__":
    found = asyncio.run(record())
    check(found)
    TARGET.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
