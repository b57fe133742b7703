"""Requests about what the user connects: endpoints of models, and MCP servers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pilotfish.protocol.wire.base import Wire
from pilotfish.protocol.wire.server_requests import McpServer, Model
from pilotfish.protocol.wire.session import Failure


class EndpointEntry(Wire):
    """A server of models at an address of its own. Its models are called `name:model`."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    url: str = Field(min_length=1)
    api: Literal["chat", "responses", "anthropic", "google"] = "chat"
    """OpenAI Chat Completions or Responses, Anthropic Messages, or Google"""
    key_variable: str | None = None
    """the environment variable that holds its key; a key of `secret/set` under its name comes first"""


class ListedEndpoint(EndpointEntry):
    """An endpoint that is used."""

    has_key: bool
    stored: bool
    """whether it is in the user's `config.toml`; one of the editor's settings cannot be removed here"""


class EndpointListResult(Wire):
    """The endpoints of all settings."""

    endpoints: tuple[ListedEndpoint, ...]


class EndpointAddParams(Wire):
    """The endpoint to store in the user's `config.toml`. It replaces one of the same name."""

    endpoint: EndpointEntry


class EndpointRemoveParams(Wire):
    """Names a stored endpoint."""

    name: str


class EndpointTestParams(Wire):
    """What to try: an endpoint, which need not be stored, or a model of any provider. One of the two is needed."""

    endpoint: EndpointEntry | None = None
    key: str | None = None
    """the key that the user has just entered; without it the stored one is used"""
    model: str | None = None
    """with `endpoint` the name of one of its models, else a model's id; it is sent one small request"""


class EndpointTestResult(Wire):
    """Whether the provider answered. If not, `error` has its words."""

    ok: bool
    models: tuple[Model, ...] = ()
    """what the endpoint lists; it may list none and still work"""
    error: Failure | None = None


class McpServerEntry(Wire):
    """An MCP server as the user configures it: a program (`command`) or an address (`url`).

    A value may contain `${env:NAME}` for an environment variable, and `${input:ID}` for a secret that the client sets
    with `secret/set` under the name `input:ID`, so that no secret is written to the file.
    """

    name: str = Field(min_length=1)
    command: str | None = None
    args: tuple[str, ...] = ()
    env: dict[str, str] = Field(default_factory=dict)
    url: str | None = None
    transport: Literal["http", "sse"] = "http"
    headers: dict[str, str] = Field(default_factory=dict)
    trusted: bool = False
    """believe what the server says about its tools: those that only read run without a question"""


class ListedMcpServer(Wire):
    """An MCP server of the configuration file, and its state."""

    name: str
    state: Literal["ready", "connecting", "failed", "disabled", "stopped"]
    """`stopped`: it starts in a trusted folder"""
    place: str
    """its command line or address, as it is written in the file"""
    tools: int = 0
    error: str | None = None
    inputs: tuple[str, ...] = ()
    """the ids of the secrets that it needs"""


class McpListResult(Wire):
    """The servers of the configuration file."""

    servers: tuple[ListedMcpServer, ...]
    file: str
    """URI of the file, which may not exist yet"""
    problem: str | None = None
    """why the file cannot be read"""


class McpAddParams(Wire):
    """The server to add to the configuration file. It replaces one of the same name."""

    server: McpServerEntry


class McpNameParams(Wire):
    """Names a server of the configuration file."""

    name: str


class McpEnableParams(Wire):
    """Switches a server on or off, in the configuration file."""

    name: str
    enabled: bool


class McpTestParams(Wire):
    """The server to connect to: one of the file by `name`, or one that need not be stored."""

    name: str | None = None
    server: McpServerEntry | None = None
    inputs: dict[str, str] = Field(default_factory=dict)
    """values of `${input:ID}` that the user has just entered, by id"""


class McpTool(Wire):
    """A tool that an MCP server offers."""

    name: str
    description: str | None = None


class McpTestResult(Wire):
    """The tools of the server, or why it cannot be used."""

    ok: bool
    tools: tuple[McpTool, ...] = ()
    error: str | None = None


class McpChanged(Wire):
    """MCP servers were connected, lost or reconfigured. The payload has all of them."""

    servers: tuple[McpServer, ...]
