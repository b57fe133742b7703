"""Implements `engine.frontend.Frontend` over one connection to a language client."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from pilotfish.conversation.records import SessionRecord
from pilotfish.engine.frontend import Question, Session, SessionUpdate
from pilotfish.errors import BadRequest
from pilotfish.lsp import presentation
from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.lsp.editor.approvals import Approvals
from pilotfish.lsp.editor.choices import Choices
from pilotfish.lsp.editor.lsp_editor import LspEditor
from pilotfish.protocol import present, wire

log = logging.getLogger(__name__)


class LspFrontend:
    """Sends updates and questions to the client."""

    def __init__(
        self, connection: Connection, client: Client, editor: LspEditor, approvals: Approvals, choices: Choices
    ) -> None:
        self.connection = connection
        self.client = client
        self._editor = editor
        self._approvals = approvals
        self._choices = choices
        self.session_of: Callable[[str], Session | None] = lambda _: None
        """set when the engine is loaded"""
        self.ask_for_text: Callable[[str, str], Awaitable[str | None]] | None = None
        """(session, question) → the answer of a generic client; set when the engine is loaded"""
        self.listeners: list[Callable[[SessionUpdate], None]] = []
        """called with every update"""
        self.subscribed: set[str] = set()
        """sessions that a generic client uses by our own methods: it gets `pilotfish/session/update` for them"""

    @property
    def editor(self) -> LspEditor:
        return self._editor

    @property
    def keeps_up(self) -> bool:
        return self.connection.server.outbox.keeps_up

    async def room(self) -> None:
        await self.connection.server.outbox.room()

    def notify(self, update: SessionUpdate) -> None:
        if self.client.ours or update.session_id in self.subscribed:
            payload = present.update(update.record, self._session(update))
            if payload is not None:
                self.connection.notify(
                    "pilotfish/session/update",
                    wire.UpdateParams(
                        session_id=update.session_id, turn_id=update.turn_id, seq=update.seq, update=payload
                    ),
                )
        for listener in self.listeners:
            listener(update)

    def ask(self, question: Question) -> None:
        self._approvals.ask(question)

    def resolved(self, question: Question, option_id: str, by: str) -> None:
        self._approvals.resolved(question, option_id, by)

    async def ask_user(self, session_id: str, turn_id: str, question: str, options: Sequence[str]) -> str | None:
        if not self.client.asks:
            return await self._ask_plainly(session_id, question, options)
        asked = wire.AskParams(session_id=session_id, turn_id=turn_id, question=question, options=tuple(options))
        try:
            answer = read(wire.AskResult, await self.connection.request("pilotfish/user/ask", asked))
        except (ClientError, BadRequest) as error:
            log.warning("pilotfish/user/ask: %s", error)
            return None
        return None if answer.dismissed else answer.answer

    async def _ask_plainly(self, session_id: str, question: str, options: Sequence[str]) -> str | None:
        """Show a message with buttons. A generic client has no text input, so its next prompt is the answer."""
        if not options:
            return None if self.ask_for_text is None else await self.ask_for_text(session_id, question)
        try:
            return await self._choices.choose(question, options)
        except ClientError as error:
            log.warning("window/showMessageRequest: %s", error)
            return None

    def _session(self, update: SessionUpdate) -> wire.Session | None:
        if not isinstance(update.record, SessionRecord):
            return None
        session = self.session_of(update.session_id)
        return None if session is None else presentation.session(session)
