"""Questions that wait for the user's answer.

Promises: the first answer wins; the frontend removes a question that was answered; a question ends with its turn.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, replace

from pilotfish.engine.frontend import Answer, Frontend, Option, OptionId, Question, UserQuestion
from pilotfish.engine.questions.question_json import to_json
from pilotfish.policy.rule_suggestions import describe, refusing_rule, suggest_rule
from pilotfish.policy.rules import CallFacts, Rule
from pilotfish.store.controls import Controls


@dataclass(slots=True)
class _Waiting:
    question: Question
    answer: asyncio.Future[Answer | None]


class PendingApprovals:
    """The open questions of the turns of this process. Other processes see them in `controls`."""

    def __init__(self, frontend: Frontend, controls: Controls) -> None:
        self._frontend = frontend
        self._controls = controls
        self._open: dict[str, _Waiting] = {}
        self._open_words: dict[str, asyncio.Future[str | None]] = {}
        """questions of the tool `ask_user`"""

    async def ask(self, question: Question) -> Answer | None:
        """Ask the user and wait for the answer. None if no client can answer."""
        waiting = _Waiting(question, asyncio.get_running_loop().create_future())
        self._open[question.approval_id] = waiting
        try:
            self._controls.show_question(question.session_id, question.approval_id, {"approval": to_json(question)})
            self._frontend.ask(question)
            return await waiting.answer
        except asyncio.CancelledError:
            self._resolve(waiting, None, "cancelled")
            raise

    def answer(self, approval_id: str, answer: Answer | None, digest: str | None = None) -> bool:
        """Answer a question; None if no client can answer. `digest` is that of the question which the user saw in
        another process. Returns False if it was answered already, or another question has its id."""
        waiting = self._open.get(approval_id)
        if waiting is None or waiting.answer.done() or digest not in (None, waiting.question.digest):
            return False
        self._resolve(waiting, answer, answer.by if answer else "nobody")
        return True

    async def ask_user(self, words: UserQuestion) -> str | None:
        """Ask for the tool `ask_user`, here and in the other processes that show the session. The first answer wins."""
        elsewhere: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._open_words[words.id] = elsewhere
        self._controls.show_question(words.session_id, words.id, {"words": asdict(words)})
        here = asyncio.ensure_future(
            self._frontend.ask_user(words.session_id, words.turn_id, words.question, words.options)
        )
        try:
            await asyncio.wait((here, elsewhere), return_when=asyncio.FIRST_COMPLETED)
            return elsewhere.result() if elsewhere.done() else here.result()
        finally:
            del self._open_words[words.id]
            if not here.done():
                here.cancel()  # which closes the client's dialog
                await asyncio.wait((here,))
            self._controls.resolve_question(words.session_id, words.id, {"optionId": "", "by": "user"})

    def answer_words(self, question_id: str, answer: str | None) -> bool:
        """Answer a question of the tool `ask_user` in another process. Returns False if it was answered already."""
        waiting = self._open_words.get(question_id)
        if waiting is None or waiting.done():
            return False
        waiting.set_result(answer)
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
        question, option_id = waiting.question, answer.option_id if answer else "cancelled"
        self._open.pop(question.approval_id, None)
        if not waiting.answer.done():
            waiting.answer.set_result(answer)
        self._controls.resolve_question(question.session_id, question.approval_id, {"optionId": option_id, "by": by})
        self._frontend.resolved(question, option_id, by)


def options(facts: CallFacts, *, once: bool = False, tried: bool = False) -> tuple[Option, ...]:
    """The answer options for a call, with the rules that some of them save. With `once`, none that allows more. A
    command that was `tried` can be applied as it was shown, or run again."""
    offered: list[tuple[OptionId, str, Rule | None]] = [
        ("allow_once", "Allow once", None),
        ("allow_real", "Run it for real", None),
        ("allow_session", "Allow for this session", suggest_rule(facts, "session")),
        ("allow_always", "Always allow", suggest_rule(facts, "workspace")),
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
    allowing = suggest_rule(facts, "workspace") if general else None
    return replace(allowing, decision="deny") if allowing else refusing_rule(facts, "workspace")
