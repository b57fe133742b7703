"""The engine on a scripted provider: real sessions, ledger, workspace and HTTP; only the user is simulated."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tests.support.faces import ALLOW, SilentFrontend
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

    live: Engine
    face: SilentFrontend
    provider: Provider
    root: Path
    session_id: str
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def told(self) -> list[SessionUpdate]:
        return self.face.told

    async def prompt(self, text: str, **options: Any) -> Outcome:
        return await self.live.prompt(self.session_id, [{"type": "text", "text": text}], **options)

    def answers(self, choose: Callable[[Question], Answer | None]) -> None:
        self.face.on_ask = lambda question: self.answer(question, choose(question))

    def answer(self, question: Question, answer: Answer | None) -> None:
        self.live.answer(question.approval_id, answer)

    def text(self, channel: str = "message") -> str:
        return "".join(
            told.record.text
            for told in self.told
            if isinstance(told.record, ChunkRecord) and told.record.channel == channel
        )

    def notices(self) -> list[str]:
        return [told.record.message for told in self.told if isinstance(told.record, NoticeRecord)]

    def statuses(self) -> dict[str, list[str]]:
        """The statuses of every call, in order, without repetitions."""
        seen: dict[str, list[str]] = {}
        for told in self.told:
            if isinstance(told.record, ToolCallRecord):
                call = told.record.call
                line = seen.setdefault(call.id, [])
                if not line or line[-1] != call.status.value:
                    line.append(call.status.value)
        return seen

    def states(self) -> list[tuple[str, int]]:
        return [
            (told.record.state, told.record.iteration) for told in self.told if isinstance(told.record, StateRecord)
        ]

    def check_laws(self) -> None:
        """Check laws 1, 2 and 3 of the protocol on the updates so far (no turn may be running)."""
        assert [told.seq for told in self.told] == list(range(1, len(self.told) + 1))
        ended: set[str] = set()
        for told in self.told:
            assert told.turn_id not in ended, f"{told.record} came after the end of its turn"
            if isinstance(told.record, TurnEndRecord):
                ended.add(told.turn_id)
        assert {told.turn_id for told in self.told if isinstance(told.record, TurnStartRecord)} == ended
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
        face = SilentFrontend(editor or NoEditor())
        live = Engine(loaded.settings, Ledger.open(tmp_path / "store"), face, roots=[root], trusted=trusted)
        for name in ("openai", "anthropic", "google"):
            live.set_secret(name, "test-key")
        try:
            session = await live.new()
            made = Rig(live, face, provider, root.resolve(), session.id)
            if choose is not None:
                made.answers(choose)
            yield made
        finally:
            await live.aclose()


@asynccontextmanager
async def beside(turn: Rig, tmp_path: Path) -> AsyncGenerator[Engine]:
    """A second engine on the same ledger, as another process would be."""
    store = Ledger.open(tmp_path / "store")
    live = Engine(turn.live.settings, store, SilentFrontend(NoEditor()), roots=[turn.root], trusted=True)
    live.set_secret("openai", "test-key")
    try:
        yield live
    finally:
        await live.aclose()


def texts(blocks: Sequence[str]) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in blocks]
