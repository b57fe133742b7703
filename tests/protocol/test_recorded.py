"""The examples of PROTOCOL.md are traffic of the real server, and fit the wire as it is now."""

from __future__ import annotations

import json
from typing import get_args

from tests.protocol.record import TARGET, check

from pilotfish.protocol import wire

NOT_ASKED_YET = {"pilotfish/editor/codeActions"}
"""what a client may answer and no tool asks"""

RECORDED = json.loads(TARGET.read_text("utf-8"))


def test_every_method_and_every_kind_of_update_was_recorded():
    assert set(RECORDED["methods"]) == set(wire.METHODS) - NOT_ASKED_YET
    kinds = {model.model_fields["kind"].default for model in get_args(get_args(wire.Update)[0])}
    assert set(RECORDED["updates"]) == kinds


def test_what_was_recorded_fits_the_wire():
    check(RECORDED)


def test_nothing_of_the_machine_it_was_recorded_on_is_left():
    text = TARGET.read_text("utf-8")
    for trace in ("/tmp/", "/root", "127.0.0.1", "sk-scripted"):
        assert trace not in text
