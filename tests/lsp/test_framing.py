"""Bytes → messages, whatever the bytes."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pilotfish.lsp import framing
from pilotfish.lsp.boot import quick_loads
from pilotfish.lsp.framing import Broken, Feed, frame, scrub
from pilotfish.lsp.peer import loads

A: dict[str, Any] = {"jsonrpc": "2.0", "id": 1, "method": "a"}
B: dict[str, Any] = {"jsonrpc": "2.0", "id": 2, "method": "b"}


def read(data: bytes, *, chunk: int = 1 << 20) -> list[Any]:
    """Every message in these bytes; a broken one as its code."""
    source, sink = os.pipe()

    def write() -> None:
        with os.fdopen(sink, "wb", 0) as file:
            for start in range(0, len(data), chunk):
                file.write(data[start : start + chunk])

    writer = threading.Thread(target=write)
    writer.start()
    try:
        found = list(Feed(source, loads).messages())
    finally:
        writer.join()
        os.close(source)
    return [message.code if isinstance(message, Broken) else message for message in found]


def body(message: Any) -> bytes:
    return json.dumps(message).encode()


def test_messages_come_in_order_however_the_bytes_are_cut():
    data = frame(body(A)) + frame(body(B))
    for chunk in (1, 2, 3, 7, 1000):
        assert read(data, chunk=chunk) == [A, B]


@pytest.mark.parametrize(
    "header",
    [
        b"content-length: %d\r\n\r\n",
        b"CONTENT-LENGTH:%d\r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: %d\r\nContent-Type: x\r\n\r\n",
        b"Content-Length: %d\n\n",
        b"garbage\r\nContent-Length: %d\r\n\r\n",
        b"garbageContent-Length: %d\r\n\r\n",
        b"\r\n\r\n\r\nContent-Length: %d\r\n\r\n",
    ],
)
def test_a_header_is_read_however_it_is_written(header: bytes):
    assert read(header % len(body(A)) + body(A) + frame(body(B))) == [A, B]


def test_a_length_that_is_too_short_costs_one_message():
    assert read(b"Content-Length: 10\r\n\r\n" + body(A) + frame(body(B))) == [-32700, B]


def test_a_length_that_is_too_long_costs_one_message():
    whole = body(A)
    assert read(b"Content-Length: %d\r\n\r\n%b" % (len(whole) + 30, whole) + frame(body(B))) == [-32700, B]


def test_a_length_that_is_no_number_costs_one_message():
    for length in (b"x", b"-5", b"", b"1e3", b"9" * 400):
        assert read(b"Content-Length: %b\r\n\r\n%b" % (length, body(A)) + frame(body(B))) == [B]


def test_broken_json_is_reported_once_and_read_over():
    for broken in (b"{", b"nonsense", b"", b"\xff\xfe", b'{"a": NaN}', b"[" * 5000, b'{"a":1}{"b":2}'):
        assert read(frame(broken) + frame(body(B))) == [-32700, B]


def test_what_is_no_object_is_no_message():
    for text in (body([A, B]), b"[]", b'"text"', b"5", b"null", b"{}"):
        assert read(frame(text) + frame(body(B))) == [-32600, B]


def test_a_frame_larger_than_any_message_is_skipped_without_being_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(framing, "MAX_FRAME", 1000)
    assert read(frame(b"x" * 200_000) + frame(body(B)), chunk=999) == [-32600, B]


def test_garbage_without_a_line_end_does_not_grow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(framing, "_READ", 4096)
    source, sink = os.pipe()
    feed = Feed(source, loads)
    sizes: list[int] = []

    def write() -> None:
        with os.fdopen(sink, "wb", 0) as file:
            for _ in range(200):
                file.write(b"x" * 4096)
                sizes.append(len(feed._buffer))
            file.write(b"\r\n" + frame(body(B)))

    writer = threading.Thread(target=write)
    writer.start()
    assert list(feed.messages()) == [B]
    writer.join()
    os.close(source)
    assert max(sizes) < 200_000


def test_half_surrogate_pairs_become_replacement_characters_of_the_same_length():
    for load in (loads, quick_loads):
        assert load(b'{"a": ["x\\ud83d", "\\ude00", "\\ud83d\\ude00"]}') == {"a": ["x\ufffd", "\ufffd", "\U0001f600"]}
    assert scrub({"\ud800": 1}) == {"\ufffd": 1}


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False, width=32)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_the_quick_parser_reads_json_as_the_others_do(value: Any):
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        data = text.encode("utf-8", "replace")
        assert quick_loads(data) == loads(data) == json.loads(data)


@given(st.binary(max_size=60))
def test_the_quick_parser_refuses_what_the_other_refuses(data: bytes):
    def outcome(load: Any) -> Any:
        try:
            return load(data)
        except (ValueError, RecursionError):
            return "refused"

    assert outcome(quick_loads) == outcome(loads)


pieces = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(
        [b"Content-Length: ", b"content-length:3", b"\r\n", b"\r\n\r\n", b"{", b"}", b"5\r\n\r\n", b"null"]
    ),
)


@settings(deadline=None, max_examples=150)
@given(st.lists(pieces, max_size=12), st.integers(1, 50))
def test_after_any_garbage_the_next_messages_are_read(garbage: list[bytes], chunk: int):
    # A length in the garbage may swallow what follows, so several messages are sent; none of them may be mangled.
    messages = [{"jsonrpc": "2.0", "id": number, "method": "m" * 20} for number in range(6)]
    found = read(b"".join(garbage) + b"\r\n" + b"".join(frame(body(message)) for message in messages), chunk=chunk)
    good = [message for message in found if message in messages]
    assert len(good) >= 4
    assert good == messages[-len(good) :]
