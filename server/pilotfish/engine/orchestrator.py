"""A turn, from prompt to outcome.

    user_input ──► assistant ──► tool_execution ──► response ──► assistant … ──► the end

`run` reads top to bottom: take the prompt up, converse until the model is done, close what is open, end. Within
the conversation every model response passes the seven phases, in `before_request` and `after_response`.

Promises: whatever way a turn ends, every announced call is closed, everything said is in the ledger, and the
history can be sent again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from pydantic_ai import CancellationToken, RunContext, capture_run_messages
from pydantic_ai.exceptions import ModelRetry, RunCancelled, UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.usage import RunUsage

from pilotfish.core.door import fit
from pilotfish.core.loops import Repeats
from pilotfish.core.messages import (
    FINAL_STATUSES,
    CallApproval,
    CallStatus,
    CanonicalToolCall,
    message_from_json,
    message_to_json,
    normalise_args,
)
from pilotfish.core.policy import CallFacts, Verdict
from pilotfish.core.records import (
    AgentState,
    ChunkRecord,
    Failure,
    FileChangeRecord,
    KilledProcess,
    MessageRecord,
    NoticeRecord,
    PlanEntry,
    PlanRecord,
    Receipt,
    StateRecord,
    StopReason,
    ToolCallRecord,
    TurnEndRecord,
    TurnStartRecord,
    Usage,
    UsageRecord,
)
from pilotfish.core.textcalls import find_calls
from pilotfish.core.visible import one_line
from pilotfish.engine import figures
from pilotfish.engine.adapter import to_canonical
from pilotfish.engine.calls import Calls, Returned, is_open
from pilotfish.engine.models import broke_off, failure
from pilotfish.engine.observe import request_id
from pilotfish.engine.ports import Answer, Ports, Question
from pilotfish.engine.prompt import PreparedPrompt, environment_facts, plain_text, standing_instructions
from pilotfish.engine.recovery import STARTED, partial_messages
from pilotfish.engine.sending import Sending
from pilotfish.engine.state import ResponseState
from pilotfish.engine.steering import Steering
from pilotfish.errors import TurnError
from pilotfish.settings import Settings
from pilotfish.tools.tool import Preview, Tool
from pilotfish.workspace.changes import FileChange
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pydantic_ai.models import Model

log = logging.getLogger(__name__)

MAX_TRIES = 4  # of one model request whose failure may pass
LONGEST_WAIT = 60.0  # seconds a turn waits by itself before it leaves the retry to the user


@dataclass(slots=True)
class RequestContext:
    """What one request carries through the log: its name, its limit, its figures."""

    request_id: str
    max_iterations: int
    metrics: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a turn ended."""

    turn_id: str
    stop_reason: StopReason
    usage: Usage
    error: Failure | None = None
    receipt: Receipt | None = None


class RequestOrchestrator:
    """One turn. Also the `deps` of its pydantic-ai run: hooks and tools reach it there."""

    def __init__(
        self,
        *,
        ports: Ports,
        turn_id: str,
        settings: Settings,
        workspace: Workspace,
        model: Callable[[], Model],
        blocks: Sequence[Mapping[str, Any]],
        prompt_id: str | None,
        prepared: PreparedPrompt,
        resumed: bool = False,
    ) -> None:
        self.ports = ports
        self.turn_id = turn_id
        self.settings = settings
        self.workspace = workspace
        self.clock = ports.clock
        self.emit = ports.emit
        self.settled = ports.settled
        self.keep = ports.keep
        self.read_output = ports.read_output
        self.request = RequestContext(turn_id[-8:], settings.max_iterations)
        self.registry = ports.registry
        self.calls = Calls(self)
        self.iteration = 0
        self.changed_files: dict[str, None] = {}
        self._model = model
        self._blocks = tuple(blocks)
        self._prompt_id = prompt_id
        self._prepared = prepared
        self._resumed = resumed
        self._state = ResponseState(self._state_changed)
        self._token = CancellationToken()
        self._running: asyncio.Task[None] | None = None
        self._cancelled_at: float | None = None
        self._hurried = False
        self._message_id = ""
        self._call_ids: dict[int, str] = {}
        self._unrecorded: set[str] = set()
        """messages of which pieces were told"""
        self._halves: dict[str, ChunkRecord] = {}
        """item → half a surrogate pair at the end of its last piece: the next one may bring the other half"""
        self._own_calls: dict[str, None] = {}
        self._seen = 0
        self._responses = 0
        self._sending = Sending(settings)
        self._broken = 0
        self._repeats = Repeats()
        self._usage = Usage()
        self._earlier = Usage()
        self._last: ModelResponse | None = None
        self._steering = Steering()
        self._jobs_before = workspace.processes.jobs
        workspace.processes.take_killed()  # what earlier turns ended is not for this one's receipt

    # -- the turn, top to bottom -------------------------------------------------------------------------------

    async def run(self) -> Outcome:
        """Run the turn to its end. Never raises for anything that happens inside it."""
        request_id.set(self.request.request_id)
        began = self.clock()
        if self._resumed:
            self._take_up_again()
        else:
            self._take_up()
            await self.ports.taken_up(self.turn_id)
        stop: StopReason = "failed"
        error: Failure | None = None
        try:
            stop = await self._converse()
        except TurnError as problem:
            error = Failure(
                message=str(problem),
                remedy=problem.remedy,
                retryable=problem.retryable,
                kind=problem.kind,
                retry_after=problem.retry_after,
            )
        except Exception:
            log.exception("turn %s failed", self.request.request_id)
            error = Failure(
                message="Something went wrong inside Pilotfish.",
                remedy="Try again. If it happens again, look into the log and report it.",
                retryable=True,
            )
        if self._cancelled_at is not None:
            stop, error = "cancelled", None
        outcome = await self._end(stop, error)
        self.request.metrics |= {
            "seconds": round(self.clock() - began, 3),
            "iterations": self.iteration,
            "calls": len(self._own_calls),
            "input_tokens": self._usage.input_tokens,
            "output_tokens": self._usage.output_tokens,
        }
        log.info("turn ended: %s", stop, extra={"metrics": self.request.metrics})
        return outcome

    def cancel(self) -> None:
        """Stop the turn: the model's stream, its calls, its questions."""
        if self._cancelled_at is None:
            self._cancelled_at = self.clock()
            self._token.cancel()
            if self._running is not None:
                self._running.cancel()

    def hurry(self) -> None:
        """Try again now, if the next try is being waited for."""
        self._hurried = True

    @property
    def token(self) -> CancellationToken:
        return self._token

    def steer(
        self, content: Sequence[UserContent], was_read: Callable[[], None], tell: Callable[[], None]
    ) -> Callable[[], None]:
        """Give the model words at its next step. `was_read` is called when it has them, `tell` right before their
        message is recorded. Gives what takes them back."""
        return self._steering.steer(content, was_read, tell)

    def delivered(self, enqueue_id: str) -> None:
        """Words given with `steer` have reached the model."""
        self._steering.delivered(enqueue_id)

    async def stop_call(self, call_id: str) -> bool:
        """Stop one call and wait until it is over; the turn goes on. False: it is not running."""
        return await self.calls.stop(call_id)

    def _take_up(self) -> None:
        self.emit(
            TurnStartRecord(
                turn_id=self.turn_id, prompt=self._blocks, prompt_id=self._prompt_id, timestamp=self.clock()
            )
        )
        self._state_changed(self._state.current)
        request = ModelRequest(parts=[UserPromptPart(content=self._prepared.content, timestamp=self._now())])
        self._record(request, text=plain_text(self._blocks))
        for notice in self._prepared.notices:
            self.notice("warning", notice)

    def _take_up_again(self) -> None:
        """After a crash: what had started is not started again; what waited for an answer waits again."""
        for call in self.registry.open_calls():
            self._own_calls[call.id] = None
            if call.status is CallStatus.IN_PROGRESS:
                self.registry.move(call.id, CallStatus.CANCELLED, error=STARTED)
        self._state = ResponseState(self._state_changed, "tool_execution")

    async def _converse(self) -> StopReason:
        """Run the model until it is done; what may pass is tried again, from the recorded history."""
        failed, progress = 0, -1
        if self.ports.nearly_full:
            await self._make_room()
        while True:
            try:
                return await self._one_run()
            except TurnError as problem:
                if self._cancelled_at is not None:
                    return "cancelled"
                if problem.kind == "context" and await self.ports.compact(self.turn_id, self._token):
                    continue
                failed = failed + 1 if progress == self._responses else 1
                progress = self._responses
                wait = problem.retry_after or 0.5 * 2**failed * (0.75 + random.random() / 2)  # noqa: S311 -- jitter
                if not problem.retryable or failed >= MAX_TRIES or wait > LONGEST_WAIT:
                    raise
                said = f"{problem} Retrying in {wait:.0f} s."
                self.notice("warning", said, problem.remedy, retry_after=round(wait, 1))
                self._close_open("the provider's answer broke off")
                if not await self._pause(wait):
                    return "cancelled"

    async def _make_room(self) -> None:
        """Summarise before the window overflows: some servers drop the beginning silently instead of refusing."""
        try:
            await self.ports.compact(self.turn_id, self._token)
        except Exception as problem:
            log.warning("turn %s: no summary: %s", self.request.request_id, failure(problem))

    async def _one_run(self) -> StopReason:
        from pilotfish.engine import lean_run
        from pilotfish.engine.agent import forward, main_agent

        model = self._model()
        self._sending = Sending(self.settings)
        history = self._sending.begin(self.ports.history, model.system, resumed=self._resumed and not self.iteration)
        self._seen = len(history)
        usage = RunUsage()
        limits = figures.limits(self.settings, self._earlier)
        toolsets = self.ports.toolsets()
        with capture_run_messages() as captured:
            said: Sequence[ModelMessage] = captured
            try:
                if lean_run.fits(self.settings, model, history, toolsets):
                    lean = lean_run.LeanRun(self, model, history, usage, limits)
                    said = lean.messages
                    await self._stoppable(lean.run())
                else:
                    await main_agent().run(
                        message_history=history,
                        model=model,
                        deps=self,
                        usage=usage,
                        usage_limits=limits,
                        cancellation_token=self._token,
                        event_stream_handler=forward,
                        toolsets=toolsets,
                    )
            except RunCancelled as cancelled:
                self._record_rest(cancelled.all_messages(), keep_partial=True)
                return "cancelled"
            except asyncio.CancelledError:
                self._record_rest(said, keep_partial=True)
                if self._cancelled_at is None:
                    raise
                return "cancelled"
            except UsageLimitExceeded:
                self._record_rest(said, keep_partial=True)
                return "max_iterations" if self.iteration >= self.settings.max_iterations else "budget"
            except TurnError as problem:
                self._record_rest(said, keep_partial=not problem.retryable)
                raise
            except UnexpectedModelBehavior as problem:
                self._record_rest(said, keep_partial=True)
                if self._last is not None and self._last.finish_reason == "content_filter":
                    self.notice("warning", "The provider refused to answer.", "Word the request differently.")
                    return "refusal"
                raise self._misbehaved(problem) from problem
            except Exception as problem:
                final = failure(problem)
                self._record_rest(said, keep_partial=not final.retryable)
                raise final from problem
            finally:
                self._steering.pause()
                self._tally(usage)
                self._earlier = self._usage
        self._record_rest(said, keep_partial=True)
        return self._stop_reason()

    async def _stoppable(self, run: Coroutine[Any, Any, None]) -> None:
        """Run to the end, or until `cancel`: then this is cancelled once the run is over."""
        self._running = running = asyncio.get_running_loop().create_task(run, name=f"run {self.request.request_id}")
        if self._cancelled_at is not None:
            running.cancel()
        try:
            await asyncio.wait((running,))
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait((running,))
            raise
        finally:
            self._running = None
        running.result()

    async def _end(self, stop: StopReason, error: Failure | None) -> Outcome:
        receipt = None
        await self._record_pieces()
        self._close_open("aborted by user" if stop == "cancelled" else "the turn ended")
        for change in self.workspace.take_unclaimed():
            await self.changed("", change)
        if stop == "cancelled":
            killed = await self._kill_own()
            started = self._cancelled_at if self._cancelled_at is not None else self.clock()
            cancelled = [
                call_id for call_id in self._own_calls if self.registry.get(call_id).status is CallStatus.CANCELLED
            ]
            receipt = Receipt(
                turn_id=self.turn_id,
                took_ms=round((self.clock() - started) * 1000),
                cancelled_calls=tuple(cancelled),
                killed_processes=killed,
                changed_files=tuple(self.changed_files),
            )
        if self._state.can_transition_to("response"):
            self._state.transition_to("response")
        self.emit(
            TurnEndRecord(
                turn_id=self.turn_id,
                stop_reason=stop,
                usage=self._usage,
                timestamp=self.clock(),
                error=error,
                receipt=receipt,
            )
        )
        await self.settled()
        return Outcome(turn_id=self.turn_id, stop_reason=stop, usage=self._usage, error=error, receipt=receipt)

    async def _kill_own(self) -> tuple[KilledProcess, ...]:
        """End the commands of this turn. A background command (a dev server) goes on, and the user is told of it."""
        processes = self.workspace.processes
        killed = await processes.kill_running(spare=self._jobs_before)
        if alive := processes.alive:
            names = ", ".join(f"{job.id} ({one_line(job.command)})" for job in alive)
            self.notice("info", f"Still running in the background: {names}.", f"“Stop {alive[0].id}” ends it.")
        return killed

    # -- one model request: phases 1 and 2 ---------------------------------------------------------------------

    def before_request(
        self, ctx: RunContext[RequestOrchestrator], messages: Sequence[ModelMessage]
    ) -> list[ModelMessage]:
        """Phases 1 and 2: enter the assistant state; record what the tools returned, and say what of it all is sent.

        It may be sent after `may_send`: nothing reaches a provider that is not on disk.
        """
        if self._state.can_transition_to("response"):
            self._state.transition_to("response")
        self._record_rest(ctx.messages, keep_partial=True)
        self.iteration += 1
        self._state.transition_to("assistant")
        self._message_id = self.ports.new_id("msg")
        self._call_ids.clear()
        self._halves.clear()
        return self._sending.trimmed(messages)

    async def may_send(self) -> None:
        """Returns when everything so far is on disk, and the client keeps up."""
        await self.settled()
        await self.ports.room()  # a client that does not read is not told of step after step

    # -- one model response: phases 3 to 7 ---------------------------------------------------------------------

    def after_response(self, ctx: RunContext[RequestOrchestrator], response: ModelResponse) -> ModelResponse:
        """Phases 3 to 7, with the response whole: record it before anything of it runs (`Calls` waits for that)."""
        # Not sooner: what is enqueued before a request becomes part of one that has been recorded already.
        self._steering.give(ctx)
        self._check_whole(response)
        response = self._with_own_ids(self._with_recovered_calls(self._with_refusal(response)))
        self._record(response)  # phase 3: thoughts and text
        self._seen += 1
        self._responses += 1
        self._last = response
        self._count(ctx, response)  # phase 4: usage
        if calls := [part for part in response.parts if isinstance(part, ToolCallPart)]:
            self._state.transition_to("tool_execution")  # phase 5: the library runs them, one by one, in `execute`
            for part in calls:
                self._register(part)
        elif response.finish_reason not in ("length", "content_filter") and not _says_anything(response):
            # phase 6: an empty answer; one that was cut off or refused is none
            raise ModelRetry("Your last answer was empty. Answer the user, or call a tool.")
        else:
            self._state.transition_to("response")  # phase 7
        return response

    async def execute(self, call_id: str, name: str, tool: Tool[Any] | None, args: Mapping[str, Any]) -> Returned:
        """Phase 5, for one call. One that ended before a crash is not run again: it gives what it gave."""
        self._ensure(call_id, name)
        if (call := self.registry.get(call_id)).status in FINAL_STATUSES:
            return Returned(call.result.text if call.result else call.error or "", _outcome(call))
        return await self.calls.execute(call_id, tool, args)

    def _state_changed(self, state: AgentState) -> None:
        self.emit(StateRecord(turn_id=self.turn_id, state=state, iteration=self.iteration))

    # -- pieces of a response while it is made ------------------------------------------------------------------

    def text_piece(self, index: int, text: str) -> None:
        self._piece(f"{self._message_id}.{index}", "message", text)

    def thought_piece(self, index: int, text: str) -> None:
        self._piece(f"{self._message_id}.{index}", "thought", text)

    def announce(self, index: int, call_id: str, name: str) -> None:
        """A call has begun to be written. An id that was used before in the session gets a fresh one."""
        if not call_id or call_id in self.registry or call_id in self._call_ids.values():
            call_id = self.ports.new_id("call")
        self._call_ids[index] = call_id
        self.registry.register(call_id, name, {}, **_looks(name, {}))

    def args_piece(self, index: int, text: str) -> None:
        if call_id := self._call_ids.get(index):
            self._piece(call_id, "args", text)

    def progress(self, call_id: str, text: str) -> None:
        self._piece(call_id, "progress", text)

    def answered(self, call_id: str, content: str) -> None:
        """A result came back. Calls that never reached `execute` (unknown tool, bad JSON) are closed by it."""
        if call_id in self.registry and is_open(self.registry.get(call_id)):
            self.registry.move(call_id, CallStatus.FAILED, error=content[:2000])

    def _piece(self, item_id: str, channel: Literal["message", "thought", "args", "progress"], text: str) -> None:
        if (half := self._halves.pop(item_id, None)) is not None:
            text = half.text + text
        chunk = ChunkRecord(turn_id=self.turn_id, item_id=item_id, channel=channel, text=text)
        if channel in ("message", "thought"):
            self._unrecorded.add(self._message_id)
        if "\ud800" <= text[-1:] <= "\udbff":
            self._halves[item_id] = replace(chunk, text=text[-1])
            text = text[:-1]
        if text:
            self.emit(replace(chunk, text=fit(text)) if not text.isascii() else chunk)

    # -- what calls need of the turn -----------------------------------------------------------------------------

    def judge(self, facts: CallFacts) -> Verdict:
        return self.ports.judge(facts)

    async def question(
        self,
        call_id: str,
        tool: Tool[Any],
        facts: CallFacts,
        verdict: Verdict,
        preview: Preview | None,
        mark: str,
    ) -> tuple[Answer | None, Question]:
        if self.registry.get(call_id).status is not CallStatus.AWAITING_APPROVAL:
            self.registry.move(call_id, CallStatus.AWAITING_APPROVAL)
        await self.settled()
        call = self.registry.get(call_id)
        amendable = tool.name in ("bash", "write_file", "update_file")
        return await self.ports.ask(self.turn_id, call, facts, verdict, preview, mark, amendable=amendable)

    def audit(self, call_id: str, tool: str, approval: CallApproval) -> None:
        self.ports.audit(self.turn_id, call_id, tool, approval)

    async def ask_user(self, question: str, options: Sequence[str]) -> str | None:
        return await self.ports.ask_user(self.turn_id, question, options)

    async def research(self, question: str, progress: Callable[[str], None]) -> str:
        from pilotfish.engine.research import research

        return await research(self, question, progress, self._model)

    def show_plan(self, entries: Sequence[PlanEntry]) -> None:
        self.emit(PlanRecord(turn_id=self.turn_id, entries=tuple(entries), timestamp=self.clock()))

    def notice(
        self,
        level: Literal["info", "warning", "error"],
        message: str,
        remedy: str | None = None,
        *,
        retry_after: float | None = None,
    ) -> None:
        self.emit(
            NoticeRecord(
                turn_id=self.turn_id,
                level=level,
                message=message,
                remedy=remedy,
                retry_after=retry_after,
                timestamp=self.clock(),
            )
        )

    async def changed(self, call_id: str, change: FileChange) -> None:
        """A file was changed: its before-image is kept, then it is told."""
        self.changed_files[change.path.as_uri()] = None
        self.emit(
            FileChangeRecord(
                turn_id=self.turn_id,
                call_id=call_id,
                uri=change.path.as_uri(),
                change=change.change,
                added=change.added,
                removed=change.removed,
                via=change.via,
                before=None if change.before is None else await self.keep(change.before),
                after=None if change.after is None else await self.keep(change.after),
                timestamp=self.clock(),
                old_uri=change.old_path.as_uri() if change.old_path else None,
            )
        )

    async def check_repeats(self, call: CanonicalToolCall, text: str) -> None:
        """The same call with the same result, again and again: ask whether to go on, and stop when nobody says so."""
        question = self._repeats.note(call.name, call.args, text)
        if question is None:
            return
        if await self.ask_user(question, ("Go on", "Stop")) != "Go on":
            self.notice("warning", "The turn was stopped: it repeated the same call.", "Say what to do differently.")
            self.cancel()

    async def after_call(self, call: CanonicalToolCall, text: str) -> str:
        """What the model hears beside a result: files it knows that have changed under it."""
        if call.category in ("write", "execute") and (changed := self.workspace.changed_since_read()):
            names = ", ".join(self.workspace.relative(path) for path in changed[:20])
            text = f"{text}\n[changed since you read them: {names}]"
        return text

    def instructions(self) -> str:
        parts = [
            standing_instructions(),
            environment_facts(
                self.workspace,
                mode=self.ports.mode,
                today=self._now().date(),
                trusted=self.ports.trusted or self.ports.undecided,
            ),
            self.ports.rules_text() if self.ports.trusted else "",
        ]
        return "\n\n".join(filter(None, parts))

    # -- recording ------------------------------------------------------------------------------------------------

    def _record(self, message: ModelMessage, text: str | None = None, *, shown_only: bool = False) -> None:
        canonical = to_canonical(_without_instructions(message))
        self._sending.know(message, canonical)
        assistant = isinstance(message, ModelResponse)
        for half in self._halves.values() if assistant else ():
            self.emit(replace(half, text=fit(half.text)))
        self._halves.clear()
        if not assistant and text is None:
            self._steering.recorded(sum(isinstance(part, UserPromptPart) for part in message.parts))
        if not shown_only:
            self.ports.history.append(canonical)
        self.emit(
            MessageRecord(
                turn_id=self.turn_id,
                message_id=self._message_id if assistant else self.ports.new_id("msg"),
                role="assistant" if assistant else "user",
                content=canonical.get_text_content() if text is None else text,
                message=message_to_json(canonical),
                timestamp=self.clock(),
                binary_content=tuple(item for _, item in self._prepared.attachments) if text is not None else (),
                shown_only=shown_only,
            )
        )
        if assistant:
            self._unrecorded.discard(self._message_id)

    def _record_rest(self, messages: Sequence[ModelMessage], *, keep_partial: bool) -> None:
        """Record what the run has added since we last looked."""
        fresh = messages[self._seen :]
        self._seen = len(messages)
        for message in fresh:
            if not isinstance(message, ModelResponse):
                self._record(message)
            elif message.parts:
                self._record(self._with_own_ids(message), shown_only=not keep_partial)

    async def _record_pieces(self) -> None:
        """What was told and could not be recorded (memory was short, the library broke) is recorded piece by piece."""
        if not self._unrecorded:
            return
        self._unrecorded.clear()
        await self.settled()
        for record in partial_messages(self.turn_id, await self.ports.left_over(), (), (), self.clock()):
            self.ports.history.append(message_from_json(record.message))
            self.emit(record)

    # -- calls in a response ----------------------------------------------------------------------------------------

    def _with_own_ids(self, response: ModelResponse) -> ModelResponse:
        """Every call under the id it was announced with: no id stands twice in a session."""
        parts = list(response.parts)
        for index, part in enumerate(parts):
            if isinstance(part, ToolCallPart):
                if index not in self._call_ids:
                    self.announce(index, part.tool_call_id, part.tool_name)
                if (own := self._call_ids[index]) != part.tool_call_id:
                    parts[index] = replace(part, tool_call_id=own)
        return replace(response, parts=parts)

    def _with_refusal(self, response: ModelResponse) -> ModelResponse:
        """Words of refusal come beside an empty answer: they are the answer."""
        words = (response.provider_details or {}).get("refusal")
        if response.parts or not isinstance(words, str) or not words:
            return response
        self.text_piece(0, words)
        return replace(response, parts=[TextPart(words)])

    def _with_recovered_calls(self, response: ModelResponse) -> ModelResponse:
        """Calls that the model wrote as text become calls, marked."""
        from pilotfish.engine.agent import tools_by_name

        if any(isinstance(part, ToolCallPart) for part in response.parts):
            return response
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        found = find_calls(text, {name: _fits(tool) for name, tool in tools_by_name().items()})
        if not found:
            return response
        parts = list(response.parts)
        for call in found:
            call_id = self.ports.new_id("call")
            self._call_ids[len(parts)] = call_id
            self.registry.register(call_id, call.name, call.args, recovered=True, **_looks(call.name, call.args))
            parts.append(ToolCallPart(call.name, dict(call.args), tool_call_id=call_id))
        self.notice("info", f"{len(found)} tool call(s) that the model wrote as text were taken as calls.")
        return replace(response, parts=parts)

    def _register(self, part: ToolCallPart) -> None:
        self._ensure(part.tool_call_id, part.tool_name)
        args, _ = normalise_args(part.args)
        self.registry.amend(part.tool_call_id, args=args, **_looks(part.tool_name, args))

    def _ensure(self, call_id: str, name: str) -> None:
        if call_id not in self.registry:
            self.registry.register(call_id, name, {}, **_looks(name, {}))

    def call_changed(self, call: CanonicalToolCall) -> None:
        """The registry's one change notice for every move."""
        self._own_calls[call.id] = None
        self.emit(ToolCallRecord(turn_id=self.turn_id, call=call, timestamp=self.clock(), message_id=self._message_id))

    def _close_open(self, reason: str) -> None:
        self.registry.close_open(reason)

    def _check_whole(self, response: ModelResponse) -> None:
        """A stream that ended without saying why broke off, most likely: tried again once, then taken as it is."""
        if not broke_off(response):
            return
        self._broken += 1
        if self._broken == 1:
            self._record(self._with_own_ids(response), shown_only=True)
            raise TurnError(
                "The provider's answer broke off.",
                remedy="Send the prompt again.",
                retryable=True,
                kind="network",
            )
        self.notice("warning", "The provider did not say that its answer is complete.")

    # -- figures and ends -----------------------------------------------------------------------------------------

    def _count(self, ctx: RunContext[RequestOrchestrator], response: ModelResponse) -> None:
        self._tally(ctx.usage)
        window = self.settings.context_window or ctx.model.context_window
        used = figures.context_used(response)
        self.emit(UsageRecord(turn_id=self.turn_id, usage=self._usage, context_used=used, context_window=window))

    def _tally(self, run: RunUsage) -> None:
        """The turn's usage: what earlier runs used, and this one so far."""
        used = self._earlier + figures.usage(run)
        self._usage = replace(used, requests=self.iteration, tool_calls=len(self._own_calls))

    def _stop_reason(self) -> StopReason:
        match self._last.finish_reason if self._last else None:
            case "length":
                self.notice("warning", "The answer was cut off by the token limit.", "Say “continue”.")
                return "max_tokens"
            case "content_filter":
                return "refusal"
            case _:
                return "end_turn"

    def _misbehaved(self, problem: UnexpectedModelBehavior) -> TurnError:
        log.warning("turn %s: %s", self.request.request_id, problem)
        return TurnError(
            "The model gave no usable answer.",
            remedy="Send the prompt again, or switch to another model.",
            kind="empty",
        )

    async def _pause(self, seconds: float) -> bool:
        """Wait, or until someone is in a hurry; False when the turn was cancelled meanwhile."""
        self._hurried = False
        end = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < end and not self._hurried:
            if self._cancelled_at is not None:
                return False
            await asyncio.sleep(min(0.05, seconds))
        return self._cancelled_at is None

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.clock(), UTC)


def _outcome(call: CanonicalToolCall) -> Literal["success", "failed", "denied"]:
    if call.status is CallStatus.COMPLETED:
        return "success"
    return "denied" if call.status is CallStatus.DENIED else "failed"


def _says_anything(response: ModelResponse) -> bool:
    return any(not isinstance(part, TextPart) or part.content.strip() for part in response.parts) and any(
        part.part_kind != "thinking" for part in response.parts
    )


def _without_instructions(message: ModelMessage) -> ModelMessage:
    """Instructions are made anew for every request; stored with each message they would only weigh."""
    return replace(message, instructions=None) if isinstance(message, ModelRequest) else message


def _fits(tool: Tool[Any]) -> Callable[[Mapping[str, Any]], bool]:
    def fits(args: Mapping[str, Any]) -> bool:
        try:
            tool.args.model_validate(dict(args))
        except ValueError:
            return False
        return True

    return fits


def _looks(name: str, args: Mapping[str, Any]) -> dict[str, Any]:
    """How a call is shown before it is understood: its title and category."""
    from pilotfish.engine.agent import tools_by_name

    tool = tools_by_name().get(name)
    if tool is None:
        return {"title": name}
    try:
        return {"title": tool.title(tool.args.model_validate(dict(args))), "category": tool.category}
    except ValueError:
        return {"title": name, "category": tool.category}
