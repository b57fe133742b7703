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
from pilotfish.protocol.wire.base import Empty, Wire
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
    UrisParams,
)
from pilotfish.protocol.wire.hello import TrustParams
from pilotfish.protocol.wire.server_requests import (
    CommandListResult,
    MentionParams,
    MentionResult,
    ModelListResult,
    RuleAddParams,
    RuleAddResult,
    RuleListParams,
    RuleListResult,
    RuleRemoveParams,
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
    Method("command/list", "client", Empty, CommandListResult, "Lists the slash commands."),
    Method("mention/complete", "client", MentionParams, MentionResult, "Completes a mention after `@`."),
    Method("status", "client", Empty, Status, "Returns the state of the server."),
    Method("trust/changed", "client", TrustParams, None, "Reports that the user's trust in the workspace changed."),
    Method("session/update", "server", UpdateParams, None, "Reports one update of a session."),
    Method("approval/request", "server", ApprovalRequest, ApprovalAnswer, "Asks the user whether a call may run."),
    Method("approval/resolved", "server", ApprovalResolved, None, "Reports that a question was answered or withdrawn."),
    Method("user/ask", "server", AskParams, AskResult, "Asks the user a question of the agent."),
    Method(
        "editor/open",
        "server",
        UrisParams,
        OpenResult,
        "Asks the editor to hold documents open, without a tab or focus.",
    ),
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
    Method("editor/rename", "server", RenameParams, RenameResult, "Asks which edits a rename would make."),
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
