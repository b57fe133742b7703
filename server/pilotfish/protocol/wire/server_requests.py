"""Requests about rules, keys, models, slash commands, mentions and the server itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pilotfish.protocol.wire.base import Mode, Range, Whole, Wire
from pilotfish.protocol.wire.session import Failure


class Rule(Wire):
    """A stored approval decision. Deny beats ask, and ask beats allow."""

    id: str
    decision: Literal["allow", "ask", "deny"]
    tool: str
    pattern: str
    scope: Literal["session", "workspace", "user", "repository"]
    """workspace rules are stored in the user's own configuration, by folder; a repository's rules can only restrict"""
    words: str
    """the rule in words"""
    session_id: str | None = None
    workspace_folder: str | None = None


class RuleListParams(Wire):
    """Selects the rules that apply in a session, or in general."""

    session_id: str | None = None


class RuleListResult(Wire):
    """The rules, strongest first."""

    rules: tuple[Rule, ...]


class RuleAddParams(Wire):
    """Adds a rule. The scope `session` needs `sessionId`; the scope `workspace` uses that session's folder, or else the
    first workspace folder."""

    decision: Literal["allow", "ask", "deny"]
    tool: str = "*"
    pattern: str = "*"
    scope: Literal["session", "workspace", "user"] = "workspace"
    session_id: str | None = None


class RuleAddResult(Wire):
    """The rule that was stored."""

    rule: Rule


class RuleRemoveParams(Wire):
    """Names a rule by its id from `rule/list`."""

    id: str
    session_id: str | None = None


class SecretSetParams(Wire):
    """An API key from the editor's secret store. The server keeps it in memory only. An empty key removes it."""

    provider: str = Field(min_length=1)
    key: str


class Price(Wire):
    """US dollars per million tokens, if the price is known."""

    input: float
    output: float


class Model(Wire):
    """A model that can be selected."""

    id: str
    label: str
    provider: str
    available: bool
    reason: str | None = None
    """why the model is not available, and what to do"""
    context_window: int | None = None
    price: Price | None = None
    images: bool | None = None
    """whether the model accepts images; absent if unknown"""


class ModelListResult(Wire):
    """All known models, and why some are not available."""

    models: tuple[Model, ...]
    current: str


class Command(Wire):
    """A slash command. The client sends it as the text of a prompt: `/name arguments`."""

    name: str
    description: str
    argument_hint: str | None = None
    source: Literal["built-in", "user", "workspace"]


class CommandListResult(Wire):
    """Built-in commands first, then the user's own, then those of the workspace."""

    commands: tuple[Command, ...]


class MentionParams(Wire):
    """The text after the `@`."""

    query: str
    limit: int = Field(default=20, ge=1)
    """at most 200"""
    session_id: str | None = None


class Mention(Wire):
    """Something that the user can mention."""

    kind: Literal["file", "folder", "buffer", "symbol"]
    uri: str
    label: str
    """the text to show"""
    insert: str
    """the text to insert after the `@`, quoted if the name needs it"""
    detail: str | None = None
    range: Range | None = None


class MentionResult(Wire):
    """The completions, best match first."""

    mentions: tuple[Mention, ...]


class McpServer(Wire):
    """An MCP server from the user's configuration."""

    name: str
    state: str
    tools: int = 0
    error: str | None = None


class StoreStatus(Wire):
    """Where sessions are stored, and whether that works."""

    location: str
    state: Literal["ok", "unsaved"] = "ok"
    """`unsaved`: the directory cannot be written, and sessions are kept in memory only"""


class Status(Whole):
    """The state of the server. It is answered at once, also while the engine loads; what is not known yet is null."""

    version: str
    state: Literal["loading", "ready", "failed"]
    uptime_ms: int
    memory_bytes: int
    error: Failure | None = None
    """why the engine failed to load"""
    model: str | None
    mode: Mode | None
    trusted: bool
    store: StoreStatus | None
    mcp_servers: tuple[McpServer, ...] = ()
    sandbox: str | None
    """the sandbox that commands run in, or `none` and why"""
    running_turns: int = 0
    pending_approvals: int = 0
    problems: tuple[str, ...] = ()
    """settings that were ignored, and why"""
