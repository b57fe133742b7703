"""Tasks in the background, seen from an editor and a terminal: real processes, a real repository."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.client import Client, RpcError, connect
from tests.support.postgres import new_store
from tests.support.provider import Provider, call, fails, say, serve
from tests.support.provider_script import Gate, Reply
from tests.support.repository import commit, git, make_repository, state_of
from tests.support.terminal import piped, work_folder

from pilotfish.protocol import wire

FILES = {"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n"}
SECONDS = 150  # a busy machine is slow


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the sessions are. The words, the states and the results are the same."""
    return str(tmp_path / "store") if request.param == "sqlite" else new_store()


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncGenerator[Path]:
    """A repository. Processes that a failed test left behind are ended."""
    folder = work_folder(tmp_path)
    make_repository(folder, FILES)
    yield folder
    for process in task_processes(tmp_path):
        process.kill()


def task_processes(tmp_path: Path, session: str = "") -> list[psutil.Process]:
    """The processes of tasks of this test."""
    found: list[psutil.Process] = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line = " ".join(process.info["cmdline"] or ())
        if " background " in line and str(tmp_path) in (process.info["cwd"] or "") and session in line:
            found.append(process)
    return found


def editing(new: str = "TWO") -> Reply:
    return call("update_file", path="a.txt", edits=[{"old_string": "two", "new_string": new}])


def text(prompt: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": prompt}]


def of(provider: Provider, storage: str) -> dict[str, Any]:
    """The environment of an editor's server."""
    return {
        "PILOTFISH_MODEL": "openai-chat:scripted",
        "PILOTFISH_BASE_URL": provider.openai_url,
        "OPENAI_API_KEY": "sk-scripted",
        "PILOTFISH_STORAGE": storage,
    }


async def start(client: Client, prompt: str = "Do it", mode: str = "edit") -> str:
    started = await client.request("pilotfish/background/start", {"prompt": text(prompt), "mode": mode})
    return started["session"]["id"]


async def listed(client: Client, session: str) -> wire.Session:
    found = await client.request("pilotfish/session/list", {})
    return next(wire.Session.model_validate(one) for one in found["sessions"] if one["id"] == session)


async def until(client: Client, session: str, *states: str) -> wire.Background:
    """The task in the list, once it is in one of these states."""
    async with asyncio.timeout(SECONDS):
        while True:
            background = (await listed(client, session)).background
            assert background is not None
            if background.state in states:
                return background
            await asyncio.sleep(0.05)


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():
            await asyncio.sleep(0.02)


async def test_a_task_of_an_editor_ends_with_changes_that_are_reviewed_hunk_by_hunk(
    folder: Path, tmp_path: Path, storage: str
):
    before = state_of(folder)
    script = (editing(), call("write_file", path="new.txt", content="new\n"), say("Done."))
    async with serve(*script) as provider, connect(folder, **of(provider, storage)) as client:
        session = await start(client)
        assert (await listed(client, session)).title == "Do it"
        done = await until(client, session, "done", "failed")
        assert (done.state, done.has_changes) == ("done", True)
        assert state_of(folder) == before

        transcript = await client.load(session)
        files = [(item.uri, item.background) for item in transcript.items if isinstance(item, wire.FileChangeItem)]
        assert files == [((folder / "a.txt").as_uri(), True), ((folder / "new.txt").as_uri(), True)]
        assert (await client.request("pilotfish/review/list", {"sessionId": session}))["files"] == []

        taken = await client.request("pilotfish/background/takeOver", {"sessionId": session})
        assert [Path(change["uri"]).name for change in taken["changes"]] == ["a.txt", "new.txt"]
        assert (folder / "a.txt").read_text() == "one\nTWO\nthree\n"
        pending = await client.request("pilotfish/review/list", {"sessionId": session})
        assert [(Path(file["uri"]).name, file["change"]) for file in pending["files"]] == [
            ("a.txt", "edited"),
            ("new.txt", "created"),
        ]
        uri = (folder / "a.txt").as_uri()
        hunks = [pending["files"][0]["hunks"][0]["id"]]
        await client.request("pilotfish/review/undo", {"sessionId": session, "uri": uri, "hunkIds": hunks})
        assert (folder / "a.txt").read_text() == FILES["a.txt"]
        assert (folder / "new.txt").read_text() == "new\n"
        assert (await until(client, session, "applied")).has_changes is False


async def test_a_task_of_a_terminal_says_what_stays_behind_and_leaves_the_folder_alone(
    folder: Path, tmp_path: Path, storage: str
):
    (folder / "a.txt").write_text("one\nmine, not committed\nthree\n")
    (folder / "mine.txt").write_text("mine\n")
    before = state_of(folder)
    env = {"PILOTFISH_STORAGE": storage}
    async with serve(call("read_file", path="a.txt"), editing(), say("Done.")) as provider:
        started = ("run", "--background", "--trust", "--mode", "edit", "Change", "two")
        code, out, err = await piped(tmp_path, *started, provider=provider, env=env)
        assert (code, "2 files with changes that are not committed stayed behind" in err) == (0, True)
        session = out.strip()
        async with asyncio.timeout(SECONDS):
            while "done, with changes" not in (await piped(tmp_path, "sessions", "list", env=env))[1]:
                await asyncio.sleep(0.1)
        assert FILES["a.txt"].splitlines()[1] in json.dumps(provider.requests[1].messages)  # it saw the commit
    assert state_of(folder) == before

    # The user has changed the same line: the file is left alone, and the branch has the result.
    code, out, err = await piped(tmp_path, "sessions", "apply", session, env=env)
    assert (code, out) == (1, "")
    assert "not changed: " in err
    assert state_of(folder) == before
    code, out, _ = await piped(tmp_path, "sessions", "apply", session, "--branch", "-", env=env)
    assert (code, out) == (0, "pilotfish/change-two\n")
    assert git(folder, "show", "pilotfish/change-two:a.txt") == "one\nTWO\nthree\n"
    assert git(folder, "rev-parse", "pilotfish/change-two~1") == git(folder, "rev-parse", "main")

    assert (await piped(tmp_path, "sessions", "delete", "--yes", session, env=env))[0] == 0
    assert git(folder, "for-each-ref", "refs/pilotfish") == ""
    assert len(git(folder, "worktree", "list").splitlines()) == 1


async def test_what_the_user_typed_meanwhile_is_kept_where_the_changes_are_taken_over(
    folder: Path, tmp_path: Path, storage: str
):
    async with serve(editing(), say("Done.")) as provider, connect(folder, **of(provider, storage)) as client:
        session = await start(client)
        await until(client, session, "done")
        (folder / "a.txt").write_text("one\ntwo\nthree\nand my line\n")
        await client.request("pilotfish/background/takeOver", {"sessionId": session})
        assert (folder / "a.txt").read_text() == "one\nTWO\nthree\nand my line\n"
        await client.request("pilotfish/session/undo", {"sessionId": session})
        assert (folder / "a.txt").read_text() == "one\ntwo\nthree\nand my line\n"


async def test_a_task_outlives_the_editor_that_started_it(folder: Path, tmp_path: Path, storage: str):
    async with serve() as provider:
        provider.replies.extend((held_back(editing()), say("Done.")))
        async with connect(folder, **of(provider, storage)) as client:
            session = await start(client)
            await provider.received(1)
            [process] = task_processes(tmp_path)
            assert process.ppid() != client.process.pid
            await client.stop()
        assert process.is_running()
        provider.release()
        async with connect(folder, **of(provider, storage)) as client:
            assert (await until(client, session, "done", "failed")).has_changes


def held_back(reply: Reply) -> Reply:
    """The reply, after the gate is opened."""
    return replace(reply, parts=(Gate(), *reply.parts))


async def test_a_killed_process_is_continued_from_the_ledger_and_no_effect_is_repeated(
    folder: Path, tmp_path: Path, storage: str
):
    async with (
        serve(editing(), held_back(say("never"))) as provider,
        connect(folder, **of(provider, storage)) as client,
    ):
        session = await start(client)
        await provider.received(2)
        [process] = task_processes(tmp_path)
        process.send_signal(signal.SIGKILL)
        await eventually(lambda: not process.is_running())
        assert (await until(client, session, "interrupted")).has_changes is False
        provider.replies.extend((say("All is done."),))
        await client.request("pilotfish/background/resume", {"sessionId": session})
        assert (await until(client, session, "done", "failed")).state == "done"
        # The history has the edit with its result, and asks to go on; the edit was made once.
        last = json.dumps(provider.requests[-1].messages)
        assert "another one goes on" in last
        await client.request("pilotfish/background/takeOver", {"sessionId": session})
        assert (folder / "a.txt").read_text() == "one\nTWO\nthree\n"


async def test_a_session_is_not_continued_in_the_folder_while_its_task_has_changes(
    folder: Path, tmp_path: Path, storage: str
):
    script = (editing(), say("Done."), say("On top."))
    async with serve(*script) as provider, connect(folder, **of(provider, storage)) as client:
        session = await start(client)
        await until(client, session, "done")
        with pytest.raises(RpcError, match="Take over the changes of the task first"):
            await client.prompt(session, "And now?")
        await client.request("pilotfish/background/discard", {"sessionId": session})
        assert (await client.prompt(session, "And now?")).stop_reason == "end_turn"
        assert git(folder, "for-each-ref", "refs/pilotfish") == ""


async def test_a_task_needs_a_commit_and_a_trusted_folder(tmp_path: Path):
    folder = work_folder(tmp_path)
    store = str(tmp_path / "store")
    async with serve() as provider, connect(folder, **of(provider, store)) as client:
        with pytest.raises(RpcError, match="not in a git repository with a commit"):
            await start(client)
        make_repository(folder, FILES)
        client.notify("pilotfish/trust/changed", {"trusted": False})
        with pytest.raises(RpcError, match="needs a trusted folder"):
            await start(client)
            assert (await client.request("pilotfish/session/list", {}))["sessions"] == []


async def test_a_failed_task_says_why_and_can_be_continued(folder: Path, tmp_path: Path, storage: str):
    script = (fails("authentication"), editing(), say("Done."))
    async with serve(*script) as provider, connect(folder, **of(provider, storage)) as client:
        session = await start(client)
        failed = await until(client, session, "failed")
        assert "key" in failed.note.lower()
        assert failed.has_changes is False
        await client.request("pilotfish/background/resume", {"sessionId": session})
        assert (await until(client, session, "done")).has_changes


async def test_hooks_of_the_repository_do_not_run_and_its_own_commits_are_in_the_result(
    folder: Path, tmp_path: Path, storage: str
):
    for hook in ("post-checkout", "pre-commit", "post-commit", "reference-transaction", "post-index-change"):
        path = folder / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran-{hook}\n")
        path.chmod(0o755)
    async with serve(editing(), say("Done.")) as provider, connect(folder, **of(provider, storage)) as client:
        session = await start(client)
        await until(client, session, "done")
        await client.request("pilotfish/background/branch", {"sessionId": session, "name": "result"})
    assert [path.name for path in tmp_path.glob("ran-*")] == []
    assert git(folder, "log", "-1", "--format=%an %s", "result").strip() == "Pilotfish Do it"


async def test_keys_are_in_no_file_and_no_argument(folder: Path, tmp_path: Path):
    store = str(tmp_path / "store")
    async with serve(held_back(editing()), say("Done."), key="sk-very-own") as provider:
        environ = of(provider, store)
        del environ["OPENAI_API_KEY"]
        async with connect(folder, **environ, OPENAI_API_KEY="") as client:
            await client.request("pilotfish/secret/set", {"provider": "openai", "key": "sk-very-own"})
            session = await start(client)
            await provider.received(1)
            [process] = task_processes(tmp_path)
            assert "sk-very-own" not in " ".join([*process.cmdline(), *process.environ().values()])
            provider.release()
            await until(client, session, "done")
    for path in tmp_path.rglob("*"):
        if path.is_file():
            assert b"sk-very-own" not in path.read_bytes(), path


async def test_the_state_of_a_moved_branch_does_not_matter(folder: Path, tmp_path: Path):
    """The task starts from the commit at the time it is started, whatever is committed later."""
    store = str(tmp_path / "store")
    async with serve(held_back(editing()), say("Done.")) as provider, connect(folder, **of(provider, store)) as client:
        session = await start(client)
        await provider.received(1)
        commit(folder, {"b.txt": "newer\n"})
        provider.release()
        await until(client, session, "done")
        await client.request("pilotfish/background/takeOver", {"sessionId": session})
        assert git(folder, "status", "--porcelain") == " M a.txt\n"


async def test_a_task_with_a_model_of_the_editor_is_refused_at_its_start(folder: Path, storage: str):
    async with serve() as provider:
        env = {**of(provider, storage), "PILOTFISH_MODEL": "vscode:copilot/gpt-4.1"}
        async with connect(folder, **env) as client:
            with pytest.raises(RpcError, match="model of the editor, which a task in the background cannot use"):
                await start(client)
            assert (await client.request("pilotfish/session/list", {}))["sessions"] == []
