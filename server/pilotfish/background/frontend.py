"""The frontend of a process that runs a background task: nobody looks at it.

What it does is read from the ledger. A question waits until its owner answers it from an editor or a terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pilotfish.engine.frontend import Question, SessionUpdate
from pilotfish.workspace.editor import Editor, NoEditor


class HeadlessFrontend:
    """A client without a user interface."""

    @property
    def editor(self) -> Editor:
        return NoEditor()

    @property
    def keeps_up(self) -> bool:
        return True

    async def room(self) -> None:
        return

    def notify(self, update: SessionUpdate) -> None:
        """The ledger has it already."""

    def ask(self, question: Question) -> None:
        """The ledger has the question: the call awaits its approval."""

    def resolved(self, question: Question, option_id: str, by: str) -> None:
        """The ledger has the answer."""

    async def ask_user(self, session_id: str, turn_id: str, question: str, options: Sequence[str]) -> str | None:
        """Wait until the owner answers in another process, which cancels this."""
        del session_id, turn_id, question, options
        await asyncio.Event().wait()
