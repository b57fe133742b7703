"""One live session: its history, its calls, its journal, its turn and its line of prompts.

Hides: recovery after a crash, whose turn it is, what waits. Promises: one turn at a time; nothing typed is lost;
every prompt is answered exactly once; what another process wrote meanwhile is seen before the next turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pilotfish.core.approvals import seal
from pilotfish.core.fold import get_messages_for_llm
from pilotfish.core.messages import CallApproval, CallStatus, CanonicalMessage, CanonicalToolCall, message_from_json
from pilotfish.core.policy import CallFacts, Mode, Rule, Verdict, judge
from pilotfish.core.records import (
    ApprovalRecord,
    CompactionRecord,
    MessageRecord,
    NoticeRecord,
    Record,
    SessionRecord,
    SteerRecord,
    ToolCallRecord,
    TurnEndRecord,
    Usage,
    UsageRecord,
)
from pilotfish.core.registry import ToolCallRegistry
from pilotfish.engine import compaction
from pilotfish.engine.journal import Journal
from pilotfish.engine.orchestrator import Outcome, RequestOrchestrator
from pilotfish.engine.ports import Answer, Question
from pilotfish.engine.prompt import PreparedPrompt, Rules, prepare
from pilotfish.engine.recovery import close_open_turn, question_left_open
from pilotfish.errors import PilotfishError, SessionBusy, StorageError, ToolError
from pilotfish.store.catalog import SessionRow
from pilotfish.tools.tool import Preview
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai import CancellationToken
    from pydantic_ai.toolsets import AbstractToolset

    from pilotfish.engine.live import Live

log = logging.getLogger(__name__)

ASK_AGAIN_SECONDS = 5.0  # after which a transcript is shown, whatever keeps the questions
WITHDRAWN = Outcome(turn_id="", stop_reason="cancelled", usage=Usage())


@dataclass(eq=False, slots=True)
class Waiting:
    """A prompt, and the answer it will get."""

    prompt_id: str
    blocks: tuple[Mapping[str, Any], ...]
    kind: Literal["queue", "steer"]
    answer: asyncio.Future[Outcome]
    take_back: Callable[[], None] | None = None
    """for words given to a running turn: so that it does not read them any more"""
    resumes: str | None = None
    """not a prompt: the turn that a crash interrupted while its question waited"""


@dataclass(frozen=True, slots=True)
class _Spoken:
    """What compaction needs to know of a recorded message."""

    message_id: str
    can_begin: bool
    """the user's own words: history may begin here"""


class LiveSession:
    def __init__(self, live: Live, row: SessionRow) -> None:
        self.live = live
        self.row = row
        self.history: list[CanonicalMessage] = []
        self.registry = ToolCallRegistry(self._call_changed, live.clock)
        self.workspace: Workspace = live.make_workspace(row.workspace)
        self.rules: list[Rule] = []
        self.turn: RequestOrchestrator | None = None
        self.line: list[Waiting] = []
        self.usage = Usage()
        self.turns = 0
        self.clock = live.clock
        self.new_id = live.new_id
        self._agents_rules = Rules(self.workspace)
        self._journal: Journal | None = None
        self._spoken: list[_Spoken] = []
        self._fill: UsageRecord | None = None
        """how full the context was after the last answer"""
        self._audit_hash = ""
        self._driver: asyncio.Task[None] | None = None
        self._current: Waiting | None = None
        self._read: list[Waiting] = []
        self._stopping = False
        self._paused = False
        self._opening = asyncio.Lock()
        self._told_unsaved = False
        self._interrupted: tuple[str, Sequence[Record]] | None = None
        self._to_ask_again: set[str] = set()
        self._asked_again = asyncio.Event()
        self._asked_again.set()
        self._asking_for_trust = asyncio.Lock()
        self._trust_asked_in = ""
        self._trust_question: asyncio.Future[None] | None = None
        self.elsewhere: str | None = None
        """the turn that another process is running"""

    # -- what a face asks -----------------------------------------------------------------------------------------

    @property
    def session_id(self) -> str:
        return self.row.id

    @property
    def mode(self) -> str:
        return self.row.mode

    @property
    def trusted(self) -> bool:
        return self.live.trusted(self.row.workspace)

    @property
    def busy(self) -> bool:
        return self._current is not None or (bool(self.line) and not self._paused)

    @property
    def is_open(self) -> bool:
        """It has been read. What another process has written since is seen when its next turn begins."""
        return self._journal is not None and self.elsewhere is None

    @property
    def running_turn(self) -> str | None:
        """the turn that runs, or that waits to be taken up again"""
        if self.turn is not None:
            return self.turn.turn_id
        return self._current.resumes if self._current else self.elsewhere

    @property
    def asks_again(self) -> bool:
        """A question that a crash interrupted waits for its answer, asked again; a new prompt lets it go."""
        return self._interrupted is not None or (self._current is not None and self._current.resumes is not None)

    @property
    def last_seq(self) -> int:
        return self._journal.last_seq if self._journal else 0

    async def open(self, *, forked: bool = False) -> None:
        """Read the session, when it is new to us or another process has written to it; mend what a crash left, or a
        fork in the middle of a turn."""
        async with self._opening:
            if self.turn is not None:
                return
            heads = await self.live.ledger.heads(self.row.id)
            # Behind our own journal the ledger may well be: records are on their way. Only another process gets ahead.
            if self._journal is not None and heads.n <= self._journal.n and self.elsewhere is None:
                return
            entries = await self.live.ledger.history(self.row.id)
            self._journal = Journal(
                self.row.id, self.live.ledger, self.live.face, n=heads.n, seq=heads.seq, on_unsaved=self._unsaved
            )
            self._audit_hash = heads.audit_hash
            records = [entry.record for entry in entries]
            self._interrupted = self.elsewhere = None
            left_over = await self.left_over()
            if closing := close_open_turn(records, left_over, now=self.clock(), forked=forked):
                if await self._runs_elsewhere():
                    self.elsewhere = closing[-1].turn_id
                elif (turn_id := question_left_open(records, left_over)) and not forked:
                    self._interrupted = (turn_id, closing)
                else:
                    records += await self._mend(closing)
            self._take_in(records)

    async def resume(self) -> None:
        """Go on with the turn that was interrupted while questions waited; returns when they are asked again."""
        if self._interrupted is not None and not self.busy:
            turn_id, _ = self._interrupted
            answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(_seen)
            answer.add_done_callback(lambda _: self._asked_again.set())
            waiting = (call for call in self.registry.open_calls() if call.status is CallStatus.AWAITING_APPROVAL)
            self._to_ask_again = {call.id for call in waiting}
            self._asked_again.clear()
            self.submit(Waiting(turn_id, (), "queue", answer, resumes=turn_id))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._asked_again.wait(), ASK_AGAIN_SECONDS)

    def _is_asked_again(self, call_id: str) -> None:
        self._to_ask_again.discard(call_id)
        if not self._to_ask_again:
            self._asked_again.set()

    async def let_go(self) -> None:
        """A new prompt came: the question that was asked again is over."""
        if self._current is not None and self._current.resumes is not None:
            await self.stop()
            self._paused = False
        if self._interrupted is not None:
            (_, closing), self._interrupted = self._interrupted, None
            self._take_in([*await self._records(), *await self._mend(closing)])

    def submit(self, waiting: Waiting) -> None:
        """Put a prompt in the line; it runs when its turn comes."""
        self.line.append(waiting)
        self._go_on()

    def _go_on(self) -> None:
        self._paused = False
        if self._driver is None:
            self._driver = asyncio.get_running_loop().create_task(self._drive(), name=f"session {self.row.id}")

    def slip_in(self, waiting: Waiting) -> None:
        """Put words for the running turn in the line, behind those that wait for it already."""
        steers = sum(1 for other in self.line if other.kind == "steer")
        self.line.insert(steers, waiting)

    async def steer(self, waiting: Waiting) -> None:
        """Give words that wait to the running turn. If it ends before they are read, they are the next prompt."""
        prepared = await prepare(waiting.blocks, self.workspace)
        if waiting not in self.line:
            return  # withdrawn, or its own turn has begun
        if self.turn is None:
            self._go_on()
        else:
            turn = self.turn
            waiting.take_back = turn.steer(
                prepared.content, lambda: self._was_read(waiting), lambda: self._tell_steered(turn, waiting)
            )

    def withdraw(self, waiting: Waiting) -> bool:
        """Take a prompt out of the line; it is answered with `cancelled`. False: it is not waiting any more."""
        if waiting not in self.line:
            return False
        self.line.remove(waiting)
        if waiting.take_back is not None:
            waiting.take_back()
        _answer(waiting, WITHDRAWN)
        return True

    async def stop(self) -> Outcome | None:
        """Stop the running turn and wait for its end. What waits in the line stays there, and waits for the user."""
        # It is about to begin: the driver takes it in a step or two of its own, and there is nothing else to wait for.
        while self._current is None and self.line and self._driver is not None and not self._paused:  # noqa: ASYNC110
            await asyncio.sleep(0)
        current = self._current
        if current is None:
            return None
        self._stopping = True
        self._paused = bool(self.line)
        if self.turn is not None:
            self.turn.cancel()
        self.live.mcp.hurry()
        if self._trust_question is not None:
            self._trust_question.cancel()
        return await asyncio.shield(current.answer)

    async def aclose(self) -> None:
        for waiting in tuple(self.line):
            self.withdraw(waiting)
        if self._current is not None:
            await self.stop()
        if self._driver is not None:
            await asyncio.wait((self._driver,))
        await self.settled()
        await self.workspace.aclose()

    # -- one turn after the other ---------------------------------------------------------------------------------

    async def _drive(self) -> None:
        try:
            while self.line and not self._paused:
                self._current = waiting = self.line.pop(0)
                self._stopping = False
                self._read.clear()
                try:
                    outcome = await self._run(waiting)
                except MemoryError:
                    # The ledger is whole, what is in memory may not be: the next server ends the turn from the ledger.
                    log.critical("out of memory: the server ends")
                    os._exit(1)
                except Exception as error:
                    if not isinstance(error, PilotfishError):
                        log.exception("a turn could not be run")
                    if not waiting.answer.done():
                        waiting.answer.set_exception(error)
                else:
                    self._current = None
                    for answered in (waiting, *self._read):
                        _answer(answered, outcome)
                    await self._refresh()
                finally:
                    self._current = None
        finally:
            self._driver = None
            self.live.tidy_up()

    async def _run(self, waiting: Waiting) -> Outcome:
        live = self.live
        hold = await live.ledger.hold(self.row.id)
        try:
            await self.open()
            if waiting.resumes is None and self._interrupted is not None:
                await self.let_go()
            await self._follow_roots()
            await live.warm()
            await self.one_by_one()
            if waiting.resumes is None:
                prepared = await prepare(waiting.blocks, self.workspace)
            else:
                prepared = await self._take_up_again()
            for index, (data, attachment) in enumerate(prepared.attachments):
                prepared.attachments[index] = (data, replace(attachment, blob=await self.keep(data)))
            self.turn = turn = RequestOrchestrator(
                ports=self,
                turn_id=waiting.resumes or live.new_id("turn"),
                resumed=waiting.resumes is not None,
                settings=live.settings,
                workspace=self.workspace,
                model=lambda: live.model_for(self.row.model),
                blocks=waiting.blocks,
                prompt_id=waiting.prompt_id,
                prepared=prepared,
            )
            if self._stopping:
                turn.cancel()
            try:
                outcome = await turn.run()
            except Exception:
                # Its end is not in the ledger: the session is read again and mended, as after a crash.
                await self.settled()
                self._journal = None
                raise
            finally:
                self.turn = None
            self.turns += 1
            self.usage += outcome.usage
            return outcome
        finally:
            hold.release()

    async def _refresh(self) -> None:
        """Read the row again after a turn, unless somebody does so meanwhile. The answer does not wait for it, and
        whoever asks for the session after the answer waits behind it."""
        row = self.row
        try:
            fresh = await self.live.catalog.get(row.id)
        except Exception:  # the turn has ended and was answered: this is nobody's failure any more
            log.exception("a session was not read again")
            return
        if self.row is row:
            self.row = fresh

    async def _take_up_again(self) -> PreparedPrompt:
        """History as it was when the question was asked: the calls of the last answer are still open."""
        self._interrupted = None
        records = await self._records()
        last = max(index for index, record in enumerate(records) if isinstance(record, MessageRecord))
        message = records[last]
        if not isinstance(message, MessageRecord):
            raise RuntimeError("the last message is a message")
        self.history = [*get_messages_for_llm(records[:last]), message_from_json(message.message)]
        return PreparedPrompt()

    async def _records(self) -> list[Record]:
        return [entry.record for entry in await self.live.ledger.history(self.row.id)]

    async def _follow_roots(self) -> None:
        if self.workspace.roots != tuple(self.live.roots_for(self.row.workspace)):
            await self.workspace.aclose()
            self.workspace = self.live.make_workspace(self.row.workspace)
            self._agents_rules = Rules(self.workspace)

    def _was_read(self, waiting: Waiting) -> None:
        if waiting in self.line:
            self.line.remove(waiting)
            self._read.append(waiting)

    def _tell_steered(self, turn: RequestOrchestrator, waiting: Waiting) -> None:
        self.emit(
            SteerRecord(
                turn_id=turn.turn_id,
                prompt=waiting.blocks,
                iteration=turn.iteration,
                timestamp=self.clock(),
                prompt_id=waiting.prompt_id,
            )
        )

    # -- what a turn may touch: orchestrator.Ports ----------------------------------------------------------------

    def emit(self, record: Record) -> None:
        if isinstance(record, MessageRecord):
            self._speak(record)
        elif isinstance(record, UsageRecord):
            self._fill = record
        self._open_journal().emit(record)

    async def settled(self) -> None:
        if self._journal is not None:
            await self._journal.settled()

    async def shown(self) -> None:
        if self._journal is not None:
            await self._journal.shown()

    async def room(self) -> None:
        await self.live.face.room()
        await self.one_by_one()

    async def one_by_one(self) -> None:
        await self.live.one_by_one()

    async def taken_up(self, turn_id: str) -> None:
        """A prompt is on its way to the disk, where it is before a model is asked. The first one gives the title."""
        if not self.row.title:
            await self.settled()
        for notice in self.live.store_notices():
            self._say(turn_id, "warning", notice.message, notice.remedy)
        if not self.row.title:
            self.row = await self.live.catalog.get(self.row.id)
            if self.row.title:
                row = self.row
                self.emit(SessionRecord(turn_id=turn_id, title=row.title, model=row.model, mode=row.mode))
        if self.undecided and self._agents_rules.there(self._open_paths()):
            await self._ask_for_trust()
        if self.trusted:
            self.live.use_mcp()
            await self.live.mcp.settled()

    async def keep(self, data: bytes) -> str:
        return await self.live.ledger.put_blob(data)

    async def read_output(self, call_id: str, first: int, count: int) -> str:
        call = self.registry.find(call_id)
        if call is None or call.result is None:
            raise ToolError(f"no call {call_id!r} has an output; use the id of an earlier call")
        text = call.result.text
        if call.result.blob:
            text = (await self.live.ledger.get_blob(call.result.blob)).decode("utf-8", "replace")
        lines = text.split("\n")
        page = lines[max(0, first - 1) : max(0, first - 1) + count]
        return "\n".join(page) + f"\n[lines {first}-{first + len(page) - 1} of {len(lines)}]"

    def judge(self, facts: CallFacts) -> Verdict:
        rules = (*self.rules, *self.live.standing_rules(self.row.workspace))
        return judge(facts, Mode(self.row.mode), rules, self.trusted)

    @property
    def undecided(self) -> bool:
        folder = self.row.workspace
        if self.live.ask_for_trust is None or folder is None or self.trusted:
            return False
        return self.live.book.trust_of(Path(folder)) is None

    async def gains_trust(self, facts: CallFacts) -> bool:
        rules = (*self.rules, *self.live.standing_rules(self.row.workspace))
        if not self.undecided or judge(facts, Mode(self.row.mode), rules, trusted=True).decision == "deny":
            return False
        await self._ask_for_trust()
        return self.trusted

    async def _ask_for_trust(self) -> None:
        """Once in a turn, whatever runs side by side in it: closed without an answer, the next turn asks again."""
        turn_id = self.turn.turn_id if self.turn else ""
        async with self._asking_for_trust:
            if self.undecided and self.live.ask_for_trust and self.row.workspace and self._trust_asked_in != turn_id:
                self._trust_asked_in = turn_id
                self._trust_question = asyncio.ensure_future(self.live.ask_for_trust(Path(self.row.workspace)))
                try:
                    await asyncio.wait((self._trust_question,))
                finally:
                    self._trust_question.cancel()

    async def ask(
        self,
        turn_id: str,
        call: CanonicalToolCall,
        facts: CallFacts,
        verdict: Verdict,
        preview: Preview | None,
        mark: str,
        *,
        amendable: bool,
    ) -> tuple[Answer | None, Question]:
        self._is_asked_again(call.id)
        return await self.live.asked.ask(self, turn_id, call, facts, verdict, preview, mark, amendable=amendable)

    async def ask_user(self, turn_id: str, question: str, options: Sequence[str]) -> str | None:
        return await self.live.face.ask_user(self.row.id, turn_id, question, options)

    def audit(self, turn_id: str, call_id: str, tool: str, approval: CallApproval) -> None:
        record = ApprovalRecord(
            turn_id=turn_id,
            call_id=call_id,
            tool=tool,
            digest=approval.digest or "",
            decision=approval.decision,
            by=approval.by,
            reason=approval.reason,
            timestamp=self.clock(),
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

    def rules_text(self) -> str:
        return self._agents_rules.text(self._open_paths())

    def _open_paths(self) -> list[Path]:
        return [buffer.path for buffer in self.workspace.open_documents()]

    def toolsets(self) -> Sequence[AbstractToolset[Any]]:
        return self.live.mcp.toolsets if self.trusted else ()

    @property
    def nearly_full(self) -> bool:
        fill = self._fill
        window = fill and (self.live.settings.context_window or fill.context_window)
        return fill is not None and bool(window) and fill.context_used > compaction.FULL * window

    async def compact(self, turn_id: str, token: CancellationToken) -> bool:
        """Summarise everything before the newest prompt that leaves enough behind. False: nothing to summarise."""
        await self.settled()
        cut = compaction.split([spoken.can_begin for spoken in self._spoken])
        if not cut:
            return False
        keep_from = self._spoken[cut].message_id
        records = await self._records()
        place = next(
            index
            for index, record in enumerate(records)
            if isinstance(record, MessageRecord) and record.message_id == keep_from
        )
        old = get_messages_for_llm(records[:place])
        before = compaction.tokens(get_messages_for_llm(records))
        summary = await compaction.summarise(old, self.live.model_for(self.row.model), token)
        saved = before - compaction.tokens(old) + len(summary) // compaction.CHARS_PER_TOKEN
        record = CompactionRecord(
            turn_id=turn_id,
            before=before,
            after=saved,
            summary=summary,
            timestamp=self.clock(),
            keep_from=keep_from,
        )
        self.emit(record)
        await self.settled()
        self.history[:] = get_messages_for_llm([*records, record])
        self._spoken = self._spoken[cut:]
        self._fill = None
        return True

    # -- the ledger's side ----------------------------------------------------------------------------------------

    def _open_journal(self) -> Journal:
        if self._journal is None:
            raise RuntimeError("a session is opened before it speaks")
        return self._journal

    def _take_in(self, records: Sequence[Record]) -> None:
        self.history = list(get_messages_for_llm(records))
        self.registry = ToolCallRegistry(self._call_changed, self.clock)
        self._spoken = []
        self._fill = None
        self.usage, self.turns = Usage(), 0
        for record in records:
            match record:
                case MessageRecord():
                    self._speak(record)
                case UsageRecord():
                    self._fill = record
                case ToolCallRecord(call=call):
                    self.registry.restore(call)
                case TurnEndRecord(usage=usage):
                    self.usage += usage
                    self.turns += 1
                case CompactionRecord(keep_from=keep_from):
                    at = [spoken.message_id for spoken in self._spoken].index(keep_from)
                    self._spoken = self._spoken[at:]
                    self._fill = None
                case _:
                    pass

    def _speak(self, record: MessageRecord) -> None:
        own_words = record.role == "user" and not any(
            part.get("part_kind") in ("tool-return", "retry-prompt", "retry-feedback")
            for part in record.message.get("parts", ())
        )
        self._spoken.append(_Spoken(record.message_id, own_words))

    async def left_over(self) -> Sequence[Record]:
        return [entry.record for entry in await self.live.ledger.unfinished(self.row.id)]

    async def _mend(self, closing: Sequence[Record]) -> Sequence[Record]:
        """Write down how an interrupted turn ended."""
        hold = None if self.live.ledger.holds(self.row.id) else await self.live.ledger.hold(self.row.id)
        try:
            for record in closing:
                self._open_journal().emit(record)
            await self.settled()
        finally:
            if hold is not None:
                hold.release()
        return closing

    async def _runs_elsewhere(self) -> bool:
        """Whether another process holds the session: its open turn is running there, not interrupted."""
        if self.live.ledger.holds(self.row.id):
            return False
        try:
            (await self.live.ledger.hold(self.row.id)).release()
        except SessionBusy:
            return True
        return False

    def _call_changed(self, call: CanonicalToolCall) -> None:
        if call.status is not CallStatus.AWAITING_APPROVAL:
            self._is_asked_again(call.id)
        if self.turn is not None:
            self.turn.call_changed(call)

    def _unsaved(self, error: StorageError) -> None:
        if not self._told_unsaved and self.turn is not None:
            self._told_unsaved = True
            self._say(self.turn.turn_id, "error", str(error), error.remedy)

    def _say(self, turn_id: str, level: Literal["warning", "error"], message: str, remedy: str) -> None:
        self.emit(NoticeRecord(turn_id=turn_id, level=level, message=message, remedy=remedy, timestamp=self.clock()))


def _answer(waiting: Waiting, outcome: Outcome) -> None:
    if not waiting.answer.done():
        waiting.answer.set_result(outcome)


def _seen(answer: asyncio.Future[Outcome]) -> None:
    """Nobody waits for this answer; what went wrong is in the log and in the transcript."""
    if not answer.cancelled() and (error := answer.exception()):
        log.warning("an interrupted turn could not be resumed: %s", error)
