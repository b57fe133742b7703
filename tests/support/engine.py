"""The engine on a scripted provider: real sessions, ledger, workspace and HTTP; only the user is simulated."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.support.frontends import ALLOW, SilentFrontend
from tests.support.provider import Answer as Reply
from tests.support.provider import Provider, serve

from pilotfish.config.settings import load
from pilotfish.conversation.records import (
    ChunkRecord,
    NoticeRecord,
    StateRecord,
    ToolCallRecord,
    TurnEndRecord,
    TurnStartRecord,
)
from pilotfish.engine.engine import Engine
from pilotfish.engine.frontend import Answer, Outcome, Question, SessionUpdate
from pilotfish.store.ledger import Ledger
from pilotfish.workspace.editor import Editor, NoEditor

Dialect = Literal["chat", "responses", "anthropic", "google"]

MODELS: Mapping[Dialect, str] = {
    "chat": "openai-chat:scripted",
    "responses": "openai-responses:scripted",
    "anthropic": "anthropic:scripted",
    "google": "google:scripted",
}


@dataclass
class Rig:
    """A running engine and its updates."""

    engine: Engine
    frontend: SilentFrontend
    provider: Provider
    root: Path
    session_id: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def updates(self) -> list[SessionUpdate]:
        return self.frontend.updates

    async def prompt(self, text: str, **options: Any) -> Outcome:
        return await self.engine.prompt(self.session_id, [{"type": "text", "text": text}], **options)

    def answers(self, choose: Callable[[Question], Answer | None]) -> None:
        self.frontend.on_ask = lambda question: self.answer(question, choose(question))

    def answer(self, question: Question, answer: Answer | None) -> None:
        self.engine.answer(question.approval_id, answer)

    def text(self, channel: str = "message") -> str:
        return "".join(
            update.record.text
            for update in self.updates
            if isinstance(update.record, ChunkRecord) and update.record.channel == channel
        )

    def notices(self) -> list[str]:
        return [update.record.message for update in self.updates if isinstance(update.record, NoticeRecord)]

    def statuses(self) -> dict[str, list[str]]:
        """The statuses of every call, in order, without repetitions."""
        seen: dict[str, list[str]] = {}
        for update in self.updates:
            if isinstance(update.record, ToolCallRecord):
                call = update.record.call
                line = seen.setdefault(call.id, [])
                if not line or line[-1] != call.status.value:
                    line.append(call.status.value)
        return seen

    def states(self) -> list[tuple[str, int]]:
        return [
            (update.record.state, update.record.iteration)
            for update in self.updates
            if isinstance(update.record, StateRecord)
        ]

    def check_laws(self) -> None:
        """Check laws 1, 2 and 3 of the protocol on the updates so far (no turn may be running)."""
        assert [update.seq for update in self.updates] == list(range(1, len(self.updates) + 1))
        ended: set[str] = set()
        for update in self.updates:
            assert update.turn_id not in ended, f"{update.record} came after the end of its turn"
            if isinstance(update.record, TurnEndRecord):
                ended.add(update.turn_id)
        assert {update.turn_id for update in self.updates if isinstance(update.record, TurnStartRecord)} == ended
        open_ = {id_: line for id_, line in self.statuses().items() if line[-1] not in FINAL}
        assert open_ == {}


FINAL = {"completed", "failed", "denied", "cancelled"}


@asynccontextmanager
async def rig(
    tmp_path: Path,
    *replies: Reply,
    dialect: Dialect = "chat",
    editor: Editor | None = None,
    files: Mapping[str, str] | None = None,
    otherwise: Reply | None = None,
    trusted: bool = True,
    choose: Callable[[Question], Answer | None] | None = lambda _: ALLOW,
    store: str | None = None,
    **settings: Any,
) -> AsyncGenerator[Rig]:
    root = tmp_path / "work"
    root.mkdir(exist_ok=True)
    for name, text in (files or {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8", newline="")
    async with serve(*replies, otherwise=otherwise) as provider:
        loaded = load(editor={"model": MODELS[dialect], "baseUrl": provider.base_url(dialect), **settings})
        assert loaded.problems == ()
        frontend = SilentFrontend(editor or NoEditor())
        engine = Engine(
            loaded.settings, Ledger.open(store or tmp_path / "store"), frontend, roots=[root], trusted=trusted
        )
        for name in ("openai", "anthropic", "google"):
            engine.set_secret(name, "test-key")
        try:
            session = await engine.new()
            made = Rig(engine, frontend, provider, root.resolve(), session.id)
            if choose is not None:
                made.answers(choose)
            yield made
        finally:
            await engine.aclose()


@asynccontextmanager
async def beside(turn: Rig, tmp_path: Path) -> AsyncGenerator[Engine]:
    """A second engine on the same ledger, as another process would be."""
    store = Ledger.open(tmp_path / "store")
    engine = Engine(turn.engine.settings, store, SilentFrontend(NoEditor()), roots=[turn.root], trusted=True)
    engine.set_secret("openai", "test-key")
    try:
        yield engine
    finally:
        await engine.aclose()


def texts(blocks: Sequence[str]) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in blocks]
