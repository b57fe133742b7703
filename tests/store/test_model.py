"""Any sequence of operations on a ledger gives the same result as on a simple model."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.makers import Pen, call, chunk, end, said, session, sql, start, state, store_at
from tests.support.tries import tries

from pilotfish.conversation.messages import CallStatus
from pilotfish.conversation.records import Entry, Record, ToolCallRecord
from pilotfish.store.catalog import Catalog
from pilotfish.store.ledger import Heads, Ledger

Kind = Literal["start", "message", "chunk", "state", "progress", "running", "done", "end"]
Act = tuple[Literal["append"], int, tuple[Kind, ...]] | tuple[Literal["fork", "delete", "reopen"], int, tuple[()]]

KINDS = st.sampled_from(("start", "message", "chunk", "chunk", "state", "progress", "running", "done", "end"))
ACTS = st.one_of(
    st.tuples(st.just("append"), st.integers(0, 3), st.lists(KINDS, max_size=6).map(tuple)),
    st.tuples(st.sampled_from(("fork", "delete", "reopen")), st.integers(0, 3), st.just(())),
)


@dataclass
class Model:
    """The expected state of a session."""

    pen: Pen = field(default_factory=Pen)
    kept: list[Entry] = field(default_factory=list[Entry])
    passing: list[Entry] = field(default_factory=list[Entry])

    def append(self, entries: list[Entry]) -> None:
        for entry in entries:
            record = entry.record
            if record.type in ("chunk", "state"):
                self.passing.append(entry)
                continue
            self.kept.append(entry)
            if record.type == "message":
                self.passing = [other for other in self.passing if _item(other.record) != "m.0"]
            elif record.type == "tool_call" and record.call.status is CallStatus.COMPLETED:
                self.passing = [other for other in self.passing if _item(other.record) != "c"]
            elif record.type == "turn_end":
                self.passing = []

    def fork(self) -> Model:
        n = max((entry.n for entry in self.kept), default=0)
        seq = max((entry.seq or 0 for entry in self.kept), default=0)
        return Model(Pen(n, seq), list(self.kept))


def _item(record: Record) -> str:
    return record.item_id if record.type == "chunk" else ""


def _record(kind: Kind) -> Record:
    match kind:
        case "start":
            return start()
        case "message":
            return said("words " * 3)
        case "chunk":
            return chunk("words ")
        case "state":
            return state()
        case "progress":
            return chunk("half way", item_id="c", channel="progress")
        case "running":
            return call("c", CallStatus.IN_PROGRESS)
        case "done":
            return call("c", CallStatus.COMPLETED, output="x" * 9_000)
        case "end":
            return end()


@settings(max_examples=tries(20), deadline=None)
@given(st.lists(ACTS, max_size=25))
def test_a_ledger_behaves_like_its_model(acts: list[Act]):
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(_play(Path(directory), acts))


async def _play(directory: Path, acts: list[Act]) -> None:
    ledger = Ledger.open(store_at(directory))
    models: dict[str, Model] = {}
    made = 0
    for name, which, kinds in acts:
        session_id = f"s{which}"
        if session_id not in models and name != "reopen":
            await Catalog(ledger).create(session(session_id))
            models[session_id] = Model()
        match name:
            case "append":
                entries = models[session_id].pen(*(_record(kind) for kind in kinds))
                models[session_id].append(entries)
                await ledger.append(session_id, entries)
            case "fork":
                made += 1
                await Catalog(ledger).fork(session_id, f"fork{made}")
                models[f"fork{made}"] = models[session_id].fork()
            case "delete":
                await Catalog(ledger).delete(session_id)
                del models[session_id]
            case "reopen":
                await ledger.aclose()
                ledger = Ledger.open(store_at(directory))
    listed = await Catalog(ledger).list(limit=1000)
    assert {row.id for row in listed.sessions} == models.keys()
    for session_id, model in models.items():
        assert await ledger.heads(session_id) == Heads(model.pen.n, model.pen.seq, "")
        assert await ledger.history(session_id) == model.kept
        assert await ledger.unfinished(session_id) == model.passing
        everything = sorted([*model.kept, *model.passing], key=lambda entry: entry.n)
        assert (await ledger.page(session_id, None, 10_000)).entries == tuple(everything)
        turns = sum(entry.record.type == "turn_start" for entry in model.kept)
        assert (await Catalog(ledger).get(session_id)).turns == turns
    # The one long output is stored once, and only while a session references it.
    kept = [entry.record for model in models.values() for entry in model.kept]
    has_output = any(isinstance(record, ToolCallRecord) and record.success for record in kept)
    assert await sql(ledger, "SELECT count(*) FROM blobs") == [(int(has_output),)]
    await ledger.aclose()
