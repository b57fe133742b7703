"""One run of the model over the conversation, and what its end means for the turn.

Hides: that there are two loops (our own, and the library's for what ours does not do), and the library's exceptions.
Promises: whatever way a run ends, what it said is recorded and what it used is counted; what a user could do
something about is a `TurnError`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic_ai import capture_run_messages
from pydantic_ai.exceptions import RunCancelled, UnexpectedModelBehavior, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage
from pydantic_ai.usage import RunUsage

from pilotfish.core.records import StopReason
from pilotfish.engine import figures
from pilotfish.engine.models import failure
from pilotfish.errors import TurnError

if TYPE_CHECKING:
    from pilotfish.engine.orchestrator import RequestOrchestrator

log = logging.getLogger(__name__)


async def attempt(turn: RequestOrchestrator) -> StopReason:
    """Run the model until it is done, or stopped, or over a limit. Raises `TurnError` for what went wrong."""
    from pilotfish.engine import lean_run
    from pilotfish.engine.agent import forward, main_agent

    phases, recording = turn.phases, turn.recording
    model = turn.model()
    history = recording.begin_run(model.system, resumed=turn.resumed and not phases.iteration)
    usage = RunUsage()
    limits = figures.limits(turn.settings, phases.earlier)
    toolsets = turn.ports.toolsets()
    with capture_run_messages() as captured:
        said: Sequence[ModelMessage] = captured
        try:
            if lean_run.fits(turn.settings, model, history, toolsets):
                lean = lean_run.LeanRun(turn, model, history, usage, limits)
                said = lean.messages
                await turn.stop.run(lean.run(), f"run {turn.request.request_id}")
            else:
                await main_agent().run(
                    message_history=history,
                    model=model,
                    deps=turn,
                    usage=usage,
                    usage_limits=limits,
                    cancellation_token=turn.stop.token,
                    event_stream_handler=forward,
                    toolsets=toolsets,
                )
        except RunCancelled as cancelled:
            recording.rest(cancelled.all_messages(), keep_partial=True)
            return "cancelled"
        except asyncio.CancelledError:
            recording.rest(said, keep_partial=True)
            if not turn.stop.asked:
                raise
            return "cancelled"
        except UsageLimitExceeded:
            recording.rest(said, keep_partial=True)
            return "max_iterations" if phases.iteration >= turn.settings.max_iterations else "budget"
        except TurnError as problem:
            recording.rest(said, keep_partial=not problem.retryable)
            raise
        except UnexpectedModelBehavior as problem:
            recording.rest(said, keep_partial=True)
            if phases.last is not None and phases.last.finish_reason == "content_filter":
                remedy = "Word the request differently."
                recording.notice("warning", "The provider refused to answer.", remedy, cause="bad_request")
                return "refusal"
            raise _misbehaved(turn, problem) from problem
        except Exception as problem:
            final = failure(problem)
            recording.rest(said, keep_partial=not final.retryable)
            raise final from problem
        finally:
            turn.steering.pause()
            phases.end_run(usage)
    recording.rest(said, keep_partial=True)
    return _stop_reason(turn)


def _stop_reason(turn: RequestOrchestrator) -> StopReason:
    match turn.phases.last.finish_reason if turn.phases.last else None:
        case "length":
            turn.recording.notice("warning", "The answer was cut off by the token limit.", "Say “continue”.")
            return "max_tokens"
        case "content_filter":
            return "refusal"
        case _:
            return "end_turn"


def _misbehaved(turn: RequestOrchestrator, problem: UnexpectedModelBehavior) -> TurnError:
    log.warning("turn %s: %s", turn.request.request_id, problem)
    remedy = "Send the prompt again, or switch to another model."
    if not turn.phases.answers and turn.settings.base_url is not None:  # a page for people, most likely
        remedy = "Check that baseUrl is the address of an API (it often ends in /v1), or switch to another model."
    return TurnError(
        "The model gave no usable answer.",
        remedy=remedy,
        kind="empty",
    )
