"""One session in several processes: this process follows what another one does in it, and acts on its turn.

The process that has the lease runs the turn. The others read its records as they are written, show its questions, and
send it what their users do: answers, prompts, stops. It replies to each request.

Promises: updates are numbered as in the process that runs the turn, without a gap or a double; a request is carried out
once, and replied to after its updates were shown; a request whose holder has died is given back to the caller, who then
does the work here; a change that is not reported is seen by the next look, a moment later.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pilotfish.engine.frontend import Answer, Question, UserQuestion
from pilotfish.engine.questions.question_json import from_json, to_json
from pilotfish.engine.session.control_requests import ControlHandler, raise_error
from pilotfish.engine.session.turn_control import ControlledSession
from pilotfish.errors import PilotfishError, SessionBusy, UnknownSession
from pilotfish.store.controls import ControlRequest, StoredQuestion

log = logging.getLogger(__name__)

TAKE_SECONDS: Final = 10.0
"""how long a request may wait for a process that has the lease and does not take it: it hangs or sleeps"""

PROBE_SECONDS: Final = 0.5
"""how often who waits for a reply checks whether the other process still has the lease"""


class SharedSession:
    """What one session has to do with other processes."""

    def __init__(self, session: ControlledSession) -> None:
        self._session = session
        self._engine = session.engine
        self._handler = ControlHandler(session)
        self._changed = False
        self._looking: asyncio.Task[None] | None = None
        self._closed = False
        self._looked = asyncio.Event()
        """set by each look; who waits for one clears it"""
        self._questions: dict[str, Question] = {}
        """approvals of the turn of another process that are shown here"""
        self._asking: dict[str, asyncio.Task[None]] = {}
        """questions of the tool `ask_user` in another process that are shown here"""
        self._answering: dict[str, asyncio.Task[bool]] = {}

    # -- follow ---------------------------------------------------------------------------------------------------

    def changed(self) -> None:
        """Another process may have changed the session: look soon. A change during a look leads to another look."""
        self._changed = True
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._look(), name=f"look {self._session.row.id}")

    async def next_look(self) -> None:
        """Return after the next look; the latest after the next coarse report of changes."""
        self._looked.clear()
        await self._looked.wait()

    def close(self) -> None:
        """End the waiting for other processes."""
        self._closed = True
        self._looked.set()

    async def aclose(self) -> None:
        for task in (self._looking, *self._asking.values(), *self._answering.values()):
            if task is not None:
                task.cancel()
        await self._handler.aclose()

    async def _look(self) -> None:
        try:
            while self._changed:
                self._changed = False
                try:
                    await self.look()
                except UnknownSession:
                    return  # it was deleted; the next request for it says so
                except PilotfishError as error:
                    log.info("session %s could not be followed: %s", self._session.row.id, error)
                finally:
                    self._looked.set()
        finally:
            self._looking = None

    async def look(self) -> None:
        """Do what other processes have asked for, or show what they have done."""
        session = self._session
        if session.holds_lease:
            await self._handler.serve()
            return
        if await session.catch_up():
            await session.resume()
        self._show_questions(session.conversation.questions if session.conversation.elsewhere else ())

    # -- questions of the other process -----------------------------------------------------------------------------

    def questions(self) -> tuple[Question, ...]:
        """The approvals that wait in another process."""
        return tuple(self._questions.values())

    def answer(self, approval_id: str, answer: Answer | None) -> bool:
        """Send an answer. Returns False if the question does not wait any more; `answered` says whether it won."""
        question = self._questions.get(approval_id)
        if question is None or answer is None or approval_id in self._answering:
            return False
        task = asyncio.get_running_loop().create_task(self._send_answer(question, answer))
        self._answering[approval_id] = task
        task.add_done_callback(lambda _: self._answering.pop(approval_id, None))
        return True

    async def answered(self, approval_id: str) -> bool | None:
        """Wait for the other process: whether the answer that was sent has won. None if none was sent."""
        task = self._answering.get(approval_id)
        return None if task is None else await asyncio.shield(task)

    async def _send_answer(self, question: Question, answer: Answer) -> bool:
        body = {"approvalId": question.approval_id, "digest": question.digest, "answer": to_json(answer)}
        reply = await self.request("answer", body)
        return reply is not None and bool(reply["accepted"])

    def _show_questions(self, stored: Sequence[StoredQuestion]) -> None:
        waiting = {question.id: question for question in stored if question.resolution is None}
        done = {question.id: question.resolution for question in stored if question.resolution is not None}
        for approval_id in self._questions.keys() - waiting.keys():
            option_id = self._session.conversation.decisions.get(approval_id, "cancelled")
            resolution = done.get(approval_id) or {"optionId": option_id, "by": "another window"}
            self._engine.frontend.resolved(self._questions.pop(approval_id), resolution["optionId"], resolution["by"])
        for question_id in self._asking.keys() - waiting.keys():
            self._asking.pop(question_id).cancel()
        for question in waiting.values():
            if question.id not in self._questions and question.id not in self._asking:
                self._show(question)

    def _show(self, stored: StoredQuestion) -> None:
        try:
            if "approval" in stored.body:
                question = from_json(Question, stored.body["approval"])
                self._questions[stored.id] = question
                self._engine.frontend.ask(question)
            else:
                words = UserQuestion(**(stored.body["words"] | {"options": tuple(stored.body["words"]["options"])}))
                self._asking[stored.id] = asyncio.get_running_loop().create_task(self._ask_user(words))
        except (ValueError, KeyError, TypeError) as error:  # written by another version of this program
            log.warning("a question of another process cannot be shown: %s", error)

    async def _ask_user(self, words: UserQuestion) -> None:
        answer = await self._engine.frontend.ask_user(words.session_id, words.turn_id, words.question, words.options)
        if answer is not None:  # who closes the question here leaves it to the other windows
            with contextlib.suppress(PilotfishError):
                await self.request("answer_words", {"id": words.id, "answer": answer})

    # -- requests -------------------------------------------------------------------------------------------------

    async def request(
        self, kind: str, body: Mapping[str, Any], sent: Callable[[], None] = lambda: None
    ) -> Mapping[str, Any] | None:
        """Ask something of the process that has the lease, and wait for its reply. `sent` is called when later requests
        come after this one. Raises the other process's error, or SessionBusy if it does not answer. None if no other
        process has the lease (any more): then it is for the caller to do."""
        session_id, controls = self._session.row.id, self._engine.controls
        request = ControlRequest(id=self._engine.new_id("ctl"), kind=kind, body=body)
        await controls.send(session_id, request)
        sent()
        give_up, probe = time.monotonic() + TAKE_SECONDS, time.monotonic() + PROBE_SECONDS
        try:
            while True:
                if self._closed:
                    raise SessionBusy("The session is being closed here.")
                self._looked.clear()
                state = await controls.state(request.id)
                if state is None:
                    raise UnknownSession(f"There is no session {session_id}.")
                if state.reply is not None:
                    return await self._replied(state.reply)
                if time.monotonic() >= probe:
                    if not await self._engine.ledger.in_use(session_id):
                        state = await controls.withdraw(request.id)
                        return None if state is None or state.reply is None else await self._replied(state.reply)
                    if not state.taken and time.monotonic() >= give_up:
                        raise SessionBusy("The window or program that runs this session does not answer.")
                    probe = time.monotonic() + PROBE_SECONDS
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._looked.wait(), PROBE_SECONDS)
        finally:
            with contextlib.suppress(PilotfishError):
                await controls.withdraw(request.id)

    async def _replied(self, reply: Mapping[str, Any]) -> Mapping[str, Any]:
        await self.look()  # a request is answered after the last update of what it did
        raise_error(reply)
        return reply
