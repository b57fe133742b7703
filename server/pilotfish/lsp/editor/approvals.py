"""Shows approval requests to the user and passes the answers to the engine.

The engine holds the truth. Here a question is shown: by our own request, or as a message with buttons in a plain
client, and in both as a code lens; `pilotfish.approve` answers from anywhere. The first answer wins, the other
surfaces clear. A question that is closed without an answer still waits: dismissal is neither consent nor refusal.
A plain client is asked one question at a time. It shows the whole of the call, in the message or in a document, or it
is offered no way to allow it.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lsprotocol import types

from pilotfish.errors import BadRequest, UnknownCall
from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.json_values import as_object
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.lsp.editor.choices import Choices
from pilotfish.protocol import wire
from pilotfish.protocol.wire import ERROR_CODES
from pilotfish.text.display_safe import display_safe, one_line, shows, with_blanks

if TYPE_CHECKING:
    from pilotfish.engine.frontend import Answer, Option, OptionId, Question
    from pilotfish.lsp.editor.lsp_editor import LspEditor

log = logging.getLogger(__name__)

_OPENS_WITH_WORD = re.compile(r"(?:it|this|the|an?|no|not)\b")
MESSAGE_CHARS = 2_000
"""a longer message is cut by some editors"""
TITLE_CHARS = 120
"""a message with buttons must be read at a glance"""
LABEL_CHARS = 80
REMIND_SECONDS = 60.0
"""some clients never answer a message that the user closed; the user is then told how to be asked again"""
_TRIES = 3  # for a client whose answers do not fit


class Answers(Protocol):
    """Passes an answer to the engine. Returns False if the question was answered already."""

    def __call__(self, approval_id: str, answer: Answer) -> bool: ...


class Approvals:
    """Every open question and where it is shown."""

    def __init__(
        self,
        connection: Connection,
        client: Client,
        editor: LspEditor,
        choices: Choices,
        lenses_changed: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._client = client
        self._editor = editor
        self._choices = choices
        self._lenses_changed = lenses_changed
        self._open: dict[str, Question] = {}
        self._shown: dict[str, asyncio.Task[None]] = {}
        self._preview_folder: tempfile.TemporaryDirectory[str] | None = None
        self._preview: Path | None = None
        """the one document for previews; it is emptied when its question is answered"""
        self._numbers = itertools.count(2)
        self._previewed: str | None = None
        self._unseen: set[str] = set()
        """questions that a plain client could not show whole"""
        self._one_at_a_time = asyncio.Lock()
        self.answers: Answers | None = None
        """set when the engine is loaded; it asks nothing before"""

    def open(self) -> Sequence[Question]:
        """Open questions, oldest first."""
        return tuple(self._open.values())

    def ask(self, question: Question) -> None:
        """Show a question."""
        self._open[question.approval_id] = question
        show = self._ask_ours if self._client.asks else self._ask_plain
        task = asyncio.get_running_loop().create_task(show(question), name=f"question {question.approval_id}")
        self._shown[question.approval_id] = task
        task.add_done_callback(_log_failure)
        self._lenses_changed()

    def ask_again(self) -> None:
        """Show the oldest question once more: the client has closed it, perhaps without an answer to our request."""
        for question in self._open.values():
            shown = self._shown.pop(question.approval_id, None)
            if shown is not None:
                shown.cancel()  # which closes the client's dialog
            self.ask(question)
            return

    def resolved(self, question: Question, option_id: str, by: str) -> None:
        """Remove a resolved question everywhere."""
        self._open.pop(question.approval_id, None)
        self._unseen.discard(question.approval_id)
        task = self._shown.pop(question.approval_id, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()  # which closes the client's dialog
        if self._preview is not None and self._previewed == question.approval_id:
            self._preview.write_text("", "utf-8")
            self._previewed = None
        if self._client.ours:
            resolved = wire.ApprovalResolved(
                approval_id=question.approval_id, session_id=question.session_id, option_id=option_id, by=by
            )
            self._connection.notify("pilotfish/approval/resolved", resolved)
        self._lenses_changed()

    def answer(self, params: Any, by: str) -> bool:
        """An answer by request or command: `{approvalId, optionId, feedback?, args?}`. False if it was too late."""
        given = read(wire.ApprovalAnswerParams, params)
        question = self._open.get(given.approval_id)
        if question is None:
            raise UnknownCall(
                f"No question with the id {given.approval_id!r} is open; it may have been answered already."
            )
        if by == "command" and given.option_id.startswith("allow") and question.approval_id in self._unseen:
            raise BadRequest(
                "optionId: what would run is too long to be shown here, so it cannot be allowed here", field="optionId"
            )
        answer = wire.ApprovalAnswer(option_id=given.option_id, feedback=given.feedback, args=given.args)
        return self._answered(question, answer, by)

    def allowed_in_file(self, question: Question) -> bool:
        """Whether a lens in a file may allow the question: only if that file is all it is about."""
        preview = question.preview
        return preview.kind == "diff" and len(preview.files) == 1 and question.approval_id not in self._unseen

    async def show_preview(self, approval_id: str) -> bool:
        """Show a question's preview in an editor; returns whether the client could."""
        question = self._open.get(approval_id)
        if question is None:
            raise UnknownCall(f"No question with the id {approval_id!r} is open; it may have been answered already.")
        for file in question.preview.files:
            title = f"{file.path.name}: as it would become"
            if await self._editor.show_diff(title, file.path.as_uri(), file.before or "", file.after or ""):
                return True
        return await self._show_file(question)

    def request_of(self, question: Question) -> wire.ApprovalRequest:
        """The question as this client can show it whole: "Allow" applies effects, so it must not be without them."""
        from pilotfish.lsp import presentation

        asked = presentation.question(question)
        if question.preview.tried is None or self._client.hello.client.approval_effects:
            return asked
        return asked.model_copy(update={"preview": wire.TextPreview(text=preview_text(question))})

    async def _ask_ours(self, question: Question) -> None:
        asked, wrong = self.request_of(question), ""
        for _ in range(_TRIES):
            try:
                response = await self._connection.request("pilotfish/approval/request", asked)
                self._answered(question, read(wire.ApprovalAnswer, response), "client")
            except ClientError as error:
                log.warning("the client does not show the question %s: %s", question.approval_id, error)
                if error.code == ERROR_CODES["method_not_found"]:
                    await self._ask_plain(question)
                else:
                    self._say_that_it_waits()
                return
            except BadRequest as error:
                log.warning("the answer to %s does not fit: %s", question.approval_id, error)
                wrong = str(error)
            else:
                return
        self._say_that_it_waits(f"The answer to “{title(question)}” could not be used ({wrong}). ")

    async def _ask_plain(self, question: Question) -> None:
        async with self._one_at_a_time:
            await self._ask_in_message(question)

    async def _ask_in_message(self, question: Question) -> None:
        message, options = title(question), list(question.options)
        if not says_all(question) and not await self._show_file(question):
            whole = f"{message}\n{preview_text(question)}"
            if len(whole) <= MESSAGE_CHARS:
                message = whole
            else:
                self._unseen.add(question.approval_id)
                self._lenses_changed()
                message = f"{message} It is too long to be shown here, so it cannot be allowed here."
                options = [option for option in options if not option.id.startswith("allow")]
        # A rule that the button cannot show whole is not offered.
        offered = [option for option in options if option.rule is None or not label(option).endswith("…")]
        labels: dict[str, OptionId] = {label(option): option.id for option in offered}
        reminder = asyncio.get_running_loop().call_later(REMIND_SECONDS, self._say_that_it_waits)
        try:
            chosen = await self._choices.choose(message, tuple(labels))
        except ClientError as error:
            log.warning("the client does not show the question %s: %s", question.approval_id, error)
            return
        finally:
            reminder.cancel()
        if chosen is not None:
            self._answered(question, wire.ApprovalAnswer(option_id=labels[chosen]), "message")
        else:
            self._say_that_it_waits()

    def _say_that_it_waits(self, why: str = "") -> None:
        waits = "Pilotfish waits for your answer. Run pilotfish.approve to answer, pilotfish.cancel to stop."
        self._connection.message(types.MessageType.Warning if why else types.MessageType.Info, f"{why}{waits}")

    async def _show_file(self, question: Question) -> bool:
        """The preview in the document for previews, for clients that can open one."""
        if not self._client.show_document:
            return False
        if self._preview_folder is None:
            self._preview_folder = tempfile.TemporaryDirectory(prefix="pilotfish-")
        folder = Path(self._preview_folder.name)
        if self._preview is None or self._client.rereads_files:
            self._preview = folder / "approval.diff"
        else:  # the editor would show the text of the question before
            self._preview.unlink(missing_ok=True)
            self._preview = folder / f"approval-{next(self._numbers)}.diff"
        self._preview.write_text(f"{title(question)}\n\n{preview_text(question)}", "utf-8")
        self._previewed = question.approval_id
        return await self._connection.show(self._preview)

    def _answered(self, question: Question, answer: wire.ApprovalAnswer, by: str) -> bool:
        """Pass an answer on. Raises BadRequest if it does not fit the question, which then stays open."""
        from pilotfish.engine.frontend import Answer  # the engine is imported after `initialize`

        if answer.option_id not in [option.id for option in question.options]:
            raise BadRequest(f"optionId: {answer.option_id} is not offered here", field="optionId")
        if answer.args is not None and not question.amendable:
            raise BadRequest("args: these arguments cannot be amended", field="args")
        if self.answers is None:
            return False
        engine_answer = Answer(option_id=answer.option_id, feedback=answer.feedback, args=answer.args, by=by)
        return self.answers(question.approval_id, engine_answer)


def title(question: Question) -> str:
    """The question in one line, with the reason for it."""
    words = _visible(f"{question.call.title}? {_sentence(question.reason)}")
    return words if len(words) <= TITLE_CHARS else words[: TITLE_CHARS - 1] + "…"


def says_all(question: Question) -> bool:
    """Whether the title alone shows the whole of what would run: a short command on one line with nothing unusual."""
    preview = question.preview
    if preview.kind != "command" or preview.background or preview.tried or "…" in title(question)[-1:]:
        return False
    return with_blanks(preview.command) == preview.command and question.call.title.endswith(preview.command)


def _sentence(reason: str) -> str:
    """A reason as a sentence; a name at its beginning (`rm is not known …`) keeps its letters."""
    opened = reason[:1].upper() + reason[1:] if _OPENS_WITH_WORD.match(reason) else reason
    return opened if not opened or opened[-1] in ".!?…:" else f"{opened}."


def label(option: Option) -> str:
    """The text of a button, with the rule that the option would add."""
    words = option.label if option.rule is None else f"{option.label}: {option.rule}"
    words = _visible(words)
    return words if len(words) <= LABEL_CHARS else words[: LABEL_CHARS - 1] + "…"


def preview_text(question: Question) -> str:
    """A question's preview as plain text: a diff, a command, or a text."""
    preview = question.preview
    match preview.kind:
        case "diff":
            return _diffs(question) + (f"\n{one_line(preview.impact)}\n" if preview.impact else "")
        case "command":
            limit = "" if preview.timeout is None else f", stopped after {preview.timeout:g} s"
            place = f"in {one_line(preview.cwd)}{limit}"
            text = f"{with_blanks(preview.command)}\n\n{place}\n" + "".join(f"\n{line}" for line in question.parsed)
            if (tried := preview.tried) is None:
                return text
            parts = (
                text,
                _diffs(question),
                f"exit code {tried.exit_code}",
                display_safe(tried.output),
                tried.note,
                one_line(preview.impact),
            )
            return "\n\n".join(filter(None, parts))
        case "text":
            return with_blanks(preview.text)


def _diffs(question: Question) -> str:
    from pilotfish.workspace.edits.hunks import unified_diff  # imported after `initialize`

    preview = question.preview
    diffs = "".join(
        unified_diff(
            file.before or "",
            file.after or "",
            f"a/{preview.name_of(file)}" if file.before is not None else "/dev/null",
            f"b/{preview.name_of(file)}" if file.after is not None else "/dev/null",
        )
        for file in preview.files
    )
    return "\t".join(map(display_safe, diffs.split("\t")))


def _visible(text: str) -> str:
    """On one line, with control and bidi characters shown as what they are."""
    return "".join(
        char if char.isprintable() and shows(char) else " " if char in "\n\t\r" else f"\\u{ord(char):04x}"
        for char in text
    )


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("a question could not be shown", exc_info=error)


def option_of(value: Any) -> dict[str, Any]:
    """The argument of `pilotfish.approve`: an object, or the id and the option one after the other."""
    match value:
        case [str() as approval_id, str() as option_id, *_]:
            return {"approvalId": approval_id, "optionId": option_id}
        case [first, *_] if (argument := as_object(first)) is not None:
            return argument
        case _:
            raise BadRequest("arguments: {approvalId, optionId} is needed", field="arguments")
