"""What the process that runs a turn does for the others: it takes their requests in order and replies to each.

Promises: only other processes of the same user of the database are obeyed; a stop that was meant for an earlier turn,
or an answer to an earlier question, does nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from pilotfish.engine.frontend import Answer
from pilotfish.engine.questions.question_json import from_json, to_json
from pilotfish.engine.session.turn_control import ControlledSession
from pilotfish.errors import BadRequest, NotTrusted, PilotfishError, SessionBusy, StorageError, TurnError, UnknownCall
from pilotfish.store.controls import ControlRequest

log = logging.getLogger(__name__)


class ControlHandler:
    """The requests to one session of this process."""

    def __init__(self, session: ControlledSession) -> None:
        self._session = session
        self._engine = session.engine
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Begin with all requests that have arrived, in their order."""
        for request in await self._engine.controls.take(self._session.row.id):
            begun = asyncio.Event()
            task = asyncio.get_running_loop().create_task(self._serve(request, begun), name=f"request {request.kind}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await begun.wait()

    async def aclose(self) -> None:
        """Wait until the requests have their replies; the turns have ended before."""
        if self._tasks:
            await asyncio.wait(tuple(self._tasks))

    async def _serve(self, request: ControlRequest, begun: asyncio.Event) -> None:
        try:
            try:
                await self._check_sender(request)
                reply = await self._do(request, begun)
            except Exception as error:
                reply = {"error": _error(error)}
            if self._session.conversation.is_left_open:
                return  # the next process continues the turn
            await self._engine.controls.reply(self._session.row.id, request.id, reply)
        except PilotfishError as error:
            log.warning("a request of another process has no reply: %s", error)
        finally:
            begun.set()

    async def _check_sender(self, request: ControlRequest) -> None:
        if request.sender != await self._engine.controls.user():
            raise NotTrusted("The turn runs for another user, who alone can answer, steer and stop it.")

    async def _do(self, request: ControlRequest, begun: asyncio.Event) -> Mapping[str, Any]:
        session, body = self._session, request.body
        match request.kind:
            case "answer":
                answer = from_json(Answer, body["answer"])
                return {"accepted": self._engine.asked.answer(body["approvalId"], answer, body["digest"])}
            case "answer_words":
                return {"accepted": self._engine.asked.answer_words(body["id"], body["answer"])}
            case "cancel":
                if body["turnId"] not in (None, session.turn_id):
                    return {"receipt": {}}
                stopping = asyncio.ensure_future(session.control.cancel(body["callId"]))
                asyncio.get_running_loop().call_soon(begun.set)
                return {"receipt": to_json(await stopping)}
            case "prompt":
                outcome = await session.prompt(
                    body["blocks"], body["promptId"], body["whenBusy"], begun.set, body["context"]
                )
                return {"outcome": to_json(outcome)}
            case "drop_prompt":
                await session.control.drop(body["promptId"])
                return {}
            case "retry":
                await session.control.retry()
                return {}
            case "queue":
                waiting = await session.control.queue()
                return {
                    "prompts": [
                        {"promptId": one.prompt_id, "blocks": list(one.blocks), "kind": one.kind} for one in waiting
                    ]
                }
            case "withdraw":
                await session.control.withdraw(body["promptId"])
                return {}
            case _:
                raise BadRequest("The process that runs the turn is of another version.", field="kind")


_ERRORS: Mapping[str, type[PilotfishError]] = {
    error.__name__: error for error in (SessionBusy, UnknownCall, NotTrusted)
}


def raise_error(reply: Mapping[str, Any]) -> None:
    """Raise the error of a reply, if it is one."""
    error = reply.get("error")
    if error is None:
        return
    if error["type"] == "TurnError":
        raise TurnError(error["message"], remedy=error["remedy"])
    if error["type"] == "BadRequest":
        raise BadRequest(error["message"], field=error["field"])
    if error["type"] in _ERRORS:
        raise _ERRORS[error["type"]](error["message"])
    raise StorageError(error["message"], remedy=error["remedy"])


def _error(error: Exception) -> Mapping[str, str]:
    if not isinstance(error, PilotfishError):
        log.error("a request of another process failed", exc_info=error)
        return {"type": "", "message": "The process that runs the turn failed.", "remedy": "See its log."}
    return {
        "type": type(error).__name__,
        "message": str(error),
        "remedy": error.remedy if isinstance(error, TurnError | StorageError) else "",
        "field": error.field if isinstance(error, BadRequest) else "",
    }
