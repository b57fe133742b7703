"""Questions that wait for the user's answer.

Promises: the first answer wins; the frontend removes a question that was answered; a question ends with its turn.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from pilotfish.engine.frontend import Answer, Frontend, Option, OptionId, Question
from pilotfish.policy.rule_suggestions import describe, narrowest_rule, refusing_rule
from pilotfish.policy.rules import CallFacts, Rule


@dataclass(slots=True)
class _Waiting:
    question: Question
    answer: asyncio.Future[Answer | None]


class PendingApprovals:
    """The open questions of all sessions."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._open: dict[str, _Waiting] = {}

    async def ask(self, question: Question) -> Answer | None:
        """Ask the user and wait for the answer. None if no client can answer."""
        waiting = _Waiting(question, asyncio.get_running_loop().create_future())
        self._open[question.approval_id] = waiting
        try:
            self._frontend.ask(question)
            return await waiting.answer
        except asyncio.CancelledError:
            self._resolve(waiting, None, "cancelled")
            raise

    def answer(self, approval_id: str, answer: Answer | None) -> bool:
        """Answer a question; None if no client can answer. Returns False if it was answered already."""
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

    def cancel_all(self) -> None:
        """Cancel all questions: the client is gone."""
        for waiting in tuple(self._open.values()):
            self._resolve(waiting, None, "client gone")

    def _resolve(self, waiting: _Waiting, answer: Answer | None, by: str) -> None:
        self._open.pop(waiting.question.approval_id, None)
        if not waiting.answer.done():
            waiting.answer.set_result(answer)
        self._frontend.resolved(waiting.question, answer.option_id if answer else "cancelled", by)


def options(facts: CallFacts, *, once: bool = False, tried: bool = False) -> tuple[Option, ...]:
    """The answer options for a call, with the rules that some of them save. With `once`, none that allows more. A
    command that was `tried` can be applied as it was shown, or run again."""
    offered: list[tuple[OptionId, str, Rule | None]] = [
        ("allow_once", "Allow once", None),
        ("allow_real", "Run it for real", None),
        ("allow_session", "Allow for this session", narrowest_rule(facts, "session")),
        ("allow_always", "Always allow", narrowest_rule(facts, "workspace")),
        ("reject", "Deny", None),
        ("reject_always", "Always deny", _deny_rule(facts)),
    ]
    return tuple(
        Option(id=option, label=label, rule=describe(rule) if rule else None, standing=rule)
        for option, label, rule in offered
        if (rule is not None or option in ("allow_once", "allow_real", "reject"))
        and not (option == "allow_real" and not tried)
        and not (once and option in ("allow_session", "allow_always"))
    )


def _deny_rule(facts: CallFacts) -> Rule | None:
    """The rule of “Always deny”: for this exact command, or for all changes of this file."""
    general = facts.command is None and facts.mcp is None
    allowing = narrowest_rule(facts, "workspace") if general else None
    return replace(allowing, decision="deny") if allowing else refusing_rule(facts, "workspace")
