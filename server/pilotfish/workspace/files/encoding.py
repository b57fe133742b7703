"""Decodes and encodes files, and keeps their encoding, byte order mark and line endings.

The agent reads and writes lines that end in `\n`. A file may end them otherwise, begin with a byte order mark, or
be in an old encoding; all of that is its `Form`, found when it is read and kept when it is written.
Lines end at `\r\n`, `\n` and `\r` as editors have it; form feed, U+0085 and U+2028 end none.
"""

from __future__ import annotations

import codecs
import re
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pilotfish.errors import Refused
from pilotfish.workspace.editor import Hunk

Newline = Literal["\n", "\r\n", "\r"]

MAX_TEXT_BYTES = 50 * 1024 * 1024  # editors do not synchronise larger documents
SAMPLE = 8000  # bytes that decide between text and binary, as in git

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ODD_CONTROLS = bytes(sorted(set(range(32)) - {7, 8, 9, 10, 12, 13, 27}))
_MAGIC = (b"%PDF-", b"PK\x03\x04", b"\x1f\x8b", b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"BZh", b"\xfd7zXZ", b"RIFF")
_CRLF = re.compile(r"\r\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """Encoding, byte order mark and line endings of a file."""

    encoding: str = "utf-8"
    bom: bytes = b""
    newline: Newline = "\n"
    """what most of its lines end in"""
    mixed: bool = False
    """its lines do not all end alike"""
    final_newline: bool = True


class Binary(Refused):
    """The bytes are not text."""


def decode(data: bytes) -> tuple[str, str, bytes]:
    """(text with its own line ends, encoding, byte order mark). `encode` gives exactly the same bytes back."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            body = data[len(bom) :]
            try:
                return body.decode(encoding), encoding, bom
            except UnicodeDecodeError:
                break
    if data.startswith(_MAGIC):
        raise Binary("not text")
    sample = data[:SAMPLE]
    if b"\0" in sample:
        encoding = _wide(sample)
        if encoding is not None:
            try:
                return data.decode(encoding), encoding, b""
            except UnicodeDecodeError:
                pass
        raise Binary("not text")
    try:
        return data.decode("utf-8"), "utf-8", b""
    except UnicodeDecodeError:
        pass
    if sum(sample.count(control) for control in _ODD_CONTROLS) * 50 > len(sample):
        raise Binary("not text")
    if re.search(rb"[\x80-\x9f]", data):
        try:
            return data.decode("cp1252"), "cp1252", b""
        except UnicodeDecodeError:
            pass
    return data.decode("latin-1"), "latin-1", b""


def encode(exact: str, form: Form) -> bytes:
    """The bytes of a text in this form. Refused when the encoding has no such character."""
    try:
        return form.bom + exact.encode(form.encoding)
    except UnicodeEncodeError as error:
        sign = exact[error.start]
        where = exact.count("\n", 0, error.start) + 1
        raise Refused(
            f"line {where} would contain U+{ord(sign):04X}, which the file's encoding ({form.encoding}) cannot "
            "represent; use other characters"
        ) from error


def form_of(exact: str, encoding: str = "utf-8", bom: bytes = b"") -> Form:
    pairs = exact.count("\r\n")
    counts: dict[Newline, int] = {
        "\n": exact.count("\n") - pairs,
        "\r\n": pairs,
        "\r": exact.count("\r") - pairs if pairs or "\r" in exact else 0,
    }
    newline: Newline = "\n"
    for candidate, count in counts.items():
        if count > counts[newline]:
            newline = candidate
    return Form(
        encoding=encoding,
        bom=bom,
        newline=newline,
        mixed=sum(1 for count in counts.values() if count) > 1,
        final_newline=exact.endswith(("\n", "\r")),
    )


def unify(exact: str) -> str:
    """The text with every line ending in `\n`."""
    return exact.replace("\r\n", "\n").replace("\r", "\n") if "\r" in exact else exact


def replace(text: str, hunks: Sequence[Hunk]) -> str:
    """The text with these hunks made: sorted, apart, within bounds."""
    pieces: list[str] = []
    at = 0
    for hunk in hunks:
        pieces += (text[at : hunk.start], hunk.text)
        at = hunk.end
    pieces.append(text[at:])
    return "".join(pieces)


def check(text: str, hunks: Sequence[Hunk]) -> None:
    """Editors clamp what is out of bounds and call it done, so it is looked at here."""
    at = 0
    for hunk in hunks:
        if not at <= hunk.start <= hunk.end <= len(text):
            raise ValueError(f"hunks overlap or leave the text: {hunk.start}-{hunk.end} after {at} of {len(text)}")
        at = hunk.end


def in_form(hunks: Sequence[Hunk], exact: str, form: Form) -> tuple[Hunk, ...]:
    """Hunks of the unified text as hunks of the text itself: lines that stay keep their ends, new ones get
    the file's own."""
    if "\r" not in exact and form.newline == "\n":
        return tuple(hunks)
    text = unify(exact)
    if form.newline == "\r\n" and not form.mixed:
        return _all_crlf(hunks, text)
    shift = _shift(exact)
    ended = tuple(Hunk(shift(hunk.start), shift(hunk.end), hunk.text.replace("\n", form.newline)) for hunk in hunks)
    wanted = replace(text, hunks)
    if unify(replace(exact, ended)) == wanted:
        return ended
    # A lone \r met a new \n and made one line end of two: such a file is given one kind of end.
    return (Hunk(0, len(exact), wanted.replace("\n", form.newline)),)


def _all_crlf(hunks: Sequence[Hunk], text: str) -> tuple[Hunk, ...]:
    ended: list[Hunk] = []
    at = lines = 0
    for hunk in hunks:
        lines += text.count("\n", at, hunk.start)
        start = hunk.start + lines
        lines += text.count("\n", hunk.start, hunk.end)
        at = hunk.end
        ended.append(Hunk(start, hunk.end + lines, hunk.text.replace("\n", "\r\n")))
    return tuple(ended)


def _shift(exact: str) -> Callable[[int], int]:
    """unified offset → offset in the text"""
    ends = [match.start() - index for index, match in enumerate(_CRLF.finditer(exact))]
    return lambda offset: offset + bisect_left(ends, offset)


def _wide(sample: bytes) -> str | None:
    """UTF-16 without a mark: one byte of nearly every pair is zero, the other never."""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    pairs = max(1, len(sample) // 2)
    if even == 0 and odd * 10 >= pairs * 6:
        return "utf-16-le"
    if odd == 0 and even * 10 >= pairs * 6:
        return "utf-16-be"
    return None
