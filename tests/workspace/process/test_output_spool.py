from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pilotfish.workspace.process.output_spool import Spool, plain_text


@given(pieces=st.lists(st.binary(max_size=40), max_size=12), start=st.integers(0, 200))
def test_the_beginning_and_the_end_are_kept_and_the_loss_is_counted(pieces: list[bytes], start: int) -> None:
    spool = Spool(head=20, tail=30)
    for piece in pieces:
        spool.write(piece)
    whole = b"".join(pieces)
    start = min(start, len(whole))
    kept, lost = spool.read(start)
    spool.close()
    assert spool.size == len(whole)
    end = max(20, len(whole) - 30)
    first, last = whole[start:20], whole[max(start, end) :]
    assert lost == max(0, end - max(start, 20))
    if lost:
        assert kept == first + f"\n[… {lost:,} bytes were not kept …]\n".encode() + last
    else:
        assert kept == whole[start:]


@given(data=st.binary(max_size=200))
def test_any_bytes_become_text_without_control_characters(data: bytes) -> None:
    text = plain_text(data)
    assert not any(ord(char) < 32 and char not in "\n\t" for char in text)


@given(text=st.text(st.characters(min_codepoint=32, exclude_characters="\x7f", exclude_categories=["Cs"])))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert plain_text(text.encode()) == text


def test_nothing_takes_longer_than_its_length() -> None:
    """Each of these took minutes or for ever when lines were matched from every place in them."""
    long = 300_000
    assert plain_text(b"x" * long + b"\nbar\rfoo\n") == "x" * long + "\nfoo\n"
    assert plain_text(b"a" * long + b"\x08" * long + b"b") == "b"
    assert plain_text(b"\x1b]" * long + b"\nseen") == "\nseen"
    assert plain_text(b"\xff" * long) == "ÿ" * long
