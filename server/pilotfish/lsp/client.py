"""What the client sent in `initialize`. A wrong value is left out and shown by `status`; nothing is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from pilotfish.lsp.connection.json_values import as_object, as_objects
from pilotfish.protocol import wire
from pilotfish.text.uris import path_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A client and what it can do."""

    ours: bool
    """whether it supports the `pilotfish/` methods; otherwise it is a generic client"""
    encoding: str
    hello: wire.Hello
    roots: tuple[Path, ...]
    process_id: int | None
    problems: tuple[str, ...] = ()
    apply_edit: bool = False
    annotates_changes: bool = False
    progress: bool = False
    show_document: bool = False
    one_line_messages: bool = False
    """whether it shows only the first line of a message, cut at the width of the screen"""
    rereads_files: bool = True
    """whether `window/showDocument` of a file that is open shows what the file contains now"""
    configuration: bool = False
    watch_configuration: bool = False
    lens_refresh: bool = False
    completes_inline: bool = False
    registers_completion: bool = False
    """whether inline completion may be registered after `initialize`"""
    resolves_commands: bool = False
    """whether `codeAction/resolve` may add the command"""
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def asks(self) -> bool:
        """whether it shows approval requests itself"""
        return self.ours and self.hello.client.approvals


def read_client(params: Mapping[str, Any], encoding: str) -> Client:
    """The client behind these params of `initialize`."""
    options = as_object((as_object(params.get("initializationOptions")) or {}).get("pilotfish"))
    problems: list[str] = []
    hello = _hello(options or {}, problems)
    capabilities = as_object(params.get("capabilities")) or {}

    def can(*path: str) -> Any:
        value: Any = capabilities
        for step in path:
            value = (as_object(value) or {}).get(step)
        return value

    name = (as_object(params.get("clientInfo")) or {}).get("name")
    helix = name == "helix"
    process_id = params.get("processId")
    resolvable = can("textDocument", "codeAction", "resolveSupport", "properties")
    return Client(
        ours=options is not None,
        encoding=encoding,
        hello=hello,
        roots=_roots(params),
        process_id=process_id if isinstance(process_id, int) and process_id > 0 else None,
        problems=tuple(problems),
        apply_edit=can("workspace", "applyEdit") is True,
        annotates_changes=can("workspace", "workspaceEdit", "changeAnnotationSupport") is not None,
        progress=can("window", "workDoneProgress") is True,
        # Helix serves `window/showDocument` and does not say so.
        show_document=helix or can("window", "showDocument", "support") is True,
        one_line_messages=name in ("helix", "vim-lsp"),
        rereads_files=not helix,
        configuration=can("workspace", "configuration") is True,
        completes_inline=can("textDocument", "inlineCompletion") is not None,
        registers_completion=can("textDocument", "inlineCompletion", "dynamicRegistration") is True,
        watch_configuration=can("workspace", "didChangeConfiguration", "dynamicRegistration") is True,
        lens_refresh=can("workspace", "codeLens", "refreshSupport") is True,
        resolves_commands=isinstance(resolvable, list) and "command" in resolvable,
        capabilities=capabilities,
    )


def _hello(options: dict[str, Any], problems: list[str]) -> wire.Hello:
    """Validate each field by itself, so that an invalid field does not discard the others."""
    fitting: dict[str, Any] = {}
    for name, value in options.items():
        try:
            wire.Hello.model_validate({name: value})
        except ValidationError as error:
            problems.append(f"initializationOptions.pilotfish.{name}: {error.errors()[0]['msg']}")
        else:
            fitting[name] = value
    if "client" not in fitting and "client" in options:
        known = as_object(options["client"]) or {}
        fitting["client"] = {name: value for name, value in known.items() if isinstance(value, bool)}
    hello = wire.Hello.model_validate(fitting)
    if hello.protocol_version != wire.PROTOCOL_VERSION:
        problems.append(
            f"the client speaks protocol version {hello.protocol_version}, this server {wire.PROTOCOL_VERSION}: "
            "update the older of the two"
        )
    return hello


def _roots(params: Mapping[str, Any]) -> tuple[Path, ...]:
    folders = [folder.get("uri") for folder in as_objects(params.get("workspaceFolders"))]
    found = [path_of(uri) for uri in folders if isinstance(uri, str)]
    if not found and isinstance(uri := params.get("rootUri"), str):
        found = [path_of(uri)]
    if not found and isinstance(root := params.get("rootPath"), str) and root:
        found = [Path(root)]
    return tuple(path for path in found if path is not None)
