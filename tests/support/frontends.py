"""A frontend for engine tests: it keeps all updates and gives scripted answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pilotfish.engine.frontend import Answer, Question, SessionUpdate
from pilotfish.workspace.editor import Editor


class SilentFrontend:
    """A client that always keeps up. Questions go to `on_ask`; without one they wait."""

    def __init__(self, editor: Editor) -> None:
        self._editor = editor
        self.updates: list[SessionUpdate] = []
        self.asked: list[Question] = []
        self.cleared: list[tuple[str, str, str]] = []
        self.on_update: Callable[[SessionUpdate], None] | None = None
        self.on_ask: Callable[[Question], None] | None = None
        self.user_answer: str | None = None
        self.user_questions: list[tuple[str, tuple[str, ...]]] = []

    @property
    def editor(self) -> Editor:
        return self._editor

    @property
    def keeps_up(self) -> bool:
        return True

    async def room(self) -> None:
        return

    def notify(self, update: SessionUpdate) -> None:
        self.updates.append(update)
        if self.on_update:
            self.on_update(update)

    def ask(self, question: Question) -> None:
        self.asked.append(question)
        if self.on_ask:
            self.on_ask(question)

    def resolved(self, question: Question, option_id: str, by: str) -> None:
        self.cleared.append((question.approval_id, option_id, by))

    async def ask_user(self, session_id: str, turn_id: str, question: str, options: Sequence[str]) -> str | None:
        self.user_questions.append((question, tuple(options)))
        return self.user_answer


ALLOW = Answer(option_id="allow_once", by="test")
DENY = Answer(option_id="reject", by="test")
