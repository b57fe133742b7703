"""The examples of PROTOCOL.md are traffic of the real server and fit the current wire types."""

from __future__ import annotations

import json
from typing import get_args

from tests.protocol.record import TARGET, check

from pilotfish.protocol import wire

RECORDED = json.loads(TARGET.read_text("utf-8"))


def test_every_method_and_every_kind_of_update_was_recorded():
    assert set(RECORDED["methods"]) == set(wire.METHODS)
    kinds = {model.model_fields["kind"].default for model in get_args(get_args(wire.Update)[0])}
    assert set(RECORDED["updates"]) == kinds


def test_recorded_messages_fit_the_wire_types():
    check(RECORDED)


def test_recorded_messages_contain_nothing_of_the_machine():
    text = TARGET.read_text("utf-8")
    for trace in ("/tmp/", "/root", "127.0.0.1", "sk-scripted"):
        assert trace not in text
