"""Every method of the `pilotfish/` namespace (METHODS), and every error code (ERROR_CODES)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pilotfish.protocol.wire.approvals import (
    ApprovalAnswer,
    ApprovalAnswerParams,
    ApprovalAnswerResult,
    ApprovalListParams,
    ApprovalListResult,
    ApprovalRequest,
    ApprovalResolved,
)
from pilotfish.protocol.wire.background import (
    BackgroundBranchParams,
    BackgroundBranchResult,
    BackgroundStartParams,
    BackgroundStartResult,
)
from pilotfish.protocol.wire.base import Empty, Wire
from pilotfish.protocol.wire.connections import (
    EndpointAddParams,
    EndpointListResult,
    EndpointRemoveParams,
    EndpointTestParams,
    EndpointTestResult,
    McpAddParams,
    McpChanged,
    McpEnableParams,
    McpListResult,
    McpNameParams,
    McpTestParams,
    McpTestResult,
)
from pilotfish.protocol.wire.content import EditorContext
from pilotfish.protocol.wire.editor_requests import (
    AskParams,
    AskResult,
    CodeActionsParams,
    CodeActionsResult,
    DiagnosticsParams,
    DiagnosticsResult,
    DiffParams,
    LocationsResult,
    OpenResult,
    PlaceParams,
    ReferencesParams,
    RenameParams,
    RenameResult,
    SaveResult,
    SymbolsParams,
    SymbolsResult,
    TerminalResult,
    UrisParams,
)
from pilotfish.protocol.wire.edits import (
    InlineEditParams,
    InlineEditResult,
    InlineRetryParams,
    LocateParams,
    LocateResult,
)
from pilotfish.protocol.wire.hello import TrustParams
from pilotfish.protocol.wire.language_models import (
    ModelChunkParams,
    ModelRequestParams,
    ModelRequestResult,
    ModelsOfferedParams,
)
from pilotfish.protocol.wire.review import (
    BlameParams,
    BlameResult,
    ReviewListParams,
    ReviewListResult,
    ReviewParams,
)
from pilotfish.protocol.wire.server_requests import (
    CommandListResult,
    MentionFindParams,
    MentionFindResult,
    MentionParams,
    MentionResult,
    ModelDownloadParams,
    ModelDownloadResult,
    ModelListResult,
    RuleAddParams,
    RuleAddResult,
    RuleListParams,
    RuleListResult,
    RuleRemoveParams,
    SampleResult,
    SecretSetParams,
    Status,
)
from pilotfish.protocol.wire.session import Receipt
from pilotfish.protocol.wire.session_requests import (
    CancelParams,
    PromptParams,
    PromptResult,
    QueueListResult,
    QueueRemoveParams,
    RestoreParams,
    RestoreResult,
    SessionConfigureParams,
    SessionExportParams,
    SessionExportResult,
    SessionForkParams,
    SessionListParams,
    SessionListResult,
    SessionLoadParams,
    SessionLoadResult,
    SessionNewParams,
    SessionParams,
    SessionRenameParams,
    SessionResult,
    UndoParams,
    UndoResult,
)
from pilotfish.protocol.wire.updates import UpdateParams


@dataclass(frozen=True, slots=True)
class Method:
    """One method: its sender, its params, and its result (None for a notification)."""

    name: str
    sender: Literal["client", "server"]
    params: type[Wire]
    result: type[Wire] | None
    words: str


_ROWS: tuple[Method, ...] = (
    Method("session/new", "client", SessionNewParams, SessionResult, "Starts a conversation."),
    Method("session/list", "client", SessionListParams, SessionListResult, "Lists and searches conversations."),
    Method("session/load", "client", SessionLoadParams, SessionLoadResult, "Reads a transcript."),
    Method("session/rename", "client", SessionRenameParams, SessionResult, "Gives a conversation another title."),
    Method("session/delete", "client", SessionParams, Empty, "Deletes a conversation permanently."),
    Method("session/fork", "client", SessionForkParams, SessionResult, "Copies a conversation, up to an item."),
    Method("session/export", "client", SessionExportParams, SessionExportResult, "Exports the transcript as text."),
    Method(
        "session/configure",
        "client",
        SessionConfigureParams,
        SessionResult,
        "Sets the model or the mode of a conversation.",
    ),
    Method("session/prompt", "client", PromptParams, PromptResult, "Runs a turn. Answered when the turn has ended."),
    Method("session/cancel", "client", CancelParams, Receipt, "Stops a turn, or one call."),
    Method(
        "session/retry",
        "client",
        SessionParams,
        Empty,
        "Skips the wait before an automatic retry: asks the provider now.",
    ),
    Method("session/undo", "client", UndoParams, UndoResult, "Restores the files that a turn changed."),
    Method("session/redo", "client", UndoParams, UndoResult, "Applies the changes of an undone turn again."),
    Method(
        "session/restore",
        "client",
        RestoreParams,
        RestoreResult,
        "Goes back to the point before a turn, with files and conversation.",
    ),
    Method(
        "background/start",
        "client",
        BackgroundStartParams,
        BackgroundStartResult,
        "Runs a task in the background, in a worktree of the current commit.",
    ),
    Method(
        "background/resume",
        "client",
        SessionParams,
        SessionResult,
        "Continues a task in the background whose process is gone, or that failed or was stopped.",
    ),
    Method(
        "background/takeOver",
        "client",
        SessionParams,
        UndoResult,
        "Makes the changes of a task in the user's files, as a turn that is reviewed and undone like any other.",
    ),
    Method(
        "background/branch",
        "client",
        BackgroundBranchParams,
        BackgroundBranchResult,
        "Makes a branch of the changes of a task.",
    ),
    Method("background/discard", "client", SessionParams, Empty, "Drops the worktree and the changes of a task."),
    Method(
        "review/list",
        "client",
        ReviewListParams,
        ReviewListResult,
        "Lists the agent's changes that the user has neither kept nor undone.",
    ),
    Method("review/keep", "client", ReviewParams, UndoResult, "Keeps pending changes: they are not listed any more."),
    Method("review/undo", "client", ReviewParams, UndoResult, "Undoes pending changes and keeps the user's own text."),
    Method("review/blame", "client", BlameParams, BlameResult, "Says which turn wrote which lines of a document."),
    Method(
        "edit/inline",
        "client",
        InlineEditParams,
        InlineEditResult,
        "Edits a place in a file, as a turn in a session of its own. The changes are pending.",
    ),
    Method(
        "edit/retry",
        "client",
        InlineRetryParams,
        InlineEditResult,
        "Undoes an inline edit and runs it again.",
    ),
    Method("edit/locate", "client", LocateParams, LocateResult, "Finds the place of a code block. Nothing is changed."),
    Method("queue/list", "client", SessionParams, QueueListResult, "Lists the waiting prompts."),
    Method("queue/remove", "client", QueueRemoveParams, Empty, "Withdraws a waiting prompt."),
    Method(
        "approval/list",
        "client",
        ApprovalListParams,
        ApprovalListResult,
        "Lists the questions that wait for an answer.",
    ),
    Method("approval/answer", "client", ApprovalAnswerParams, ApprovalAnswerResult, "Answers a waiting question."),
    Method("rule/list", "client", RuleListParams, RuleListResult, "Lists the stored approval rules, with their scope."),
    Method("rule/add", "client", RuleAddParams, RuleAddResult, "Adds an approval rule."),
    Method("rule/remove", "client", RuleRemoveParams, Empty, "Removes an approval rule."),
    Method("secret/set", "client", SecretSetParams, Empty, "Sets a provider's API key."),
    Method("model/list", "client", Empty, ModelListResult, "Lists models, and which of them are available."),
    Method(
        "model/download",
        "client",
        ModelDownloadParams,
        ModelDownloadResult,
        "Downloads the weights of a model that runs on this machine. Continues an earlier download.",
    ),
    Method("endpoint/list", "client", Empty, EndpointListResult, "Lists the named endpoints of models."),
    Method("endpoint/add", "client", EndpointAddParams, Empty, "Stores an endpoint in the user's `config.toml`."),
    Method("endpoint/remove", "client", EndpointRemoveParams, Empty, "Removes an endpoint from `config.toml`."),
    Method(
        "endpoint/test",
        "client",
        EndpointTestParams,
        EndpointTestResult,
        "Tries an endpoint or a model, which may be new, and lists the endpoint's models.",
    ),
    Method("mcp/list", "client", Empty, McpListResult, "Lists the MCP servers of the configuration file."),
    Method("mcp/add", "client", McpAddParams, Empty, "Adds an MCP server to the configuration file, and connects."),
    Method("mcp/remove", "client", McpNameParams, Empty, "Removes an MCP server from the configuration file."),
    Method("mcp/enable", "client", McpEnableParams, Empty, "Switches an MCP server on or off."),
    Method("mcp/restart", "client", McpNameParams, Empty, "Connects to an MCP server again."),
    Method("mcp/test", "client", McpTestParams, McpTestResult, "Connects to an MCP server and lists its tools."),
    Method("model/offered", "client", ModelsOfferedParams, None, "Reports the language models that the client serves."),
    Method("model/chunk", "client", ModelChunkParams, None, "Sends a part of the answer to a `model/request`."),
    Method("command/list", "client", Empty, CommandListResult, "Lists the slash commands."),
    Method("mention/complete", "client", MentionParams, MentionResult, "Completes a mention after `@`."),
    Method(
        "mention/find",
        "client",
        MentionFindParams,
        MentionFindResult,
        "Finds the mentions in a draft, with what each adds to the prompt.",
    ),
    Method("sample/create", "client", Empty, SampleResult, "Writes a sample project into a new folder."),
    Method("status", "client", Empty, Status, "Returns the state of the server."),
    Method("trust/changed", "client", TrustParams, None, "Reports that the user's trust in the workspace changed."),
    Method("session/update", "server", UpdateParams, None, "Reports one update of a session."),
    Method(
        "session/listChanged",
        "server",
        Empty,
        None,
        "Reports that another process has created, renamed, deleted, begun or ended something that lists show.",
    ),
    Method("approval/request", "server", ApprovalRequest, ApprovalAnswer, "Asks the user whether a call may run."),
    Method("approval/resolved", "server", ApprovalResolved, None, "Reports that a question was answered or withdrawn."),
    Method("mcp/changed", "server", McpChanged, None, "Reports that the state of an MCP server changed."),
    Method("user/ask", "server", AskParams, AskResult, "Asks the user a question of the agent."),
    Method(
        "editor/open",
        "server",
        UrisParams,
        OpenResult,
        "Asks the editor to hold documents open, without a tab or focus.",
    ),
    Method("editor/context", "server", Empty, EditorContext, "Asks what the user looks at, for a prompt without it."),
    Method("editor/save", "server", UrisParams, SaveResult, "Asks the editor to save documents."),
    Method("editor/diagnostics", "server", DiagnosticsParams, DiagnosticsResult, "Asks for diagnostics."),
    Method(
        "editor/codeActions",
        "server",
        CodeActionsParams,
        CodeActionsResult,
        "Asks for the code actions of other language servers.",
    ),
    Method("editor/definition", "server", PlaceParams, LocationsResult, "Asks where a symbol is defined."),
    Method("editor/references", "server", ReferencesParams, LocationsResult, "Asks for the references to a symbol."),
    Method("editor/symbols", "server", SymbolsParams, SymbolsResult, "Asks for symbols."),
    Method("editor/terminal", "server", Empty, TerminalResult, "Asks what the user's terminal shows, for `@terminal`."),
    Method("editor/rename", "server", RenameParams, RenameResult, "Asks which edits a rename would make."),
    Method(
        "model/request",
        "server",
        ModelRequestParams,
        ModelRequestResult,
        "Asks a language model that the client serves. The answer comes in `model/chunk` notifications.",
    ),
    Method("editor/diff", "server", DiffParams, Empty, "Asks the client to show a diff."),
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
