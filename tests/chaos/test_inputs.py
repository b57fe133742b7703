"""The doors of `targets.py` with any bytes, by hypothesis and for seconds; `fuzz.py` does it by coverage and for hours.

`FOUND` are inputs that once broke a law, in their smallest form.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.chaos.targets import JUNK, TARGETS, sessions, spoiled, vendor_messages

LONG = bool(os.environ.get("PILOTFISH_LONG"))

FOUND: list[tuple[str, bytes]] = [
    # A part that is bare text with half a surrogate pair in it could not be stored.
    ("adapter", b'\xff{"kind": "response", "parts": ["\\udfff"]}'),
    ("adapter", b'\xff{"kind": "response", "parts": [{"part_kind": "\\ud800", "\\ud800": 1}]}'),
    # NaN is no JSON: it came back unequal to itself, and a provider would have refused it.
    ("adapter", b'\xff{"role": "user", "parts": [{"part_kind": "retry-feedback", "content": [NaN]}]}'),
    # Numbers that SQLite cannot hold.
    ("import", b"\x06\x00\xff\x7b\x06\xaa"),
    # A time that is no number was stored as nothing, and the record could not be read again.
    ("import", b"\x02\x00\x0c\x03\x0d"),
    # A blank that only looks like a space stood in the explanation of a command.
    ("shell", b"g\xce"),
    # A number too large for a float was infinite to the parser of the first milliseconds, and refused by the later one.
    ("framing", b"4e822\n"),
    # A set of dicts, which Python can write and nobody can have.
    ("textcalls", b"\xa0\n\x94\xf7{\x8f}\x96\xf7{}\n\x82"),
]


@pytest.mark.parametrize("name", TARGETS)
def test_a_law_holds_for_any_bytes(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=5_000 if LONG else 150,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.sampled_from(target.seeds), st.binary(max_size=24), st.integers(0, 60))
    def holds(seed: bytes, more: bytes, at: int) -> None:
        target.law(seed[:at] + more + seed[at + len(more) :])

    holds()


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_what_was_found_stays_mended(name: str, data: bytes) -> None:
    TARGETS[name].law(data)


def test_every_place_of_a_good_value_is_reached_by_every_kind_of_junk() -> None:
    """Else the fuzzing of JSON would fuzz nothing."""
    for good in (vendor_messages(), sessions()):
        made = {spoiled(bytes((0, 0, place, 3, junk)), good) for place in range(9) for junk in range(len(JUNK))}
        assert len(made) > 6 * len(JUNK)
