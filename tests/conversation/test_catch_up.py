"""Whoever reads the ledger later sends the numbers and the texts that the process that wrote it has sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilotfish.conversation.catch_up import CatchUp
from pilotfish.conversation.messages import CanonicalMessage, MessageRole, TextPart, ThoughtPart, message_to_json
from pilotfish.conversation.records import (
    SILENT_TYPES,
    ChunkRecord,
    Entry,
    MessageRecord,
    Record,
    StateRecord,
    TurnEndRecord,
    TurnStartRecord,
    Usage,
)

WORDS = st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=5)
MESSAGES = st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=3)


def turn(messages: list[tuple[list[str], list[str]]]) -> list[Entry]:
    """All entries of a turn, as the process that runs it sends them."""
    records: list[Record] = [TurnStartRecord(turn_id="t", prompt=(), timestamp=0.0)]
    for number, (thoughts, texts) in enumerate(messages):
        records.append(StateRecord(turn_id="t", state="assistant", iteration=number + 1))
        records += [ChunkRecord(turn_id="t", item_id=f"m{number}.0", channel="thought", text=word) for word in thoughts]
        records += [ChunkRecord(turn_id="t", item_id=f"m{number}.1", channel="message", text=word) for word in texts]
        parts = (ThoughtPart("".join(thoughts)), TextPart("".join(texts)))
        message = message_to_json(CanonicalMessage(MessageRole.ASSISTANT, parts))
        records.append(
            MessageRecord(
                turn_id="t",
                message_id=f"m{number}",
                role="assistant",
                content="",
                message=message,
                timestamp=0.0,
            )
        )
    records.append(TurnEndRecord(turn_id="t", stop_reason="end_turn", usage=Usage(), timestamp=0.0))
    entries: list[Entry] = []
    seq = 0
    for n, record in enumerate(records, 1):
        seq += record.type not in SILENT_TYPES
        entries.append(Entry(n, None if record.type in SILENT_TYPES else seq, record))
    return entries


def stored(entries: list[Entry], upto: int) -> list[Entry]:
    """What the ledger has after `upto` entries: the chunks of whole messages and ended turns are gone."""
    written = entries[:upto]
    whole = {entry.record.message_id for entry in written if isinstance(entry.record, MessageRecord)}
    ended = any(isinstance(entry.record, TurnEndRecord) for entry in written)
    return [
        entry
        for entry in written
        if not (isinstance(entry.record, ChunkRecord) and entry.record.item_id.split(".")[0] in whole)
        and not (ended and isinstance(entry.record, ChunkRecord | StateRecord))
    ]


def texts(entries: list[Entry]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in entries:
        if isinstance(entry.record, ChunkRecord):
            found[entry.record.item_id] = found.get(entry.record.item_id, "") + entry.record.text
    return found


@given(MESSAGES, st.lists(st.integers(1, 12), min_size=1, max_size=20))
def test_looks_at_any_moments_give_every_number_once_and_every_text_whole(
    messages: list[tuple[list[str], list[str]]], steps: list[int]
) -> None:
    entries = turn(messages)
    follower, n, seq, sent = CatchUp(), 0, 0, list[Entry]()
    moments = [sum(steps[: count + 1]) for count in range(len(steps))]
    for upto in [*[moment for moment in moments if moment < len(entries)], len(entries)]:
        filled = follower.fill(n, seq, [entry for entry in stored(entries, upto) if entry.n > n])
        sent += filled
        n = sent[-1].n if sent else n
        seq = max((entry.seq for entry in sent if entry.seq is not None), default=seq)
    assert [(entry.n, entry.seq) for entry in sent] == [(entry.n, entry.seq) for entry in entries]
    assert texts(sent) == texts(entries)
    kept = [entry for entry in entries if not isinstance(entry.record, ChunkRecord | StateRecord)]
    assert [entry for entry in sent if not isinstance(entry.record, ChunkRecord | StateRecord)] == kept


def test_who_opens_the_session_in_the_middle_of_a_text_is_sent_the_rest() -> None:
    entries = turn([(["a", "b"], ["c", "d"])])
    unfinished = [entry.record for entry in entries[:4]]
    sent = CatchUp(unfinished).fill(4, 4, [entry for entry in stored(entries, len(entries)) if entry.n > 4])
    assert texts(sent) == {"m0.1": "cd"}
    assert [entry.n for entry in sent] == [entry.n for entry in entries[4:]]
