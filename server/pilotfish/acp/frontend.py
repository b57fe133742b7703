"""The engine's frontend for an ACP client: ordered updates, approvals as permission requests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence

import acp
from acp import schema
from pilotfish.acp import presentation
from pilotfish.acp.editor import AcpEditor
from pilotfish.acp.presentation import Presentation, Update
from pilotfish.acp.questions import Questions
from pilotfish.conversation.records import FileChangeRecord, Record, SessionRecord, UsageRecord
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Answer, OptionId, Question, SessionUpdate
from pilotfish.errors import PilotfishError

log = logging.getLogger(__name__)

MAX_WAITING = 64  # updates the client may lag behind before chunks are joined


class AcpFrontend:
    """Implements `engine.frontend.Frontend` for an ACP client."""

    def __init__(self, client: acp.Client, capabilities: schema.ClientCapabilities) -> None:
        self.client = client
        self.questions = Questions(client, capabilities)
        self.editor = AcpEditor(client, capabilities.fs, None)
        self.engine: Engine | None = None
        self.setup_changed: Callable[[str], None] = lambda _session_id: None
        """called with a session whose model or mode has changed"""
        self._presentation = Presentation()
        self._queue: asyncio.Queue[tuple[str, Record | Update]] = asyncio.Queue()
        self._sender: asyncio.Task[None] | None = None
        self._open: dict[str, asyncio.Task[None]] = {}

    @property
    def keeps_up(self) -> bool:
        return self._queue.qsize() < MAX_WAITING

    async def room(self) -> None:
        await self.sent()

    def notify(self, update: SessionUpdate) -> None:
        self.send(update.session_id, update.record)
        if isinstance(update.record, SessionRecord):
            self.setup_changed(update.session_id)

    def send(self, session_id: str, update: Record | Update) -> None:
        self._queue.put_nowait((session_id, update))
        if self._sender is None or self._sender.done():
            self._sender = asyncio.get_running_loop().create_task(self._send())

    async def sent(self) -> None:
        """Wait until every update so far is written."""
        if self._sender is not None:
            await asyncio.wait((self._sender,))

    def ask(self, question: Question) -> None:
        self._open[question.approval_id] = asyncio.get_running_loop().create_task(self._ask(question))

    def resolved(self, question: Question, option_id: str, by: str) -> None:
        del option_id, by
        task = self._open.pop(question.approval_id, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def ask_user(self, session_id: str, turn_id: str, question: str, options: Sequence[str]) -> str | None:
        del turn_id
        await self.sent()
        return await self.questions.ask(session_id, question, options)

    async def _ask(self, question: Question) -> None:
        if self.engine is None:
            return
        try:
            await self.sent()
            chosen = await self.questions.permission(
                question.session_id,
                presentation.question(question),
                presentation.options(question.options),
            )
        except Exception:
            log.exception("a permission request could not be sent")
            self.engine.answer(question.approval_id, None)
            return
        if chosen is None:
            await self.engine.cancel(question.session_id)  # ACP: a cancelled question means a cancelled turn
            return
        offered: dict[str, OptionId] = {option.id: option.id for option in question.options}
        self.engine.answer(question.approval_id, Answer(option_id=offered.get(chosen, "reject"), by="client"))

    async def _send(self) -> None:
        while not self._queue.empty():
            session_id, update = self._queue.get_nowait()
            try:
                async for message in self._updates(session_id, update):
                    await self.client.session_update(session_id=session_id, update=message)
            except ConnectionError:
                log.warning("the client is gone")
                while not self._queue.empty():
                    self._queue.get_nowait()
            except Exception:
                log.warning("an update could not be sent", exc_info=True)

    async def _updates(self, session_id: str, update: Record | Update) -> AsyncIterator[Update]:
        match update:
            case FileChangeRecord(before=before, after=after):
                texts = [await self._blob(blob) for blob in (before, after)]
                for message in self._presentation.changed(update, *texts):
                    yield message
            case UsageRecord():
                session = self.engine.session_of(session_id) if self.engine else None
                if session is not None and (usage := presentation.usage_update(update, session.usage)) is not None:
                    yield usage
            case schema.BaseModel():
                yield update
            case _:
                for message in self._presentation.updates(update):
                    yield message

    async def _blob(self, blob: str | None) -> bytes | None:
        if blob is None or self.engine is None:
            return None
        try:
            return await self.engine.ledger.get_blob(blob)
        except PilotfishError:
            return None
