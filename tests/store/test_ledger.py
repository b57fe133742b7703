from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from tests.store.makers import TURN, Pen, call, chunk, end, opened, said, session, sql, start, state

from pilotfish.conversation.messages import CallStatus
from pilotfish.conversation.records import ApprovalRecord, Attachment, Entry, MessageRecord, NoticeRecord, SessionRecord
from pilotfish.errors import MovedOn, StorageError, UnknownSession
from pilotfish.store.ledger import Heads, Ledger
from pilotfish.store.tables.tables import Tables


async def test_what_was_appended_is_read_back_whole_after_a_restart(tmp_path: Path):
    pen = Pen()
    entries = pen(start(), said("Mend the net", by="user", message_id="u"), call(output="3 nets"), said("Done."), end())
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", entries)
    async with opened(tmp_path) as (ledger, _):
        assert await ledger.history("s") == entries
        assert await ledger.heads("s") == Heads(n=5, seq=3, audit_hash="")


async def test_the_heads_of_a_new_session_are_zero():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        assert await ledger.heads("s") == Heads(0, 0, "")
        assert await ledger.history("s") == []
        page = await ledger.page("s")
        assert (page.entries, page.has_more) == ((), False)


async def test_heads_carry_the_hash_of_the_last_audit_entry():
    decision = ApprovalRecord(
        turn_id=TURN,
        call_id="c",
        tool="bash",
        digest="d",
        decision="allow",
        by="user",
        reason="asked",
        timestamp=1.0,
        previous="",
        hash="abc",
    )
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", Pen()(start(), decision, chunk("x")))
        assert await ledger.heads("s") == Heads(n=3, seq=2, audit_hash="abc")


@pytest.mark.parametrize(
    ("n", "seq"), [(2, 3), (4, 3), (3, 2), (3, 4), (1, 1)], ids=["n again", "n gap", "seq again", "seq gap", "both"]
)
async def test_numbers_that_do_not_follow_are_refused_and_nothing_is_added(n: int, seq: int):
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", Pen()(start(), state()))
        with pytest.raises(StorageError, match="its last record is 2, its last update 2"):
            await ledger.append("s", [Entry(n, seq, end())])
        assert await ledger.heads("s") == Heads(2, 2, "")
        await ledger.append("s", [Entry(3, 3, end())])


async def test_a_refused_append_does_not_affect_other_appends_of_its_batch():
    async with opened() as (ledger, catalog):
        await catalog.create(session("a"))
        await catalog.create(session("b"))
        results = await asyncio.gather(
            ledger.append("a", [Entry(1, 1, start())]),
            ledger.append("a", [Entry(9, 9, end())]),
            ledger.append("nobody", [Entry(1, 1, start())]),
            ledger.append("b", [Entry(1, 1, start())]),
            ledger.append("a", [Entry(2, 2, end())]),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [
            type(None),
            MovedOn,
            UnknownSession,
            type(None),
            type(None),
        ]
        assert (await ledger.heads("a")).n == 2
        assert (await ledger.heads("b")).n == 1


async def test_reading_sees_what_was_appended_before_without_waiting_for_it():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        waiting = [ledger.append("s", pen(said(str(i), message_id=f"m{i}"))) for i in range(50)]
        assert len(await ledger.history("s")) == 50
        assert all(future.done() for future in waiting)


async def test_an_append_whose_caller_was_cancelled_is_still_written():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        ledger.append("s", Pen()(start())).cancel()
        assert (await ledger.heads("s")).n == 1


async def test_closing_writes_what_is_queued(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        for i in range(200):
            ledger.append("s", pen(said(str(i), message_id=f"m{i}")))
    async with opened(tmp_path) as (ledger, _):
        assert (await ledger.heads("s")).n == 200


async def test_a_closed_ledger_refuses_work():
    async with opened() as (ledger, _):
        pass
    with pytest.raises(StorageError, match="closed"):
        await ledger.append("s", Pen()(start()))


# ---- chunks


async def test_chunks_are_not_history_and_are_kept_until_their_message_is_stored(tmp_path: Path):
    pen = Pen()
    begun = pen(start(), state(), chunk("Mend"), chunk("ed."), chunk("{", item_id="c", channel="args"))
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", begun)
    async with opened(tmp_path) as (ledger, _):
        assert await ledger.history("s") == begun[:1]
        assert await ledger.unfinished("s") == begun[1:]
        assert (await ledger.page("s")).entries == tuple(begun)
        assert await ledger.heads("s") == Heads(5, 5, "")

        message = pen(said("Mended."))
        await ledger.append("s", message)
        assert await ledger.unfinished("s") == [begun[1], begun[4]]

        await ledger.append("s", pen(call("c", CallStatus.IN_PROGRESS)))
        assert await ledger.unfinished("s") == [begun[1], begun[4]]
        await ledger.append("s", pen(call("c", CallStatus.FAILED)))
        assert await ledger.unfinished("s") == [begun[1]]

        await ledger.append("s", pen(end()))
        assert await ledger.unfinished("s") == []
        assert await ledger.heads("s") == Heads(9, 8, "")


async def test_numbers_used_only_by_chunks_are_not_reused_after_a_restart(tmp_path: Path):
    pen = Pen()
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", pen(start()))
        await ledger.append("s", pen(chunk("a"), chunk("b")))
    async with opened(tmp_path) as (ledger, _):
        assert await ledger.heads("s") == Heads(3, 3, "")
        await ledger.append("s", pen(chunk("c")))


async def test_dropping_chunks_leaves_the_numbers_alone(tmp_path: Path):
    pen = Pen()
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", pen(start()))
        for i in range(20):
            await ledger.append("s", pen(chunk(str(i))))
        await ledger.append("s", pen(said("".join(map(str, range(20)))), end()))
    async with opened(tmp_path) as (ledger, _):
        assert await ledger.unfinished("s") == []
        assert await ledger.heads("s") == Heads(pen.n, pen.seq, "")
        assert [entry.n for entry in await ledger.history("s")] == [1, 22, 23]


async def test_a_message_drops_its_own_chunks_only():
    pen = Pen()
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        others = pen(chunk("a", item_id="m1.0"), chunk("b", item_id="m10.0"), chunk("c", item_id="m"))
        await ledger.append("s", others)
        await ledger.append("s", pen(said("x", message_id="m1")))
        assert await ledger.unfinished("s") == others[1:]


# ---- pages


async def test_pages_are_read_from_the_end():
    pen = Pen()
    entries = pen(*(said(str(i), message_id=f"m{i}") for i in range(7)))
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", entries)
        pages = [await ledger.page("s", None, 3)]
        while pages[-1].has_more:
            pages.append(await ledger.page("s", pages[-1].entries[0].n, 3))
        assert [page.entries for page in pages] == [tuple(entries[4:]), tuple(entries[1:4]), tuple(entries[:1])]


async def test_each_unfinished_chunk_is_on_one_page():
    pen = Pen()
    entries = pen(chunk("a"), said("1", message_id="x"), chunk("b"), said("2", message_id="y"), chunk("c"))
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", entries)
        last = await ledger.page("s", None, 1)
        assert last.entries == tuple(entries[3:])
        first = await ledger.page("s", last.entries[0].n, 1)
        assert (first.entries, first.has_more) == (tuple(entries[:3]), False)


async def test_a_page_holds_at_least_one_record():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", Pen()(start(), end()))
        assert len((await ledger.page("s", None, 0)).entries) == 1


# ---- payloads


async def test_a_blob_is_stored_once_and_read_back(tmp_path: Path):
    data = bytes(range(256)) * 400
    async with opened(tmp_path) as (ledger, _):
        first, second = await asyncio.gather(ledger.put_blob(data), ledger.put_blob(data))
        assert first == second
        assert await ledger.get_blob(first) == data
        assert await ledger.put_blob(b"") != first
    async with opened(tmp_path) as (ledger, _):
        assert await ledger.get_blob(first) == data
        assert await sql(ledger, "SELECT count(*) FROM blobs") == [(2,)]


async def test_an_unknown_blob_is_a_storage_error():
    async with opened() as (ledger, _):
        with pytest.raises(StorageError, match="missing"):
            await ledger.get_blob("0" * 40)


async def test_a_long_text_is_stored_once_however_often_it_occurs():
    output = "a long line of output\n" * 5_000
    pen = Pen()
    entries = pen(call("c", output=output), said(output), call("d", output=output))
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", entries)
        assert await ledger.history("s") == entries
        [(longest,)] = await sql(ledger, "SELECT max(length(body)) FROM records")
        blobs = await sql(ledger, "SELECT size FROM blobs")
    assert longest < 1_000
    assert blobs == [(len(output),)]


# ---- odd values


@pytest.mark.parametrize(
    "text", ["\0 nul", "half a pair: \ud83d", "🐟", "\u2028", '{"$blob": "x"}', "x" * 20_000 + "\ud800"]
)
async def test_any_text_can_be_stored(text: str):
    async with opened() as (ledger, catalog):
        await catalog.create(session(title=text))
        await ledger.append("s", Pen()(start(text), chunk(text), said(text)))
        (first, last) = await ledger.history("s")
        stored = text.encode("utf-8", "replace").decode()
        assert first.record == start(stored)
        assert last.record == said(stored)


async def test_a_mapping_that_looks_like_a_payload_mark_stays_itself():
    message = {"role": "assistant", "parts": [], "$blob": "0" * 40, "nested": [{"$blob": [1]}], "big": 10**30}
    record = MessageRecord(turn_id=TURN, message_id="m", role="assistant", content="", message=message, timestamp=1.0)
    long = MessageRecord(
        turn_id=TURN, message_id="l", role="assistant", content="", message={**message, "t": "x" * 9000}, timestamp=1.0
    )
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", Pen()(record, long))
        assert [entry.record for entry in await ledger.history("s")] == [record, long]


async def test_a_record_that_cannot_be_read_becomes_a_notice_in_its_place():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", Pen()(start(), said("kept"), end()))
        await ledger.write(
            lambda tables: tables.db.execute(
                "UPDATE records SET type = 'dance', body = '{\"type\":\"dance\"}' WHERE n = 1"
            )
        )
        history = await ledger.history("s")
        assert history[0].record == NoticeRecord(
            turn_id="",
            level="error",
            message="Record 1 of this session (dance) could not be read.",
            timestamp=0.0,
            remedy="It is still in the database. A newer Pilotfish may read it.",
        )
        assert [entry.record for entry in history[1:]] == [said("kept"), end()]


@pytest.mark.sqlite_only
async def test_a_flipped_bit_in_a_text_costs_one_record_and_not_the_session():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", Pen()(start(), said("kept"), end()))
        await sql(ledger, "UPDATE records SET body = cast(x'7b22ff' AS TEXT) WHERE n = 1")
        types = [entry.record.type for entry in await ledger.history("s")]
        assert types == ["notice", "message", "turn_end"]


# ---- beside the records


async def test_an_older_session_record_does_not_overwrite_later_choices():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        chosen = await catalog.configure("s", "demo:shark", "edit")
        await catalog.configure("s", mode="plan")
        await catalog.rename("s", "Nets")
        record = SessionRecord(turn_id="", title=chosen.title, model=chosen.model, mode=chosen.mode)
        await ledger.append("s", Pen()(record))
        row = await catalog.get("s")
        assert (row.title, row.model, row.mode) == ("Nets", "demo:shark", "plan")


async def test_attachments_are_kept_as_long_as_their_message():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        blob = await ledger.put_blob(b"picture" * 1000)
        picture = MessageRecord(
            turn_id=TURN,
            message_id="u",
            role="user",
            content="",
            message={},
            timestamp=1.0,
            binary_content=(Attachment(blob=blob, mime_type="image/png"),),
        )
        await ledger.append("s", Pen()(picture))
        assert await ledger.get_blob(blob) == b"picture" * 1000
        await catalog.delete("s")
        with pytest.raises(StorageError):
            await ledger.get_blob(blob)


# ---- the threads


async def test_the_store_does_not_block_the_event_loop():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        blocked = asyncio.Event()
        loop = asyncio.get_running_loop()

        def slow(tables: Tables) -> None:
            asyncio.run_coroutine_threadsafe(_set(blocked), loop).result()

        # The job cannot end before the loop has run: it would never, if the loop waited for it.
        await asyncio.wait_for(ledger.write(slow), 30)
        assert blocked.is_set()


async def test_a_long_read_does_not_delay_an_append():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        loop = asyncio.get_running_loop()
        appended = asyncio.Event()

        def patient(tables: Tables) -> str:
            asyncio.run_coroutine_threadsafe(_wait(appended), loop).result()
            return "read"

        reading = asyncio.ensure_future(ledger.read(patient))
        await asyncio.sleep(0)
        await asyncio.wait_for(ledger.append("s", Pen()(start())), 30)
        appended.set()
        assert await reading == "read"


async def test_a_read_sees_one_state_whatever_is_committed_meanwhile():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        await ledger.append("s", pen(start(), chunk("half")))
        loop = asyncio.get_running_loop()

        async def finish() -> None:
            await ledger.append("s", pen(said("half done"), end()))

        def read(tables: Tables) -> tuple[Heads, Heads]:
            before = tables.heads("s")
            asyncio.run_coroutine_threadsafe(finish(), loop).result()
            return before, tables.heads("s")

        assert await ledger.read(read) == (Heads(2, 2, ""), Heads(2, 2, ""))
        assert await ledger.heads("s") == Heads(4, 3, "")


async def test_a_burst_of_appends_shares_commits(monkeypatch: pytest.MonkeyPatch):
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        gate = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hold_back(_: Tables) -> None:
            asyncio.run_coroutine_threadsafe(_wait(gate), loop).result()

        commits = _commits(ledger, monkeypatch)
        first = ledger.write(hold_back)
        pen = Pen()
        rest = [ledger.append("s", pen(chunk(str(i)))) for i in range(100)]
        gate.set()
        await asyncio.gather(first, *rest)
        assert commits() <= 2


def test_importing_the_store_imports_no_heavy_modules():
    code = (
        "import sys, pilotfish.store.ledger, pilotfish.store.catalog;"
        "print(sorted({'pydantic_ai', 'pygls', 'httpx', 'platformdirs', 'openai', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _commits(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Count the commits from now on."""
    disk = ledger._writer._disk
    assert disk is not None
    counted = Mock(wraps=disk.end_transaction)
    monkeypatch.setattr(disk, "end_transaction", counted)
    return lambda: counted.call_count


async def _set(event: asyncio.Event) -> None:
    event.set()


async def _wait(event: asyncio.Event) -> None:
    await event.wait()
