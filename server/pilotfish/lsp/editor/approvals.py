"""Shows approval requests to the user and passes the answers to the engine.

The engine holds the truth. Here a question is shown: by our own request, or as a message with buttons in a plain
client, and in both as a code lens; `pilotfish.approve` answers from anywhere. The first answer wins, the other
surfaces clear. A question that is closed without an answer still waits: dismissal is neither consent nor refusal.
"""

from __future__ import annotations

import asyncio
import difflib
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
from pilotfish.protocol import wire
from pilotfish.protocol.wire import ERROR_CODES
from pilotfish.text.display_safe import shows

if TYPE_CHECKING:
    from pilotfish.engine.frontend import Answer, Option, OptionId, Question
    from pilotfish.lsp.editor.lsp_editor import LspEditor

log = logging.getLogger(__name__)

_OPENS_WITH_WORD = re.compile(r"(?:it|this|the|an?|no|not)\b")
TITLE_CHARS = 120
"""a message with buttons must be read at a glance"""
LABEL_CHARS = 80
_TRIES = 3  # for a client whose answers do not fit


class Answers(Protocol):
    """Passes an answer to the engine. Returns False if the question was answered already."""

    def __call__(self, approval_id: str, answer: Answer) -> bool: ...


class Approvals:
    """Every open question and where it is shown."""

    def __init__(
        self, connection: Connection, client: Client, editor: LspEditor, lenses_changed: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._client = client
        self._editor = editor
        self._lenses_changed = lenses_changed
        self._open: dict[str, Question] = {}
        self._shown: dict[str, asyncio.Task[None]] = {}
        self._previews: dict[str, Path] = {}
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
        """Show the oldest question once more, for a client that has closed it."""
        for question in self._open.values():
            shown = self._shown.get(question.approval_id)
            if shown is None or shown.done():
                self.ask(question)
                return

    def resolved(self, question: Question, option_id: str, by: str) -> None:
        """Remove a resolved question everywhere."""
        self._open.pop(question.approval_id, None)
        task = self._shown.pop(question.approval_id, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()  # which closes the client's dialog
        preview = self._previews.pop(question.approval_id, None)
        if preview is not None:
            preview.unlink(missing_ok=True)
        if self._client.ours:
            told = wire.ApprovalResolved(
                approval_id=question.approval_id, session_id=question.session_id, option_id=option_id, by=by
            )
            self._connection.notify("pilotfish/approval/resolved", told)
        self._lenses_changed()

    def answer(self, params: Any, by: str) -> bool:
        """An answer by request or command: `{approvalId, optionId, feedback?, args?}`. False if it was too late."""
        said = read(wire.ApprovalAnswerParams, params)
        question = self._open.get(said.approval_id)
        if question is None:
            raise UnknownCall(f"No question with the id {said.approval_id!r} waits; it may have been answered.")
        answer = wire.ApprovalAnswer(option_id=said.option_id, feedback=said.feedback, args=said.args)
        return self._answered(question, answer, by)

    async def show_preview(self, approval_id: str) -> bool:
        """Show a question's preview in an editor; returns whether the client could."""
        question = self._open.get(approval_id)
        if question is None:
            raise UnknownCall(f"No question with the id {approval_id!r} waits; it may have been answered.")
        for file in question.preview.files:
            title = f"{file.path.name}: as it would become"
            if await self._editor.show_diff(title, file.path.as_uri(), file.before or "", file.after or ""):
                return True
        return await self._show_file(question)

    async def _ask_ours(self, question: Question) -> None:
        from pilotfish.lsp import presentation

        asked, wrong = presentation.question(question), ""
        for _ in range(_TRIES):
            try:
                said = await self._connection.request("pilotfish/approval/request", asked)
                self._answered(question, read(wire.ApprovalAnswer, said), "client")
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
        if question.preview.kind == "diff":
            await self._show_file(question)
        labels: dict[str, OptionId] = {label(option): option.id for option in question.options}
        try:
            chosen = await self._connection.choose(title(question), tuple(labels))
        except ClientError as error:
            log.warning("the client does not show the question %s: %s", question.approval_id, error)
            return
        if chosen is not None:
            self._answered(question, wire.ApprovalAnswer(option_id=labels[chosen]), "message")
        else:
            self._say_that_it_waits()

    def _say_that_it_waits(self, why: str = "") -> None:
        waits = "Pilotfish waits for your answer. Run pilotfish.approve to answer, pilotfish.cancel to stop."
        self._connection.message(types.MessageType.Warning if why else types.MessageType.Info, f"{why}{waits}")

    async def _show_file(self, question: Question) -> bool:
        """The preview as a file of its own, for clients that can open one."""
        if not self._client.show_document:
            return False
        path = self._previews.get(question.approval_id)
        if path is None:
            suffix = ".diff" if question.preview.kind == "diff" else ".txt"
            with tempfile.NamedTemporaryFile(
                "w", prefix="pilotfish-", suffix=suffix, delete=False, encoding="utf-8"
            ) as file:
                file.write(preview_text(question))
            path = self._previews[question.approval_id] = Path(file.name)
        return await self._connection.show(path)

    def _answered(self, question: Question, answer: wire.ApprovalAnswer, by: str) -> bool:
        """Pass an answer on. Raises BadRequest if it does not fit the question, which then stays open."""
        from pilotfish.engine.frontend import Answer  # the engine is imported after `initialize`

        if answer.option_id not in [option.id for option in question.options]:
            raise BadRequest(f"optionId: {answer.option_id} is not offered here", field="optionId")
        if answer.args is not None and not question.amendable:
            raise BadRequest("args: these arguments cannot be amended", field="args")
        if self.answers is None:
            return False
        said = Answer(option_id=answer.option_id, feedback=answer.feedback, args=answer.args, by=by)
        return self.answers(question.approval_id, said)


def title(question: Question) -> str:
    """The question in one line, with the reason for it."""
    words = _visible(f"{question.call.title}? {_sentence(question.reason)}")
    return words if len(words) <= TITLE_CHARS else words[: TITLE_CHARS - 1] + "…"


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
            return "\n".join(
                "\n".join(
                    difflib.unified_diff(
                        (file.before or "").splitlines(),
                        (file.after or "").splitlines(),
                        f"a/{file.path.name}" if file.before is not None else "/dev/null",
                        f"b/{file.path.name}" if file.after is not None else "/dev/null",
                        lineterm="",
                    )
                )
                for file in preview.files
            )
        case "command":
            return f"{preview.command}\n\nin {preview.cwd}\n" + "".join(f"\n{line}" for line in question.parsed)
        case "text":
            return preview.text


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
        case [first, *_] if (said := as_object(first)) is not None:
            return said
        case _:
            raise BadRequest("arguments: {approvalId, optionId} is needed", field="arguments")
