"""Every method of ours, and LSP's own, through pytest-lsp: a client built on pygls, as strict about LSP as that is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
import pytest_asyncio
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities, make_test_lsp_client
from tests.support.client import environment

from pilotfish.protocol import wire

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pytest-lsp") / "work"
    folder.mkdir()
    (folder / "a.py").write_text("x = 1\n")
    return folder


@dataclass
class Session:
    """A client of pytest-lsp, and the updates it heard."""

    lsp: LanguageClient
    told: list[Any] = field(default_factory=list[Any])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(folder: Path) -> AsyncGenerator[Session]:
    told: list[Any] = []

    async def allow(_: Any) -> Any:
        return {"optionId": "allow_once"}

    def update(params: Any) -> None:
        told.append(params)

    def nothing(_: Any) -> None:
        return None

    def make() -> LanguageClient:
        client = make_test_lsp_client()
        on: Any = client.feature
        on("pilotfish/session/update")(update)
        on("pilotfish/approval/request")(allow)
        on("pilotfish/approval/resolved")(nothing)
        on("client/registerCapability")(nothing)
        return client

    command = [sys.executable, "-m", "pilotfish", "serve"]
    env = environment(folder.parent / "home")
    config = ClientServerConfig(server_command=command, server_env=env, client_factory=make)
    client = cast("LanguageClient", await asyncio.wait_for(config.start(), 60))
    hello = {"protocolVersion": 1, "client": {"approvals": True}, "trusted": True, "settings": {}}
    await client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities("visual-studio-code"),
            root_uri=folder.as_uri(),
            workspace_folders=[types.WorkspaceFolder(uri=folder.as_uri(), name="work")],
            initialization_options={"pilotfish": hello},
        )
    )
    yield Session(client, told)
    await asyncio.wait_for(client.shutdown_session(), 60)


async def ask(client: Session, method: str, **params: Any) -> Any:
    return await asyncio.wait_for(client.lsp.protocol.send_request_async(f"pilotfish/{method}", params), 60)


async def test_every_method_is_answered(client: Session, folder: Path):
    asked: set[str] = set()

    async def say(method: str, **params: Any) -> Any:
        asked.add(f"pilotfish/{method}")
        return await ask(client, method, **params)

    assert (await say("status")).version
    session = (await say("session/new", title="Demo")).session.id
    result = await say("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "hello"}])
    assert result.stopReason == "end_turn"
    told = client.told
    assert [update.seq for update in told] == list(range(1, len(told) + 1))
    assert (await say("session/load", sessionId=session)).lastSeq == len(told)
    assert (await say("session/list")).sessions[0].id == session
    assert (await say("session/rename", sessionId=session, title="New")).session.title == "New"
    assert (await say("session/configure", sessionId=session, mode="auto")).session.mode == "auto"
    assert "hello" in (await say("session/export", sessionId=session, format="markdown")).text
    fork = (await say("session/fork", sessionId=session)).session.id
    await say("session/delete", sessionId=fork)
    assert (await say("session/cancel", sessionId=session)).cancelledCalls == []
    assert (await say("session/undo", sessionId=session)).changes == []
    assert (await say("session/redo", sessionId=session)).changes == []
    assert (await say("queue/list", sessionId=session)).prompts == []
    assert (await say("approval/list")).approvals == []
    rule = (await say("rule/add", decision="ask", tool="bash", pattern="make *", scope="user")).rule.id
    assert rule in [one.id for one in (await say("rule/list")).rules]
    await say("rule/remove", id=rule)
    await say("secret/set", provider="openai", key="sk-1")
    assert (await say("model/list")).current == "demo"
    assert (await say("command/list")).commands[0].name == "help"
    assert (await say("mention/complete", query="a.py")).mentions[0].uri == (folder / "a.py").as_uri()
    await say("session/retry", sessionId=session)
    with pytest.raises(JsonRpcException, match="none"):
        await say("queue/remove", sessionId=session, promptId="none")
    with pytest.raises(JsonRpcException, match="none"):
        await say("approval/answer", approvalId="none", optionId="reject")
    served = {name for name, row in wire.METHODS.items() if row.sender == "client" and row.result is not None}
    assert asked == served


async def test_lsps_own_features_answer_in_lsps_own_types(client: Session, folder: Path):
    uri = (folder / "a.py").as_uri()
    item = types.TextDocumentItem(uri=uri, language_id="python", version=1, text="x = 1\n")
    client.lsp.text_document_did_open(types.DidOpenTextDocumentParams(text_document=item))
    where = types.Range(types.Position(0, 0), types.Position(0, 5))
    actions = await client.lsp.text_document_code_action_async(
        types.CodeActionParams(types.TextDocumentIdentifier(uri), where, types.CodeActionContext(diagnostics=[]))
    )
    # By title: lsprotocol's converter takes an action that carries its command for a command.
    assert [action.title for action in actions or ()][:1] == ["Explain with Pilotfish"]
    assert len(actions or ()) == 5
    lenses = await client.lsp.text_document_code_lens_async(types.CodeLensParams(types.TextDocumentIdentifier(uri)))
    assert list(lenses or ()) == []
