"""Requests about rules, keys, models, slash commands, mentions and the server itself."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pilotfish.protocol.wire.base import Mode, Range, Whole, Wire
from pilotfish.protocol.wire.session import Failure, Usage


class Rule(Wire):
    """A stored approval decision. Deny beats ask, and ask beats allow."""

    id: str
    decision: Literal["allow", "ask", "deny"]
    tool: str
    pattern: str
    scope: Literal["session", "workspace", "user", "repository", "managed"]
    """workspace rules are stored in the user's own configuration, by folder; rules of a repository and of the managed
    policy can only restrict"""
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
    tools: bool | None = None
    """whether the model can call tools; absent if unknown"""
    warning: str | None = None
    """why the model may not do the work of an agent, although it is available"""
    local: bool = False
    """whether the model runs on this machine and costs nothing; a hosted model without `price` has an unknown one"""
    download_bytes: int | None = None
    """its weights have to be downloaded before it is available, with `model/download`"""
    missing_package: bool | None = None
    """the server's environment lacks the package that runs it (`pilotfish[local]`)"""


class ModelDownloadParams(Wire):
    """Names a model with `downloadBytes`."""

    id: str
    work_done_token: int | str | None = None
    """where to report progress; without it the server asks the client for a place"""


class ModelDownloadResult(Wire):
    """The file of the weights."""

    uri: str


class ModelListResult(Wire):
    """All known models, and why some are not available."""

    models: tuple[Model, ...]
    current: str


class Command(Wire):
    """A slash command. The client sends it as the text of a prompt: `/name arguments`."""

    name: str
    description: str
    argument_hint: str | None = None
    source: Literal["built-in", "user", "workspace", "mcp"]


class CommandListResult(Wire):
    """Built-in commands first, then the user's own, those of the workspace, and the prompts of MCP servers."""

    commands: tuple[Command, ...]


class MentionParams(Wire):
    """The text after the `@`."""

    query: str
    limit: int = Field(default=20, ge=1)
    """at most 200"""
    session_id: str | None = None


MentionKind = Literal["file", "folder", "buffer", "symbol", "resource", "context", "session", "url"]


class Mention(Wire):
    """Something that the user can mention."""

    kind: MentionKind
    """`resource`: a text of an MCP server; `context`: `@problems`, `@changes`, `@branch` or `@terminal`; `session`:
    another session; `url`: a web page. The server attaches all of these as text"""
    uri: str
    """empty for `context` and `session`"""
    label: str
    """the text to show"""
    insert: str
    """the text to insert after the `@`, quoted if the name needs it"""
    detail: str | None = None
    range: Range | None = None


class MentionResult(Wire):
    """The completions, best match first."""

    mentions: tuple[Mention, ...]


class MentionFindParams(Wire):
    """The text of a prompt that is being written."""

    text: str
    session_id: str | None = None


class MentionInText(Wire):
    """A mention in a text that names something."""

    kind: MentionKind
    name: str
    start: int
    """of its `@`, in UTF-16 code units, whatever the position encoding is"""
    end: int
    tokens: int | None = None
    """about how many it adds to the prompt; absent if that is known only when the prompt is sent"""
    problem: str | None = None
    """why it is not attached"""


class MentionFindResult(Wire):
    """The mentions, in the order of the text. What names nothing is not listed."""

    mentions: tuple[MentionInText, ...]


class SampleResult(Wire):
    """The sample project that was written."""

    folder: str
    """URI of the new folder, for the client to open"""
    file: str
    """URI of the file to show first"""
    prompt: str
    """what to ask there"""


class McpServer(Wire):
    """An MCP server from the user's configuration."""

    name: str
    state: Literal["ready", "connecting", "failed"]
    tools: int = 0
    error: str | None = None


class StoreStatus(Wire):
    """Where sessions are stored, and whether that works."""

    location: str
    state: Literal["ok", "unsaved"] = "ok"
    """`unsaved`: the database cannot be written, and sessions are kept in memory or on this machine only"""


class CompletionStatus(Wire):
    """Inline completions, which belong to no conversation."""

    model: str
    """empty if completion is switched off"""
    usage: Usage
    """since the server was started; cancelled requests count"""


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
    completions: CompletionStatus | None = None
    """null if no completion was asked for and none can be"""
    running_turns: int = 0
    pending_approvals: int = 0
    problems: tuple[str, ...] = ()
    """settings that were ignored, and why"""
    managed: tuple[str, ...] = ()
    """what the policy of the user's organisation restricts, in words"""
