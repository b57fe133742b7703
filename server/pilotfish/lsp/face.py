"""The language server as the engine sees it: `engine.ports.Face`, over one connection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from pilotfish.core.records import SessionRecord
from pilotfish.engine.ports import Question, Session, Told
from pilotfish.errors import BadRequest
from pilotfish.lsp import views
from pilotfish.lsp.approvals import Approvals
from pilotfish.lsp.client import Client
from pilotfish.lsp.editor import LspEditor
from pilotfish.lsp.framing import as_object
from pilotfish.lsp.params import read
from pilotfish.lsp.peer import ClientError, Peer
from pilotfish.protocol import present, wire

log = logging.getLogger(__name__)


class LspFace:
    """Tells the client what happens, and asks it."""

    def __init__(self, peer: Peer, client: Client, editor: LspEditor, approvals: Approvals) -> None:
        self._peer = peer
        self._client = client
        self._editor = editor
        self._approvals = approvals
        self.session_of: Callable[[str], Session | None] = lambda _: None
        """set once the engine is there"""
        self.listeners: list[Callable[[Told], None]] = []
        """who else hears of everything"""
        self.told_plainly: set[str] = set()
        """sessions a plain client runs by our own methods all the same: it hears of them like one of ours"""

    @property
    def editor(self) -> LspEditor:
        return self._editor

    @property
    def keeps_up(self) -> bool:
        return self._peer.outbox.keeps_up

    async def room(self) -> None:
        await self._peer.outbox.room()

    def tell(self, told: Told) -> None:
        if self._client.ours or told.session_id in self.told_plainly:
            update = present.update(told.record, self._session(told))
            if update is not None:
                self._peer.notify(
                    "pilotfish/session/update",
                    wire.UpdateParams(session_id=told.session_id, turn_id=told.turn_id, seq=told.seq, update=update),
                )
        for listener in self.listeners:
            listener(told)

    def ask(self, question: Question) -> None:
        self._approvals.ask(question)

    def resolved(self, question: Question, option_id: str, by: str) -> None:
        self._approvals.resolved(question, option_id, by)

    async def ask_user(self, session_id: str, turn_id: str, question: str, options: Sequence[str]) -> str | None:
        if not self._client.asks:
            return await self._ask_plainly(question, options)
        asked = wire.AskParams(session_id=session_id, turn_id=turn_id, question=question, options=tuple(options))
        try:
            said = read(wire.AskResult, await self._peer.request("pilotfish/user/ask", asked))
        except (ClientError, BadRequest) as error:
            log.warning("pilotfish/user/ask: %s", error)
            return None
        return None if said.dismissed else said.answer

    async def _ask_plainly(self, question: str, options: Sequence[str]) -> str | None:
        """A message with buttons; a plain client has no place to type."""
        if not options:
            self._peer.notify("window/showMessage", {"type": 3, "message": question})
            return None
        actions = [{"title": option} for option in options]
        try:
            said = await self._peer.request(
                "window/showMessageRequest", {"type": 3, "message": question, "actions": actions}
            )
        except ClientError as error:
            log.warning("window/showMessageRequest: %s", error)
            return None
        chosen = (as_object(said) or {}).get("title")
        return chosen if chosen in options else None

    def _session(self, told: Told) -> wire.Session | None:
        if not isinstance(told.record, SessionRecord):
            return None
        session = self.session_of(told.session_id)
        return None if session is None else views.session(session)
