"""One live session: its conversation, its line of prompts, its turn.

Hides: how a prompt becomes a turn, and how a turn that a crash interrupted is taken up again. Promises: nothing typed
is lost; what another process wrote meanwhile is seen before the next turn; a question that waited is asked again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pilotfish.conversation.messages import CallStatus, CanonicalToolCall
from pilotfish.conversation.records import NoticeRecord, SessionRecord, SteerRecord
from pilotfish.engine.context import EngineContext
from pilotfish.engine.frontend import Outcome
from pilotfish.engine.prompt import InstructionFiles, PreparedPrompt, prepare
from pilotfish.engine.session.prompt_queue import WITHDRAWN, PromptQueue, WaitingPrompt, WhenBusy
from pilotfish.engine.session.session_history import SessionHistory
from pilotfish.engine.session.turn_services import TurnServices
from pilotfish.errors import PilotfishError, SessionBusy, StorageError
from pilotfish.policy.judge import Rule
from pilotfish.store.catalog import SessionRow
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from pilotfish.engine.turn.cancellation import Cancellation
    from pilotfish.engine.turn.orchestrator import RequestOrchestrator

log = logging.getLogger(__name__)

ASK_AGAIN_SECONDS = 5.0  # after which a transcript is shown, whatever keeps the questions
LOOK_SECONDS = 0.25  # for which another process may hold the session to look whether its last turn still runs


class LiveSession:
    def __init__(self, world: EngineContext, row: SessionRow) -> None:
        self.world = world
        self.row = row
        self.workspace: Workspace = world.make_workspace(row.workspace)
        self.agents_rules = InstructionFiles(self.workspace)
        self.rules: list[Rule] = []
        self.turn: RequestOrchestrator | None = None
        self.line = PromptQueue(f"session {row.id}", self._run, self._refresh)
        self.conversation = SessionHistory(
            row.id, world.ledger, world.face, world.clock, call_changed=self._call_changed, unsaved=self._unsaved
        )
        self.ports = TurnServices(self)
        self.emit = self.conversation.emit
        self.wait_written = self.conversation.wait_written
        self._opening = asyncio.Lock()
        self._told_unsaved = False
        self._told_setup = (row.model, row.mode)
        self._held = asyncio.Lock()
        self._compacting: Cancellation | None = None
        self._to_ask_again: set[str] = set()
        self._asked_again = asyncio.Event()
        self._asked_again.set()

    @property
    def turn_id(self) -> str | None:
        """The turn that runs."""
        return self.turn.turn_id if self.turn is not None else None

    @property
    def running_turn(self) -> str | None:
        """the turn that runs, or that waits to be taken up again"""
        if self.turn is not None:
            return self.turn.turn_id
        return self.line.current.resumes if self.line.current else self.conversation.elsewhere

    @property
    def _resuming(self) -> WaitingPrompt | None:
        """a question that a crash interrupted, asked again; a new prompt lets it go"""
        in_line = (self.line.current, *self.line.waiting)
        return next((waiting for waiting in in_line if waiting is not None and waiting.resumes is not None), None)

    def model(self) -> Model:
        return self.world.model_for(self.row.model)

    async def open(self, *, forked: bool = False) -> None:
        """Read the session, when it is new to us or another process has written to it; mend what a crash left, or a
        fork in the middle of a turn."""
        async with self._opening:
            if self.turn is None and await self.conversation.open(forked=forked):
                self.row = await self.world.catalog.get(self.row.id)

    @contextlib.asynccontextmanager
    async def speaking(self) -> AsyncGenerator[None]:
        """Nobody else writes to the session meanwhile, in any other process, and all that was written is read. Raises
        SessionBusy when another process runs a turn in it."""
        lease = await self.world.ledger.lease(self.row.id, patience=LOOK_SECONDS)
        try:
            await self.open()
            if (self.row.model, self.row.mode) != self._told_setup:  # another process has changed them
                self._tell_setup()
            yield
        finally:
            try:
                await self.wait_written()
            finally:
                lease.release()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """The same, for one at a time: a turn, an undo, a summary."""
        async with self._held, self.speaking():
            yield

    @contextlib.asynccontextmanager
    async def between_turns(self) -> AsyncGenerator[None]:
        """`held`, at once or not at all: a turn is not waited for."""
        if self.line.busy:
            raise SessionBusy("A turn is running in this session. Stop it first.")
        if self._compacting is not None:
            raise SessionBusy("This session is being summarised. Stop that first.")
        async with self.held():
            yield

    async def tell_row(self) -> None:
        """Its name, model or mode is another. While another process runs a turn nothing can be recorded, and only who
        asked is told."""
        self._told_setup = (self.row.model, self.row.mode)
        with contextlib.suppress(SessionBusy):
            async with self.speaking():
                self._tell_setup()

    def _tell_setup(self) -> None:
        row = self.row
        self._told_setup = (row.model, row.mode)
        self.emit(SessionRecord(turn_id="", title=row.title, model=row.model, mode=row.mode))

    async def prompt(
        self,
        blocks: Sequence[Mapping[str, Any]],
        prompt_id: str | None,
        when_busy: WhenBusy,
        in_line: Callable[[], None],
    ) -> Outcome:
        """Run a prompt; returns when its turn has ended. Cancelling this cancels the turn, and still returns. `in_line`
        is called when the prompt is in the line."""
        if (asked_again := self._resuming) is not None and not self.line.withdraw(asked_again):
            await self.stop()
            self.line.unpause()
        if self.line.busy and when_busy == "reject":
            raise SessionBusy("A turn is running in this session. Stop it, or send the prompt to the queue.")
        waiting = WaitingPrompt(
            prompt_id=prompt_id or self.world.new_id("prompt"),
            blocks=tuple(blocks),
            kind="steer" if when_busy == "steer" and self.line.busy else "queue",
            answer=asyncio.get_running_loop().create_future(),
        )
        try:
            if waiting.kind == "steer":
                self.line.slip_in(waiting)
            else:
                self.line.submit(waiting)
            in_line()
            if waiting.kind == "steer":
                await self._steer(waiting)
            return await asyncio.shield(waiting.answer)
        except asyncio.CancelledError:
            # Answered in the same moment: what runs now is somebody else's.
            if not waiting.answer.done() and not self.line.withdraw(waiting):
                await self.stop()
            return await waiting.answer
        except Exception:
            self.line.withdraw(waiting)  # what is answered does not run later
            raise

    async def _steer(self, waiting: WaitingPrompt) -> None:
        """Give words that wait to the running turn. If it ends before they are read, they are the next prompt."""
        prepared = await prepare(waiting.blocks, self.workspace)
        if waiting not in self.line.waiting:
            return  # withdrawn, or its own turn has begun
        if self.turn is None:
            self.line.go_on()
        else:
            turn = self.turn
            waiting.take_back = turn.steer(prepared.content, lambda: self._steered(turn, waiting))

    async def stop(self) -> Outcome | None:
        """Stop the running turn and wait for its end. What waits in the line stays there, and waits for the user."""
        if self._compacting is not None:
            self._compacting.ask()
        return await self.line.stop(self._cut_short)

    async def compact(self) -> bool | None:
        """Summarise the older part of the conversation. False: there is nothing to summarise. None: it was stopped.
        A prompt that comes meanwhile waits."""
        async with self.between_turns():
            await self.world.warm()
            from pilotfish.engine.model.resolve import failure
            from pilotfish.engine.turn.cancellation import Cancellation
            from pilotfish.engine.turn.usage import Meter

            self._compacting = stop = Cancellation(self.world.clock)
            # Without a budget: that is for a turn, and the user asked for this one request.
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

    async def aclose(self) -> None:
        """Nothing is run any more; what is being done is over."""
        if self._compacting is not None:
            self._compacting.ask()
        await self.line.aclose(self._cut_short)
        async with self._held:
            await self.wait_written()
        await self.workspace.aclose()

    def _cut_short(self) -> None:
        if self.turn is not None:
            self.turn.cancel()
        self.world.mcp.hurry()
        self.ports.stop_asking()

    # -- after a crash --------------------------------------------------------------------------------------------

    async def resume(self) -> None:
        """Go on with the turn that was interrupted while questions waited; returns when they are asked again."""
        turn_id = self.conversation.interrupted
        if turn_id is not None and not self.line.busy:
            answer: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            answer.add_done_callback(self._resumed)
            calls = self.conversation.registry.open_calls()
            self._to_ask_again = {call.id for call in calls if call.status is CallStatus.AWAITING_APPROVAL}
            self._asked_again.clear()
            self.line.submit(WaitingPrompt(turn_id, (), "queue", answer, resumes=turn_id))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._asked_again.wait(), ASK_AGAIN_SECONDS)

    def _resumed(self, answer: asyncio.Future[Outcome]) -> None:
        """Nobody waits for this answer; what went wrong is in the log and in the transcript."""
        if not answer.cancelled() and (error := answer.exception()):
            log.warning("an interrupted turn could not be resumed: %s", error)
            if isinstance(error, SessionBusy):
                self.conversation.runs_elsewhere()
        self._asked_again.set()

    def is_asked(self, call_id: str) -> None:
        """The question of a call is being asked, or need not be any more."""
        self._to_ask_again.discard(call_id)
        if not self._to_ask_again:
            self._asked_again.set()

    # -- a prompt becomes a turn ----------------------------------------------------------------------------------

    async def _run(self, waiting: WaitingPrompt) -> Outcome:
        world, resumes = self.world, waiting.resumes is not None
        self._told_unsaved = self._told_unsaved and world.ledger.unsaved is not None
        async with self.held():
            if not resumes:
                await self.conversation.give_up()
            elif self.conversation.interrupted != waiting.resumes:
                return WITHDRAWN  # another process has gone on with it, and ended it
            await self._follow_roots()
            await world.warm()
            from pilotfish.engine.model import adapter
            from pilotfish.engine.turn.orchestrator import RequestOrchestrator

            if self.conversation.history and not adapter.is_ready():
                await asyncio.to_thread(adapter.make_ready)
            await world.fairness_gate()
            if resumes:
                await self.conversation.take_up_again()
                prepared = PreparedPrompt()
            else:
                prepared = await prepare(waiting.blocks, self.workspace)
            for index, (data, attachment) in enumerate(prepared.attachments):
                prepared.attachments[index] = (data, replace(attachment, blob=await self.ports.store_blob(data)))
            self.turn = turn = RequestOrchestrator(
                ports=self.ports,
                turn_id=waiting.resumes or world.new_id("turn"),
                resumed=resumes,
                settings=world.settings,
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
            except Exception:
                await self.conversation.forget()  # its end is not in the ledger
                raise
            finally:
                self.turn = None
            self.conversation.add_turn(outcome.usage)
            return outcome

    async def _refresh(self) -> None:
        """Read the row again after a turn, unless somebody does so meanwhile. The answer does not wait for it, and
        whoever asks for the session after the answer waits behind it."""
        row = self.row
        try:
            fresh = await self.world.catalog.get(row.id)
        except Exception:  # the turn has ended and was answered: this is nobody's failure any more
            log.exception("a session was not read again")
            return
        if self.row is row:
            self.row = fresh

    async def _follow_roots(self) -> None:
        if self.workspace.roots != tuple(self.world.roots_for(self.row.workspace)):
            await self.workspace.aclose()
            self.workspace = self.world.make_workspace(self.row.workspace)
            self.agents_rules = InstructionFiles(self.workspace)

    # -- what happens in a turn -----------------------------------------------------------------------------------

    def _call_changed(self, call: CanonicalToolCall) -> None:
        if call.status is not CallStatus.AWAITING_APPROVAL:
            self.is_asked(call.id)
        if self.turn is not None:
            self.turn.stream.call_changed(call)

    def _steered(self, turn: RequestOrchestrator, waiting: WaitingPrompt) -> None:
        """Words for the running turn have reached the model, and are about to be recorded."""
        self.line.was_read(waiting)
        self.emit(
            SteerRecord(
                turn_id=turn.turn_id,
                prompt=waiting.blocks,
                iteration=turn.loop.iteration,
                timestamp=self.world.clock(),
                prompt_id=waiting.prompt_id,
            )
        )

    def _unsaved(self, error: StorageError) -> None:
        if not self._told_unsaved and self.turn is not None:
            self._told_unsaved = True
            self.emit(
                NoticeRecord(
                    turn_id=self.turn.turn_id,
                    level="error",
                    message=str(error),
                    remedy=error.remedy,
                    cause="storage",
                    timestamp=self.world.clock(),
                )
            )
