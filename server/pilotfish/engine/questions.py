"""Questions that wait for the user's answer.

Hides: who waits for what. Promises: the first answer wins, every surface is cleared, a question whose turn ends is
over, and a standing rule is written only when its words were the chosen answer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pilotfish.core.messages import CanonicalToolCall
from pilotfish.core.policy import CallFacts, Rule, Verdict, describe, narrowest_rule, refusing_rule
from pilotfish.engine.ports import Answer, Face, Option, OptionId, Question
from pilotfish.errors import StorageError
from pilotfish.tools.tool import Preview

if TYPE_CHECKING:
    from pilotfish.engine.session import LiveSession


@dataclass(slots=True)
class _Waiting:
    question: Question
    answer: asyncio.Future[Answer | None]


class Questions:
    """All open ones, of every session."""

    def __init__(self, face: Face, new_id: Callable[[str], str], add_rule: Callable[[Rule, str | None], None]) -> None:
        self._face = face
        self._new_id = new_id
        self._add_rule = add_rule
        self._open: dict[str, _Waiting] = {}

    async def ask(
        self,
        session: LiveSession,
        turn_id: str,
        call: CanonicalToolCall,
        facts: CallFacts,
        verdict: Verdict,
        preview: Preview | None,
        mark: str,
        *,
        amendable: bool,
    ) -> tuple[Answer | None, Question]:
        """Ask the user, on every surface. The first answer wins; None means that nobody can answer."""
        question = Question(
            approval_id=self._new_id("apr"),
            session_id=session.row.id,
            turn_id=turn_id,
            call=call,
            reason=verdict.reason,
            digest=mark,
            preview=preview or Preview(kind="text", text=_in_words(call)),
            parsed=verdict.commands,
            options=_options(facts),
            amendable=amendable,
        )
        waiting = _Waiting(question, asyncio.get_running_loop().create_future())
        self._open[question.approval_id] = waiting
        try:
            self._face.ask(question)
            answer = await waiting.answer
        except asyncio.CancelledError:
            self._resolve(waiting, None, "cancelled")
            raise
        if answer is not None:
            self._learn(session, facts, answer)
        return answer, question

    def answer(self, approval_id: str, answer: Answer | None) -> bool:
        """The user's answer, from any surface; None: there is nobody to answer. False: it was answered already."""
        waiting = self._open.get(approval_id)
        if waiting is None or waiting.answer.done():
            return False
        self._resolve(waiting, answer, answer.by if answer else "nobody")
        return True

    def open(self, session_id: str | None = None) -> tuple[Question, ...]:
        return tuple(
            waiting.question
            for waiting in self._open.values()
            if session_id is None or waiting.question.session_id == session_id
        )

    def let_go(self) -> None:
        """Nobody will answer any more."""
        for waiting in tuple(self._open.values()):
            self._resolve(waiting, None, "client gone")

    def _resolve(self, waiting: _Waiting, answer: Answer | None, by: str) -> None:
        self._open.pop(waiting.question.approval_id, None)
        if not waiting.answer.done():
            waiting.answer.set_result(answer)
        self._face.resolved(waiting.question, answer.option_id if answer else "cancelled", by)

    def _learn(self, session: LiveSession, facts: CallFacts, answer: Answer) -> None:
        """Write the standing rule that the answer asked for."""
        match answer.option_id:
            case "allow_session":
                if rule := narrowest_rule(facts, "session"):
                    session.rules.append(rule)
            case "allow_always":
                if rule := narrowest_rule(facts, "workspace"):
                    self._keep(session, rule)
            case "reject_always":
                if rule := _never(facts):
                    self._keep(session, rule)
            case "allow_once" | "reject":
                pass

    def _keep(self, session: LiveSession, rule: Rule) -> None:
        """Write it down; where that cannot be, it holds in this session, and the answer itself holds all the same."""
        try:
            self._add_rule(rule, session.row.workspace)
        except StorageError as error:
            session.rules.append(replace(rule, scope="session"))
            if session.turn is not None:
                session.turn.recording.notice("warning", f"{error} It holds in this session.", error.remedy)


def _options(facts: CallFacts) -> tuple[Option, ...]:
    session, always = narrowest_rule(facts, "session"), narrowest_rule(facts, "workspace")
    options: list[tuple[OptionId, str, Rule | None]] = [("allow_once", "Allow once", None)]
    if session:
        options.append(("allow_session", "Allow for this session", session))
    if always:
        options.append(("allow_always", "Always allow", always))
    options.append(("reject", "Deny", None))
    if never := _never(facts):
        options.append(("reject_always", "Always deny", never))
    return tuple(
        Option(id=option, label=label, rule=describe(rule) if rule else None, standing=rule)
        for option, label, rule in options
    )


def _never(facts: CallFacts) -> Rule | None:
    """The rule of “Always deny”: this very command, or every way to change this file."""
    allowing = None if facts.command is not None else narrowest_rule(facts, "workspace")
    return replace(allowing, decision="deny") if allowing else refusing_rule(facts, "workspace")


def _in_words(call: CanonicalToolCall) -> str:
    """What is asked for, when the tool has nothing better to show."""
    return f"{call.title}\n{json.dumps(call.args, indent=2, ensure_ascii=False)}" if call.args else call.title
