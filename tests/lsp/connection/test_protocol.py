"""The table of what is served, and the members of pygls that are overridden or relied on."""

from __future__ import annotations

import ast
import os
from collections.abc import Generator
from pathlib import Path

import pytest
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.workspace import Workspace

from pilotfish.lsp.connection import protocol
from pilotfish.lsp.connection.protocol import make_converter
from pilotfish.lsp.editor.documents import Documents
from pilotfish.lsp.features import COMMANDS, FEATURES, register
from pilotfish.lsp.server import PilotfishServer
from pilotfish.protocol import wire


@pytest.fixture
def server() -> Generator[PilotfishServer]:
    sink = os.open(os.devnull, os.O_WRONLY)
    made = PilotfishServer(sink)
    register(made)
    yield made
    os.close(sink)


def test_every_method_of_the_wire_and_every_feature_is_registered_with_pygls(server: PilotfishServer):
    assert set(server.protocol.fm.features) == set(FEATURES)
    assert set(server.protocol.fm.commands) == set(COMMANDS)
    ours = {name for name, row in wire.METHODS.items() if row.sender == "client"}
    assert {name for name in FEATURES if name.startswith("pilotfish/")} == ours


@pytest.mark.parametrize(
    ("ours", "base"),
    [(protocol.Connection, LanguageServerProtocol), (Documents, Workspace), (PilotfishServer, LanguageServer)],
)
def test_no_private_member_of_pygls_is_overridden(ours: type, base: type):
    private = {name for name in vars(ours) if name.startswith("_") and not name.startswith("__")}
    assert private & set(dir(base)) == set()


def test_no_private_member_of_pygls_is_used(server: PilotfishServer):
    stock = (LanguageServerProtocol(server, make_converter()), LanguageServer("x", "1"), Workspace(None))
    private = {name for one in stock for name in dir(one) if name.startswith("_") and not name.startswith("__")}
    used = {
        f"{file.name}: {node.attr}"
        for file in Path(protocol.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in private
    }
    assert used == set()


@pytest.mark.parametrize(
    ("owner", "names"),
    [
        (
            LanguageServerProtocol,
            (
                "structure_message",
                "handle_message",
                "send_request_async",
                "notify",
                "lsp_initialize",
                "lsp_workspace__execute_command",
                "workspace",
                "msg_id",
            ),
        ),
        (LanguageServer, ("start_io", "shutdown", "report_server_error", "feature", "command", "client_capabilities")),
        (Workspace, ("put_text_document", "update_text_document", "remove_text_document")),
    ],
)
def test_the_members_of_pygls_that_are_overridden_or_called_exist(owner: type, names: tuple[str, ...]):
    assert [name for name in names if not hasattr(owner, name)] == []
