"""The MCP servers that an ACP client gives to a session, as definitions of ours."""

from __future__ import annotations

from collections.abc import Sequence

from acp import schema
from pilotfish.engine.mcp.config import ServerDefinition
from pilotfish.errors import BadRequest


def definitions(
    servers: Sequence[schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio],
) -> tuple[ServerDefinition, ...]:
    return tuple(map(_definition, servers))


def _definition(
    server: schema.HttpMcpServer | schema.SseMcpServer | schema.AcpMcpServer | schema.McpServerStdio,
) -> ServerDefinition:
    match server:
        case schema.McpServerStdio(name=name, command=command, args=args, env=env):
            variables = {variable.name: variable.value for variable in env}
            return ServerDefinition(name=name, command=command, args=tuple(args), env=variables)
        case schema.HttpMcpServer(name=name, url=url, headers=headers):
            return ServerDefinition(
                name=name, transport="http", url=url, headers={header.name: header.value for header in headers}
            )
        case schema.SseMcpServer(name=name, url=url, headers=headers):
            return ServerDefinition(
                name=name, transport="sse", url=url, headers={header.name: header.value for header in headers}
            )
        case schema.AcpMcpServer():
            raise BadRequest("mcpServers: servers over ACP are not supported", field="mcpServers")
