"""Questions that wait for the user's answer.

Hides: who waits for what. Promises: the first answer wins, every surface is cleared, a question whose turn ends is
over, and a standing rule is written only when its words were the chosen answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from pilotfish.engine.frontend import Answer, Frontend, Option, OptionId, Question
from pilotfish.policy.judge import CallFacts, Rule, describe, narrowest_rule, refusing_rule


@dataclass(slots=True)
class _Waiting:
    question: Question
    answer: asyncio.Future[Answer | None]


class PendingApprovals:
    """All open ones, of every session."""

    def __init__(self, face: Frontend) -> None:
        self._face = face
        self._open: dict[str, _Waiting] = {}

    async def ask(self, question: Question) -> Answer | None:
        """Ask the user, on every surface. The first answer wins; None means that nobody can answer."""
        waiting = _Waiting(question, asyncio.get_running_loop().create_future())
        self._open[question.approval_id] = waiting
        try:
            self._face.ask(question)
            return await waiting.answer
        except asyncio.CancelledError:
            self._resolve(waiting, None, "cancelled")
            raise

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


def options(facts: CallFacts) -> tuple[Option, ...]:
    """The answers that a call can be given, with the rules that some of them write."""
    offered: list[tuple[OptionId, str, Rule | None]] = [
        ("allow_once", "Allow once", None),
        ("allow_session", "Allow for this session", narrowest_rule(facts, "session")),
        ("allow_always", "Always allow", narrowest_rule(facts, "workspace")),
        ("reject", "Deny", None),
        ("reject_always", "Always deny", _never(facts)),
    ]
    return tuple(
        Option(id=option, label=label, rule=describe(rule) if rule else None, standing=rule)
        for option, label, rule in offered
        if rule is not None or option in ("allow_once", "reject")
    )


def _never(facts: CallFacts) -> Rule | None:
    """The rule of “Always deny”: this very command, or every way to change this file."""
    allowing = None if facts.command is not None else narrowest_rule(facts, "workspace")
    return replace(allowing, decision="deny") if allowing else refusing_rule(facts, "workspace")
