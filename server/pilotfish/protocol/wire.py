"""Every payload of the `pilotfish/` namespace, and METHODS: the one table of what may be said, and by whom.

A list, and as long as the wire has words. `typescript.py` and `reference.py` generate the client's types and the
reference from this file: a docstring here, of a class or below a field, is what their readers see.

Absent means none: a field that is null is left out when sent (unless its type says null), and may be left out or null
when received.
Unknown fields are refused, except in shapes that belong to LSP itself. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializationInfo,
    SerializerFunctionWrapHandler,
    model_serializer,
)
from pydantic.alias_generators import to_camel

PROTOCOL_VERSION = 1

Mode = Literal["ask", "plan", "edit", "auto"]
StopReason = Literal["end_turn", "max_iterations", "max_tokens", "budget", "refusal", "cancelled", "failed"]
AgentState = Literal["user_input", "assistant", "tool_execution", "response"]
Category = Literal["read_only", "research", "write", "execute"]
CallStatus = Literal["pending", "awaiting_approval", "in_progress", "completed", "failed", "denied", "cancelled"]
OptionId = Literal["allow_once", "allow_session", "allow_always", "reject", "reject_always"]
Change = Literal["created", "edited", "deleted", "renamed"]
FailureKind = Literal[
    "rate_limit",
    "overloaded",
    "authentication",
    "credit",
    "network",
    "stalled",
    "bad_request",
    "context",
    "empty",
    "configuration",
    "storage",
    "restarted",
    "internal",
]


class Wire(BaseModel):
    """A payload: camelCase on the wire, frozen, nothing unknown in it."""

    # Schemas are built when first used: importing this module must cost an editor's start next to nothing.
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, frozen=True, extra="forbid", defer_build=True
    )


class Whole(Wire):
    """A payload in which a field without a value is said to be null, instead of left out."""

    @model_serializer(mode="wrap")
    def _with_nulls(self, serialize: SerializerFunctionWrapHandler, info: SerializationInfo) -> dict[str, Any]:
        said: dict[str, Any] = serialize(self)
        for name, field in type(self).model_fields.items():
            if field.is_required():
                said.setdefault(field.alias or name if info.by_alias else name, None)
        return said


class Lsp(Wire):
    """A shape that belongs to LSP: fields we do not know are kept."""

    model_config = ConfigDict(extra="allow")


class Empty(Wire):
    """Nothing to say."""


# ---- shapes of LSP ------------------------------------------------------------------------------------------------


class Position(Lsp):
    """A place in a text document, in the position encoding agreed in `initialize`."""

    line: int = Field(ge=0)
    character: int = Field(ge=0)


class Range(Lsp):
    """From `start` up to, not including, `end`."""

    start: Position
    end: Position


class Location(Lsp):
    """A place in a file."""

    uri: str
    range: Range | None = None


class Diagnostic(Lsp):
    """LSP's Diagnostic, as the editor has it."""

    range: Range
    message: str
    severity: int | None = None
    code: int | str | None = None
    source: str | None = None


# ---- prompts ------------------------------------------------------------------------------------------------------


class TextBlock(Wire):
    """Words."""

    type: Literal["text"] = "text"
    text: str


class ResourceBlock(Wire):
    """A file, or a selection of it."""

    type: Literal["resource"] = "resource"
    uri: str
    range: Range | None = None
    """the selection; absent: the whole file"""
    text: str | None = None
    """its text; absent: the server reads it, the open buffer first"""


class ImageBlock(Wire):
    """An image, base64."""

    type: Literal["image"] = "image"
    data: str
    mime_type: str


class DiagnosticBlock(Wire):
    """A problem some other language server reported."""

    type: Literal["diagnostic"] = "diagnostic"
    uri: str
    diagnostic: Diagnostic


ContentBlock = Annotated[TextBlock | ResourceBlock | ImageBlock | DiagnosticBlock, Field(discriminator="type")]


# ---- sessions, turns, calls ---------------------------------------------------------------------------------------


class Usage(Wire):
    """Tokens and requests, of a turn or of a session."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    requests: int = 0
    tool_calls: int = 0
    cost: float | None = None
    """in US dollars, where the price is known"""


class Session(Whole):
    """A conversation in a folder."""

    id: str
    title: str
    workspace_folder: str | None
    """a URI; null: in no folder"""
    model: str
    mode: Mode
    created_at: str
    updated_at: str
    turns: int
    busy: bool
    """a turn is running"""
    usage: Usage
    elsewhere: bool | None = None
    """true: its turn runs in another window, which alone is told of it"""


class Failure(Wire):
    """Why a turn failed, in words for the user."""

    message: str
    remedy: str
    retryable: bool = False
    kind: FailureKind = "internal"
    retry_after: float | None = None
    """seconds"""


class KilledProcess(Wire):
    """A command that was ended with its whole process group."""

    pid: int
    command: str


class Receipt(Wire):
    """What a cancel stopped, and what had already happened."""

    turn_id: str | None = None
    took_ms: int = 0
    cancelled_calls: tuple[str, ...] = ()
    """ids of calls"""
    killed_processes: tuple[KilledProcess, ...] = ()
    changed_files: tuple[str, ...] = ()
    """URIs of files the turn had changed before it was stopped"""


class CallResult(Wire):
    """What a call gave back. `text` is what the model sees."""

    text: str
    truncated: bool = False
    bytes: int = 0
    """size of the whole output"""


class CallApproval(Wire):
    """How a call came to be allowed or denied."""

    decision: Literal["allow", "deny"]
    by: Literal["mode", "rule", "user", "nobody"]
    reason: str
    approval_id: str | None = None
    option_id: str | None = None
    rule: str | None = None
    """the rule that decided, in words"""
    digest: str | None = None
    feedback: str | None = None
    amended: bool = False
    """the user changed the arguments; `args` are the changed ones"""


class ToolCall(Wire):
    """A call as it is now.

    `status` goes from `pending` over `awaiting_approval` and `in_progress` to one of the last four, which are final.
    """

    id: str
    name: str
    title: str
    category: Category
    status: CallStatus
    args: dict[str, Any]
    locations: tuple[Location, ...] = ()
    result: CallResult | None = None
    diff: str | None = None
    """unified diff of what the call changed"""
    error: str | None = None
    started_at: str | None = None
    duration_ms: int | None = None
    approval: CallApproval | None = None
    raw_args: str | None = None
    """the arguments as the model wrote them, when they were not a JSON object"""
    recovered: bool = False
    """the model wrote the call as text"""


class PlanEntry(Wire):
    """A step of the agent's plan."""

    content: str
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


# ---- updates ------------------------------------------------------------------------------------------------------


class TurnStarted(Wire):
    """A prompt was taken up."""

    kind: Literal["turn_started"] = "turn_started"
    prompt_id: str | None = None
    prompt: tuple[ContentBlock, ...]


class StateChanged(Wire):
    """Where the turn is."""

    kind: Literal["state"] = "state"
    state: AgentState
    iteration: int
    prompt_id: str | None = None
    prompt: tuple[ContentBlock, ...] | None = None
    """with `user_input` while a turn runs: words that were steered into it, and that the model reads next"""


class MessageChunk(Wire):
    """More of the answer."""

    kind: Literal["agent_message_chunk"] = "agent_message_chunk"
    item_id: str
    text: str


class ThoughtChunk(Wire):
    """More of a thought."""

    kind: Literal["agent_thought_chunk"] = "agent_thought_chunk"
    item_id: str
    text: str


class CallUpdate(Wire):
    """An upsert: always the whole call as it is now."""

    kind: Literal["tool_call"] = "tool_call"
    call: ToolCall


class ArgsChunk(Wire):
    """Arguments as the model writes them."""

    kind: Literal["tool_call_args_chunk"] = "tool_call_args_chunk"
    call_id: str
    text: str


class Progress(Wire):
    """Live output of a call, or a subagent's steps."""

    kind: Literal["tool_progress"] = "tool_progress"
    call_id: str
    text: str


class PlanUpdate(Wire):
    """The whole plan as it is now."""

    kind: Literal["plan"] = "plan"
    entries: tuple[PlanEntry, ...]


class FileChanged(Wire):
    """A file was changed by the turn, through the editor's buffer or on disk."""

    kind: Literal["file_changed"] = "file_changed"
    uri: str
    change: Change
    added: int
    removed: int
    via: Literal["buffer", "disk"]
    call_id: str | None = None
    old_uri: str | None = None


class UsageUpdate(Wire):
    """Usage of the turn so far, and how full the model's context is."""

    kind: Literal["usage"] = "usage"
    usage: Usage
    context_used: int
    context_window: int | None = None


class Notice(Wire):
    """Something the user should know, and what to do about it."""

    kind: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"]
    message: str
    remedy: str | None = None
    retry_after: float | None = None
    """seconds until the provider is asked again; `session/retry` asks at once"""
    cause: FailureKind | None = None
    """what went wrong, if something did: what helps a turn that fails of it helps here"""


class SessionInfo(Wire):
    """The session's own fields changed (title, model, mode …)."""

    kind: Literal["session_info"] = "session_info"
    session: Session


class Compaction(Wire):
    """The history before this point is sent to the model as a summary from now on. Counts are tokens."""

    kind: Literal["compaction"] = "compaction"
    before: int
    after: int
    summary: str


class TurnEnded(Wire):
    """The last update of a turn."""

    kind: Literal["turn_ended"] = "turn_ended"
    stop_reason: StopReason
    usage: Usage
    error: Failure | None = None
    receipt: Receipt | None = None


Update = Annotated[
    TurnStarted
    | StateChanged
    | MessageChunk
    | ThoughtChunk
    | CallUpdate
    | ArgsChunk
    | Progress
    | PlanUpdate
    | FileChanged
    | UsageUpdate
    | Notice
    | SessionInfo
    | Compaction
    | TurnEnded,
    Field(discriminator="kind"),
]


# ---- the transcript -----------------------------------------------------------------------------------------------


class ItemBase(Wire):
    """What every item of a transcript has."""

    id: str
    """stable: the same in updates, over loads and restarts"""
    turn_id: str
    seq: int = 0
    """the last update that changed the item; 0 where none did"""


class PromptItem(ItemBase):
    """What the user sent."""

    kind: Literal["prompt"] = "prompt"
    prompt: tuple[ContentBlock, ...]
    prompt_id: str | None = None
    at: str | None = None


class MessageItem(ItemBase):
    """What the agent said: the chunks with this `itemId`, joined."""

    kind: Literal["message"] = "message"
    text: str


class ThoughtItem(ItemBase):
    """What the agent thought: the chunks with this `itemId`, joined."""

    kind: Literal["thought"] = "thought"
    text: str


class CallItem(ItemBase):
    """A call; `id` is the call's id."""

    kind: Literal["tool_call"] = "tool_call"
    call: ToolCall


class PlanItem(ItemBase):
    """A plan as it was at the end of its turn."""

    kind: Literal["plan"] = "plan"
    entries: tuple[PlanEntry, ...]


class NoticeItem(ItemBase):
    """Something the user was told."""

    kind: Literal["notice"] = "notice"
    level: Literal["info", "warning", "error"]
    message: str
    remedy: str | None = None
    cause: FailureKind | None = None
    """what went wrong, if something did"""


class CompactionItem(ItemBase):
    """History before this was summarised."""

    kind: Literal["compaction"] = "compaction"
    before: int
    after: int
    summary: str


class FileChangeItem(ItemBase):
    """A file the turn changed."""

    kind: Literal["file_change"] = "file_change"
    uri: str
    change: Change
    added: int
    removed: int
    via: Literal["buffer", "disk"]
    call_id: str | None = None
    old_uri: str | None = None


class TurnEndItem(ItemBase):
    """The end of a turn."""

    kind: Literal["turn_end"] = "turn_end"
    stop_reason: StopReason
    usage: Usage
    error: Failure | None = None
    receipt: Receipt | None = None
    undone: bool = False
    """the turn's files were put back"""
    at: str | None = None


Item = Annotated[
    PromptItem
    | MessageItem
    | ThoughtItem
    | CallItem
    | PlanItem
    | NoticeItem
    | CompactionItem
    | FileChangeItem
    | TurnEndItem,
    Field(discriminator="kind"),
]


# ---- approvals ----------------------------------------------------------------------------------------------------


class PreviewFile(Whole):
    """A file before and after. `before` is null when it does not exist yet, `after` when it would be deleted."""

    uri: str
    version: str | None = None
    """what `before` was read at"""
    before: str | None
    after: str | None


class DiffPreview(Wire):
    """What files would become."""

    kind: Literal["diff"] = "diff"
    files: tuple[PreviewFile, ...]


class CommandPreview(Wire):
    """What would be run."""

    kind: Literal["command"] = "command"
    command: str
    cwd: str
    parsed: tuple[str, ...] = ()
    """the same in words, one for each command in it"""


class TextPreview(Wire):
    """Anything else."""

    kind: Literal["text"] = "text"
    text: str


Preview = Annotated[DiffPreview | CommandPreview | TextPreview, Field(discriminator="kind")]


class ApprovalOption(Wire):
    """One possible answer."""

    id: OptionId
    label: str
    rule: str | None = None
    """the rule that would be written, in words"""
    tool: str | None = None
    pattern: str | None = None
    """that rule as `rule/add` takes it, for a client that lets the user change it first"""
    matches: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    """what it would cover, and what not though one might think so"""


class ApprovalRequest(Wire):
    """May this call run? Asked for one digest: exact arguments and the versions of the documents they touch."""

    approval_id: str
    session_id: str
    turn_id: str
    call: ToolCall
    reason: str
    """why it is asked"""
    digest: str
    preview: Preview
    options: tuple[ApprovalOption, ...]
    amendable: bool
    """whether an answer may change the arguments"""


class ApprovalAnswer(Wire):
    """The user's answer. A question closed without one is not an answer: leave the request open, or answer it with
    `-32800` when the client goes away."""

    option_id: OptionId
    feedback: str | None = None
    """goes to the model with a refusal"""
    args: dict[str, Any] | None = None
    """the arguments as the user amended them: validated again, and what runs, is shown and is recorded"""


class ApprovalResolved(Wire):
    """A question is over: clear it."""

    approval_id: str
    session_id: str
    option_id: str
    """what was answered, or `cancelled`"""
    by: str
    """the surface that answered"""


class ApprovalListParams(Wire):
    """Which questions."""

    session_id: str | None = None


class ApprovalListResult(Wire):
    """Questions still waiting, oldest first."""

    approvals: tuple[ApprovalRequest, ...]


class ApprovalAnswerParams(Wire):
    """An answer to a question that was seen in `session/load` or `approval/list`."""

    approval_id: str
    option_id: OptionId
    feedback: str | None = None
    args: dict[str, Any] | None = None


class ApprovalAnswerResult(Wire):
    """Whether this answer was the first."""

    accepted: bool


# ---- client → server ----------------------------------------------------------------------------------------------


class ClientAbilities(Lsp):
    """Which of our requests the client answers."""

    approvals: bool = False
    save: bool = False
    """`editor/open` and `editor/save`"""
    diagnostics: bool = False
    code_actions: bool = False
    symbols: bool = False
    """`editor/symbols`, `definition`, `references`, `rename`"""
    diff: bool = False
    ask: bool = False
    """`user/ask`; taken as true when `approvals` is"""


class Hello(Lsp):
    """`initialize.initializationOptions.pilotfish`. A client that sends none is a plain client."""

    protocol_version: int = PROTOCOL_VERSION
    client: ClientAbilities = ClientAbilities()
    trusted: bool = False
    """workspace trust, as the editor knows it"""
    settings: dict[str, Any] = {}
    """what the editor's user has set"""


class HelloResult(Wire):
    """`capabilities.experimental.pilotfish` of the answer to `initialize`."""

    protocol_version: int
    version: str
    methods: tuple[str, ...]


class SessionNewParams(Wire):
    """A fresh conversation. What is left out comes from the settings."""

    workspace_folder: str | None = None
    """a URI; absent: the first workspace folder"""
    title: str | None = None
    model: str | None = None
    mode: Mode | None = None


class SessionResult(Wire):
    """A session as it is now."""

    session: Session


class SessionListParams(Wire):
    """Which sessions."""

    workspace_folder: str | None = None
    query: str | None = None
    """searches titles and texts"""
    cursor: str | None = None
    limit: int = Field(default=50, ge=1)
    """at most 500 come on one page"""


class SessionListResult(Wire):
    """Newest first."""

    sessions: tuple[Session, ...]
    next_cursor: str | None = None


class SessionLoadParams(Wire):
    """The newest items, or those before one that is already known."""

    session_id: str
    before: str | None = None
    """the id of the oldest item the client has"""
    limit: int = Field(default=200, ge=1)
    """at most 2000 come on one page"""


class SessionLoadResult(Wire):
    """A page of the transcript, oldest first. Updates go on at `lastSeq + 1`."""

    session: Session
    items: tuple[Item, ...]
    has_more: bool
    last_seq: int
    pending_approvals: tuple[ApprovalRequest, ...]


class SessionRenameParams(Wire):
    """A new title."""

    session_id: str
    title: str


class SessionParams(Wire):
    """Which session."""

    session_id: str


class SessionForkParams(Wire):
    """A copy of a session, up to and including an item; absent: whole."""

    session_id: str
    item_id: str | None = None


class SessionExportParams(Wire):
    """The transcript as text."""

    session_id: str
    format: Literal["markdown", "json"]


class SessionExportResult(Wire):
    """The exported text."""

    text: str


class SessionConfigureParams(Wire):
    """Another model or mode, from the next request to the model on."""

    session_id: str
    model: str | None = None
    mode: Mode | None = None


class PromptParams(Wire):
    """A prompt. Held until its turn has ended."""

    session_id: str
    prompt: tuple[ContentBlock, ...] = Field(min_length=1)
    prompt_id: str | None = None
    """the client's own name for it"""
    when_busy: Literal["reject", "queue", "steer"] = "reject"
    """while a turn runs: error 2, wait for its end, or reach the model at its next step"""


class PromptResult(Wire):
    """How the turn ended. A provider that fails is no JSON-RPC error, it is `failed`."""

    turn_id: str
    stop_reason: StopReason
    usage: Usage
    error: Failure | None = None
    receipt: Receipt | None = None
    reply: str | None = None
    """what a slash command answered (Markdown); no turn was run, and `turnId` is empty"""
    session_id: str | None = None
    """after `/clear`: the session to go on in"""


class CancelParams(Wire):
    """Stop the turn, or with `toolCallId` only that call: then the turn goes on."""

    session_id: str
    tool_call_id: str | None = None


class UndoParams(Wire):
    """Which turn's files; absent: the last turn that changed some."""

    session_id: str
    turn_id: str | None = None
    dry_run: bool = False


class UndoneFile(Wire):
    """A file put back (or, with `dryRun`, that would be)."""

    uri: str
    change: Change
    added: int = 0
    removed: int = 0


class RefusedFile(Wire):
    """A file left alone."""

    uri: str
    reason: str


class UndoResult(Wire):
    """What was put back and what was not: a later edit by a person is never overwritten."""

    changes: tuple[UndoneFile, ...]
    refused: tuple[RefusedFile, ...]
    turn_id: str | None = None


class QueuedPrompt(Wire):
    """A prompt that waits for the running turn, or for its next step."""

    prompt_id: str
    prompt: tuple[ContentBlock, ...]
    kind: Literal["queue", "steer"]


class QueueListResult(Wire):
    """In the order they will be taken up."""

    prompts: tuple[QueuedPrompt, ...]


class QueueRemoveParams(Wire):
    """Withdraw a waiting prompt; it answers with `cancelled`."""

    session_id: str
    prompt_id: str


class Rule(Wire):
    """A standing answer. Deny beats ask beats allow."""

    id: str
    decision: Literal["allow", "ask", "deny"]
    tool: str
    pattern: str
    scope: Literal["session", "workspace", "user", "repository"]
    """workspace rules are kept in the user's own config, keyed by folder; a repository's can only tighten"""
    words: str
    """the rule in words"""
    session_id: str | None = None
    workspace_folder: str | None = None


class RuleListParams(Wire):
    """The rules that hold in a session, or in general."""

    session_id: str | None = None


class RuleListResult(Wire):
    """Strongest first."""

    rules: tuple[Rule, ...]


class RuleAddParams(Wire):
    """A new standing answer. `session` needs a session; `workspace` takes that session's folder or the first."""

    decision: Literal["allow", "ask", "deny"]
    tool: str = "*"
    pattern: str = "*"
    scope: Literal["session", "workspace", "user"] = "workspace"
    session_id: str | None = None


class RuleAddResult(Wire):
    """The rule as it stands now."""

    rule: Rule


class RuleRemoveParams(Wire):
    """A rule's id, from `rule/list`."""

    id: str
    session_id: str | None = None


class SecretSetParams(Wire):
    """A key from the editor's secret store, kept in memory only. An empty key forgets it."""

    provider: str = Field(min_length=1)
    key: str


class Price(Wire):
    """Dollars for a million tokens, as far as a table knows them."""

    input: float
    output: float


class Model(Wire):
    """A model one could choose."""

    id: str
    label: str
    provider: str
    available: bool
    reason: str | None = None
    """why it is not available, and what to do"""
    context_window: int | None = None
    price: Price | None = None
    images: bool | None = None
    """whether it takes images; absent: nobody says"""


class ModelListResult(Wire):
    """What is available, and why the rest is not."""

    models: tuple[Model, ...]
    current: str


class Command(Wire):
    """A slash command. Sent as the text of a prompt: `/name arguments`."""

    name: str
    description: str
    argument_hint: str | None = None
    source: Literal["built-in", "user", "workspace"]


class CommandListResult(Wire):
    """Built in first, then the user's, then the workspace's."""

    commands: tuple[Command, ...]


class MentionParams(Wire):
    """What stands behind the `@`."""

    query: str
    limit: int = Field(default=20, ge=1)
    """at most 200"""
    session_id: str | None = None


class Mention(Wire):
    """Something that can be mentioned."""

    kind: Literal["file", "folder", "buffer", "symbol"]
    uri: str
    label: str
    """what is shown"""
    insert: str
    """what stands in the prompt behind the `@`, in quotes where the name needs them"""
    detail: str | None = None
    range: Range | None = None


class MentionResult(Wire):
    """Best first."""

    mentions: tuple[Mention, ...]


class McpServer(Wire):
    """An MCP server of the user's."""

    name: str
    state: str
    tools: int = 0
    error: str | None = None


class StoreStatus(Wire):
    """Where sessions are kept."""

    location: str
    state: Literal["ok", "unsaved"] = "ok"
    """unsaved: the directory cannot be written, sessions are in memory only"""


class Status(Whole):
    """How the server is. Answered at once, even while the rest loads: what is not known yet is null."""

    version: str
    state: Literal["loading", "ready", "failed"]
    uptime_ms: int
    memory_bytes: int
    error: Failure | None = None
    """why loading failed"""
    model: str | None
    mode: Mode | None
    trusted: bool
    store: StoreStatus | None
    mcp_servers: tuple[McpServer, ...] = ()
    sandbox: str | None
    """what commands run in, or `none` and why"""
    running_turns: int = 0
    pending_approvals: int = 0
    problems: tuple[str, ...] = ()
    """settings that were left out, and why"""


class TrustParams(Wire):
    """The user's trust in the workspace changed."""

    trusted: bool


# ---- server → client ----------------------------------------------------------------------------------------------


class UpdateParams(Wire):
    """One thing that happened. `seq` starts at 1 in a session and grows by exactly 1."""

    session_id: str
    turn_id: str
    """empty for what belongs to no turn"""
    seq: int
    update: Update


class AskParams(Wire):
    """A question of the agent's, in its own words."""

    session_id: str
    turn_id: str
    question: str
    options: tuple[str, ...] = ()


class AskResult(Wire):
    """The answer, or that there is none."""

    answer: str | None = None
    dismissed: bool = False


class UrisParams(Wire):
    """Which documents."""

    uris: tuple[str, ...]


class FailedDocument(Wire):
    """A document with which it did not work."""

    uri: str
    reason: str


class OpenedDocument(Wire):
    """A document the editor holds now."""

    uri: str
    version: int
    dirty: bool


class OpenResult(Wire):
    """`didOpen` of every opened document comes before this answer."""

    opened: tuple[OpenedDocument, ...]
    failed: tuple[FailedDocument, ...] = ()


class SaveResult(Wire):
    """Saved means that text and disk are equal."""

    saved: tuple[str, ...]
    failed: tuple[FailedDocument, ...] = ()


class DiagnosticsParams(Wire):
    """All documents, or one, perhaps not before its language servers have seen a version."""

    uri: str | None = None
    wait_for_version: int | None = None
    timeout_ms: int | None = None


class DocumentDiagnostics(Wire):
    """What is wrong in a document."""

    uri: str
    version: int | None = None
    diagnostics: tuple[Diagnostic, ...]


class DiagnosticsResult(Wire):
    """Documents with diagnostics."""

    documents: tuple[DocumentDiagnostics, ...]


class CodeActionsParams(Wire):
    """What other language servers offer for a range."""

    uri: str
    range: Range
    only: tuple[str, ...] | None = None
    """code action kinds"""


class CodeActionsResult(Wire):
    """LSP's CodeAction, resolved."""

    actions: tuple[dict[str, Any], ...]


class PlaceParams(Wire):
    """A place in a document."""

    uri: str
    position: Position


class ReferencesParams(PlaceParams):
    """Who uses this?"""

    include_declaration: bool = True


class LocationsResult(Wire):
    """LSP's Location."""

    locations: tuple[Location, ...]


class SymbolsParams(Wire):
    """Symbols of a document, or of the workspace by name."""

    uri: str | None = None
    query: str | None = None


class SymbolsResult(Wire):
    """LSP's DocumentSymbol, or WorkspaceSymbol."""

    symbols: tuple[dict[str, Any], ...]


class RenameParams(PlaceParams):
    """What would have to change?"""

    new_name: str


class RenameResult(Wire):
    """LSP's WorkspaceEdit; not applied yet."""

    edit: dict[str, Any] | None = None


class DiffParams(Wire):
    """Show a diff, without taking the focus."""

    title: str
    uri: str
    before: str
    after: str


class ChatDraft(Wire):
    """The argument of the client-side command `pilotfish.openChat`, which code actions carry for clients with a chat:
    open it with this prompt and its context attached, and send it when `send` is true."""

    prompt: tuple[ContentBlock, ...]
    send: bool = False


# ---- the table ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Method:
    """One row: who says it, with what, and what comes back (None: a notification)."""

    name: str
    sender: Literal["client", "server"]
    params: type[Wire]
    result: type[Wire] | None
    words: str


_ROWS: tuple[Method, ...] = (
    Method("session/new", "client", SessionNewParams, SessionResult, "Start a conversation."),
    Method("session/list", "client", SessionListParams, SessionListResult, "Find conversations."),
    Method("session/load", "client", SessionLoadParams, SessionLoadResult, "Read a transcript."),
    Method("session/rename", "client", SessionRenameParams, SessionResult, "Give it another title."),
    Method("session/delete", "client", SessionParams, Empty, "Delete it for good."),
    Method("session/fork", "client", SessionForkParams, SessionResult, "Copy it, up to an item."),
    Method("session/export", "client", SessionExportParams, SessionExportResult, "The transcript as text."),
    Method("session/configure", "client", SessionConfigureParams, SessionResult, "Another model or mode."),
    Method("session/prompt", "client", PromptParams, PromptResult, "Run a turn; answered when it has ended."),
    Method("session/cancel", "client", CancelParams, Receipt, "Stop a turn, or one call."),
    Method("session/retry", "client", SessionParams, Empty, "Ask the provider again now, without the rest of a wait."),
    Method("session/undo", "client", UndoParams, UndoResult, "Put back the files a turn changed."),
    Method("session/redo", "client", UndoParams, UndoResult, "Put them forward again."),
    Method("queue/list", "client", SessionParams, QueueListResult, "Prompts that wait."),
    Method("queue/remove", "client", QueueRemoveParams, Empty, "Withdraw one."),
    Method("approval/list", "client", ApprovalListParams, ApprovalListResult, "Questions that wait."),
    Method("approval/answer", "client", ApprovalAnswerParams, ApprovalAnswerResult, "Answer one of them."),
    Method("rule/list", "client", RuleListParams, RuleListResult, "Standing rules, with their scope."),
    Method("rule/add", "client", RuleAddParams, RuleAddResult, "Add one."),
    Method("rule/remove", "client", RuleRemoveParams, Empty, "Remove one."),
    Method("secret/set", "client", SecretSetParams, Empty, "Hand over a provider's key."),
    Method("model/list", "client", Empty, ModelListResult, "Models, and which are available."),
    Method("command/list", "client", Empty, CommandListResult, "Slash commands."),
    Method("mention/complete", "client", MentionParams, MentionResult, "Completions for `@`."),
    Method("status", "client", Empty, Status, "How the server is."),
    Method("trust/changed", "client", TrustParams, None, "The user's trust in the workspace changed."),
    Method("session/update", "server", UpdateParams, None, "Something happened in a session."),
    Method("approval/request", "server", ApprovalRequest, ApprovalAnswer, "May this call run?"),
    Method("approval/resolved", "server", ApprovalResolved, None, "A question is over."),
    Method("user/ask", "server", AskParams, AskResult, "The agent asks the user."),
    Method("editor/open", "server", UrisParams, OpenResult, "Hold documents: no tab, no focus."),
    Method("editor/save", "server", UrisParams, SaveResult, "Save documents."),
    Method("editor/diagnostics", "server", DiagnosticsParams, DiagnosticsResult, "What is wrong."),
    Method("editor/codeActions", "server", CodeActionsParams, CodeActionsResult, "What others offer."),
    Method("editor/definition", "server", PlaceParams, LocationsResult, "Where is this defined?"),
    Method("editor/references", "server", ReferencesParams, LocationsResult, "Who uses this?"),
    Method("editor/symbols", "server", SymbolsParams, SymbolsResult, "What is in here?"),
    Method("editor/rename", "server", RenameParams, RenameResult, "What would a rename change?"),
    Method("editor/diff", "server", DiffParams, Empty, "Show a diff."),
)

METHODS: dict[str, Method] = {f"pilotfish/{row.name}": row for row in _ROWS}
"""full method name → its row"""

ERROR_CODES = {
    "parse_error": -32700,
    "invalid_request": -32600,
    "method_not_found": -32601,
    "invalid_params": -32602,
    "internal": -32603,
    "not_initialized": -32002,
    "cancelled": -32800,
    "unknown_session": 1,
    "session_busy": 2,
    "not_trusted": 3,
    "unknown_call": 4,
    "storage": 5,
}
"""every error code the server answers with"""
