"""LSP's own features, through pygls: what a language server offers beside the agent.

pygls keeps the table of features and their options, computes the server's capabilities, and turns JSON into
lsprotocol's types and back. It does not get to the wire: `peer.py` is the connection, because pygls leaves requests
unanswered, blocks the loop on a client that does not read, and shows tracebacks.

Loaded when the first such request comes: lsprotocol's types cost 0.4 s of CPU, and a prompt does not need them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from cattrs import ClassValidationError, transform_error
from lsprotocol import types
from pydantic.alias_generators import to_camel
from pygls.capabilities import ServerCapabilitiesBuilder
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from pilotfish import __version__
from pilotfish.errors import BadRequest
from pilotfish.lsp.commands import PLAIN_COMMANDS, SHARED_COMMANDS
from pilotfish.protocol import wire

Feature = Callable[[Any], Awaitable[Any]]

FEATURES: Mapping[str, Any] = {
    types.TEXT_DOCUMENT_DID_SAVE: types.SaveOptions(include_text=False),
    types.TEXT_DOCUMENT_CODE_ACTION: types.CodeActionOptions(
        code_action_kinds=[
            types.CodeActionKind.QuickFix,
            types.CodeActionKind.RefactorRewrite,
            types.CodeActionKind.Refactor,
            types.CodeActionKind.Empty,
        ],
        resolve_provider=True,
    ),
    types.CODE_ACTION_RESOLVE: None,
    types.TEXT_DOCUMENT_CODE_LENS: types.CodeLensOptions(resolve_provider=False),
}
"""method → its options: what is advertised"""


class Standard:
    """The features of LSP that are served here; `serve` answers one of them."""

    def __init__(self, features: Mapping[str, Feature]) -> None:
        self._features = features
        self._converter = default_converter()

    async def serve(self, method: str, params: Any) -> Any:
        """The answer to a request, as JSON values."""
        asked = self._structure(method, params)
        return self._converter.unstructure(await self._features[method](asked))

    def _structure(self, method: str, params: Any) -> Any:
        shape = types.METHOD_TO_TYPES[method][2]
        try:
            return self._converter.structure(params, cast("type[Any]", shape))
        except ClassValidationError as error:
            words, _, place = transform_error(error, path="params")[0].rpartition(" @ ")
            field = ".".join(map(to_camel, place.split(".")[1:])) or "params"
            raise BadRequest(f"{field}: {words}", field=field) from None
        except Exception as error:  # converters raise whatever a wrong value makes them raise
            raise BadRequest(f"params: not the params of {method}", field="params") from error


def build(*, ours: bool) -> LanguageServer:
    """A pygls server that knows what this one offers."""
    server = LanguageServer("pilotfish", __version__, types.TextDocumentSyncKind.Incremental)
    for method, options in FEATURES.items():
        server.feature(method, options)(_elsewhere)
    for command in (*SHARED_COMMANDS, *(() if ours else PLAIN_COMMANDS)):
        server.command(command)(_elsewhere)
    return server


def answer_to_initialize(encoding: str, *, ours: bool) -> Any:
    """What `initialize` is answered with, as JSON values: pygls' capabilities, and ours beside them."""
    server = build(ours=ours)
    features: Any = server.protocol.fm  # pygls does not say what is in its tables
    capabilities = ServerCapabilitiesBuilder(
        types.ClientCapabilities(),
        {*features.features, *features.builtin_features},
        features.feature_options,
        list(features.commands),
        types.TextDocumentSyncKind.Incremental,
        None,
        encoding,
    ).build()
    hello = wire.HelloResult(
        protocol_version=wire.PROTOCOL_VERSION,
        version=__version__,
        methods=tuple(name for name, row in wire.METHODS.items() if row.sender == "client"),
    )
    capabilities.experimental = {"pilotfish": hello.model_dump(mode="json", by_alias=True)}
    answer = types.InitializeResult(capabilities=capabilities, server_info=server.protocol.server_info)
    return default_converter().unstructure(answer)


def _elsewhere(*_: Any) -> None:
    """Registered so that pygls advertises it; served by `peer.py`'s table."""
