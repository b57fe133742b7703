"""The mirror of open documents, in every position encoding."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types
from tests.support.tries import tries

from pilotfish.lsp.editor.documents import Documents
from pilotfish.text.positions import Text, TextPosition
from pilotfish.text.uris import path_of

URI = "file:///w/a.py"
ENCODINGS = ("utf-8", "utf-16", "utf-32")

# Line ends, and characters that Python takes for line ends and editors do not.
texts = st.text(st.sampled_from("ab é😀\n\r\u2028\u0085\x0c\ufeff中"), max_size=30)


def opened(text: str, encoding: str = "utf-16", version: int = 1) -> Documents:
    documents = Documents(encoding)
    documents.put_text_document(types.TextDocumentItem(URI, "python", version, text))
    return documents


def change(text: str, start: tuple[int, int], end: tuple[int, int]) -> types.TextDocumentContentChangePartial:
    where = types.Range(types.Position(*start), types.Position(*end))
    return types.TextDocumentContentChangePartial(where, text)


def after(documents: Documents, *changes: types.TextDocumentContentChangeEvent, version: int = 2) -> str:
    for one in changes or (change("", (0, 0), (0, 0)),):
        documents.update_text_document(types.VersionedTextDocumentIdentifier(version, URI), one)
    document = documents.get(URI)
    assert document is not None
    assert document.version == version
    return document.text.value


def test_a_change_is_made_at_its_place():
    assert after(opened("one\ntwo\n"), change("2", (1, 0), (1, 3))) == "one\n2\n"


def test_changes_of_one_message_are_made_one_after_the_other():
    assert after(opened("ab"), change("x", (0, 0), (0, 0)), change("y", (0, 3), (0, 3))) == "xaby"


def test_a_change_without_a_range_replaces_everything():
    assert after(opened("ab"), types.TextDocumentContentChangeWholeDocument("whole")) == "whole"


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 5), ("utf-16", 3), ("utf-32", 2)])
def test_characters_count_in_the_units_that_were_agreed(encoding: str, column: int):
    assert after(opened("a😀b", encoding), change("!", (0, column), (0, column))) == "a😀!b"


def test_only_three_things_end_a_line():
    documents = opened("a\u2028b\x0cc\x85d\re\r\nf\ng")
    assert after(documents, change("!", (3, 1), (3, 1))) == "a\u2028b\x0cc\x85d\re\r\nf\ng!"


def test_places_behind_the_end_are_the_end():
    assert after(opened("ab\ncd"), change("!", (0, 99), (0, 99))) == "ab!\ncd"
    assert after(opened("ab\ncd"), change("!", (99, 0), (99, 0))) == "ab\ncd!"


def test_what_comes_after_a_close_is_ignored():
    documents = opened("ab")
    documents.remove_text_document(URI)
    documents.update_text_document(types.VersionedTextDocumentIdentifier(2, URI), change("x", (0, 0), (0, 0)))
    documents.remove_text_document(URI)
    assert documents.get(URI) is None


def test_a_document_may_start_at_any_version_and_be_opened_again():
    documents = opened("ab", version=7)
    documents.put_text_document(types.TextDocumentItem(URI, "", 3, "cd"))
    document = documents.get(URI)
    assert document is not None
    assert (document.version, document.text.value) == (3, "cd")


def test_a_document_is_found_by_its_real_path_and_by_the_link_it_was_opened_by(tmp_path: Path):
    real = tmp_path / "real"
    real.mkdir()
    (real / "a.py").write_text("x")
    (tmp_path / "link").symlink_to(real)
    documents = Documents("utf-16")
    uri = (tmp_path / "link" / "a.py").as_uri()
    documents.put_text_document(types.TextDocumentItem(uri, "", 1, "x"))
    document = documents.get(uri)
    assert documents.at(real / "a.py") is documents.at(tmp_path / "link" / "a.py") is document
    assert document is not None
    assert document.path == real / "a.py"
    documents.remove_text_document(uri)
    assert documents.at(real / "a.py") is documents.at(tmp_path / "link" / "a.py") is None


@pytest.mark.parametrize(
    ("uri", "path"),
    [
        ("file:///a/b%20c.py", "/a/b c.py"),
        ("file:///a/%C3%A9.py", "/a/é.py"),
        ("file://localhost/a", "/a"),
        ("file:///c%3A/x", "/c:/x"),  # a drive on Windows only: tests/text/test_uris.py
        ("untitled:Untitled-1", None),
        ("git:/a/b", None),
        ("file://host/share", None),
        ("file:///a%00b", None),
    ],
)
def test_a_uri_names_a_path_or_none(uri: str, path: str | None):
    assert path_of(uri) == (None if path is None else Path(path))


@given(texts, st.sampled_from(ENCODINGS))
def test_every_offset_has_a_place_and_every_place_its_offset(value: str, encoding: str):
    text = Text(value, encoding)
    for offset in range(len(value) + 1):
        inside_a_line_end = value[offset - 1 : offset + 1] == "\r\n"
        if not inside_a_line_end:
            assert text.offset(text.place(offset)) == offset


@settings(max_examples=tries(80))
@given(
    texts, st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), texts), max_size=4), st.sampled_from(ENCODINGS)
)
def test_a_mirror_follows_any_edits(value: str, edits: list[tuple[int, int, str]], encoding: str):
    """The editor's side: offsets in its own text, told as places. The mirror must end up the same."""
    documents, changes, current = opened(value, encoding), list[types.TextDocumentContentChangeEvent](), value
    for first, second, new in edits:
        start, end = sorted(min(at, len(current)) for at in (first, second))
        # An editor has no place inside of a line end.
        start, end = (at - 1 if current[at - 1 : at + 1] == "\r\n" else at for at in (start, end))
        places = [_place_by_hand(current, at, encoding) for at in (start, end)]
        changes.append(change(new, *places))
        current = current[:start] + new + current[end:]
    assert after(documents, *changes) == current


def _place_by_hand(text: str, offset: int, encoding: str) -> tuple[int, int]:
    """Counted character by character, sharing nothing with the code under test."""
    line = column = 0
    for index, char in enumerate(text[:offset]):
        if char == "\n" or (char == "\r" and text[index + 1 : index + 2] != "\n"):
            line, column = line + 1, 0
        elif char != "\r":
            column += {"utf-8": len(char.encode()), "utf-16": len(char.encode("utf-16-le")) // 2, "utf-32": 1}[encoding]
    return line, column


def test_place_is_a_plain_value():
    assert TextPosition(1, 2) == TextPosition(1, 2)
