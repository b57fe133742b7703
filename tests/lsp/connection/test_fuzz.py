"""Anything at all may come: every request is answered, the server lives, and its memory stays where it was.

Params are generated from the schemas of the wire, and then broken. `PILOTFISH_LONG=1` runs ten times as much.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
from pathlib import Path
from typing import Any, cast

from tests.support.client import Client, RpcError, frame
from tests.support.served import served

from pilotfish.protocol import wire

ROUNDS = 120 if os.environ.get("PILOTFISH_LONG") else 12
STANDARD = (
    "textDocument/codeAction",
    "codeAction/resolve",
    "textDocument/codeLens",
    "workspace/executeCommand",
    "initialize",
    "textDocument/hover",
    "$/unknown",
)
TOLD = (
    "textDocument/didOpen",
    "textDocument/didChange",
    "textDocument/didClose",
    "textDocument/didSave",
    "workspace/didChangeConfiguration",
    "workspace/didChangeWorkspaceFolders",
    "workspace/didChangeWatchedFiles",
    "window/workDoneProgress/cancel",
    "pilotfish/trust/changed",
    "$/cancelRequest",
    "$/setTrace",
    "initialized",
)
WORDS = ("", "a", "session", "/help", "é😀\u2028", "\x00", "x" * 5000, "../../etc", "file:///w/a.py", "\ud800")


class Maker:
    """Makes values from a JSON schema, right ones mostly."""

    def __init__(self, seed: int, sessions: list[str]) -> None:
        self.random = random.Random(seed)
        self.sessions = sessions

    def params(self, model: type[wire.Wire]) -> Any:
        schema = model.model_json_schema()
        made = self.value(schema, schema.get("$defs", {}))
        return self.spoil(made) if self.random.random() < 0.5 else made

    def value(self, schema: dict[str, Any], shapes: dict[str, Any], depth: int = 0) -> Any:
        choose = self.random
        if "$ref" in schema:
            return self.value(shapes[schema["$ref"].rpartition("/")[2]], shapes, depth + 1)
        for union in ("anyOf", "oneOf"):
            if union in schema:
                return self.value(choose.choice(schema[union]), shapes, depth)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return choose.choice(schema["enum"])
        match schema.get("type"):
            case "object":
                wanted = schema.get("required", [])
                return {
                    name: self.named(name, inner, shapes, depth)
                    for name, inner in schema.get("properties", {}).items()
                    if name in wanted or choose.random() < 0.5
                }
            case "array":
                return [self.value(schema["items"], shapes, depth + 1) for _ in range(choose.randint(0, 2))]
            case "string":
                return choose.choice(WORDS)
            case "integer":
                return choose.choice((0, 1, 7, -1, 500, 2**31, 2**63))
            case "number":
                return choose.choice((0.5, -1, 1e300))
            case "boolean":
                return choose.random() < 0.5
            case _:
                return None

    def named(self, name: str, schema: dict[str, Any], shapes: dict[str, Any], depth: int) -> Any:
        if name == "sessionId" and self.random.random() < 0.7:
            return self.random.choice(self.sessions)
        return self.value(schema, shapes, depth + 1)

    def junk(self) -> Any:
        deep: list[Any] = []
        for _ in range(50):
            deep = [deep]
        message = {"id": 1, "method": "x"}
        every: list[Any] = [None, 5, -1.5, "words", [], {}, [[]], {"jsonrpc": "2.0"}, message, deep, True, 10**30]
        return self.random.choice(every)

    def spoil(self, value: Any) -> Any:
        """One thing in it is wrong."""
        if not isinstance(value, dict) or not value or self.random.random() < 0.2:
            return self.junk()
        fields = cast("dict[str, Any]", value)
        name = self.random.choice(list(fields))
        how = self.random.random()
        if how < 0.2:
            return {key: kept for key, kept in fields.items() if key != name}
        if how < 0.4:
            return {**fields, "unheard of": self.junk()}
        return {**fields, name: self.spoil(fields[name])}


def memory(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def outcome(answer: asyncio.Future[Any]) -> int | None:
    error = answer.exception()
    if error is None:
        return None
    assert isinstance(error, RpcError), error
    return error.code


async def flood(client: Client, maker: Maker, rounds: int) -> list[int | None]:
    """Send everything at once, then let go of what waits for a person; how each was answered."""
    answers: list[asyncio.Future[Any]] = []
    methods = [name for name, row in wire.METHODS.items() if row.sender == "client" and row.result is not None]
    for _ in range(rounds):
        for method in methods:
            params = maker.params(wire.METHODS[method].params)
            if method == "pilotfish/session/delete":
                params = maker.spoil(params)  # the others need their sessions
            answers.append(client.ask(method, params))
        answers += [client.ask(method, maker.junk()) for method in STANDARD]
        for method in TOLD:
            client.notify(method, maker.junk())
        answers.append(client.ask("pilotfish/session/update", maker.junk()))
    async with asyncio.timeout(100):
        while not all(answer.done() for answer in answers):
            await let_go(client, maker.sessions)
    return [outcome(answer) for answer in answers]


async def let_go(client: Client, sessions: list[str]) -> None:
    """Turns are stopped and queues emptied: a prompt that waits for its user is not forgotten, it waits."""
    for session in sessions:
        with contextlib.suppress(RpcError):
            queue = await client.request("pilotfish/queue/list", {"sessionId": session})
            for prompt in queue["prompts"]:
                with contextlib.suppress(RpcError):
                    removed = {"sessionId": session, "promptId": prompt["promptId"]}
                    await client.request("pilotfish/queue/remove", removed)
            await client.request("pilotfish/session/cancel", {"sessionId": session})
    await asyncio.sleep(0.05)


async def test_every_method_answers_whatever_it_is_given(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    async with served(folder) as rig:
        sessions = [await rig.client.new_session() for _ in range(3)]
        codes = await flood(rig.client, Maker(1, sessions), ROUNDS)
        before = memory(rig.client.process.pid)
        codes += await flood(rig.client, Maker(2, sessions), ROUNDS)
        grown = memory(rig.client.process.pid) - before
        assert set(codes) <= {None, -32600, -32601, -32602, -32800, 1, 2, 4, 5}
        assert codes.count(None) > len(codes) / 10
        assert rig.client.unasked == []
        assert (await rig.client.request("pilotfish/status"))["state"] == "ready"
        assert await rig.client.stop() == 0
        assert grown < 40_000_000


async def test_any_bytes_may_come_between_messages(tmp_path: Path):
    folder = tmp_path / "work"
    folder.mkdir()
    async with served(folder) as rig:
        client, chance = rig.client, random.Random(3)
        session = await client.new_session()
        await client.request("pilotfish/model/list")  # loads the model libraries, which are not a leak
        before = memory(client.process.pid)
        for number in range(ROUNDS * 20):
            good = frame({"jsonrpc": "2.0", "id": f"x{number}", "method": "pilotfish/status"})
            spoiled = bytearray(good * chance.randint(1, 3))
            for _ in range(chance.randint(1, 8)):
                at = chance.randrange(len(spoiled))
                match chance.randrange(4):
                    case 0:
                        spoiled[at] = chance.randrange(256)
                    case 1:
                        del spoiled[at : at + chance.randint(1, 20)]
                    case 2:
                        spoiled[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 30)))
                    case _:
                        spoiled[at:at] = b"Content-Length: %d\r\n\r\n" % chance.randrange(60)
            client.write(bytes(spoiled))
            # What a wrong length could have swallowed; then a message that must be heard.
            client.write(b" " * 300 + b"\r\n")
            if number % 10 == 9:
                assert (await client.request("pilotfish/status"))["state"] == "ready"
        grown = memory(client.process.pid) - before
        assert (await client.load(session)).items == ()
        known = {-32700, -32600, -32601, -32602}
        assert {message["error"]["code"] for message in client.unasked if "error" in message} <= known
        assert grown < 30_000_000


def test_a_spoiled_value_is_still_json():
    maker = Maker(4, ["s"])
    for _ in range(200):
        json.dumps(maker.params(wire.PromptParams))
