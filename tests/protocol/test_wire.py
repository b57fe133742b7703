"""The wire types: the fields of the contract, in camelCase, frozen, without unknown fields."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Any, get_args

import pytest
from pydantic import BaseModel, ValidationError

from pilotfish.conversation import messages, records
from pilotfish.engine.frontend import OptionId
from pilotfish.errors import FailureKind
from pilotfish.policy.verdict import Mode
from pilotfish.protocol import wire

CONTRACT: dict[str, tuple[str, ...]] = {
    "client": (
        "session/new",
        "session/list",
        "session/load",
        "session/rename",
        "session/delete",
        "session/fork",
        "session/export",
        "session/configure",
        "session/prompt",
        "session/cancel",
        "session/undo",
        "session/redo",
        "session/restore",
        "review/list",
        "review/keep",
        "review/undo",
        "review/blame",
        "review/list",
        "review/keep",
        "review/undo",
        "review/blame",
        "edit/inline",
        "queue/list",
        "queue/remove",
        "approval/list",
        "rule/list",
        "rule/add",
        "rule/remove",
        "secret/set",
        "model/list",
        "endpoint/list",
        "endpoint/add",
        "endpoint/remove",
        "endpoint/test",
        "mcp/list",
        "mcp/add",
        "mcp/remove",
        "mcp/restart",
        "model/chunk",
        "command/list",
        "mention/complete",
        "status",
    ),
    "server": (
        "session/update",
        "approval/request",
        "approval/resolved",
        "user/ask",
        "editor/open",
        "editor/save",
        "editor/context",
        "editor/diagnostics",
        "editor/codeActions",
        "editor/definition",
        "editor/references",
        "editor/symbols",
        "editor/rename",
        "editor/diff",
        "model/request",
    ),
}

UPDATES: dict[str, set[str]] = {
    "turn_started": {"promptId", "prompt"},
    "state": {"state", "iteration"},
    "agent_message_chunk": {"itemId", "text"},
    "agent_thought_chunk": {"itemId", "text"},
    "tool_call": {"call"},
    "tool_call_args_chunk": {"callId", "text"},
    "tool_progress": {"callId", "text"},
    "plan": {"entries"},
    "file_changed": {"uri", "change", "added", "removed", "via"},
    "review_changed": {"files"},
    "usage": {"usage", "contextUsed", "contextWindow"},
    "notice": {"level", "message", "remedy"},
    "claim": {"text", "verdict", "evidence"},
    "session_info": {"session"},
    "compaction": {"before", "after", "summary"},
    "turn_ended": {"stopReason", "usage", "error", "receipt"},
}

PAYLOADS: dict[type[wire.Wire], set[str]] = {
    wire.Session: {
        "id",
        "title",
        "workspaceFolder",
        "model",
        "mode",
        "createdAt",
        "updatedAt",
        "turns",
        "busy",
        "usage",
    },
    wire.PromptResult: {"turnId", "stopReason", "usage", "error", "receipt"},
    wire.Receipt: {"turnId", "tookMs", "cancelledCalls", "killedProcesses", "changedFiles"},
    wire.Usage: {
        "inputTokens",
        "outputTokens",
        "cachedTokens",
        "reasoningTokens",
        "requests",
        "toolCalls",
        "cost",
        "unpricedRequests",
    },
    wire.ToolCall: {
        "id",
        "name",
        "title",
        "category",
        "status",
        "args",
        "locations",
        "result",
        "diff",
        "error",
        "startedAt",
        "durationMs",
        "approval",
    },
    wire.ApprovalRequest: {
        "approvalId",
        "sessionId",
        "turnId",
        "call",
        "reason",
        "digest",
        "preview",
        "options",
        "amendable",
    },
    wire.ApprovalAnswer: {"optionId", "feedback", "args"},
    wire.ApprovalResolved: {"approvalId", "sessionId", "optionId", "by"},
    wire.SessionLoadResult: {"session", "items", "hasMore", "lastSeq", "pendingApprovals"},
    wire.UpdateParams: {"sessionId", "turnId", "seq", "update"},
    wire.Model: {"id", "label", "provider", "available", "reason", "contextWindow"},
}


def names(model: type[BaseModel]) -> set[str]:
    return {info.alias or name for name, info in model.model_fields.items()}


def every_payload() -> list[type[wire.Wire]]:
    return [
        value
        for value in vars(wire).values()
        if inspect.isclass(value) and issubclass(value, wire.Wire) and value not in (wire.Wire, wire.Lsp)
    ]


@pytest.mark.parametrize("sender", ["client", "server"])
def test_all_methods_of_the_contract_exist(sender: str):
    ours = {row.name for row in wire.METHODS.values() if row.sender == sender}
    assert set(CONTRACT[sender]) <= ours
    assert ours - set(CONTRACT[sender]) == (
        {
            "approval/answer",
            "background/branch",
            "background/discard",
            "background/resume",
            "background/start",
            "background/takeOver",
            "model/download",
            "sample/create",
            "session/retry",
            "trust/changed",
            "edit/retry",
            "edit/locate",
            "mention/find",
            "mcp/enable",
            "mcp/test",
            "model/offered",
        }
        if sender == "client"
        else {"editor/terminal", "mcp/changed", "session/listChanged"}
    )


def test_notifications_are_those_of_the_contract():
    notifications = {row.name for row in wire.METHODS.values() if row.result is None}
    assert notifications == {
        "session/update",
        "approval/resolved",
        "trust/changed",
        "mcp/changed",
        "session/listChanged",
        "model/offered",
        "model/chunk",
    }


def test_every_update_has_the_fields_of_the_contract():
    kinds = {model.model_fields["kind"].default: model for model in get_args(get_args(wire.Update)[0])}
    assert set(kinds) == set(UPDATES)
    for kind, fields in UPDATES.items():
        assert fields <= names(kinds[kind])


@pytest.mark.parametrize("model", list(PAYLOADS))
def test_every_payload_has_the_fields_of_the_contract(model: type[wire.Wire]):
    assert PAYLOADS[model] <= names(model)


def test_everything_is_camel_case_and_frozen():
    for model in every_payload():
        assert not any("_" in name for name in names(model)), model
        assert model.model_config.get("frozen") is True, model


def test_unknown_fields_are_refused_in_our_types_and_kept_in_lsp_types():
    with pytest.raises(ValidationError):
        wire.SessionParams.model_validate({"sessionId": "s", "sesionId": "s"})
    kept = {"range": {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}, "message": "m"}
    diagnostic = wire.Diagnostic.model_validate({**kept, "relatedInformation": [{"message": "there"}]})
    assert diagnostic.model_dump(by_alias=True)["relatedInformation"] == [{"message": "there"}]


def test_null_and_absence_are_the_same_and_null_is_never_sent():
    assert wire.SessionNewParams.model_validate({"title": None}) == wire.SessionNewParams()
    assert wire.SessionNewParams().model_dump(by_alias=True, exclude_none=True) == {}


def test_the_literals_are_those_of_the_conversation_package():
    assert get_args(wire.StopReason) == get_args(records.StopReason)
    assert get_args(wire.AgentState) == get_args(records.AgentState)
    assert set(get_args(wire.Category)) == {category.value for category in messages.Category}
    assert set(get_args(wire.CallStatus)) == {status.value for status in messages.CallStatus}
    assert set(get_args(wire.Mode)) == {mode.value for mode in Mode}
    assert get_args(wire.OptionId) == get_args(OptionId)
    assert get_args(wire.FailureKind) == get_args(FailureKind)


def test_importing_the_wire_imports_pydantic_and_nothing_else():
    code = (
        "import sys, pilotfish.protocol.wire; "
        "print([name for name in sys.modules if name.split('.')[0] in "
        "('pygls', 'lsprotocol', 'pydantic_ai', 'openai', 'asyncio') or name.startswith('pilotfish.core')])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


def sample(model: type[BaseModel]) -> Any:
    """A payload without optional fields, if it can be built from the schema alone."""
    return model.model_json_schema()


def test_every_payload_has_a_schema():
    for model in every_payload():
        assert sample(model)["type"] == "object"
