"""One live session: its conversation, its prompt queue and its running turn.

Hides: how a prompt becomes a turn, and how a turn is resumed after a crash. Promises: no prompt is lost; records of
another process are read before the next turn; an approval that was pending at a crash is requested again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pilotfish.conversation.messages import CallStatus, CanonicalToolCall, Category, as_news
from pilotfish.conversation.records import NoticeRecord, Record, SessionRecord, SteerRecord
from pilotfish.engine.context import EngineContext
from pilotfish.engine.extensions.hooks import Hooks
from pilotfish.engine.frontend import Outcome
from pilotfish.engine.mcp.config import ServerDefinition
from pilotfish.engine.mcp.servers import Servers
from pilotfish.engine.prompting.named_files import NamedFiles, named_files
from pilotfish.engine.prompting.prompt import MentionedText, PreparedPrompt, plain_text, prepare
from pilotfish.engine.session.briefing import Briefing
from pilotfish.engine.session.mentioned_text import read_mention
from pilotfish.engine.session.prompt_queue import WITHDRAWN, PromptQueue, WaitingPrompt, WhenBusy
from pilotfish.engine.session.review import Review
from pilotfish.engine.session.session_history import SessionHistory
from pilotfish.engine.session.shared import SharedSession
from pilotfish.engine.session.turn_control import TurnControl
from pilotfish.engine.session.turn_services import TurnServices
from pilotfish.errors import PilotfishError, SessionBusy, StorageError, TaskInBackground
from pilotfish.policy.rules import Rule
from pilotfish.store.catalog import SessionRow
from pilotfish.store.tables.jobs import UNFINISHED
from pilotfish.tools.families import family_of
from pilotfish.workspace.sandbox.sandbox import chosen_sandbox
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from pilotfish.engine.mcp.connection import Connection
    from pilotfish.engine.turn.cancellation import Cancellation
    from pilotfish.engine.turn.orchestrator import RequestOrchestrator

log = logging.getLogger(__name__)

ASK_AGAIN_SECONDS = 5.0  # seconds that loading a transcript waits for pending approvals
PROBE_SECONDS = 1.0  # how often it is checked whether the process that runs the turn has ended
LOOK_SECONDS = 0.25  # another process may hold the lease this long to check the last turn


class LiveSession:
    def __init__(self, engine: EngineContext, row: SessionRow) -> None:
        self.engine = engine
        self.row = row
        self.workspace: Workspace = engine.make_workspace(row.workspace, row.id)
        self.rules: list[Rule] = []
        self.mcp = Servers(lambda: self.workspace.roots, fault_of=engine.server_fault)
        self.mcp_servers: tuple[ServerDefinition, ...] = ()
        """the MCP servers that the client has given to this session"""
        self.turn: RequestOrchestrator | None = None
        self.line = PromptQueue(f"session {row.id}", self._run, self._refresh)
        self.conversation = SessionHistory(
            row.id,
            engine.ledger,
            engine.frontend,
            engine.clock,
            call_changed=self._call_changed,
            unsaved=self._unsaved,
            row_changed=self._read_row,
            imported=row.imported,
            copy=None if engine.copy is None else engine.copy.relocation,
        )
        self.shared = SharedSession(self)
        self.control = TurnControl(self)
        self.briefing = Briefing(self)
        self.hooks = Hooks(lambda: chosen_sandbox(engine.settings))
        self.ports = TurnServices(self)
        self.review = Review(self)
        self.emit = self.conversation.emit
        self.wait_written = self.conversation.wait_written
        self._opening = asyncio.Lock()
        self._edit_may_have_ended = asyncio.Event()
        self._unsaved_reported = False
        self._reported_setup = (row.model, row.mode)
        self._held = asyncio.Lock()
        self.holds_lease = False
        """whether this process holds the lease for a turn, an undo or a summary"""
        self._probed = 0.0
        """when it was last checked whether the process that runs the turn still has the lease"""
        self._compacting: Cancellation | None = None
        self._titling: asyncio.Task[None] | None = None
        self._calls_to_ask: set[str] = set()
        self._approvals_asked = asyncio.Event()
        self._approvals_asked.set()

    @property
    def turn_id(self) -> str | None:
        """The id of the turn that runs in this process."""
        return self.turn.turn_id if self.turn is not None else None

    @property
    def running_turn(self) -> str | None:
        """The id of the turn that runs, here or in another process, or that waits to be resumed."""
        if self.turn is not None:
            return self.turn.turn_id
        return self.line.current.resumes if self.line.current else self.conversation.elsewhere

    @property
    def _resuming(self) -> WaitingPrompt | None:
        """The queued or running resumption of an interrupted turn. A new prompt cancels it."""
        queued = (self.line.current, *self.line.waiting)
        return next((waiting for waiting in queued if waiting is not None and waiting.resumes is not None), None)

    @property
    def servers(self) -> Mapping[str, Connection]:
        """The MCP servers that are connected: the user's, and those of this session."""
        return {**self.engine.mcp.connections, **self.mcp.connections}

    async def _read_mention(self, mention: str) -> MentionedText | None:
        return await read_mention(self, mention)

    def model(self) -> Model:
        return self.engine.model_for(self.row.model)

    async def open(self, *, forked: bool = False) -> None:
        """Read the session if it was not read yet or another process has written to it. Closes a turn that a crash or
        a fork left open."""
        async with self._opening:
            if self.turn is None and await self.conversation.open(forked=forked):
                self.row = await self.engine.catalog.get(self.row.id)

    async def catch_up(self) -> bool:
        """Show what other processes have written. Returns whether the process that ran the turn has ended, so that the
        turn was closed or can be resumed here."""
        async with self._opening:
            if not self.conversation.is_followed or self.holds_lease:
                return False
            await self.conversation.catch_up()
        if self.conversation.elsewhere is None:
            await self.open()
            return False
        now = asyncio.get_running_loop().time()
        if now < self._probed + PROBE_SECONDS or not self.engine.may_continue(self.row):
            return False
        self._probed = now
        if await self.engine.ledger.in_use(self.row.id):
            return False
        await self.open()
        return self.conversation.interrupted is not None

    async def _read_row(self) -> None:
        self.row = await self.engine.catalog.get(self.row.id)
        self._reported_setup = (self.row.model, self.row.mode)

    @contextlib.asynccontextmanager
    async def leased(self) -> AsyncGenerator[None]:
        """Hold the lease of the session, so that no other process writes to it, and read what others wrote. Raises
        SessionBusy if another process runs a turn in it."""
        lease = await self.engine.ledger.lease(self.row.id, patience=LOOK_SECONDS)
        try:
            await self.open()
            if (self.row.model, self.row.mode) != self._reported_setup:  # changed by another process
                self._emit_setup()
            yield
        finally:
            try:
                await self.wait_written()
            finally:
                lease.release()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """`leased`, and exclusive in this process: for a turn, an undo or a summary."""
        async with self._held, self.leased():
            self.holds_lease = True
            self.shared.changed()  # a request may have arrived before
            try:
                yield
            finally:
                self.holds_lease = False

    @contextlib.asynccontextmanager
    async def between_turns(self) -> AsyncGenerator[None]:
        """`held`, without waiting: raises SessionBusy if a turn or a summary runs."""
        if self.line.busy:
            raise SessionBusy("A turn is running in this session. Stop it first.")
        if self._compacting is not None:
            raise SessionBusy("This session is being summarised. Stop that first.")
        async with self.held():
            yield

    async def emit_row(self) -> None:
        """Record a new title, model or mode. While another process runs a turn nothing can be recorded, and only the
        response to the request has the new values."""
        self._reported_setup = (self.row.model, self.row.mode)
        with contextlib.suppress(SessionBusy):
            async with self.leased():
                self._emit_setup()

    def _emit_setup(self) -> None:
        row = self.row
        self._reported_setup = (row.model, row.mode)
        self.emit(SessionRecord(turn_id="", title=row.title, model=row.model, mode=row.mode))

    async def prompt(
        self,
        blocks: Sequence[Mapping[str, Any]],
        prompt_id: str | None,
        when_busy: WhenBusy,
        queued: Callable[[], None],
        context: Mapping[str, Any],
    ) -> Outcome:
        """Run a prompt; returns when its turn has ended. Cancelling this cancels the turn, and still returns. `queued`
        is called when the prompt is in the queue. `context` is what the user looks at (`ContextBlock` of the wire)."""
        waiting = WaitingPrompt(
            prompt_id=prompt_id or self.engine.new_id("prompt"),
            blocks=tuple(blocks),
            kind="queue",
            when_busy=when_busy,
            answer=asyncio.get_running_loop().create_future(),
            context=context,
        )
        if self.conversation.elsewhere is not None:
            outcome = await self.control.prompt_elsewhere(waiting, queued)
            if outcome is not None:
                return outcome
        if (resuming := self._resuming) is not None and not self.line.withdraw(resuming):
            await self.stop()
            self.line.unpause()
        if self.line.busy and when_busy == "reject":
            raise SessionBusy("A turn is running in this session. Stop it, or queue the prompt.")
        waiting.kind = "steer" if when_busy == "steer" and self.line.busy else "queue"
        try:
            if waiting.kind == "steer":
                self.line.submit_steer(waiting)
            else:
                self.line.submit(waiting)
            queued()
            if waiting.kind == "steer":
                await self._steer(waiting)
            return await asyncio.shield(waiting.answer)
        except asyncio.CancelledError:
            if self.conversation.is_left_open:
                raise  # the end of the turn is not recorded, so there is no answer
            # If the answer came at the same time, the running turn belongs to another prompt.
            if not waiting.answer.done() and not self.line.withdraw(waiting):
                await self.stop()
            return await waiting.answer
        except Exception:
            self.line.withdraw(waiting)  # a prompt that was answered with an error must not run later
            raise

    async def _steer(self, waiting: WaitingPrompt) -> None:
        """Give a steer to the running turn. If the turn ends before it sends the steer, it is the next prompt."""
        prepared = await prepare(waiting.blocks, self.workspace, self._read_mention, trusted=self.ports.trusted)
        if waiting not in self.line.waiting:
            return  # withdrawn, or it has become a turn of its own
        if self.turn is None:
            self.line.go_on()
        else:
            turn = self.turn
            waiting.take_back = turn.steer(prepared.content, lambda: self._steered(turn, waiting, prepared))

    async def _prepared(self, blocks: Sequence[Mapping[str, Any]]) -> PreparedPrompt:
        """The prompt for the model. For a model that does not look for files itself, with those that it names."""
        family, trusted = family_of(self.row.model), self.ports.trusted
        files = await named_files(plain_text(blocks), self.workspace) if family.works_in_text else NamedFiles()
        prepared = await prepare(blocks, self.workspace, self._read_mention, trusted=trusted, also=files.named)
        if files.listed and not self.conversation.history:
            prepared.content.insert(0, as_news(f"Files of the workspace: {', '.join(files.listed)}"))
        return prepared

    async def stop(self) -> Outcome | None:
        """Stop the running turn and wait for its end. Queued prompts stay in the queue until the user continues."""
        if self._compacting is not None:
            self._compacting.ask()
        return await self.line.stop(self._cancel_work)

    async def compact(self) -> bool | None:
        """Summarise the older part of the conversation. Returns False if there is nothing to summarise, None if it was
        stopped. Prompts that arrive meanwhile wait."""
        async with self.between_turns():
            await self.engine.warm()
            from pilotfish.engine.model.resolve import failure
            from pilotfish.engine.turn.cancellation import Cancellation
            from pilotfish.engine.turn.usage import Meter

            self._compacting = stop = Cancellation(self.engine.clock)
            # No budget: a budget limits a turn, and the user requested this summary.
            meter = Meter("", self.emit, context=self.conversation.context)
            try:
                return await self.ports.compact("", meter, stop.token)
            except PilotfishError:
                raise
            except Exception as error:
                if stop.asked:
                    return None
                raise failure(error) from error
            finally:
                self._compacting = None
                self.conversation.usage += meter.total

    async def leave_open(self) -> None:
        """Leave the running turn in the ledger as it is, for the next process: it asks a pending approval again, or
        closes the turn as interrupted. A turn that the user stops ends as stopped."""
        if self.turn is not None and not self.line.stopping:
            self.emit(
                NoticeRecord(
                    turn_id=self.turn.turn_id,
                    level="info",
                    message="The editor was closed or reloaded.",
                    cause="closed",
                    timestamp=self.engine.clock(),
                )
            )
            await self.wait_written()
            self.conversation.leave_open()

    async def aclose(self) -> None:
        """Stop everything and wait for its end. What another process does for this one goes on there."""
        self.shared.close()
        if self._compacting is not None:
            self._compacting.ask()
        if self._titling is not None:
            self._titling.cancel()
        await self.line.aclose(self._cancel_work)
        async with self._held:
            await self.wait_written()
        await self.shared.aclose()
        await self.hooks.aclose()
        await asyncio.gather(self.mcp.aclose(), self.workspace.aclose())

    async def edits_recorded(self) -> None:
        """Wait until no edit of the turn is being made and no turn is being stopped. What is in the
        file and not in the ledger yet would count as typed by the user, and an undo would keep it."""
        while (self.turn is not None and self.turn.stopping) or any(
            call.status is CallStatus.IN_PROGRESS and call.category is Category.WRITE
            for call in self.conversation.registry.open_calls()
        ):
            self._edit_may_have_ended.clear()
            await self._edit_may_have_ended.wait()

    def report_servers(self) -> None:
        """Tell the user of MCP servers that are not there, if a turn runs; otherwise the next turn does."""
        if self.turn is not None and not self.turn.ended and self.ports.begun_turn == self.turn.turn_id:
            self.ports.warn_of_servers(self.turn.turn_id)

    def _cancel_work(self) -> None:
        if self.turn is not None:
            self.turn.cancel()
        self.control.drop_sent()
        self.engine.mcp.hurry()
        self.mcp.hurry()
        self.ports.cancel_trust_question()

    # -- after a crash --------------------------------------------------------------------------------------------

    async def resume(self) -> None:
        """Resume a turn that was interrupted while approvals were pending. Returns when they are requested again."""
        turn_id = self.conversation.interrupted
        if turn_id is not None and not self.line.busy:
            answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(self._resumed)
            calls = self.conversation.registry.open_calls()
            self._calls_to_ask = {call.id for call in calls if call.status is CallStatus.AWAITING_APPROVAL}
            self._approvals_asked.clear()
            self.line.submit(WaitingPrompt(turn_id, (), "queue", answer, resumes=turn_id))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._approvals_asked.wait(), ASK_AGAIN_SECONDS)

    def _resumed(self, answer: asyncio.Future[Outcome]) -> None:
        """Log the failure of a resumed turn: no client waits for its answer."""
        if not answer.cancelled() and (error := answer.exception()):
            log.warning("an interrupted turn could not be resumed: %s", error)
            if isinstance(error, SessionBusy):
                self.conversation.runs_elsewhere()
        self._approvals_asked.set()

    def approval_asked(self, call_id: str) -> None:
        """The approval of a call is requested again, or is not needed any more."""
        self._calls_to_ask.discard(call_id)
        if not self._calls_to_ask:
            self._approvals_asked.set()

    # -- run a prompt ---------------------------------------------------------------------------------------------

    async def _run(self, waiting: WaitingPrompt) -> Outcome:
        while True:
            try:
                return await self._run_here(waiting)
            except TaskInBackground:
                raise
            except SessionBusy:
                # Another process has begun a turn, and this one does not know it yet.
                if waiting.resumes is not None or self.holds_lease:
                    raise
            outcome = await self.control.prompt_elsewhere(waiting, lambda: None)
            if outcome is not None:
                return outcome

    async def _run_here(self, waiting: WaitingPrompt) -> Outcome:
        engine, resumes = self.engine, waiting.resumes is not None
        self._unsaved_reported = self._unsaved_reported and engine.ledger.unsaved is not None
        async with self.held():
            await self._must_be_here()
            await engine.controls.clear_questions_of_others(self.row.id)
            if not resumes:
                await self.conversation.give_up()
            elif self.conversation.interrupted != waiting.resumes:
                return WITHDRAWN  # another process has resumed and ended it
            await self._follow_roots()
            await engine.warm()
            from pilotfish.engine.turn.orchestrator import RequestOrchestrator

            await engine.fairness_gate()
            if resumes:
                await self.conversation.resume_history()
                prepared = PreparedPrompt()
            else:
                prepared = await self._prepared(waiting.blocks)
                optimistic = self.ports.trusted or self.ports.trust_undecided
                situation = await self.briefing.with_prompt(waiting.context, trusted=optimistic)
                prepared.content.insert(0, situation)
            for index, (data, attachment) in enumerate(prepared.attachments):
                prepared.attachments[index] = (data, replace(attachment, blob=await self.ports.store_blob(data)))
            self.turn = turn = RequestOrchestrator(
                ports=self.ports,
                turn_id=waiting.resumes or engine.new_id("turn"),
                resumed=resumes,
                settings=await engine.turn_settings(),
                workspace=self.workspace,
                model=self.model,
                blocks=waiting.blocks,
                prompt_id=waiting.prompt_id,
                prepared=prepared,
            )
            if self.line.stopping:
                turn.cancel()
            try:
                outcome = await turn.run()
                if engine.copy is not None and outcome.receipt is not None:
                    outcome = replace(outcome, receipt=engine.copy.relocation.receipt(outcome.receipt))
            except Exception:
                await self.conversation.forget()  # the ledger has no end of the turn
                raise
            finally:
                self.turn = None
                self._edit_may_have_ended.set()
                engine.controls.clear_questions(self.row.id)
            self.conversation.add_turn(outcome.usage)
            if self._wants_title(outcome):
                self._titling = asyncio.create_task(self._write_title(waiting.blocks), name=f"title of {self.row.id}")
            return outcome

    async def _must_be_here(self) -> None:
        """Raise TaskInBackground while the turns of this session belong into the worktree of a background task."""
        job = None if self.engine.copy is not None else await self.engine.job_of(self.row.id)
        if job is not None and (job.state in UNFINISHED or (job.state == "done" and job.result)):
            raise TaskInBackground(
                "The task in the background has not ended. Stop it first."
                if job.state in UNFINISHED
                else "Take over the changes of the task first, or discard them: the next turn builds on them."
            )

    def _wants_title(self, outcome: Outcome) -> bool:
        engine = self.engine
        wished = engine.writes_titles and engine.settings.titles and self.row.model != "demo"
        return wished and self.conversation.turns == 1 and outcome.stop_reason == "end_turn"

    async def _write_title(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Let the model replace the title, which is the beginning of the first prompt. No turn waits for this."""
        from pilotfish.engine.turn.history.summaries import write_title
        from pilotfish.engine.turn.usage import Meter

        records: list[Record] = []
        meter = Meter("", records.append, context=self.conversation.context)
        prompt = "\n".join(str(block["text"]) for block in blocks if block.get("type") == "text")
        texts = [each.get_text_content() for each in self.conversation.history if each.is_response]
        answer = next(filter(None, reversed(texts)), "")
        try:
            title = await write_title(prompt, answer, self.model(), meter)
            if title:
                self.row = await self.engine.catalog.improve_title(self.row.id, title)
        except Exception as error:  # the beginning of the prompt stays the title
            log.info("no title was written: %s", error)
        finally:
            self.conversation.usage += meter.total
        with contextlib.suppress(SessionBusy):  # another process has begun a turn
            async with self.leased():
                for record in records:
                    self.emit(record)
                self._emit_setup()

    async def _refresh(self) -> None:
        """Read the row again after a turn, unless it was replaced meanwhile. The answer of the turn does not wait for
        this; later requests for the session do."""
        row = self.row
        try:
            fresh = await self.engine.catalog.get(row.id)
        except Exception:  # the turn was answered already, so no request can report this
            log.exception("the session row could not be read after a turn")
            return
        if self.row is row:
            self.row = fresh

    async def _follow_roots(self) -> None:
        if self.workspace.roots != tuple(self.engine.roots_for(self.row.workspace)):
            await self.workspace.aclose()
            self.workspace = self.engine.make_workspace(self.row.workspace, self.row.id)

    # -- callbacks of a turn --------------------------------------------------------------------------------------

    def _call_changed(self, call: CanonicalToolCall) -> None:
        self._edit_may_have_ended.set()
        if call.status is not CallStatus.AWAITING_APPROVAL:
            self.approval_asked(call.id)
        if self.turn is not None:
            self.turn.stream.call_changed(call)

    def _steered(self, turn: RequestOrchestrator, waiting: WaitingPrompt, prepared: PreparedPrompt) -> None:
        """Record a steer right before its message is recorded."""
        self.line.was_read(waiting)
        self.emit(
            SteerRecord(
                turn_id=turn.turn_id,
                prompt=waiting.blocks,
                iteration=turn.loop.iteration,
                timestamp=self.engine.clock(),
                prompt_id=waiting.prompt_id,
                outside=tuple(prepared.outside),
            )
        )

    def _unsaved(self, error: StorageError) -> None:
        if not self._unsaved_reported and self.turn is not None:
            self._unsaved_reported = True
            self.emit(
                NoticeRecord(
                    turn_id=self.turn.turn_id,
                    level="error",
                    message=str(error),
                    remedy=error.remedy,
                    cause="storage",
                    timestamp=self.engine.clock(),
                )
            )
