"""When a language server is started, shared and ended."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.language_servers import Asked, alive, fake, inside, plain_client, search_path
from tests.support.tools import plant
from tests.support.waiting import until

from pilotfish.language_servers import client, server
from pilotfish.language_servers.known_servers import find_program
from pilotfish.language_servers.servers import LanguageServers
from pilotfish.workspace.editor import NoEditor
from pilotfish.workspace.sandbox.sandbox import find_sandbox, no_sandbox
from pilotfish.workspace.workspace import Workspace

FILES = {"a.py": "fish\n"}
WHERE = {"path": "a.py", "line": 1, "name": "fish"}
CODE_TOOLS = {"diagnostics", "find_symbol", "symbols", "rename_symbol", "quick_fix"}


async def test_nothing_runs_before_a_tool_needs_it_and_sessions_share_one(tmp_path: Path) -> None:
    async with plain_client(tmp_path, FILES, fake("good")) as asked:
        await asked.run("read_file", path="a.py")
        assert asked.offered() >= CODE_TOOLS
        assert alive(tmp_path) == []
        await asked.run("find_symbol", **WHERE)
        running = set(alive(tmp_path))
        assert running
        other = Asked(asked.rig, await asked.rig.client.new_session(mode="edit"), numbers=10)
        assert inside(await other.run("find_symbol", **WHERE)) == ["a.py:1: fish"]
        assert set(alive(tmp_path)) == running


@pytest.mark.parametrize(
    ("trusted", "config", "files"),
    [
        (False, "", FILES),
        (True, 'languageServers = "off"\n', FILES),
        (True, 'sandbox = "off"\n', FILES),
        (True, "", {"notes.md": "fish\n"}),
    ],
    ids=["untrusted", "off", "no sandbox", "another language"],
)
async def test_no_server_means_no_process_and_no_tools(
    tmp_path: Path, trusted: bool, config: str, files: dict[str, str]
) -> None:
    variable: dict[str, Any] = {"PILOTFISH_LANGUAGE_SERVERS": ""} if "languageServers" in config else {}
    async with plain_client(tmp_path, files, fake("good"), trusted=trusted, config=config, **variable) as asked:
        name = next(iter(files))
        await asked.run("update_file", path=name, edits=[{"old": "fish", "new": "bird"}])
        assert asked.offered() & CODE_TOOLS == set()
        assert alive(tmp_path) == []


def open_workspace(tmp_path: Path, servers: LanguageServers) -> Workspace:
    (tmp_path / "work").mkdir(exist_ok=True)
    plant(tmp_path / "work", FILES)
    allow = partial(servers.for_workspace, allowed=lambda _: True)
    return Workspace([tmp_path / "work"], EditorWithDiagnostics(), own_servers=allow)


class EditorWithDiagnostics(NoEditor):
    def can_answer(self, method: str) -> bool:
        return method == "diagnostics"


def place(tmp_path: Path) -> dict[str, Any]:
    return {"uri": (tmp_path / "work" / "a.py").as_uri(), "position": {"line": 0, "character": 0}}


def test_an_editor_answers_what_it_can_and_our_own_servers_the_rest(tmp_path: Path) -> None:
    workspace = open_workspace(tmp_path, LanguageServers(find_sandbox))
    assert workspace.answerer("diagnostics") is workspace.editor
    assert workspace.answerer("references") is not workspace.editor


async def test_a_server_that_nobody_asks_is_ended_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", search_path(tmp_path, fake("good")))
    servers = LanguageServers(find_sandbox, idle_seconds=0.2)
    try:
        workspace = open_workspace(tmp_path, servers)
        for _ in range(5):  # more often than a server that crashes may be started
            answer = await workspace.answerer("definition").query("definition", place(tmp_path), 30)
            assert len(answer["locations"]) == 1
            await until(lambda: not alive(tmp_path))
    finally:
        await servers.aclose()


async def test_a_cancelled_question_leaves_the_server_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", search_path(tmp_path, fake("good")))
    servers = LanguageServers(find_sandbox)
    try:
        queries = open_workspace(tmp_path, servers).answerer("definition")
        first = asyncio.ensure_future(queries.query("definition", place(tmp_path), 30))
        await asyncio.sleep(0)
        first.cancel()
        assert await queries.query("definition", place(tmp_path), 30) is not None
        assert await queries.query("definition", place(tmp_path), 0) is None
        assert await queries.query("definition", place(tmp_path), 30) is not None
    finally:
        await servers.aclose()
    assert alive(tmp_path) == []


@pytest.mark.parametrize("behaviour", ["never starts", "never answers"])
async def test_a_server_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, behaviour: str) -> None:
    monkeypatch.setenv("PATH", search_path(tmp_path, fake(behaviour)))
    monkeypatch.setattr(server, "START_SECONDS", 0.5 if behaviour == "never starts" else 30)
    monkeypatch.setattr(client, "PATIENCE", 0.05)
    servers = LanguageServers(find_sandbox)
    try:
        queries = open_workspace(tmp_path, servers).answerer("definition")
        await queries.query("diagnostics", place(tmp_path), 30)
        for _ in range(2):
            assert await queries.query("definition", place(tmp_path), 0.2) is None
        await until(lambda: not alive(tmp_path))
    finally:
        await servers.aclose()


async def test_without_a_read_only_sandbox_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", search_path(tmp_path, fake("good")))
    servers = LanguageServers(lambda: no_sandbox("for a test"))
    try:
        queries = open_workspace(tmp_path, servers).answerer("definition")
        assert queries.can_answer("definition")
        assert await queries.query("definition", place(tmp_path), 30) is None
        assert not queries.can_answer("definition")
        assert alive(tmp_path) == []
    finally:
        await servers.aclose()


def test_a_program_in_the_workspace_is_not_found_through_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "work" / "tools"
    inner.mkdir(parents=True)
    fake("good")(inner)
    monkeypatch.setenv("PATH", f"{inner}:tools:/usr/bin")
    monkeypatch.chdir(tmp_path / "work")
    assert find_program("pyright-langserver", tmp_path / "work") is None
    assert find_program("pyright-langserver", tmp_path / "other") == inner / "pyright-langserver"
