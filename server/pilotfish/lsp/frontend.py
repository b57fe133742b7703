"""Implements `engine.frontend.Frontend` over one connection to a language client."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from lsprotocol import types

from pilotfish.conversation.records import SessionRecord
from pilotfish.engine.frontend import Question, Session, SessionUpdate
from pilotfish.errors import BadRequest
from pilotfish.lsp import presentation
from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.params import read
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.lsp.editor.approvals import Approvals
from pilotfish.lsp.editor.lsp_editor import LspEditor
from pilotfish.protocol import present, wire

log = logging.getLogger(__name__)


class LspFrontend:
    """Sends updates and questions to the client."""

    def __init__(self, connection: Connection, client: Client, editor: LspEditor, approvals: Approvals) -> None:
        self._connection = connection
        self._client = client
        self._editor = editor
        self._approvals = approvals
        self.session_of: Callable[[str], Session | None] = lambda _: None
        """set when the engine is loaded"""
        self.listeners: list[Callable[[SessionUpdate], None]] = []
        """called with every update"""
        self.told_plainly: set[str] = set()
        """sessions that a generic client uses by our own methods: it gets `pilotfish/session/update` for them"""

    @property
    def editor(self) -> LspEditor:
        return self._editor

    @property
    def keeps_up(self) -> bool:
        return self._connection.server.outbox.keeps_up

    async def room(self) -> None:
        await self._connection.server.outbox.room()

    def notify(self, update: SessionUpdate) -> None:
        if self._client.ours or update.session_id in self.told_plainly:
            payload = present.update(update.record, self._session(update))
            if payload is not None:
                self._connection.notify(
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
        if not self._client.asks:
            return await self._ask_plainly(question, options)
        asked = wire.AskParams(session_id=session_id, turn_id=turn_id, question=question, options=tuple(options))
        try:
            answer = read(wire.AskResult, await self._connection.request("pilotfish/user/ask", asked))
        except (ClientError, BadRequest) as error:
            log.warning("pilotfish/user/ask: %s", error)
            return None
        return None if answer.dismissed else answer.answer

    async def _ask_plainly(self, question: str, options: Sequence[str]) -> str | None:
        """Show a message with buttons; a generic client has no text input."""
        if not options:
            self._connection.message(types.MessageType.Info, question)
            return None
        try:
            return await self._connection.choose(question, options)
        except ClientError as error:
            log.warning("window/showMessageRequest: %s", error)
            return None

    def _session(self, update: SessionUpdate) -> wire.Session | None:
        if not isinstance(update.record, SessionRecord):
            return None
        session = self.session_of(update.session_id)
        return None if session is None else presentation.session(session)
