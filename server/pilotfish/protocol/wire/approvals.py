"""Approvals: the question, its preview, its options and the answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from pilotfish.protocol.wire.base import OptionId, Whole, Wire
from pilotfish.protocol.wire.session import ToolCall


class PreviewFile(Whole):
    """One file before and after the call. `before` is null if the file does not exist yet, `after` if the call deletes
    it."""

    uri: str
    version: str | None = None
    """the version of the document at which `before` was read"""
    before: str | None
    after: str | None


class DiffPreview(Wire):
    """The files that the call would change."""

    kind: Literal["diff"] = "diff"
    files: tuple[PreviewFile, ...]
    impact: str | None = None
    """what else depends on the files, in one line: `parse is used in 12 places in 4 other files`"""


class CommandEffects(Wire):
    """What the command did in a throwaway view of the workspace, without network. `allow_once` applies exactly these
    files and does not run the command again; `allow_real` runs it."""

    files: tuple[PreviewFile, ...]
    """a file that is not text is given by its size and hash"""
    output: str
    """what it wrote, cut in the middle if it is long"""
    exit_code: int | None = None
    impact: str | None = None
    """what else depends on the files, in one line"""
    note: str | None = None
    """for the user: for example, files whose unsaved text the command did not see"""


class CommandPreview(Wire):
    """The command that the call would run."""

    kind: Literal["command"] = "command"
    command: str
    cwd: str
    parsed: tuple[str, ...] = ()
    """one sentence for each command in the command line, and one if it keeps running in the background"""
    background: bool | None = None
    """true if the command keeps running after the call"""
    timeout: float | None = None
    """seconds after which the command is stopped"""
    effects: CommandEffects | None = None
    """what the command was seen to do, if it was tried out"""


class TextPreview(Wire):
    """A preview of any other call, as text."""

    kind: Literal["text"] = "text"
    text: str


Preview = Annotated[DiffPreview | CommandPreview | TextPreview, Field(discriminator="kind")]


class ApprovalOption(Wire):
    """One answer that the user may choose."""

    id: OptionId
    label: str
    rule: str | None = None
    """the rule that would be stored, in words"""
    tool: str | None = None
    """the tool of that rule, as `rule/add` takes it"""
    pattern: str | None = None
    """the pattern of that rule, as `rule/add` takes it, for a client that lets the user edit it first"""
    matches: tuple[str, ...] = ()
    """examples of calls that the rule would cover"""
    excludes: tuple[str, ...] = ()
    """examples of similar calls that the rule would not cover"""


class ApprovalRequest(Wire):
    """Asks the user whether a call may run. The answer holds for one digest: these exact arguments, and these versions
    of the documents that they touch."""

    approval_id: str
    session_id: str
    turn_id: str
    call: ToolCall
    reason: str
    """why the user is asked"""
    digest: str
    preview: Preview
    options: tuple[ApprovalOption, ...]
    amendable: bool
    """whether the answer may change the arguments"""


class ApprovalAnswer(Wire):
    """The user's answer. A question that was closed without an answer is not answered: leave the request open, or fail
    it with `-32800` when the client shuts down."""

    option_id: OptionId
    feedback: str | None = None
    """sent to the model together with a refusal"""
    args: dict[str, Any] | None = None
    """the arguments as the user changed them: they are validated again, and they are what runs, is shown and is
    recorded"""


class ApprovalResolved(Wire):
    """A question was answered or withdrawn. Every surface that still shows it removes it."""

    approval_id: str
    session_id: str
    option_id: str
    """the chosen option, or `cancelled`"""
    by: str
    """the surface on which the answer was given"""


class ApprovalListParams(Wire):
    """Selects the questions of one session, or of all sessions."""

    session_id: str | None = None


class ApprovalListResult(Wire):
    """The questions that still wait for an answer, oldest first."""

    approvals: tuple[ApprovalRequest, ...]


class ApprovalAnswerParams(Wire):
    """Answers a question that the client got from `session/load` or `approval/list`."""

    approval_id: str
    option_id: OptionId
    feedback: str | None = None
    args: dict[str, Any] | None = None


class ApprovalAnswerResult(Wire):
    """Tells whether this answer was the first one, and so the one that counts."""

    accepted: bool
