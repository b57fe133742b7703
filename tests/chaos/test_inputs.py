"""Runs the targets of `targets.py` on any bytes with hypothesis, for seconds. `fuzz.py` runs them for hours.

`FOUND` are inputs that once violated a property, in their smallest form.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.chaos.targets import JUNK, TARGETS, sessions, spoiled, vendor_messages
from tests.support.tries import tries

FOUND: list[tuple[str, bytes]] = [
    # A text part with a lone surrogate could not be stored.
    ("adapter", b'\xff{"kind": "response", "parts": ["\\udfff"]}'),
    ("adapter", b'\xff{"kind": "response", "parts": [{"part_kind": "\\ud800", "\\ud800": 1}]}'),
    # NaN is not JSON: it was unequal to itself after a round trip, and a provider would have refused it.
    ("adapter", b'\xff{"role": "user", "parts": [{"part_kind": "retry-feedback", "content": [NaN]}]}'),
    # Numbers that SQLite cannot store.
    ("import", b"\x06\x00\xff\x7b\x06\xaa"),
    # A NaN time was stored as null, and the record could not be read again.
    ("import", b"\x02\x00\x0c\x03\x0d"),
    # A character that only looks like a space was in the explanation of a command.
    ("shell", b"g\xce"),
    # A number too large for a float was infinite for the first parser, and refused by the later one.
    ("framing", b"4e822\n"),
    # A literal set of dicts, which is valid Python syntax but cannot be evaluated.
    ("textcalls", b"\xa0\n\x94\xf7{\x8f}\x96\xf7{}\n\x82"),
]


@pytest.mark.parametrize("name", TARGETS)
def test_a_property_holds_for_any_bytes(name: str) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=tries(100),
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.sampled_from(target.seeds), st.binary(max_size=24), st.integers(0, 60))
    def holds(seed: bytes, more: bytes, at: int) -> None:
        target.law(seed[:at] + more + seed[at + len(more) :])

    holds()


@pytest.mark.parametrize(("name", "data"), FOUND)
def test_a_fixed_input_stays_fixed(name: str, data: bytes) -> None:
    TARGETS[name].law(data)


def test_every_position_of_a_valid_value_gets_every_kind_of_junk() -> None:
    """Otherwise the fuzzing of JSON would have no effect."""
    for good in (vendor_messages(), sessions()):
        made = {spoiled(bytes((0, 0, place, 3, junk)), good) for place in range(9) for junk in range(len(JUNK))}
        assert len(made) > 6 * len(JUNK)
