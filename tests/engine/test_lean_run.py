"""The lean loop does what the library's does: the same requests, the same records, the same end."""

from __future__ import annotations

import asyncio
import json
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,  # pyright: ignore[reportDeprecated]  # still in old histories
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    repair_messages,
)
from pydantic_ai.models.test import TestModel
from tests.core.test_trim import rounds
from tests.support.engine import Dialect, Rig, rig
from tests.support.faces import ALLOW
from tests.support.provider import Call, Gate, Reply, Text, Tokens, call, calls, fails, say

from pilotfish.core.records import ChunkRecord, MessageRecord, record_to_json
from pilotfish.engine import journal, lean_run
from pilotfish.engine.adapter import from_canonical
from pilotfish.engine.lean_repair import Repair
from pilotfish.engine.phases import Phases
from pilotfish.engine.ports import Answer
from pilotfish.settings import Settings

DENY = Answer(option_id="reject", by="test", feedback="not now")


@dataclass(frozen=True)
class Scene:
    replies: tuple[Reply, ...]
    prompts: tuple[str, ...] = ("go",)
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    answer: Answer | None = ALLOW
    during: Callable[[Rig], Awaitable[None]] | None = None


def read(*names: str) -> Reply:
    return calls(*(Call("read_file", {"path": name}) for name in names))


async def steer(turn: Rig) -> None:
    await turn.provider.received(1)
    steering = asyncio.create_task(turn.prompt("and this", when_busy="steer"))
    while not turn.live.status()["runningTurns"] or not await turn.live.queue(turn.session_id):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    turn.provider.release()
    await steering


async def stop(turn: Rig) -> None:
    while not turn.text():
        await asyncio.sleep(0.01)
    await turn.live.cancel(turn.session_id)


async def stop_a_call(turn: Rig) -> None:
    while {line[-1] for line in turn.statuses().values()} != {"completed", "in_progress"}:
        await asyncio.sleep(0.01)
    await turn.live.cancel(turn.session_id)


SCENES: dict[str, Scene] = {
    "words": Scene((say("Hello", " you"),)),
    "two turns": Scene((say("one"), say("two")), prompts=("first", "second")),
    "a call": Scene((read("a.txt"), say("done"))),
    "calls side by side, with words and thoughts": Scene(
        (
            calls(
                Call("read_file", {"path": "a.txt"}),
                Call("list_dir", {}),
                text="I look.",
                thoughts=("hm",),
                finish=None,
            ),
            say("done", thoughts=("so",)),
        )
    ),
    "a call that fails": Scene((read("missing.txt"), say("done"))),
    "a call that is denied": Scene((call("write_file", path="b.txt", content="b"), say("done")), answer=DENY),
    "a write": Scene((call("write_file", path="b.txt", content="b\n"), say("done"))),
    "an unknown tool": Scene((call("fly", to="moon"), say("done"))),
    "unknown and known side by side": Scene(
        (calls(Call("fly", {}), Call("read_file", {"path": "a.txt"})), say("done"))
    ),
    "an unknown tool, again and again": Scene(tuple(call("fly") for _ in range(5))),
    "broken arguments": Scene((calls(Call("read_file", '{"path": ')), say("done"))),
    "arguments that are a number": Scene((calls(Call("read_file", "5")), say("done"))),
    "arguments that do not fit": Scene((call("read_file", where="a.txt"), read("a.txt"), say("done"))),
    "arguments that never fit": Scene(tuple(call("read_file", where="a.txt") for _ in range(5))),
    "now right, now wrong": Scene(
        (*tuple(reply for _ in range(5) for reply in (call("read_file", where="a.txt"), read("a.txt"))), say("done"))
    ),
    "an empty answer": Scene((say(" "), say("done"))),
    "empty answers": Scene((say(""), say(" "), say(""), say(""))),
    "cut off": Scene((say("a long st", finish="length"),)),
    "cut off before a word": Scene((say("", finish="length"),)),
    "cut off in a call": Scene((calls(Call("read_file", '{"path": "a.'), finish="length"), say("done"))),
    "refused": Scene((say("", finish="content_filter"),)),
    "refused with words": Scene((say("I will not.", finish="content_filter"),)),
    "calls written as words": Scene((say('<tool_call>{"name": "list_dir", "arguments": {}}</tool_call>'), say("done"))),
    "too many rounds": Scene(tuple(read("a.txt") for _ in range(4)), settings={"maxIterations": 3}),
    "over budget": Scene(
        (read("a.txt"), Reply(parts=(Text("much"),), usage=Tokens(input=900, output=200)), say("more")),
        settings={"budget": {"tokens": 1000}},
    ),
    "over budget in a call": Scene(
        (Reply(parts=(Call("read_file", {"path": "a.txt"}),), usage=Tokens(input=900, output=200)), say("more")),
        settings={"budget": {"tokens": 1000}},
        prompts=("go", "again"),
    ),
    "a failure that passes": Scene((fails("server", retry_after=0.01), say("done"))),
    "a failure that stays": Scene((fails("bad_request"), say("done")), prompts=("go", "again")),
    "a failure in the middle": Scene((say("one ", "two ", "three", after=2, end="drop"), say("done"))),
    "an old history": Scene(
        (*tuple(read("a.txt") for _ in range(9)), say("half"), *tuple(read("b.txt") for _ in range(9)), say("done")),
        prompts=("first", "second"),
        settings={"toolHistoryRounds": 3, "maxIterations": 50},
    ),
    "steered in a call": Scene(
        (Reply(parts=(Gate(), Call("read_file", {"path": "a.txt"}))), say("done")), during=steer
    ),
    "steered in the last answer": Scene((Reply(parts=(Text("one"), Gate(), Text("two"))), say("done")), during=steer),
    "stopped in the answer": Scene(
        (Reply(parts=(Text("one"), Gate(), Text("two"))), say("done")), prompts=("go", "again"), during=stop
    ),
    "stopped in a call": Scene(
        (calls(Call("read_file", {"path": "a.txt"}), Call("bash", {"command": "sleep 60"})), say("done")),
        prompts=("go", "again"),
        during=stop_a_call,
    ),
}
IN_EVERY_DIALECT = (
    "calls side by side, with words and thoughts",
    "a call that is denied",
    "broken arguments",
    "an empty answer",
    "over budget in a call",
    "a failure in the middle",
    "steered in a call",
    "stopped in the answer",
)


@pytest.mark.parametrize("name", SCENES)
async def test_it_plays_every_scene_as_the_library_does(tmp_path: Path, name: str) -> None:
    ours = await play(tmp_path / "lean", SCENES[name], "chat", lean=True)
    assert ours == await play(tmp_path / "slow", SCENES[name], "chat", lean=False)


@pytest.mark.parametrize("dialect", ["responses", "anthropic"])
@pytest.mark.parametrize("name", IN_EVERY_DIALECT)
async def test_other_dialects_are_played_as_the_library_does(tmp_path: Path, name: str, dialect: Dialect) -> None:
    ours = await play(tmp_path / "lean", SCENES[name], dialect, lean=True)
    assert ours == await play(tmp_path / "slow", SCENES[name], dialect, lean=False)


async def play(place: Path, scene: Scene, dialect: Dialect, *, lean: bool) -> dict[str, Any]:
    """Everything that can be seen of a scene, without the names and times that are new each time."""
    place.mkdir()
    files = {"a.txt": "a\n", "b.txt": "b\n"}
    options: dict[str, Any] = {**scene.settings, "lean": lean}
    async with rig(
        place,
        *scene.replies,
        dialect=dialect,
        files=files,
        choose=lambda _: scene.answer,
        otherwise=say("ok"),
        **options,
    ) as turn:
        outcomes: list[Any] = []
        for number, prompt in enumerate(scene.prompts):
            running = asyncio.create_task(turn.prompt(prompt))
            if scene.during is not None and not number:
                await scene.during(turn)
            outcome = await running
            outcomes.append((outcome.stop_reason, outcome.usage, outcome.error))
        turn.check_laws()
        entries = await turn.live.ledger.history(turn.session_id)
        seen = {
            "sent": [request.body for request in turn.provider.requests],
            "told": by_call([(told.record.type, json.loads(record_to_json(told.record))) for told in turn.told]),
            "kept": [stripped(entry.record.message) for entry in entries if isinstance(entry.record, MessageRecord)],
        }
        text = renamed(json.dumps(seen, default=str).replace(str(turn.root), "ROOT"))
    return {"outcomes": outcomes, **json.loads(text)}


async def test_words_are_shown_before_what_came_with_them_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "SHOWN_SECONDS", 60.0)
    after_response = Phases.after_response
    shown: list[list[str]] = []

    def looked_at(phases: Phases, context: Any, response: ModelResponse) -> ModelResponse:
        pieces = [told.record for told in played.told if isinstance(told.record, ChunkRecord)]
        shown.append([piece.text for piece in pieces if piece.channel == "message"])
        return after_response(phases, context, response)

    monkeypatch.setattr(Phases, "after_response", looked_at)
    async with rig(tmp_path, Reply(parts=(Text("hm"), Call("list_dir", {}))), say("done")) as played:
        await played.prompt("go")
    assert shown[0] == ["hm"]


def by_call(records: Sequence[tuple[str, dict[str, Any]]]) -> dict[str, list[Any]]:
    """What was told of the turn, and of each call. How many deltas come at once, and which of two calls that run
    side by side is ahead, is nobody's promise."""
    out: dict[str, list[Any]] = {}
    for kind, record in records:
        line = out.setdefault(record["call"]["id"] if kind == "tool_call" else "", [])
        if kind == "chunk" and line and line[-1].get("item_id") == record["item_id"]:
            line[-1]["text"] += record["text"]
        else:
            line.append(stripped(record))
    return out


NEW_EACH_TIME = {
    "timestamp",
    "run_id",
    "conversation_id",
    "started_at",
    "duration_ms",
    "took_ms",
    "retry_after",
    "provider_url",
    "pid",
}


def stripped(value: Any) -> Any:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, Any]", value)
        return {key: stripped(inner) for key, inner in items.items() if key not in NEW_EACH_TIME}
    return [stripped(inner) for inner in cast("Sequence[Any]", value)] if isinstance(value, list | tuple) else value


def renamed(text: str) -> str:
    """Ids by the order they come in."""
    names: dict[str, str] = {}
    own, providers = r"[a-z]+_[0-9a-f]{20}\b", r"(?:sig-[0-9a-f]{64}|[a-z]+[-_]\d{6})"
    return re.sub(rf"\b(?:{own}|{providers})", lambda found: names.setdefault(found[0], f"id{len(names)}"), text)


def test_only_what_it_can_do_goes_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PILOTFISH_LEAN", raising=False)
    request, response = ModelRequest(parts=[UserPromptPart("hi")]), ModelResponse(parts=[TextPart("ho")])
    plain, model = Settings(), TestModel()
    assert lean_run.fits(plain, model, [request], ())
    assert not lean_run.fits(Settings(lean=False), model, [request], ())
    assert not lean_run.fits(Settings(fallback_model="demo"), model, [request], ())
    assert not lean_run.fits(plain, model, [request], ["a toolset"])
    assert not lean_run.fits(plain, model, [request, response], ())
    assert not lean_run.fits(plain, model, [], ())
    monkeypatch.setenv("PILOTFISH_LEAN", "0")
    assert not lean_run.fits(plain, model, [request], ())


def _call(key: str) -> ToolCallPart:
    return ToolCallPart("read", "{}", key)


def _found(key: str) -> ToolReturnPart:
    return ToolReturnPart("read", "found", key)


def _old_retry(key: str) -> Any:
    with warnings.catch_warnings(action="ignore"):
        return RetryPromptPart("no", tool_name="read", tool_call_id=key)  # pyright: ignore[reportDeprecated]  # still in old histories


IDS = st.sampled_from("ab")
REQUESTS = st.lists(
    st.one_of(
        IDS.map(_found),
        st.builds(UserPromptPart, st.just("go")),
        IDS.map(_old_retry),
    ),
    max_size=3,
).map(lambda parts: ModelRequest(parts=parts))
RESPONSES = st.lists(
    st.one_of(IDS.map(_call), st.builds(TextPart, st.just("hm"))),
    max_size=3,
).map(lambda parts: ModelResponse(parts=parts))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(REQUESTS, RESPONSES), max_size=6))
@example(
    [
        ModelRequest(parts=[UserPromptPart("go")]),
        ModelResponse(parts=[_call("a")]),
        ModelRequest(parts=[_found("b")]),
    ]
)
def test_what_is_not_repaired_needs_no_repair(messages: list[ModelMessage]) -> None:
    assert Repair()(messages) == repair_messages(messages)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(REQUESTS, RESPONSES), min_size=1, max_size=6),
    st.lists(st.lists(st.one_of(st.integers(0, 5), REQUESTS, RESPONSES), max_size=3), max_size=4),
)
def test_what_was_found_sound_of_the_beginning_changes_nothing(
    stock: list[ModelMessage], ends: list[list[int | ModelMessage]]
) -> None:
    """Conversations that share their beginnings, in whatever order they come."""
    repair, messages = Repair(), stock[:]
    for end in ends:
        assert repair(messages) == repair_messages(messages)
        for step in end:
            if isinstance(step, int):
                del messages[step:]
            else:
                messages.append(step)
    assert repair(messages) == repair_messages(messages)


def test_a_sound_conversation_is_not_even_copied() -> None:
    messages: list[ModelMessage] = [from_canonical(message) for message in rounds(3)]
    repair = Repair()
    assert repair(messages) is messages
    assert repair(messages[:-1]) == repair_messages(messages[:-1])
    assert repair(messages) is messages
