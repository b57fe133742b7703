"""What client and server send each other in `initialize`."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from pilotfish.protocol.wire.base import PROTOCOL_VERSION, Lsp, Wire


class ClientAbilities(Lsp):
    """The server's requests that this client answers."""

    approvals: bool = False
    approval_effects: bool = False
    """not a request: the client shows `effects` of a command preview. For a client that does not, the preview of a
    command that was tried out is a text with all of it: the command, the diff and the output"""
    save: bool = False
    """`editor/open` and `editor/save`"""
    diagnostics: bool = False
    code_actions: bool = False
    symbols: bool = False
    """`editor/symbols`, `definition`, `references` and `rename`"""
    diff: bool = False
    ask: bool = False
    """`user/ask`; assumed if `approvals` is true"""
    context: bool = False
    terminal: bool = False
    """`editor/terminal`, for `@terminal`"""
    inline_edit: bool = False
    """the client command `pilotfish.edit`, which asks for an instruction and sends `edit/inline`; its argument is
    `{ uri, range }`"""
    titles: bool = False
    """not a request: the client lists sessions, so the model writes their titles (setting `titles`)"""
    mcp: bool = False
    """the notification `mcp/changed`"""
    session_list: bool = False
    """the notification `session/listChanged`"""
    language_models: bool = False
    """`model/request`: the client has language models, and reports them with `model/offered`"""


class Hello(Lsp):
    """`initialize.initializationOptions.pilotfish`. A client that does not send it is a plain client."""

    protocol_version: int = PROTOCOL_VERSION
    client: ClientAbilities = ClientAbilities()
    trusted: bool = False
    """workspace trust, as the editor knows it"""
    settings: dict[str, Any] = Field(default_factory=dict)
    """the settings that the user made in the editor"""


class HelloResult(Wire):
    """`capabilities.experimental.pilotfish` of the answer to `initialize`."""

    protocol_version: int
    version: str
    methods: tuple[str, ...]


class TrustParams(Wire):
    """The user granted or withdrew trust in the workspace."""

    trusted: bool
