from __future__ import annotations

import codecs

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pilotfish.errors import Refused
from pilotfish.workspace.editor import Hunk
from pilotfish.workspace.files.encoding import Binary, Form, check, decode, encode, form_of, in_form, replace, unify


@given(st.binary())
@example(b"\xff\xfe\x00")
@example(codecs.BOM_UTF8 + b"\xff")
@example("grüße\r\n".encode("latin-1"))
@example("“quoted”\x81".encode("cp1252", "ignore") + b"\x81")
def test_what_is_text_is_written_back_byte_for_byte(data: bytes) -> None:
    try:
        exact, encoding, bom = decode(data)
    except Binary:
        return
    assert encode(exact, form_of(exact, encoding, bom)) == data


@pytest.mark.parametrize(
    ("data", "text", "form"),
    [
        (b"a\nb\n", "a\nb\n", Form()),
        (b"", "", Form(final_newline=False)),
        (b"a\r\nb", "a\r\nb", Form(newline="\r\n", final_newline=False)),
        (b"a\rb\r", "a\rb\r", Form(newline="\r")),
        (b"a\r\nb\r\nc\n", "a\r\nb\r\nc\n", Form(newline="\r\n", mixed=True)),
        (codecs.BOM_UTF8 + b"a\n", "a\n", Form(bom=codecs.BOM_UTF8)),
        ("ä\n".encode("utf-16"), "ä\n", Form(encoding="utf-16-le", bom=codecs.BOM_UTF16_LE)),
        (codecs.BOM_UTF16_BE + "ä\n".encode("utf-16-be"), "ä\n", Form(encoding="utf-16-be", bom=codecs.BOM_UTF16_BE)),
        ("hello\n".encode("utf-16-le"), "hello\n", Form(encoding="utf-16-le")),
        ("hello\n".encode("utf-16-be"), "hello\n", Form(encoding="utf-16-be")),
        ("hello\n".encode("utf-32"), "hello\n", Form(encoding="utf-32-le", bom=codecs.BOM_UTF32_LE)),
        ("café\n".encode("latin-1"), "café\n", Form(encoding="latin-1")),
        ("“café”\n".encode("cp1252"), "“café”\n", Form(encoding="cp1252")),
        ("page\x0cbreak\u2028x\x85\n".encode(), "page\x0cbreak\u2028x\x85\n", Form()),
    ],
)
def test_the_form_of_a_file_is_found(data: bytes, text: str, form: Form) -> None:
    exact, encoding, bom = decode(data)
    assert (exact, form_of(exact, encoding, bom)) == (text, form)


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\x00\x00",
        b"%PDF-1.7\nabc",
        b"\x7fELF\x02\x01\x01\x00",
        b"abc\x00def",
        bytes(range(1, 32)) * 4 + b"\xff",
        b"\xff\xfe\x00\xd8",  # a UTF-16 mark, and then half a character
    ],
)
def test_what_is_not_text_is_refused(data: bytes) -> None:
    with pytest.raises(Binary):
        decode(data)


def test_a_character_the_encoding_does_not_have_is_named() -> None:
    with pytest.raises(Refused, match=r"line 2 would contain U\+2192.*latin-1"):
        encode("a\n→", Form(encoding="latin-1"))


def test_half_a_surrogate_pair_is_refused() -> None:
    with pytest.raises(Refused, match=r"U\+D800"):
        encode("\ud800", Form())


def test_lines_end_where_editors_end_them() -> None:
    assert unify("a\r\nb\rc\nd\u2028e\x0cf\x85") == "a\nb\nc\nd\u2028e\x0cf\x85"


def edited(exact: str, old: str, new: str) -> str:
    text = unify(exact)
    at = text.index(old)
    hunk = Hunk(at, at + len(old), new)
    return replace(exact, in_form((hunk,), exact, form_of(exact)))


def test_new_lines_end_as_the_file_ends_its_lines() -> None:
    assert edited("a\r\nb\r\n", "b", "b\nc") == "a\r\nb\r\nc\r\n"


def test_in_a_mixed_file_only_new_lines_get_the_usual_end() -> None:
    assert edited("a\r\nb\nc\r\nd\r\n", "c", "c\nnew") == "a\r\nb\nc\r\nnew\r\nd\r\n"
    assert edited("a\nb\r\nc\nd\n", "b\nc", "b\nC") == "a\nb\nC\nd\n"


def test_a_lone_carriage_return_never_joins_with_a_new_line() -> None:
    assert edited("a\rb\nc\n", "b", "\nb") == "a\n\nb\nc\n"


mixed = st.lists(
    st.tuples(st.sampled_from(["", "a", "bc"]), st.sampled_from(["\n", "\r\n", "\r", ""])), max_size=8
).map(lambda rows: "".join(line + end for line, end in rows))


@given(mixed, st.data())
def test_a_hunk_means_the_same_whatever_ends_the_lines(exact: str, data: st.DataObject) -> None:
    text = unify(exact)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    hunks = (Hunk(start, end, data.draw(st.sampled_from(["", "x", "\n", "x\ny", "\n\n"]))),)
    own = in_form(hunks, exact, form_of(exact))
    check(exact, own)
    assert unify(replace(exact, own)) == replace(text, hunks)


@pytest.mark.parametrize(
    "hunks", [(Hunk(0, 4, ""),), (Hunk(2, 1, ""),), (Hunk(0, 2, ""), Hunk(1, 3, "")), (Hunk(-1, 0, ""),)]
)
def test_hunks_that_overlap_or_leave_the_text_are_caught(hunks: tuple[Hunk, ...]) -> None:
    with pytest.raises(ValueError, match="overlap or leave"):
        check("abc", hunks)
