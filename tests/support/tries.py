"""How many examples a property test tries: few in `make test`, many in `make chaos`."""

from __future__ import annotations

import os

LONG = bool(os.environ.get("PILOTFISH_LONG"))
TIMES_LONG = 60


def tries(quick: int) -> int:
    """`quick` examples in `make test`, many times as many in `make chaos`."""
    return quick * TIMES_LONG if LONG else quick
