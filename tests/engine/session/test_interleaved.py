"""Two windows on one session, each doing anything at any moment: nothing of either is lost, and both see the same.

Two processes on one ledger are played by two `Live` in one, with a model that needs no network: what is found is found
again. Real processes that are killed are in `tests/chaos`.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolReturnPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from tests.support.engine import texts
from tests.support.frontends import ALLOW, DENY, SilentFrontend

from pilotfish.config.settings import load
from pilotfish.conversation.records import Entry, TurnEndRecord, TurnStartRecord
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Outcome
from pilotfish.errors import RequestError
from pilotfish.store.ledger import Ledger
from pilotfish.workspace.editor import NoEditor

Action = Literal[
    "talk", "write", "queue", "steer", "stop", "withdraw", "allow", "deny", "look", "undo", "redo", "rename",
    "ask mode", "auto mode", "compact", "fork", "export",
]  # fmt: skip


@dataclass(frozen=True)
class Step:
    window: int
    action: Action
    then: int
    """rounds of the event loop before the next step; none: until it is done"""


ACTIONS: tuple[Action, ...] = get_args(Action)
PROMPTS = ("talk", "write", "queue", "steer")
STEPS = st.lists(
    st.builds(Step, st.integers(0, 1), st.sampled_from(ACTIONS), st.sampled_from((1, 3, 10, 30, 100, 0))), max_size=12
)


class Played(Engine):
    """A process whose model says a few words, and writes a file when it is asked to."""

    def model_for(self, name: str) -> Model:
        del name
        return FunctionModel(_summarise, stream_function=_speak)


async def _speak(messages: list[ModelMessage], _: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    last = messages[-1].parts[-1]
    asked = str(getattr(last, "content", ""))
    if not isinstance(last, ToolReturnPart) and "write" in asked:
        yield {0: DeltaToolCall("write_file", f'{{"path": "a.txt", "content": "{len(messages)}\\n"}}')}
        return
    for word in ("some ", "words ", "and an end"):
        yield word
        await asyncio.sleep(0)


async def _summarise(_messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
    await asyncio.sleep(0)
    return ModelResponse([TextPart("so far")])


@dataclass
class Table:
    """Two windows on one ledger, and what the ledger refused."""

    root: Path
    windows: tuple[Played, ...] = ()
    faces: tuple[SilentFrontend, ...] = ()
    refused: list[BaseException] = field(default_factory=list[BaseException])
    numbers: Any = field(default_factory=itertools.count)

    async def open(self) -> None:
        (self.root / "work").mkdir()
        chosen = load(editor={"model": "demo", "mode": "auto"}).settings
        ledgers = [Ledger.open(self.root / "store") for _ in range(2)]
        self.faces = tuple(SilentFrontend(NoEditor()) for _ in ledgers)
        self.windows = tuple(
            Played(chosen, ledger, frontend, roots=[self.root / "work"], trusted=True)
            for ledger, frontend in zip(ledgers, self.faces, strict=True)
        )
        for ledger in ledgers:
            self._watch(ledger)

    def _watch(self, ledger: Ledger) -> None:
        append = ledger.append

        def watched(session_id: str, entries: Sequence[Entry]) -> asyncio.Future[None]:
            done = append(session_id, entries)
            done.add_done_callback(lambda each: self.refused.extend(filter(None, [each.exception()])))
            return done

        ledger.append = watched  # type: ignore[method-assign]

    async def aclose(self) -> None:
        for window in self.windows:
            await window.aclose()


@dataclass
class Game:
    """One session, and what was done in it."""

    table: Table
    session_id: str
    done: list[tuple[Step, asyncio.Task[Any]]] = field(default_factory=list[Any])
    prompts: dict[str, asyncio.Task[Outcome]] = field(default_factory=dict[str, "asyncio.Task[Outcome]"])

    async def play(self, step: Step) -> None:
        engine = self.table.windows[step.window]
        task = asyncio.ensure_future(self._do(engine, step.action))
        self.done.append((step, task))
        if step.then:
            for _ in range(step.then):
                await asyncio.sleep(0)
        elif step.action not in PROMPTS:
            await asyncio.wait((task,))

    async def _do(self, engine: Engine, action: Action) -> object:
        session_id, number = self.session_id, next(self.table.numbers)
        questions = engine.questions(session_id)
        match action:
            case "talk" | "write" | "queue" | "steer":
                return await self._prompt(engine, action, number)
            case "allow" | "deny":
                return questions and engine.answer(questions[0].approval_id, ALLOW if action == "allow" else DENY)
            case "withdraw":
                waiting = await engine.queue(session_id)
                return waiting and await engine.withdraw(session_id, waiting[0].prompt_id)
            case "rename":
                return await engine.rename(session_id, f"name {number}")
            case "ask mode" | "auto mode":
                return await engine.configure(session_id, mode=action.split()[0])
            case "export":
                return await engine.export(session_id, "markdown")
            case _:
                simple: dict[str, Callable[[str], Awaitable[object]]] = {
                    "stop": engine.cancel,
                    "look": engine.load,
                    "undo": engine.undo,
                    "redo": engine.redo,
                    "compact": engine.compact,
                    "fork": engine.fork,
                }
                return await simple[action](session_id)

    async def _prompt(self, engine: Engine, action: str, number: int) -> Outcome:
        busy: Any = {"queue": "queue", "steer": "steer"}.get(action, "reject")
        text = f"{action} {number}"
        task = asyncio.ensure_future(engine.prompt(self.session_id, texts([text]), None, busy))
        self.prompts[text] = task
        return await task

    async def end(self) -> None:
        """Answer what is asked, and have one last word in each window, before which what waits there comes."""
        await self._done(task for step, task in self.done if step.action not in PROMPTS)
        for window in self.table.windows:
            while True:
                last = asyncio.ensure_future(self._prompt(window, "queue", next(self.table.numbers)))
                await self._done([last])
                if last.exception() is None:
                    assert last.result().stop_reason == "end_turn"
                    break
                assert isinstance(last.exception(), RequestError)  # the other window works
        await self._done(task for _, task in self.done)

    async def _done(self, tasks: Iterable[asyncio.Task[Any]]) -> None:
        pending = set(tasks)
        while pending:
            for window in self.table.windows:
                for question in window.questions(self.session_id):
                    window.answer(question.approval_id, ALLOW)
            _, pending = await asyncio.wait(pending, timeout=0.005)

    async def check(self) -> None:
        failed = [(step, task.exception()) for step, task in self.done if task.exception() is not None]
        assert [each for each in failed if not isinstance(each[1], RequestError)] == []
        assert self.table.refused == []
        entries = await self.table.windows[0].ledger.history(self.session_id)
        heads = await self.table.windows[0].ledger.heads(self.session_id)
        records = [entry.record for entry in entries]
        starts = Counter(record.turn_id for record in records if isinstance(record, TurnStartRecord))
        assert starts == Counter(record.turn_id for record in records if isinstance(record, TurnEndRecord))
        assert set(starts.values()) <= {1}
        looks = [await window.load(self.session_id, limit=10_000) for window in self.table.windows]
        assert looks[0] == looks[1]
        for frontend in self.table.faces:  # each window was shown everything since it opened the session, once
            told = told_by(frontend, self.session_id)
            assert told == list(range(heads.seq + 1 - len(told), heads.seq + 1))
        assert len(told_by(self.table.faces[0], self.session_id)) == heads.seq
        assert not looks[0].session.busy
        said = Counter(
            str(block["text"])
            for item in looks[0].items
            if item.kind == "prompt"
            for block in item.prompt
        )  # fmt: skip
        ran = [
            text
            for text, task in self.prompts.items()
            if task.exception() is None and (task.result().turn_id or task.result().stop_reason != "cancelled")
        ]
        assert said == Counter(ran)


def told_by(frontend: SilentFrontend, session_id: str) -> list[int]:
    return [told.seq for told in frontend.updates if told.session_id == session_id]


def test_whatever_two_windows_do_at_once_nothing_is_lost_and_both_see_the_same() -> None:
    with tempfile.TemporaryDirectory() as root, asyncio.Runner() as runner:
        table = Table(Path(root).resolve())
        runner.run(table.open())

        @settings(max_examples=60, derandomize=True)
        @given(STEPS)
        def plays(steps: list[Step]) -> None:
            runner.run(asyncio.wait_for(_game(table, steps), 30))

        try:
            plays()
        finally:
            runner.run(table.aclose())


async def _game(table: Table, steps: list[Step]) -> None:
    table.refused.clear()
    for frontend in table.faces:
        frontend.updates.clear()
    session = await table.windows[0].new()
    game = Game(table, session.id)
    for step in steps:
        await game.play(step)
    await game.end()
    await game.check()
