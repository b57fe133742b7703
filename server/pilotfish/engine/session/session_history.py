"""The conversation of a session, as the ledger has it: read, mended, and written on.

Hides: the journal, recovery after a crash, what another process wrote meanwhile, the chain of the audit trail, what a
summary replaces. Promises: what is said is in the ledger before it is told; a turn that was interrupted is ended with
what is known of it, unless another process runs it; history and calls are always those of the records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from pilotfish.conversation.messages import CallApproval, CanonicalMessage, CanonicalToolCall, message_from_json
from pilotfish.conversation.model_history import get_messages_for_llm
from pilotfish.conversation.records import (
    ApprovalRecord,
    CompactionRecord,
    MessageRecord,
    Record,
    ToolCallRecord,
    TurnEndRecord,
    Usage,
    UsageRecord,
)
from pilotfish.conversation.registry import ToolCallRegistry
from pilotfish.engine.frontend import Frontend
from pilotfish.engine.session.journal import Journal
from pilotfish.engine.turn import compaction
from pilotfish.engine.turn.recovery import close_open_turn, turn_awaiting_approval
from pilotfish.errors import SessionBusy, StorageError
from pilotfish.policy.audit_chain import seal
from pilotfish.store.ledger import Heads, Ledger


class SessionHistory:
    """Of one session. `call_changed` hears of every move of a call, `unsaved` of a disk that does not take records."""

    def __init__(
        self,
        session_id: str,
        ledger: Ledger,
        face: Frontend,
        clock: Callable[[], float],
        *,
        call_changed: Callable[[CanonicalToolCall], None],
        unsaved: Callable[[StorageError], None],
    ) -> None:
        self.history: list[CanonicalMessage] = []
        self.registry = ToolCallRegistry(call_changed, clock)
        self.usage = Usage()
        self.turns = 0
        self.elsewhere: str | None = None
        """the turn that another process is running"""
        self._id = session_id
        self._ledger = ledger
        self._face = face
        self._clock = clock
        self._call_changed = call_changed
        self._unsaved = unsaved
        self._journal: Journal | None = None
        self._audit_hash = ""
        self._fill = compaction.Fill()
        self._interrupted: tuple[str, Sequence[Record]] | None = None

    @property
    def is_open(self) -> bool:
        """It has been read. What another process has written since is seen when it is opened again."""
        return self._journal is not None and self.elsewhere is None

    @property
    def interrupted(self) -> str | None:
        """the turn that a crash interrupted while nothing but a question was open"""
        return self._interrupted[0] if self._interrupted else None

    @property
    def last_seq(self) -> int:
        return self._journal.last_seq if self._journal else 0

    # -- read and mended ------------------------------------------------------------------------------------------

    async def open(self, *, forked: bool = False) -> bool:
        """Read it, when it is new to us or another process has written to it; mend what a crash left, or a fork in the
        middle of a turn. True: it is not what it was."""
        heads, known = await self._ledger.heads(self._id), self._journal is not None
        # Behind our own journal the ledger may well be: records are on their way. Only another process gets ahead.
        if self._journal is not None and heads.n <= self._journal.n and self.elsewhere is None:
            return False
        # Meanwhile others ask for the session: until all is known, they see what was known before.
        while not await self._read(heads, forked=forked):
            heads = await self._ledger.heads(self._id)
        return known or self._speaking().n > heads.n

    async def _read(self, heads: Heads, *, forked: bool) -> bool:
        """False: another process wrote on while we read."""
        records, left_over = await self._records(), await self.unrecorded_chunks()
        closing = close_open_turn(records, left_over, now=self._clock(), forked=forked)
        elsewhere = interrupted = lease = None
        journal = Journal(self._id, self._ledger, self._face, n=heads.n, seq=heads.seq, on_unsaved=self._unsaved)
        try:
            if closing:
                lease = await self._ledger.lease(self._id)
            if closing and await self._ledger.heads(self._id) != heads:
                return False  # whoever ran the turn has ended it, or has gone on and died
            if closing and not forked and (turn_id := turn_awaiting_approval(records, left_over)):
                interrupted = (turn_id, closing)
            elif closing:
                records += await _written(journal, closing)
        except SessionBusy:
            elsewhere = closing[-1].turn_id
        finally:
            if lease is not None:
                lease.release()
        self._journal, self._audit_hash = journal, heads.audit_hash
        self.elsewhere, self._interrupted = elsewhere, interrupted
        self._take_in(records)
        return True

    async def forget(self) -> None:
        """What is in memory may not be what happened: the next `open` reads it again, and mends it as after a crash."""
        await self.wait_written()
        self._journal = None

    async def take_up_again(self) -> None:
        """History as it was when the question was asked: the calls of the last answer are still open."""
        self._interrupted = None
        records = await self._records()
        last = max(index for index, record in enumerate(records) if isinstance(record, MessageRecord))
        message = records[last]
        if not isinstance(message, MessageRecord):
            raise RuntimeError("the last message is a message")
        self.history = [*get_messages_for_llm(records[:last]), message_from_json(message.message)]

    def runs_elsewhere(self) -> None:
        """Another process has taken the interrupted turn up again."""
        if self._interrupted is not None:
            (self.elsewhere, _), self._interrupted = self._interrupted, None

    async def give_up(self) -> None:
        """The interrupted turn will not go on: it is ended. Whoever says so holds the session."""
        if self._interrupted is not None:
            (_, closing), self._interrupted = self._interrupted, None
            self._take_in([*await self._records(), *await _written(self._speaking(), closing)])

    async def unrecorded_chunks(self) -> Sequence[Record]:
        """Pieces that were told and whose message is not recorded."""
        return [entry.record for entry in await self._ledger.unfinished(self._id)]

    def _take_in(self, records: Sequence[Record]) -> None:
        self.history = list(get_messages_for_llm(records))
        self.registry = ToolCallRegistry(self._call_changed, self._clock)
        self.usage, self.turns = Usage(), 0
        self._fill = compaction.Fill()
        for record in records:
            self._fill.note(record)
            match record:
                case ToolCallRecord(call=call):
                    self.registry.restore(call)
                case TurnEndRecord(usage=usage):
                    self.add_turn(usage)
                case UsageRecord(turn_id="", usage=usage):
                    self.usage += usage
                case _:
                    pass

    # -- written on -----------------------------------------------------------------------------------------------

    def emit(self, record: Record) -> None:
        if isinstance(record, (MessageRecord, UsageRecord)):
            self._fill.note(record)
        self._speaking().emit(record)

    def _speaking(self) -> Journal:
        if self._journal is None:
            raise RuntimeError("a session is opened before it speaks")
        return self._journal

    async def wait_written(self) -> None:
        if self._journal is not None:
            await self._journal.wait_written()

    async def wait_durable(self) -> None:
        if self._journal is not None:
            await self._journal.wait_durable()

    def paused(self) -> AbstractAsyncContextManager[object]:
        """Meanwhile nothing is numbered or shown: what the ledger has is what was shown, up to `last_seq`."""
        return self._journal.paused if self._journal is not None else nullcontext()

    async def backpressure(self) -> None:
        if self._journal is not None:
            await self._journal.backpressure()

    def add_turn(self, usage: Usage) -> None:
        """A turn has ended, and used so much."""
        self.usage += usage
        self.turns += 1

    def audit(self, turn_id: str, call_id: str, tool: str, approval: CallApproval) -> None:
        """A decision about a call, sealed to those before it."""
        record = ApprovalRecord(
            turn_id=turn_id,
            call_id=call_id,
            tool=tool,
            digest=approval.digest or "",
            decision=approval.decision,
            by=approval.by,
            reason=approval.reason,
            timestamp=self._clock(),
            previous=self._audit_hash,
            hash="",
            approval_id=approval.approval_id,
            option_id=approval.option_id,
            rule=approval.rule,
            feedback=approval.feedback,
        )
        record = seal(record, self._audit_hash)
        self._audit_hash = record.hash
        self.emit(record)

    @property
    def context(self) -> compaction.ContextFill:
        """how full the model's context was after the last answer"""
        return self._fill.context

    def nearly_full(self, window: int | None) -> bool:
        """Whether it fills the model's context window, but for little."""
        return self._fill.nearly_full(window)

    async def compact(self, turn_id: str, summarise: Callable[[Sequence[CanonicalMessage]], Awaitable[str]]) -> bool:
        """Summarise everything before the newest prompt that leaves enough behind. Returns False if there is nothing to
        summarise."""
        await self.wait_written()
        keep_from = self._fill.keep_from()
        if keep_from is None:
            return False
        records = await self._records()
        place = next(
            index
            for index, record in enumerate(records)
            if isinstance(record, MessageRecord) and record.message_id == keep_from
        )
        old = get_messages_for_llm(records[:place])
        before = compaction.tokens(get_messages_for_llm(records))
        summary = await summarise(old)
        saved = before - compaction.tokens(old) + len(summary) // compaction.CHARS_PER_TOKEN
        record = CompactionRecord(
            turn_id=turn_id,
            before=before,
            after=saved,
            summary=summary,
            timestamp=self._clock(),
            keep_from=keep_from,
        )
        self.emit(record)
        self.history[:] = get_messages_for_llm([*records, record])
        self._fill.note(record)
        await self.wait_durable()
        return True

    async def _records(self) -> list[Record]:
        return [entry.record for entry in await self._ledger.history(self._id)]


async def _written(journal: Journal, closing: Sequence[Record]) -> Sequence[Record]:
    """How an interrupted turn ended, written down."""
    for record in closing:
        journal.emit(record)
    try:
        await journal.wait_durable()
    except asyncio.CancelledError:
        await journal.wait_durable()  # it is written now in any case: who comes next must find it
        raise
    return closing
