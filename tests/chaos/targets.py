"""The fuzz targets: seven parsers, each with a property that must hold for any bytes, and initial inputs.

`TARGETS` is the table. `fuzz.py` runs it for hours, guided by coverage; `test_inputs.py` for seconds, with hypothesis.
A property returns if it holds, and raises otherwise.
"""

from __future__ import annotations

import contextlib
import copy
import json
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pydantic_core
from tests.conversation.answer_text.test_text_calls import _PIECES as CALL_PIECES
from tests.conversation.answer_text.test_text_calls import TOOLS
from tests.conversation.history.test_sanitizer import (
    every_call_answered_once_right_after_its_message,
    every_named_call_kept,
    every_word_in_its_order,
    no_faults_and_stable,
)
from tests.conversation.test_records import RECORDS
from tests.engine.model.test_adapter import MESSAGES, REQUEST_PARTS, RESPONSE_PARTS, _may_stand, samples
from tests.policy.shell.test_parser import SOUP
from tests.store.test_legacy import _file as legacy_file
from tests.support.client import frame
from tests.support.history import broken_history
from tests.support.policy import command, corpus

from pilotfish.conversation.answer_text.text_calls import find_calls
from pilotfish.conversation.history.sanitizer import repair
from pilotfish.conversation.messages import message_from_json, message_to_json
from pilotfish.conversation.records import Entry, record_to_json
from pilotfish.engine.model.adapter import from_canonical, to_canonical
from pilotfish.errors import BadRequest, PilotfishError, ToolError, UnreadableMessage
from pilotfish.lsp.connection.stdio import FrameReader
from pilotfish.policy.judge import judge
from pilotfish.policy.shell.analysis import study
from pilotfish.policy.shell.parser import CommandLine, parse
from pilotfish.policy.verdict import Mode
from pilotfish.store.export.archive import SessionArchive, from_json, to_json
from pilotfish.store.export.legacy import from_legacy
from pilotfish.store.rows import SessionRow
from pilotfish.store.sqlite.schema import migrate
from pilotfish.store.sqlite.tables import SqliteTables
from pilotfish.workspace.edits.matching import Replacement, match
from pilotfish.workspace.files.encoding import check, replace, unify


@dataclass(frozen=True)
class Target:
    """A parser, the property that must hold for it, and valid inputs."""

    law: Callable[[bytes], None]
    seeds: Sequence[bytes]
    share: float
    """share of the executions of a whole run; larger for cheap targets"""
    longest: int
    """maximum length of an input in bytes"""


# ---- converting bytes to inputs -------------------------------------------------------------------------------------


def soup(data: bytes, pieces: Sequence[str]) -> str:
    """Text: low bytes become letters, high bytes whole snippets, so that mutating one byte changes a word."""
    return "".join(chr(byte) if byte < 128 else pieces[(byte - 128) % len(pieces)] for byte in data)


def spoiled(data: bytes, good: Sequence[Any]) -> str:
    """JSON: a valid value with some changes, or raw text if the first byte is at least 200."""
    if not data or data[0] >= 200:
        return data[1:].decode("utf-8", "replace")
    value: list[Any] = [copy.deepcopy(good[data[0] % len(good)])]
    for at in range(1, min(len(data) - 3, 40), 4):
        places = _places(value)
        inside, key = places[int.from_bytes(data[at : at + 2]) % len(places)]
        junk = copy.deepcopy(JUNK[data[at + 3] % len(JUNK)])
        match data[at + 2] % 4:
            case 0 if inside is not value:
                del inside[key]
            case 1 if kind(inside) is list:
                inside.insert(key, junk)
            case 1:
                inside[str(junk)[:40]] = inside[key]
            case _:
                inside[key] = junk
    return json.dumps(value[0])


def kind(value: object) -> Any:
    return type(value)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every position in a value, as its container and key."""
    found: list[tuple[Any, Any]] = []
    waiting: list[Any] = [value]
    while waiting:
        inside = waiting.pop()
        keys: list[Any] = list(inside) if kind(inside) is dict else list(range(len(inside)))
        found += [(inside, key) for key in keys]
        waiting += [inside[key] for key in keys if kind(inside[key]) in (dict, list)]
    return found


JUNK: tuple[Any, ...] = (
    None, True, 0, -1, 1, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 1e300, -0.0, 0.5, float("nan"), float("inf"), "",
    " ", "x", "0", "\x00", "\ud800", "\U0001f41f", "x" * 300, "request", "response", "user", "assistant", "tool-return",
    "text", "message", "chunk", "a" * 64, "====", [], {}, [[]], [{}], {"": ""}, {"a": [1, None]}, [1, "a", None],
    "2026-01-05T10:00:00", "9999-12-31T23:59:59Z", "call_1", {"part_kind": "text", "content": "x"}, ["\udfff"],
)  # fmt: skip


def _says_something(error: PilotfishError) -> None:
    assert str(error).strip()


# ---- framing --------------------------------------------------------------------------------------------------------

GOOD = tuple({"jsonrpc": "2.0", "id": number, "method": "after" * 4} for number in range(6))
AFTER = b"\r\n" + b"".join(frame(message) for message in GOOD)


def framing(data: bytes) -> None:
    """Any bytes are messages or are reported. Later messages are read, except for what a length header covers."""
    found = fed(data + AFTER)
    good = [message for message in found if message in GOOD]
    assert good == list(GOOD[len(GOOD) - len(good) :])
    if b"content-length" not in data.lower():
        assert found == list(GOOD)


def fed(data: bytes) -> list[Any]:
    """Every frame, up to the `exit` that marks the end of the input."""
    rest, found = iter([data]), list[Any]()
    reader = FrameReader(lambda: next(rest, b""))
    while not found or found[-1] != {"jsonrpc": "2.0", "method": "exit"}:
        reader.readline()
        found.append(json.loads(reader.read()))
    return found[:-1]


# ---- adapter, sanitizer ---------------------------------------------------------------------------------------------


@cache
def vendor_messages() -> tuple[Any, ...]:
    """Messages as pydantic-ai writes them, with every kind of part, and as older programs wrote them."""
    sides = (("request", REQUEST_PARTS), ("response", RESPONSE_PARTS))
    dumped = [
        {"kind": kind, "parts": MESSAGES.dump_python(_message(kind, part), mode="json")["parts"]}
        for kind, classes in sides
        for name in sorted(classes, key=str)
        for part in samples().get(name, ())
        if _may_stand(part, kind)
    ]
    old: list[Any] = [
        {"content": "hi", "thought": "hm"},
        {"role": "tool", "tool_call_id": "c", "content": "done"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}]},
    ]
    return (*dumped, *old)


def _message(kind: str, part: Any) -> Any:
    from pydantic_ai.messages import ModelRequest, ModelResponse

    return ModelRequest([part]) if kind == "request" else ModelResponse([part])


def adapter(data: bytes) -> None:
    """Any JSON is a message that survives both round trips, or an error that names the location."""
    text = spoiled(data, vendor_messages())
    try:
        value = json.loads(text)
    except ValueError:
        return
    try:
        message = to_canonical(value)
        sent = from_canonical(message)
    except UnreadableMessage as error:
        _says_something(error)
        return
    assert message_from_json(pydantic_core.from_json(pydantic_core.to_json(message_to_json(message)))) == message
    assert from_canonical(to_canonical(sent)) == sent


def sanitizer(data: bytes) -> None:
    """Any history is repaired: no fault, no text lost, every call has one result, and repair is idempotent."""
    history = broken_history(data)
    repaired = repair(history)
    no_faults_and_stable(repaired)
    every_word_in_its_order(history, repaired)
    every_call_answered_once_right_after_its_message(repaired)
    every_named_call_kept(history, repaired)


# ---- text -----------------------------------------------------------------------------------------------------------


def textcalls(data: bytes) -> None:
    """Calls found in any text match their tools, and their positions are inside the text and in order."""
    text = soup(data, CALL_PIECES)
    before = 0
    for call in find_calls(text, TOOLS):
        assert TOOLS[call.name](dict(call.args))
        start, end = call.span
        assert before <= start <= end <= len(text)
        before = start


def shell(data: bytes) -> None:
    """Any line is parsed completely or refused with a reason. Explanations are one line.

    A line that is allowed without a question runs in the read-only sandbox. Where there is none, it is proved to only
    read.
    """
    text = soup(data, SOUP)
    read = parse(text)
    assert read.commands if isinstance(read, CommandLine) else read.reason
    verdicts = {mode: judge(command(text), mode) for mode in Mode}
    assert verdicts[Mode.ASK].decision != "allow" or verdicts[Mode.ASK].wall == "read_only"
    if judge(command(text, walled=False), Mode.ASK).decision == "allow":
        assert study(text).only_reads
        assert isinstance(read, CommandLine)
    for verdict in verdicts.values():
        assert all(line.isprintable() for line in (verdict.reason, *verdict.commands)), verdict


def matcher(data: bytes) -> None:
    """A quoted text is found at its position, or is an error for the model; the edit fits the text."""
    text, old, new, *rest = (*(unify(soup(part, WORDS)) for part in data.split(b"\xff")), "", "", "")
    everywhere = bool(rest[0])
    try:
        hunks = match(text, [Replacement(old=old, new=new, everywhere=everywhere)]).hunks
    except ToolError as error:
        hunks = None
        _says_something(error)
    if hunks is None:
        assert not (old and old != new and _count(text, old) == 1), "it is there"
        return
    check(text, hunks)
    if old and _count(text, old) == 1:
        assert replace(text, hunks) == text.replace(old, new)


def _count(text: str, old: str) -> int:
    """The number of occurrences, including overlapping ones."""
    return sum(text.startswith(old, at) for at in range(len(text)))


WORDS = ("def area(width):\n", "    return 1\n", "\t", "    ", "\n", "\n\n", "”", "’", "\u00a0", " 12\t", "é", "x")


# ---- import ---------------------------------------------------------------------------------------------------------


@cache
def sessions() -> tuple[Any, ...]:
    """An exported session with every type of record, and a session of the older format."""
    row = SessionRow(id="s", title="Nets", workspace="/w", model="m", mode="ask", created_at=1.0, updated_at=2.0)
    entries = [Entry(n, n, record) for n, record in enumerate(RECORDS, 1)]
    whole = json.loads(to_json(SessionArchive(row=row, entries=entries, blobs={})))
    one = [{**whole, "records": [record]} for record in whole["records"]]
    return (json.loads(legacy_file()), whole, *one)


def imports(data: bytes) -> None:
    """Any text is a session that can be stored, read and exported again, or an error that names the field."""
    text = spoiled(data, sessions())
    for read in (from_json, _legacy):
        try:
            archive = read(text)
        except BadRequest as error:
            _says_something(error)
        else:
            _stored(archive)


def _legacy(text: str) -> SessionArchive:
    return from_legacy(text, workspace=None, model="m", mode="ask")


def _stored(archive: SessionArchive) -> None:
    tables = _tables()
    tables.begin()
    try:
        with contextlib.suppress(BadRequest):  # it has values that the database cannot store
            tables.bring_in(archive.row._replace(id="t"), archive.entries, archive.blobs)
            kept = tables.history("t")
            assert [record_to_json(entry.record) for entry in kept] == [
                record_to_json(entry.record) for entry in archive.entries
            ]
            exported = to_json(SessionArchive(row=tables.get("t"), entries=kept, blobs=archive.blobs))
            assert [entry.n for entry in from_json(exported).entries] == [entry.n for entry in kept]
    finally:
        tables.rollback()


@cache
def _tables() -> SqliteTables:
    db = sqlite3.connect(":memory:", isolation_level=None)
    migrate(db)
    return SqliteTables(db)


# ---- the table ------------------------------------------------------------------------------------------------------


def _raw(text: str) -> bytes:
    return b"\xff" + text.encode()


TARGETS: dict[str, Target] = {
    "framing": Target(
        framing,
        (
            b"Content-Length: 3\r\n\r\n{{{",
            b"content-length:9\r\nX: y\r\n\r\n",
            b'Content-Length: 19\r\n\r\n{"id":1,"method":""}Content-Le',
            b'{"a":[1.5,"\\ud800"]}',
        ),
        0.2,
        160,
    ),
    "adapter": Target(adapter, tuple(bytes((number, 0, 1, 2, 3)) for number in range(60)), 0.03, 44),
    "sanitizer": Target(sanitizer, tuple(bytes(range(first, first + 60)) for first in range(0, 180, 12)), 0.06, 64),
    "textcalls": Target(
        textcalls,
        tuple(bytes(128 + (first + step) % len(CALL_PIECES) for step in range(9)) for first in range(len(CALL_PIECES))),
        0.3,
        24,
    ),
    "shell": Target(shell, tuple(text.encode() for _, text in corpus() if text.isascii()), 0.004, 48),
    "matcher": Target(matcher, (b"\x80\x81\xff\x81\xffx", b"abc\xffb\xffx\xff1", b"\x83x\n\xffx\xffy\n"), 0.4, 28),
    "import": Target(
        imports,
        (*(bytes((number, 0, 0, 2, 2)) for number in range(40)), _raw(legacy_file()), _raw("{}"), _raw("[")),
        0.004,
        44,
    ),
}
