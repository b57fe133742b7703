"""Completes text at the cursor with the model of the setting `completionModel`. Without that setting nothing runs.

Hides: pauses between keys, requests that a later one supersedes, remembered answers, the model and its dialect.
Promises: text of a file goes to the model only where policy lets the agent read the file without a question, and
secrets in it are masked; typing what was proposed needs no new request; the usage belongs to no conversation.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pilotfish.conversation.messages import Category
from pilotfish.conversation.records import Usage
from pilotfish.engine.completion.cursor import Cursor, Snippet, fitting
from pilotfish.engine.context import EngineContext
from pilotfish.engine.turn.calls.facts import collect
from pilotfish.errors import Refused, TurnError
from pilotfish.policy.judge import judge
from pilotfish.policy.secrets import mask
from pilotfish.tools.tool import Subject, Touch
from pilotfish.workspace.workspace import Workspace

if TYPE_CHECKING:
    from pilotfish.engine.completion.dialects import Asker

log = logging.getLogger(__name__)

PAUSE = 0.15  # seconds without a key, after a request that followed another one
MAX_REMEMBERED = 64
RETRY_SECONDS = 30.0  # after a failure nothing is asked for this long
MAX_RECENT = 3


@dataclass(frozen=True, slots=True)
class _Remembered:
    """A completion, and the text around the cursor that it was made for."""

    uri: str
    offset: int
    length: int
    """of the document"""
    before: str
    after: str
    text: str

    def left_at(self, cursor: Cursor) -> str | None:
        """What is left of it at a cursor: the user may have typed its beginning. None if it does not fit."""
        typed = cursor.text[self.offset : cursor.offset]
        same = (
            self.uri == cursor.uri
            and self.offset <= cursor.offset
            and self.length + len(typed) == len(cursor.text)
            and cursor.text.startswith(self.before, self.offset - len(self.before))
            and self.after == cursor.after
        )
        if not same or not self.text.startswith(typed) or (typed and typed == self.text):
            return None
        return self.text[len(typed) :]


class Completer:
    """The completions of one client."""

    def __init__(
        self, engine: EngineContext, report: Callable[[str], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._engine = engine
        self._report = report
        """shows a failure to the user"""
        self._clock = clock
        self._remembered: OrderedDict[str, _Remembered] = OrderedDict()
        self._asker: tuple[object, Asker] | None = None
        self._running: asyncio.Task[str] | None = None
        self._last_request = float("-inf")
        self._not_before = float("-inf")
        self._reported: set[str] = set()
        self.usage = Usage()
        """of all completions of this process; cancelled ones count as requests"""

    @property
    def model(self) -> str:
        """The model's name; empty if completion is off."""
        return self._engine.settings.completion_model

    async def complete(
        self, cursor: Cursor, recent: Callable[[], Sequence[tuple[Path, str]]], *, at_once: bool = False
    ) -> str:
        """The text to insert at the cursor; empty if there is none, or if a later request supersedes this one.

        `recent` gives the places of other documents that were changed lately. `at_once`: the user asked by a key."""
        if not self.model or not cursor.before.strip():
            return ""
        self._stop()
        if (known := self._find(cursor)) is not None:
            return known
        self._running = task = asyncio.create_task(self._ask(cursor, recent, at_once=at_once), name="completion")
        try:
            return await task
        except asyncio.CancelledError:
            if self._running is task:
                self._stop()
                raise
            return ""  # superseded

    def _stop(self) -> None:
        if self._running is not None:
            self._running.cancel()
            self._running = None

    def _find(self, cursor: Cursor) -> str | None:
        for one in reversed(self._remembered.values()):
            if (left := one.left_at(cursor)) is not None:
                return left
        return None

    async def _ask(self, cursor: Cursor, recent: Callable[[], Sequence[tuple[Path, str]]], *, at_once: bool) -> str:
        now = self._clock()
        wait, self._last_request = self._last_request + PAUSE - now, now
        if now < self._not_before or not self._may_read(workspace := self._engine.make_workspace(None), cursor.path):
            return ""
        if wait > 0 and not at_once:
            await asyncio.sleep(PAUSE)  # the user types: another request is likely to follow
        try:
            asker = await self._model_asker()
            self.usage += Usage(requests=1)
            name = "untitled" if cursor.path is None else workspace.relative(cursor.path)
            answer = await asker.ask(cursor, name, self._snippets(workspace, recent()))
        except TurnError as error:
            self._failed(error)
            return ""
        self.usage += answer.usage + Usage(requests=-answer.usage.requests)
        text = fitting(answer.text, cursor)
        self._remember(cursor, text)
        return text

    async def _model_asker(self) -> Asker:
        await self._engine.warm()
        from pilotfish.engine.completion.dialects import Asker

        model = self._engine.completion_model()
        if self._asker is None or self._asker[0] is not model:
            endpoint = self._engine.settings.endpoint(self.model) is not None
            self._asker = (model, Asker(self.model, model, endpoint=endpoint))
            self._remembered.clear()
        return self._asker[1]

    def _may_read(self, workspace: Workspace, path: Path | None) -> bool:
        """Whether policy lets the agent read the file without a question. Text that is no file is the user's own."""
        if path is None:
            return True
        subject = Subject(touches=(Touch(path=str(path), access="read"),))
        folder = next((str(root) for root in workspace.roots if path.is_relative_to(root)), None)
        try:
            facts = collect(
                "read_file", Category.READ_ONLY, subject, resolve=workspace.resolve, directory=path.parent, walled=False
            )
        except Refused:
            return False
        engine = self._engine
        rules = engine.standing_rules(folder)
        return judge(facts, engine.settings.mode, rules, engine.trusted(folder)).decision == "allow"

    def _snippets(self, workspace: Workspace, recent: Sequence[tuple[Path, str]]) -> Sequence[Snippet]:
        """The places as the model is shown them, without those that it may not read."""
        allowed = [(path, text) for path, text in recent if self._may_read(workspace, path)]
        return tuple(Snippet(workspace.relative(path), mask(text)[0]) for path, text in allowed[:MAX_RECENT])

    def _remember(self, cursor: Cursor, text: str) -> None:
        before, after = cursor.before, cursor.after
        one = _Remembered(cursor.uri, cursor.offset, len(cursor.text), before, after, text)
        self._remembered[f"{cursor.uri}\n{before}"] = one
        while len(self._remembered) > MAX_REMEMBERED:
            self._remembered.popitem(last=False)

    def _failed(self, error: TurnError) -> None:
        """Wait before the next request, and tell the user once."""
        self._not_before = self._clock() + max(RETRY_SECONDS, error.retry_after or 0)
        message = f"No inline completion from {self.model}: {error} {error.remedy or ''}".strip()
        log.info("%s", message)
        if message not in self._reported:
            self._reported.add(message)
            self._report(message)
