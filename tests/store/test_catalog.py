from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.store.makers import TURN, Pen, call, chunk, end, opened, said, session, sql, start, store_at
from tests.support.waiting import until

from pilotfish.conversation.messages import CallStatus
from pilotfish.conversation.records import ApprovalRecord, FileChangeRecord, Usage
from pilotfish.errors import BadRequest, SessionBusy, StorageError, UnknownSession
from pilotfish.store.catalog import Catalog, Snippet
from pilotfish.store.ledger import Heads, Ledger
from pilotfish.store.sqlite import search


async def _titles(catalog: Catalog, query: str) -> list[str]:
    return [row.title for row in (await catalog.list(query=query)).sessions]


# ---- listing


async def test_sessions_are_listed_newest_first_page_by_page():
    async with opened() as (_, catalog):
        rows = [session(f"s{i}", title=str(i), updated_at=1000.0 + i // 2) for i in range(7)]
        for row in rows:
            await catalog.create(row)
        seen: list[str] = []
        cursor: str | None = None
        pages = 0
        while pages == 0 or cursor is not None:
            listed = await catalog.list(cursor=cursor, limit=3)
            seen += [row.id for row in listed.sessions]
            cursor = listed.next_cursor
            pages += 1
        assert seen == ["s6", "s5", "s4", "s3", "s2", "s1", "s0"]
        assert pages == 3


async def test_an_exact_last_page_has_no_cursor():
    async with opened() as (_, catalog):
        for i in range(4):
            await catalog.create(session(f"s{i}", updated_at=float(i)))
        first = await catalog.list(limit=2)
        second = await catalog.list(cursor=first.next_cursor, limit=2)
        assert [row.id for row in second.sessions] == ["s1", "s0"]
        assert second.next_cursor is None


async def test_a_workspace_lists_its_own_sessions():
    async with opened() as (_, catalog):
        await catalog.create(session("a", workspace="/one"))
        await catalog.create(session("b", workspace="/two"))
        await catalog.create(session("c", workspace=None))
        assert [row.id for row in (await catalog.list("/two")).sessions] == ["b"]
        assert [row.id for row in (await catalog.list()).sessions] == ["c", "b", "a"]


async def test_a_session_that_is_used_moves_to_the_front():
    async with opened() as (ledger, catalog):
        await catalog.create(session("a", updated_at=1000.0))
        await catalog.create(session("b", updated_at=1001.0))
        await ledger.append("a", Pen()(start(at=1002.0)))
        assert [row.id for row in (await catalog.list()).sessions] == ["a", "b"]


@pytest.mark.parametrize("cursor", ["", "%%%", "bm90IGpzb24=", "WzFd"])
async def test_a_foreign_cursor_is_refused(cursor: str):
    async with opened() as (_, catalog):
        with pytest.raises(BadRequest) as caught:
            await catalog.list(cursor=cursor)
        assert caught.value.field == "cursor"


async def test_a_session_row_has_the_turns_and_their_usage():
    async with opened() as (ledger, catalog):
        row = await catalog.create(session(title="Nets"))
        pen = Pen()
        await ledger.append("s", pen(start(at=1001.0), end(usage=Usage(input_tokens=10, requests=1), at=1002.0)))
        await ledger.append("s", pen(start(at=1003.0), end(usage=Usage(input_tokens=5, cost=0.5), at=1004.0)))
        assert await catalog.get("s") == session(
            title=row.title, updated_at=1004.0, turns=2, usage=Usage(input_tokens=15, requests=1, cost=0.5)
        )


async def test_two_sessions_cannot_share_an_id():
    async with opened() as (_, catalog):
        await catalog.create(session())
        with pytest.raises(BadRequest, match="already"):
            await catalog.create(session())


async def test_every_method_raises_for_an_unknown_session():
    async with opened() as (ledger, catalog):
        for ask in (
            catalog.get("x"),
            catalog.rename("x", "t"),
            catalog.improve_title("x", "t"),
            catalog.configure("x", "m"),
            catalog.delete("x"),
            catalog.fork("x", "y"),
            catalog.export_json("x"),
            catalog.export_markdown("x"),
            ledger.heads("x"),
            ledger.history("x"),
            ledger.unfinished("x"),
            ledger.page("x"),
            ledger.heads("\ud800"),
        ):
            with pytest.raises(UnknownSession):
                await ask


# ---- titles


async def test_the_first_prompt_names_the_session_at_once():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        pen = Pen()
        await ledger.append("s", pen(start("## Mend the net\nbefore Friday")))
        assert (await catalog.get("s")).title == "Mend the net"
        await ledger.append("s", pen(end(), start("And the boat")))
        assert (await catalog.get("s")).title == "Mend the net"


async def test_a_generated_title_can_be_improved_and_a_chosen_one_cannot():
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", Pen()(start()))
        assert (await catalog.improve_title("s", "Net repair")).title == "Net repair"
        assert (await catalog.rename("s", "My nets")).title == "My nets"
        assert (await catalog.improve_title("s", "Net maintenance")).title == "My nets"


async def test_a_session_created_with_a_title_keeps_it():
    async with opened() as (ledger, catalog):
        await catalog.create(session(title="Nets"))
        await ledger.append("s", Pen()(start("Something else")))
        assert (await catalog.improve_title("s", "Better")).title == "Nets"


async def test_model_and_mode_are_set_one_by_one():
    async with opened() as (_, catalog):
        await catalog.create(session())
        await catalog.configure("s", model="demo:shark")
        row = await catalog.configure("s", mode="auto")
        assert (row.model, row.mode) == ("demo:shark", "auto")


# ---- searching


async def test_search_finds_titles_and_texts_by_the_beginnings_of_words():
    async with opened() as (ledger, catalog):
        await catalog.create(session("a", title="Fix parse_args in the command line", updated_at=3.0))
        await catalog.create(session("b", title="Boats", updated_at=2.0))
        await catalog.create(session("c", title="Birds", updated_at=1.0))
        await ledger.append("b", Pen()(said("The parser reads every line twice.", at=2.0)))
        assert await _titles(catalog, "pars") == ["Fix parse_args in the command line", "Boats"]
        assert await _titles(catalog, "PARSE_ARGS") == ["Fix parse_args in the command line"]
        assert await _titles(catalog, "line pars") == ["Fix parse_args in the command line", "Boats"]
        assert await _titles(catalog, "arse") == []


async def test_words_may_lie_in_different_messages_and_a_phrase_in_one():
    async with opened() as (ledger, catalog):
        await catalog.create(session(title="Fishing"))
        await ledger.append("s", Pen()(said("a red boat", message_id="1"), said("a blue net", message_id="2")))
        assert await _titles(catalog, "red net fish") == ["Fishing"]
        assert await _titles(catalog, '"red boat"') == ["Fishing"]
        assert await _titles(catalog, '"red net"') == []


async def test_a_snippet_shows_the_place_and_marks_the_words():
    async with opened() as (ledger, catalog):
        await catalog.create(session(title="Boats"))
        text = "far away " * 30 + "the parser reads\nevery line twice" + " and on" * 30
        await ledger.append("s", Pen()(said(text)))
        listed = await catalog.list(query="every parser")
        snippet = listed.snippets["s"]
        assert {snippet.text[first:last] for first, last in snippet.marks} == {"every", "parser"}
        assert "parser reads every line twice" in snippet.text
        assert snippet.text.startswith("…")
        assert snippet.text.endswith("…")


async def test_a_session_found_by_its_title_alone_has_no_snippet():
    async with opened() as (ledger, catalog):
        await catalog.create(session(title="Boats"))
        await ledger.append("s", Pen()(said("nets")))
        listed = await catalog.list(query="boats")
        assert [row.id for row in listed.sessions] == ["s"]
        assert listed.snippets == {}


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("请修理渔网的破洞", "渔网"),
        ("網を直してください", "直して"),
        ("그물을 고쳐 주세요", "고쳐"),
        ("Réparer le filet", "reparer"),
        ("Straße", "STRASSE"[:3]),
        ("naïve café", "cafe"),
    ],
)
async def test_search_works_in_other_scripts(text: str, query: str):
    async with opened() as (ledger, catalog):
        await catalog.create(session(title="x"))
        await ledger.append("s", Pen()(said(text)))
        listed = await catalog.list(query=query)
        assert [row.id for row in listed.sessions] == ["s"]
        assert listed.snippets["s"].text == text


@pytest.mark.parametrize("query", ['"', "AND", "a OR", "NEAR(", "col:x", "*", "^", '"unclosed', "-", "()", "\0", "+x"])
async def test_any_query_is_accepted(query: str):
    async with opened() as (_, catalog):
        await catalog.create(session(title="x"))
        await catalog.list(query=query)


async def test_a_query_of_signs_finds_nothing_and_an_empty_one_everything():
    async with opened() as (_, catalog):
        await catalog.create(session(title="x"))
        assert (await catalog.list(query="?!")).sessions == ()
        assert len((await catalog.list(query="  ")).sessions) == 1


async def test_search_pages_and_keeps_to_the_workspace():
    async with opened() as (_, catalog):
        for i in range(5):
            await catalog.create(session(f"s{i}", title=f"net {i}", updated_at=float(i)))
        await catalog.create(session("other", title="net", workspace="/other"))
        first = await catalog.list("/project", "net", None, 3)
        second = await catalog.list("/project", "net", first.next_cursor, 3)
        assert [row.id for row in (*first.sessions, *second.sessions)] == ["s4", "s3", "s2", "s1", "s0"]


async def test_a_renamed_session_is_found_by_its_new_name_only():
    async with opened() as (_, catalog):
        await catalog.create(session(title="Boats"))
        await catalog.rename("s", "Nets")
        assert await _titles(catalog, "boats") == []
        assert await _titles(catalog, "nets") == ["Nets"]


def test_a_snippet_is_a_plain_value():
    assert Snippet("x", ((0, 1),)) == Snippet("x", ((0, 1),))


# ---- forking


async def test_a_fork_has_the_records_up_to_an_item_and_continues_independently():
    pen = Pen()
    entries = pen(start(), said("one", message_id="1"), chunk("p", item_id="2.0"), said("two", message_id="2"), end())
    async with opened() as (ledger, catalog):
        await catalog.create(session(title="Nets"))
        await ledger.append("s", entries)
        row = await catalog.fork("s", "f", upto_n=2)
        assert row == session("f", title="Nets (fork)", created_at=2000.0, updated_at=2000.0, turns=1, forked_from="s")
        assert await ledger.history("f") == entries[:2]
        assert await ledger.heads("f") == Heads(2, 1, "")
        await ledger.append("f", Pen(2, 1)(said("other", message_id="3")))
        assert await ledger.history("s") == [entry for entry in entries if entry.record.type != "chunk"]
        assert [row.id for row in (await catalog.list(query="one")).sessions] == ["f", "s"]
        assert [row.id for row in (await catalog.list(query="two")).sessions] == ["s"]


async def test_a_fork_of_everything_continues_the_audit_trail():
    decision = ApprovalRecord(
        turn_id=TURN,
        call_id="c",
        tool="bash",
        digest="d",
        decision="allow",
        by="user",
        reason="",
        timestamp=1.0,
        previous="",
        hash="abc",
    )
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", Pen()(start(), decision, end()))
        await catalog.fork("s", "f")
        assert await ledger.heads("f") == Heads(3, 2, "abc")


async def test_a_fork_keeps_its_payloads_when_the_original_is_deleted():
    output = "long output " * 2_000
    async with opened() as (ledger, catalog):
        await catalog.create(session())
        blob = await ledger.put_blob(b"before")
        later = await ledger.put_blob(b"later")
        await ledger.append("s", Pen()(call("c", output=output, blob=blob), call("d", output="x", blob=later)))
        await catalog.fork("s", "f", upto_n=1)
        await catalog.delete("s")
        assert [entry.record for entry in await ledger.history("f")] == [call("c", output=output, blob=blob)]
        assert await ledger.get_blob(blob) == b"before"
        with pytest.raises(StorageError):
            await ledger.get_blob(later)


async def test_a_fork_cannot_take_an_id_that_is_used():
    async with opened() as (_, catalog):
        await catalog.create(session("a"))
        await catalog.create(session("b"))
        with pytest.raises(BadRequest):
            await catalog.fork("a", "b")


# ---- deleting


async def test_a_deleted_session_leaves_no_row_behind():
    async with opened() as (ledger, catalog):
        await catalog.create(session("keep", title="Keep"))
        await catalog.create(session("s", title="Go"))
        blob = await ledger.put_blob(b"x")
        pen = Pen()
        change = FileChangeRecord(
            turn_id=TURN,
            call_id="c",
            uri="file:///a",
            change="edited",
            added=1,
            removed=1,
            via="disk",
            before=blob,
            after=None,
            timestamp=1.0,
        )
        await ledger.append("s", pen(start(), said("words"), change, call(output="y" * 10_000), chunk("z")))
        await catalog.delete("s")
        counts = await sql(
            ledger,
            "SELECT (SELECT count(*) FROM sessions), (SELECT count(*) FROM records), (SELECT count(*) FROM chunks),"
            " (SELECT count(*) FROM blobs), (SELECT count(*) FROM uses), (SELECT count(*) FROM texts),"
            " (SELECT count(*) FROM titles)",
        )
        assert counts == [(1, 0, 0, 0, 0, 0, 1)]
        assert await _titles(catalog, "words") == []


@pytest.mark.sqlite_only
async def test_the_bytes_of_a_deleted_session_are_gone_from_the_files(tmp_path: Path):
    secret = "swordfish"
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session("keep", title="Keep"))
        await ledger.append("keep", Pen()(*(said(f"other words {i}", message_id=f"k{i}") for i in range(50))))
        await catalog.create(session("s"))
        pen = Pen()
        for i in range(30):
            await ledger.append("s", pen(start(f"{secret} {i}"), chunk(f"{secret} {i}")))
            await ledger.append("s", pen(said(f"{secret} {i} " * 20, message_id=f"m{i}"), end()))
        await ledger.append("s", pen(call("c", CallStatus.COMPLETED, output=f"{secret} \0 {id(pen)} " * 800)))
        assert secret in _bytes(tmp_path)
        await catalog.delete("s")
        await _scrubbed(tmp_path)
    assert secret not in _bytes(tmp_path)
    async with opened(tmp_path) as (ledger, _):
        assert len(await ledger.history("keep")) == 50


@pytest.mark.sqlite_only
async def test_the_bytes_are_gone_while_the_ledger_is_open_and_in_small_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(search, "SCRUBBED_PAGES", 1)
    async with opened(tmp_path) as (ledger, catalog):
        for id_, word in (("keep", "anchovy"), ("s", "swordfish")):
            await catalog.create(session(id_, title="x"))
            pen = Pen()
            for i in range(40):
                words = " ".join(f"{word}{i}x{j}" for j in range(60))
                await ledger.append(id_, pen(said(words, message_id=f"m{i}")))
        await catalog.delete("s")
        await _scrubbed(tmp_path)
        assert "swordfish" not in _bytes(tmp_path)
        assert [row.id for row in (await catalog.list(query="anchovy7x3")).sessions] == ["keep"]


@pytest.mark.sqlite_only
async def test_interrupted_scrubbing_continues_after_the_next_start(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session("s"))
        await ledger.append("s", Pen()(*(said(f"swordfish {i}", message_id=f"m{i}") for i in range(50))))
        # As a process leaves it that dies right after the commit.
        await ledger.write(lambda tables: tables.delete("s"))
    (tmp_path / "sessions.db.unscrubbed").touch()
    assert "swordfish" in _bytes(tmp_path)
    async with opened(tmp_path):
        await _scrubbed(tmp_path)
    assert "swordfish" not in _bytes(tmp_path)


@pytest.mark.sqlite_only
async def test_the_space_of_a_deleted_session_is_returned_to_the_disk(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        for i in range(20):
            blob = await ledger.put_blob(random.Random(i).randbytes(500_000))
            await ledger.append("s", Pen(i, i)(call(f"c{i}", output="x", blob=blob)))
        await catalog.delete("s")
        await _scrubbed(tmp_path)
    assert (tmp_path / "sessions.db").stat().st_size < 3_000_000


async def test_a_blob_that_another_session_references_is_kept():
    async with opened() as (ledger, catalog):
        await catalog.create(session("a"))
        await catalog.create(session("b"))
        blob = await ledger.put_blob(b"shared")
        for id_ in "ab":
            await ledger.append(id_, Pen()(call(output="x", blob=blob)))
        await catalog.delete("a")
        assert await ledger.get_blob(blob) == b"shared"


async def test_a_blob_that_was_put_and_not_referenced_yet_is_kept(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog), opened(tmp_path) as (other, _):
        await catalog.create(session("a"))
        await catalog.create(session("b"))
        blob = await ledger.put_blob(b"shared")
        await ledger.append("a", Pen()(call(output="x", blob=blob)))
        assert await other.put_blob(b"shared") == blob
        await catalog.delete("a")
        await other.append("b", Pen()(call(output="x", blob=blob)))
        assert await other.get_blob(blob) == b"shared"


async def test_a_session_that_another_process_has_leased_is_not_deleted(tmp_path: Path):
    async with opened(tmp_path) as (ledger, catalog):
        await catalog.create(session())
        other = Ledger.open(store_at(tmp_path), label="the other window")
        lease = await other.lease("s")
        with pytest.raises(SessionBusy, match="the other window"):
            await catalog.delete("s")
        lease.release()
        await other.aclose()
        own = await ledger.lease("s")
        await catalog.delete("s")
        own.release()
        with pytest.raises(UnknownSession):
            await catalog.get("s")


async def _scrubbed(directory: Path) -> None:
    """Scrubbing goes on behind a deletion; a mark in the directory says that it is not done."""
    await until(lambda: not ((directory / "sessions.db.unscrubbed").exists()))


def _bytes(directory: Path) -> str:
    return "".join(path.read_bytes().decode("latin-1") for path in directory.rglob("*") if path.is_file())
