from __future__ import annotations

import json
from typing import Any

import pytest
from tests.store.makers import TURN, Pen, call, chunk, end, opened, said, session, start

from pilotfish.conversation.records import Attachment, MessageRecord, Usage
from pilotfish.errors import BadRequest
from pilotfish.store.ledger import Heads


async def test_a_session_can_be_moved_to_another_machine():
    pen = Pen()
    async with opened() as (ledger, catalog):
        await catalog.create(session(title="Nets"))
        blob = await ledger.put_blob(b"\x89PNG" * 1000)
        picture = MessageRecord(
            turn_id=TURN,
            message_id="u",
            role="user",
            content="Mend the net",
            message={"role": "user", "parts": [], "number": 10**30},
            timestamp=1001.0,
            binary_content=(Attachment(blob=blob, mime_type="image/png"),),
        )
        entries = pen(
            start(),
            picture,
            chunk("p", item_id="a.0"),
            call(output="long " * 3000),
            said("Dune", message_id="a"),
            end(usage=Usage(input_tokens=7, cost=0.1)),
        )
        await ledger.append("s", entries)
        text = await catalog.export_json("s")
        original = await catalog.get("s")
    async with opened() as (ledger, catalog):
        row = await catalog.import_json(text, "t", workspace="/here")
        assert row == original._replace(id="t", workspace="/here", mode="ask", imported=pen.n)
        assert await ledger.history("t") == [entry for entry in entries if entry.record.type != "chunk"]
        assert await ledger.heads("t") == Heads(pen.n, pen.seq, "")
        assert await ledger.get_blob(blob) == b"\x89PNG" * 1000
        assert [row.id for row in (await catalog.list(query="dune")).sessions] == ["t"]
        await ledger.append("t", Pen(pen.n, pen.seq)(start("On", turn_id="2")))
        assert json.loads(await catalog.export_json("t"))["session"]["title"] == "Nets"


async def test_an_export_has_a_format_and_a_version():
    async with opened() as (ledger, catalog):
        await catalog.create(session(title="Nets"))
        await ledger.append("s", Pen()(start()))
        file = json.loads(await catalog.export_json("s"))
        assert (file["format"], file["version"]) == ("pilotfish-session", 1)
        assert file["records"] == [
            {
                "n": 1,
                "seq": 1,
                "record": {
                    "turn_id": TURN,
                    "prompt": [{"type": "text", "text": "Mend the net"}],
                    "timestamp": 1001.0,
                    "prompt_id": None,
                    "outside": [],
                    "background": False,
                    "type": "turn_start",
                },
            }
        ]


async def test_an_import_cannot_take_an_id_that_is_used():
    async with opened() as (_, catalog):
        await catalog.create(session(title="Nets"))
        text = await catalog.export_json("s")
        with pytest.raises(BadRequest, match="already"):
            await catalog.import_json(text, "s")


SESSION = {"id": "s", "title": "t", "model": "m", "mode": "ask", "created_at": 1, "updated_at": 2}


def _file(**changes: Any) -> str:
    file: dict[str, Any] = {"format": "pilotfish-session", "version": 1, "session": SESSION, "records": []}
    return json.dumps(file | changes)


NOTICE = {"type": "notice", "turn_id": "t", "level": "info", "message": "x", "timestamp": 1}


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        ("{", "", "not JSON"),
        ("[]", "", "The text is not JSON"),
        ('{"a": 1}', "format", "not an exported Pilotfish session"),
        (_file(version=2), "version", "written by a newer Pilotfish (format 2; this one reads 1)"),
        (_file(session={"id": "s"}), "session.title", "session.title: Field required"),
        (_file(records=[{"n": 1}]), "records.0.seq", "Field required"),
        (
            _file(records=[{"n": 1, "seq": 1, "record": {"type": "dance"}}]),
            "records.0.record.",
            "does not match any of the expected tags",
        ),
        (
            _file(records=[{"n": 1, "seq": 1, "record": {**NOTICE, "level": "loud"}}]),
            "records.0.record.notice.level",
            "records.0.record.notice.level: Input should be",
        ),
        (
            _file(records=[{"n": 1, "seq": 1, "record": NOTICE}, {"n": 1, "seq": 2, "record": NOTICE}]),
            "records.1",
            "must increase",
        ),
        (
            _file(records=[{"n": 1, "seq": 2, "record": NOTICE}, {"n": 2, "seq": 2, "record": NOTICE}]),
            "records.1",
            "must increase",
        ),
        (_file(records=[{"n": 2**63, "seq": 1, "record": NOTICE}]), "records.0.n", "less than or equal to"),
        (_file(session={**SESSION, "usage": {"input_tokens": 2**63}}), "session.usage", "negative or too large"),
        (_file(session={**SESSION, "created_at": float("nan")}), "session.created_at", "finite number"),
        (
            _file(records=[{"n": 1, "seq": 1, "record": {**NOTICE, "timestamp": float("inf")}}]),
            "records.0.record",
            "a number is NaN or infinite",
        ),
        (_file(blobs={"abc": "%"}), "blobs.abc", "not base64"),
        (_file(blobs={"abc": "AAAA"}), "blobs.abc", "does not match this hash"),
    ],
)
async def test_the_error_names_the_wrong_field(text: str, field: str, words: str):
    async with opened() as (_, catalog):
        with pytest.raises(BadRequest) as caught:
            await catalog.import_json(text, "t")
        assert caught.value.field == field
        assert words in str(caught.value)
        assert (await catalog.list()).sessions == ()
