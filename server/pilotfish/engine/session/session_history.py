"""The conversation of a session: read from the ledger, repaired after a crash, and extended.

Hides: the journal, recovery after a crash, records of other processes, the hash chain of the audit trail, compaction.
Promises: a record is in the ledger before the client receives it; an interrupted turn is closed unless another process
runs it; history and calls always match the records.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace

from pilotfish.conversation.catch_up import CatchUp
from pilotfish.conversation.messages import (
    CallApproval,
    CallStatus,
    CanonicalMessage,
    CanonicalToolCall,
    message_from_json,
)
from pilotfish.conversation.model_history import get_messages_for_llm
from pilotfish.conversation.records import (
    ApprovalRecord,
    CompactionRecord,
    FileChangeRecord,
    MessageRecord,
    Record,
    ReviewRecord,
    SessionRecord,
    SteerRecord,
    ToolCallRecord,
    TurnEndRecord,
    TurnStartRecord,
    UndoRecord,
    Usage,
    UsageRecord,
)
from pilotfish.conversation.registry import ToolCallRegistry
from pilotfish.conversation.relocation import Relocation
from pilotfish.engine.frontend import Frontend, Outcome
from pilotfish.engine.session.journal import Journal
from pilotfish.engine.turn.context_window import ContextFill
from pilotfish.engine.turn.history import compaction
from pilotfish.engine.turn.recovery import close_open_turn, turn_awaiting_approval
from pilotfish.errors import SessionBusy, StorageError
from pilotfish.policy.audit_chain import seal
from pilotfish.store.ledger import Ledger
from pilotfish.store.tables.controls import StoredQuestion

FILE_RECORDS = (FileChangeRecord, UndoRecord, ReviewRecord)


class SessionHistory:
    """The conversation of one session. `call_changed` is called for every change of a call, `unsaved` when records
    cannot be written, `row_changed` before the client is shown that another process has changed the session's row.
    Records up to the number `imported` came from a file. With `copy` the turns run in the worktree of a background
    task: changes of files are recorded as those of the user's files, which nobody has changed yet."""

    def __init__(
        self,
        session_id: str,
        ledger: Ledger,
        frontend: Frontend,
        clock: Callable[[], float],
        *,
        call_changed: Callable[[CanonicalToolCall], None],
        unsaved: Callable[[StorageError], None],
        row_changed: Callable[[], Awaitable[None]],
        imported: int = 0,
        copy: Relocation | None = None,
    ) -> None:
        self.history: list[CanonicalMessage] = []
        self.registry = ToolCallRegistry(call_changed, clock)
        self.file_records: list[Record] = []
        """what changed files, in order: changes by calls, commands that ran where they could change files, undo and
        redo of turns, decisions of a review. Without those
        of an imported file: its author chose paths and contents, and undo would write them."""
        self.prompts: list[TurnStartRecord | SteerRecord] = []
        """the user's, without those of an imported file"""
        self._imported = imported
        self._copy = copy
        self._imported_count = 0
        self.usage = Usage()
        self.turns = 0
        self.elsewhere: str | None = None
        """the id of the turn that another process runs"""
        self._id = session_id
        self._ledger = ledger
        self._frontend = frontend
        self._clock = clock
        self._call_changed = call_changed
        self._unsaved = unsaved
        self._row_changed = row_changed
        self.questions: Sequence[StoredQuestion] = ()
        """those of the turn that runs, as of the last look"""
        self.decisions: dict[str, str] = {}
        """approvals that were answered in the turn of another process, with the option that was chosen"""
        self._behind = False
        """whether other processes have written what is not in the history yet"""
        self._position = CatchUp()
        self._journal: Journal | None = None
        self._audit_hash = ""
        self.context = ContextFill()
        """how full the model's context was after the last response, or is after a summary"""
        self._interrupted: tuple[str, Sequence[Record]] | None = None
        self.is_left_open = False
        """whether the running turn is left to the next process"""

    @property
    def is_open(self) -> bool:
        """Whether it has been read, and no other process runs a turn in it. What other processes have written later is
        read by the next `open`."""
        return self._journal is not None and self.elsewhere is None and not self._behind

    @property
    def is_followed(self) -> bool:
        """Whether it has been opened, so that the client is shown what other processes do in it."""
        return self._journal is not None

    @property
    def n(self) -> int:
        """The number of the last record that the client was shown."""
        return self._journal.n if self._journal else 0

    @property
    def interrupted(self) -> str | None:
        """The id of a turn that a crash interrupted while it only waited for an approval."""
        return self._interrupted[0] if self._interrupted else None

    @property
    def last_seq(self) -> int:
        return self._journal.last_seq if self._journal else 0

    # -- read and repair ------------------------------------------------------------------------------------------

    async def open(self, *, forked: bool = False) -> bool:
        """Read the conversation if it was not read yet or another process has written to it. Closes a turn that a crash
        or a fork left open. Returns whether the conversation has changed."""
        known = self._journal is not None
        if not known:
            await self._begin()
        elif not await self.catch_up() and not self._behind and self.elsewhere is None:
            return False
        n = self._open_journal().n
        # Until the read is complete, concurrent requests see the previous state.
        while not await self._read(forked=forked):
            await self.catch_up()
        return known or self._open_journal().n > n

    async def _begin(self) -> None:
        """Start the journal after what is stored now."""
        heads, unfinished = await self._ledger.read(
            lambda tables: (tables.heads(self._id), [entry.record for entry in tables.unfinished(self._id)])
        )
        self._position = CatchUp(unfinished)
        self._journal = Journal(
            self._id, self._ledger, self._frontend, n=heads.n, seq=heads.seq, on_unsaved=self._unsaved
        )

    async def catch_up(self) -> bool:
        """Show the client what other processes have written. Returns whether they have written anything."""
        journal = self._open_journal()
        async with journal.paused:
            stored, _, self.questions = await self._ledger.tail(self._id, journal.n)
            if not stored:
                return False
            self._behind = True
            self.runs_elsewhere()
            if any(isinstance(entry.record, SessionRecord | TurnEndRecord) for entry in stored):
                await self._row_changed()
            for entry in stored:
                match entry.record:
                    case TurnStartRecord(turn_id=turn_id):
                        self.elsewhere = turn_id
                        self.decisions.clear()
                    case ApprovalRecord(approval_id=str(approval_id), option_id=str(option_id)):
                        self.decisions[approval_id] = option_id
                    case TurnEndRecord():
                        self.elsewhere = None
                    case _:
                        pass
            journal.show(self._position.fill(journal.n, journal.last_seq, stored))
        return True

    async def _read(self, *, forked: bool) -> bool:
        """Read once. Returns False if another process wrote meanwhile."""
        records, chunks = await self._records(), await self.unrecorded_chunks()
        closing = close_open_turn(records, chunks, now=self._clock(), forked=forked)
        elsewhere = interrupted = lease = None
        journal = self._open_journal()
        try:
            if closing:
                lease = await self._ledger.lease(self._id)
            heads = await self._ledger.heads(self._id)
            if closing and heads.n > journal.n:
                return False  # the other process has ended the turn, or has continued it and died
            if closing and not forked and (turn_id := turn_awaiting_approval(records, chunks)):
                interrupted = (turn_id, closing)
            elif closing:
                records += await _write_closing(journal, closing)
        except SessionBusy:
            elsewhere, heads = closing[-1].turn_id, await self._ledger.heads(self._id)
        finally:
            if lease is not None:
                lease.release()
        self._audit_hash = heads.audit_hash
        self.elsewhere, self._interrupted = elsewhere, interrupted
        self._behind = False
        self._load(records)
        return True

    async def forget(self) -> None:
        """Drop the state in memory, which may be inconsistent. The next `open` repairs it as after a crash."""
        await self.wait_written()
        self._journal = None

    async def resume_history(self) -> None:
        """Restore the history with the calls of the last response open, to resume the interrupted turn."""
        self._interrupted = None
        records = await self._records()
        last = max(index for index, record in enumerate(records) if isinstance(record, MessageRecord))
        message = records[last]
        if not isinstance(message, MessageRecord):
            raise RuntimeError("the last message is a message")
        self.history = [*get_messages_for_llm(records[:last]), message_from_json(message.message)]

    def runs_elsewhere(self) -> None:
        """Another process has resumed the interrupted turn."""
        if self._interrupted is not None:
            (self.elsewhere, _), self._interrupted = self._interrupted, None

    async def give_up(self) -> None:
        """Close the interrupted turn instead of resuming it. The caller holds the lease."""
        if self._interrupted is not None:
            (_, closing), self._interrupted = self._interrupted, None
            self._load([*await self._records(), *await _write_closing(self._open_journal(), closing)])

    async def outcome_of(self, turn_id: str) -> Outcome | None:
        """How a turn has ended. None if the ledger does not say."""
        for record in reversed(await self._records()):
            if isinstance(record, TurnEndRecord) and record.turn_id == turn_id:
                return Outcome(
                    turn_id=turn_id,
                    stop_reason=record.stop_reason,
                    usage=record.usage,
                    error=record.error,
                    receipt=record.receipt,
                )
        return None

    async def unrecorded_chunks(self) -> Sequence[Record]:
        """Chunks that were emitted and whose message is not recorded."""
        return [entry.record for entry in await self._ledger.unfinished(self._id)]

    def _load(self, records: Sequence[Record]) -> None:
        self.history = list(get_messages_for_llm(records))
        self.registry = ToolCallRegistry(self._call_changed, self._clock)
        self.usage, self.turns = Usage(), 0
        self.context = ContextFill()
        own = records[self._imported_count :]
        self.file_records = self._of_this_place(own)
        self.prompts = [record for record in own if isinstance(record, TurnStartRecord | SteerRecord)]
        for record in records:
            self._note_usage(record)
            match record:
                case ToolCallRecord(call=call):
                    self.registry.restore(call)
                case TurnEndRecord(usage=usage):
                    self.add_turn(usage)
                case UsageRecord(turn_id="", usage=usage):
                    self.usage += usage
                case _:
                    pass

    # -- write ----------------------------------------------------------------------------------------------------

    def leave_open(self) -> None:
        """Record nothing more of the running turn, as if the process had ended now. Changes of files are recorded."""
        self.is_left_open = True

    def emit(self, record: Record) -> None:
        if _may_change_files(record):
            self.file_records.append(record)
        elif self.is_left_open:
            return
        if isinstance(record, TurnStartRecord | SteerRecord):
            self.prompts.append(record)
        self._note_usage(record)
        self._open_journal().emit(record if self._copy is None else _of_copy(self._copy.record(record)))

    def _of_this_place(self, records: Sequence[Record]) -> list[Record]:
        """Those that changed files of the place where this process works: the folder, or the worktree of a task."""
        turns = {record.turn_id for record in records if isinstance(record, TurnStartRecord) and record.background}
        here = [record for record in records if (record.turn_id in turns) == (self._copy is not None)]
        if self._copy is not None:
            there = self._copy.reverse
            here = [
                replace(there.record(record), background=False) if isinstance(record, FileChangeRecord) else record
                for record in here
            ]
        return list(filter(_may_change_files, here))

    def _open_journal(self) -> Journal:
        if self._journal is None:
            raise RuntimeError("the session must be opened before records are emitted")
        return self._journal

    async def wait_written(self) -> None:
        if self._journal is not None:
            await self._journal.wait_written()

    async def wait_durable(self) -> None:
        if self._journal is not None:
            await self._journal.wait_durable()

    def paused(self) -> AbstractAsyncContextManager[object]:
        """Pause the journal. The ledger then has exactly the records shown to the client, up to `last_seq`."""
        return self._journal.paused if self._journal is not None else nullcontext()

    async def backpressure(self) -> None:
        if self._journal is not None:
            await self._journal.backpressure()

    def add_turn(self, usage: Usage) -> None:
        """Count a turn that has ended."""
        self.usage += usage
        self.turns += 1

    def audit(self, turn_id: str, call_id: str, tool: str, approval: CallApproval) -> None:
        """Record a decision about a call in the hash chain of the audit trail."""
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

    def _note_usage(self, record: Record) -> None:
        match record:
            case UsageRecord(origin="turn"):
                self.context = ContextFill(record.context_used, record.context_window)
            case CompactionRecord():
                self.context = ContextFill(record.after, self.context.window)
            case _:
                pass

    async def compact(
        self,
        turn_id: str,
        window: int | None,
        fixed: int,
        summarise: Callable[[Sequence[CanonicalMessage]], Awaitable[str]],
    ) -> bool:
        """Replace the older messages by a summary. Returns False if there is nothing to summarise.

        `fixed` is an estimate of the tokens of instructions and tools, which no summary replaces.
        """
        await self.wait_written()
        records = await self._records()
        cut = compaction.cut(records, window)
        if cut is None:
            return False
        estimate = compaction.tokens(get_messages_for_llm(records))
        before = self.context.used or fixed + estimate
        summary = "\n\n".join(filter(None, (await summarise(cut.old), cut.facts)))
        record = CompactionRecord(
            turn_id=turn_id, before=before, after=0, summary=summary, timestamp=self._clock(), keep_from=cut.keep_from
        )
        now = get_messages_for_llm([*records, record])
        record = replace(record, after=compaction.tokens_after(before, fixed, estimate, compaction.tokens(now)))
        self.emit(record)
        self.history[:] = now
        await self.wait_durable()
        return True

    async def _records(self) -> list[Record]:
        entries = await self._ledger.history(self._id)
        self._imported_count = sum(entry.n <= self._imported for entry in entries) if self._imported else 0
        return [entry.record for entry in entries]


async def _write_closing(journal: Journal, closing: Sequence[Record]) -> Sequence[Record]:
    """Write the records that close an interrupted turn, and return them."""
    for record in closing:
        journal.emit(record)
    try:
        await journal.wait_durable()
    except asyncio.CancelledError:
        await journal.wait_durable()  # finish the write before the lease is released
        raise
    return closing


def _of_copy(record: Record) -> Record:
    return replace(record, background=True) if isinstance(record, FileChangeRecord | TurnStartRecord) else record


def _may_change_files(record: Record) -> bool:
    if isinstance(record, ToolCallRecord):
        return record.call.unrecorded and record.call.status is CallStatus.IN_PROGRESS
    return isinstance(record, FILE_RECORDS)
