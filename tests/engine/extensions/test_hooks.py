"""Hooks: what they are given, what they can do, what they cannot, and what happens when they fail."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import rig
from tests.support.frontends import DENY
from tests.support.provider import Call, call, calls, say
from tests.support.tools import plant
from tests.support.waiting import until

EVENTS = ["UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"]
WRITE = call("write_file", path="a.txt", content="one\n")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PILOTFISH_CONFIG", str(tmp_path / "config" / "config.toml"))
    return tmp_path / "config"


def hooks(event: str, command: str, matcher: str = "", **options: Any) -> str:
    return json.dumps({"hooks": {event: [{"matcher": matcher, "hooks": [{"command": command, **options}]}]}})


def answer(**fields: Any) -> str:
    return f"echo {shlex.quote(json.dumps(fields))}"


def is_running(pid: int) -> bool:
    """A zombie has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except OSError:
        return False


async def test_a_hook_blocks_a_call_and_the_model_is_told_why(tmp_path: Path, config: Path) -> None:
    plant(config, {"hooks.json": hooks("PreToolUse", "echo 'no text files' >&2; exit 2", "Write|Edit")})
    async with rig(tmp_path, WRITE, say("ok"), mode="auto") as turn:
        await turn.prompt("go")
        assert turn.provider.requests[1].messages[-1]["content"] == "Not allowed: blocked by a hook: no text files"
        assert not (turn.root / "a.txt").exists()
        assert list(turn.statuses().values()) == [["pending", "denied"]]
        turn.check_laws()


async def test_a_hook_reads_the_call_as_json_and_its_result_after_it(tmp_path: Path, config: Path) -> None:
    log = tmp_path / "log"
    plant(
        config,
        {
            "hooks.json": json.dumps(
                {
                    "hooks": {
                        event: [{"hooks": [{"type": "command", "command": f"cat >> {log}; echo >> {log}"}]}]
                        for event in EVENTS
                    }
                }
            )
        },
    )
    async with rig(tmp_path, WRITE, say("Done.")) as turn:
        await turn.prompt("go")
        found = [json.loads(line) for line in log.read_text().splitlines()]
        common = {"session_id", "turn_id", "permission_mode", "cwd", "hook_event_name"}
        told = [{key: value for key, value in event.items() if key not in common} for event in found]
        assert [event["hook_event_name"] for event in found] == [
            "UserPromptSubmit",
            "PreToolUse",
            "PostToolUse",
            "Stop",
        ]
        about = {
            "tool_name": "write_file",
            "tool_input": {"path": "a.txt", "content": "one\n"},
            "tool_use_id": next(iter(turn.statuses())),
        }
        assert told[:2] == [{"prompt": "go"}, about]
        assert told[2] == about | {"tool_response": {"status": "completed", "text": "Created a.txt (1 lines)."}}
        assert told[3]["last_assistant_message"] == "Done."
        assert told[3]["stop_hook_active"] is False
        assert {event["cwd"] for event in found} == {str(turn.root)}


async def test_allow_of_a_hook_does_not_override_a_question(tmp_path: Path, config: Path) -> None:
    allow = answer(decision="approve", hookSpecificOutput={"permissionDecision": "allow"})
    plant(config, {"hooks.json": hooks("PreToolUse", allow)})
    async with rig(tmp_path, WRITE, say("ok"), choose=lambda _: DENY) as turn:
        await turn.prompt("go")
        assert len(turn.frontend.asked) == 1
        assert not (turn.root / "a.txt").exists()


async def test_a_hook_can_have_the_user_asked(tmp_path: Path, config: Path) -> None:
    ask = answer(hookSpecificOutput={"permissionDecision": "ask", "permissionDecisionReason": "look at it"})
    plant(config, {"hooks.json": hooks("PreToolUse", ask)})
    async with rig(tmp_path, call("read_file", path="b.txt"), say("ok"), files={"b.txt": "b"}, mode="auto") as turn:
        await turn.prompt("go")
        assert [question.reason for question in turn.frontend.asked] == ["a hook requires approval: look at it"]


async def test_words_of_hooks_reach_the_model_and_the_user(tmp_path: Path, config: Path) -> None:
    file = {
        "UserPromptSubmit": "echo the build is red",
        "PostToolUse": answer(hookSpecificOutput={"additionalContext": "run the linter"}, systemMessage="seen"),
    }
    groups = {event: [{"hooks": [{"command": command}]}] for event, command in file.items()}
    plant(config, {"hooks.json": json.dumps({"hooks": groups})})
    async with rig(tmp_path, WRITE, say("ok")) as turn:
        await turn.prompt("go")
        assert "A hook says: the build is red" in json.dumps(turn.provider.requests[0].messages)
        assert turn.provider.requests[1].messages[-1]["content"] == "Created a.txt (1 lines).\n[hook: run the linter]"
        assert turn.notices() == ["seen"]


async def test_a_prompt_can_be_blocked(tmp_path: Path, config: Path) -> None:
    plant(
        config,
        {"hooks.json": hooks("UserPromptSubmit", "grep -q secret && { echo 'no secrets' >&2; exit 2; } || true")},
    )
    async with rig(tmp_path, say("ok")) as turn:
        outcome = await turn.prompt("the secret is 1")
        assert outcome.error is not None
        assert (outcome.stop_reason, outcome.error.message) == ("failed", "A hook blocked the prompt: no secrets")
        assert turn.provider.requests == []
        assert (await turn.prompt("hello")).stop_reason == "end_turn"


async def test_a_turn_goes_on_while_a_hook_says_so_but_not_forever(tmp_path: Path, config: Path) -> None:
    plant(config, {"hooks.json": hooks("Stop", answer(decision="block", reason="run the tests"))})
    async with rig(tmp_path, otherwise=say("Finished.")) as turn:
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert len(turn.provider.requests) == 4
        assert json.dumps(turn.provider.requests[-1].messages).count("run the tests") == 3


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("echo broken >&2; exit 1", "The hook `echo broken >&2; exit 1` failed (exit code 1): broken."),
        ("sleep 60", "The hook `sleep 60` failed (it ran longer than 0.2 s)."),
        ("echo '{'", "The hook `echo '{'` gave no valid answer: answer:"),
    ],
)
async def test_a_hook_that_fails_is_reported_once_and_changes_nothing(
    tmp_path: Path, config: Path, command: str, problem: str
) -> None:
    plant(config, {"hooks.json": hooks("PreToolUse", command, timeout=0.2 if "sleep" in command else 20)})
    again = call("write_file", path="b.txt", content="two\n")
    async with rig(tmp_path, WRITE, again, say("ok")) as turn:
        await turn.prompt("go")
        assert (turn.root / "b.txt").exists()
        assert [notice[: len(problem)] for notice in turn.notices()] == [problem]


async def test_a_wrong_file_is_reported_and_not_used(tmp_path: Path, config: Path) -> None:
    plant(config, {"hooks.json": hooks("PreToolUse", "exit 2", "(")})
    async with rig(tmp_path, WRITE, say("ok")) as turn:
        await turn.prompt("go")
        assert turn.notices()[0].startswith("hooks.json was not used: hooks.PreToolUse.0.matcher: ")
        assert (turn.root / "a.txt").exists()


async def test_hooks_of_a_workspace_run_only_when_it_is_trusted_and_are_announced(tmp_path: Path, config: Path) -> None:
    assert not config.exists()
    files = {".pilotfish/hooks.json": hooks("PreToolUse", "touch ran; exit 2"), "b.txt": "b"}
    read = call("read_file", path="b.txt")
    async with rig(tmp_path, read, say("ok"), files=files, trusted=False) as turn:
        await turn.prompt("go")
        assert not (turn.root / "ran").exists()
    async with rig(tmp_path, read, say("ok"), files=files) as turn:
        await turn.prompt("go")
        assert (turn.root / "ran").exists()
        assert turn.notices() == ["This workspace has hooks that run during turns: .pilotfish/hooks.json."]


@pytest.mark.parametrize("trusted", [True, False])
async def test_a_hook_of_the_user_takes_no_program_of_a_folder_that_is_not_trusted(
    tmp_path: Path, config: Path, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(config, {"hooks.json": hooks("UserPromptSubmit", "linter || true")})
    trace = tmp_path / "trace"
    async with rig(tmp_path, say("hi"), trusted=trusted) as turn:
        plant(turn.root, {"node_modules/.bin/linter": f"#!/bin/sh\ntouch {trace}\n"})
        (turn.root / "node_modules/.bin/linter").chmod(0o755)
        monkeypatch.setenv("PATH", f"{turn.root}/node_modules/.bin{os.pathsep}{os.environ['PATH']}")
        await turn.prompt("go")
    assert trace.exists() == trusted


async def test_a_stop_ends_a_running_hook_and_what_it_started(tmp_path: Path, config: Path) -> None:
    child = tmp_path / "child"
    command = f"sleep 600 & echo $! > {child}.new; mv {child}.new {child}; wait"
    plant(config, {"hooks.json": hooks("UserPromptSubmit", command)})
    async with rig(tmp_path, say("ok")) as turn:
        running = asyncio.ensure_future(turn.prompt("go"))
        await until(child.exists)
        await turn.engine.cancel(turn.session_id)
        assert (await running).stop_reason == "cancelled"
        pid = int(child.read_text())
        assert not is_running(pid)
        turn.check_laws()


async def test_two_writes_of_one_file_keep_their_order_while_hooks_run(tmp_path: Path, config: Path) -> None:
    slow_first = "grep -q one && sleep 0.4; exit 0"
    plant(config, {"hooks.json": hooks("PreToolUse", slow_first)})
    writes = [Call("write_file", {"path": "a.txt", "content": f"{text}\n"}) for text in ("one", "two")]
    async with rig(tmp_path, calls(*writes), say("ok"), mode="edit") as turn:
        await turn.prompt("go")
        assert (turn.root / "a.txt").read_text() == "two\n"
