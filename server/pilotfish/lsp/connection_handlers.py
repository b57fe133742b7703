"""The `pilotfish/` methods about what the user connects: endpoints of models, and MCP servers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pilotfish.config import endpoint_store
from pilotfish.config.settings import Endpoint, mcp_path
from pilotfish.engine import commands
from pilotfish.engine.context import forbidden
from pilotfish.engine.engine import Engine
from pilotfish.engine.mcp import config_store
from pilotfish.engine.mcp.config import definition_of, inputs_of, is_disabled, place_of, read_entries
from pilotfish.engine.mcp.servers import try_server
from pilotfish.engine.model.catalog.providers import endpoint_key
from pilotfish.errors import BadRequest, TurnError, UnknownCall
from pilotfish.lsp import presentation
from pilotfish.protocol import present, wire


class ConnectionHandlers:
    """A part of `handlers.Handlers`."""

    engine: Engine

    # -- endpoints ------------------------------------------------------------------------------------------------

    async def endpoint_list(self, _: wire.Empty) -> wire.Wire:
        stored = await asyncio.to_thread(endpoint_store.stored_names)
        return wire.EndpointListResult(
            endpoints=tuple(
                wire.ListedEndpoint(
                    **endpoint.model_dump(),
                    has_key=endpoint_key(endpoint, self.engine.secrets) is not None,
                    stored=endpoint.name in stored,
                )
                for endpoint in self.engine.settings.endpoints
            )
        )

    async def endpoint_add(self, params: wire.EndpointAddParams) -> wire.Wire:
        await self.engine.warm()
        from pilotfish.engine.model.resolve import check_endpoint  # imports the providers

        endpoint = _endpoint(params.endpoint)
        try:
            check_endpoint(endpoint)
        except TurnError as error:
            raise BadRequest(f"endpoint: {error}", field="endpoint") from None
        await asyncio.to_thread(endpoint_store.store_endpoint, endpoint)
        return wire.Empty()

    async def endpoint_remove(self, params: wire.EndpointRemoveParams) -> wire.Wire:
        if not await asyncio.to_thread(endpoint_store.remove_endpoint, params.name):
            raise UnknownCall(f"Your config.toml has no endpoint {params.name}.")
        return wire.Empty()

    async def endpoint_test(self, params: wire.EndpointTestParams) -> wire.Wire:
        if params.endpoint is None and params.model is None:
            raise BadRequest("endpoint: an endpoint or a model is needed", field="endpoint")
        try:
            await self.engine.warm()
            from pilotfish.engine.model.trial import try_endpoint, try_model  # imports the providers

            settings, secrets = self.engine.settings, self.engine.secrets
            if params.endpoint is None:
                self.engine.resolve(params.model or "", settings)  # raises if the organisation's policy forbids it
                await try_model(params.model or "", settings, secrets)
                return wire.EndpointTestResult(ok=True)
            if fault := self.engine.managed.address_fault(params.endpoint.url):
                raise forbidden(fault)
            key = (params.key or "").strip() or None
            models = await try_endpoint(_endpoint(params.endpoint), key, params.model, settings, secrets)
        except TurnError as error:
            return wire.EndpointTestResult(ok=False, error=presentation.failure(error))
        return wire.EndpointTestResult(ok=True, models=tuple(present.same(wire.Model, model) for model in models))

    # -- MCP servers ----------------------------------------------------------------------------------------------

    async def mcp_list(self, _: wire.Empty) -> wire.Wire:
        entries: Mapping[str, Mapping[str, Any]] = {}
        problem = None
        try:
            entries = await asyncio.to_thread(_entries, self._mcp_path())
        except (OSError, BadRequest) as error:
            problem = str(error)
        servers = tuple(self._listed(name, entry) for name, entry in entries.items())
        return wire.McpListResult(servers=servers, file=self._mcp_path().absolute().as_uri(), problem=problem)

    async def mcp_add(self, params: wire.McpAddParams) -> wire.Wire:
        entry = _entry(params.server)
        await asyncio.to_thread(config_store.store_server, self._mcp_path(), params.server.name, entry)
        self._mcp_changed(params.server.name)
        return wire.Empty()

    async def mcp_remove(self, params: wire.McpNameParams) -> wire.Wire:
        await asyncio.to_thread(config_store.remove_server, self._mcp_path(), params.name)
        self._mcp_changed(params.name)
        return wire.Empty()

    async def mcp_enable(self, params: wire.McpEnableParams) -> wire.Wire:
        path = self._mcp_path()
        await asyncio.to_thread(config_store.switch_server, path, params.name, enabled=params.enabled)
        self._mcp_changed(params.name)
        return wire.Empty()

    async def mcp_restart(self, params: wire.McpNameParams) -> wire.Wire:
        self._mcp_changed(params.name)
        return wire.Empty()

    async def mcp_test(self, params: wire.McpTestParams) -> wire.Wire:
        roots = self.engine.mcp_roots
        commands.require_trusted_folder(self.engine, str(roots()[0]) if roots() else None)
        name, entry = await self._entry_to_test(params)
        if fault := self.engine.server_fault(name):
            return wire.McpTestResult(ok=False, error=fault)
        inputs = {**self.engine.mcp_inputs(), **{id_.casefold(): value for id_, value in params.inputs.items()}}
        tools, reason = await try_server(definition_of(name, entry, roots(), inputs), roots)
        return wire.McpTestResult(
            ok=not reason, tools=tuple(present.same(wire.McpTool, tool) for tool in tools), error=reason or None
        )

    async def _entry_to_test(self, params: wire.McpTestParams) -> tuple[str, Mapping[str, Any]]:
        if params.server is not None:
            return params.server.name, _entry(params.server)
        entries = await asyncio.to_thread(_entries, self._mcp_path())
        entry = entries.get(params.name or "")
        if entry is None:
            raise BadRequest(f"name: there is no MCP server {params.name}", field="name")
        return params.name or "", entry

    def _listed(self, name: str, entry: Mapping[str, Any]) -> wire.ListedMcpServer:
        found = self.engine.mcp.found.get(name)
        place, inputs = place_of(entry), inputs_of(entry)
        if found is None or is_disabled(entry):
            state = "disabled" if is_disabled(entry) else "stopped"
            return wire.ListedMcpServer(name=name, state=state, place=place, inputs=inputs)
        shown = presentation.mcp_server(found)
        return wire.ListedMcpServer(
            name=name, state=shown.state, place=place, tools=shown.tools, error=shown.error, inputs=inputs
        )

    def _mcp_path(self) -> Path:
        return mcp_path(self.engine.settings)

    def _mcp_changed(self, name: str) -> None:
        """Apply the changed file, in a trusted folder."""
        roots = self.engine.mcp_roots()
        if self.engine.trusted(str(roots[0]) if roots else None):
            self.engine.use_mcp()
            self.engine.mcp.reload(name)


def _entries(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """The entries of the file; none if it does not exist."""
    return read_entries(path) if path.exists() else {}


def _endpoint(sent: wire.EndpointEntry) -> Endpoint:
    return Endpoint(**sent.model_dump())


def _entry(server: wire.McpServerEntry) -> dict[str, Any]:
    """The server as it is written in the file. Raises BadRequest if it has no command and no address, or both."""
    if (server.command is None) == (server.url is None):
        raise BadRequest("server: it needs either a command or a url", field="server")
    if server.command is not None:
        entry: dict[str, Any] = {"command": server.command, "args": list(server.args), "env": server.env}
    else:
        entry = {"type": server.transport, "url": server.url, "headers": server.headers}
    return {name: value for name, value in {**entry, "trusted": server.trusted}.items() if value}
