"""What a client sends is read strictly, and what is wrong with it is named as the client wrote it."""

from __future__ import annotations

from typing import Any

import pytest

from pilotfish.errors import BadRequest
from pilotfish.lsp.connection.params import read
from pilotfish.protocol import wire

PLACE = {"line": 0, "character": 0}
SPAN = {"start": PLACE, "end": PLACE}


def field_of(method: str, params: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        read(wire.METHODS[f"pilotfish/{method}"].params, params)
    return caught.value.field


def prompt(block: Any) -> Any:
    return {"sessionId": "s", "prompt": [{"type": "text", "text": "x"}, block]}


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("session/new", {"workspace_folder": "file:///x"}, "workspace_folder"),
        ("session/load", {"session_id": "s"}, "sessionId"),
        ("session/load", {}, "sessionId"),
        ("session/new", {"title": 3}, "title"),
        ("session/new", {"zz": None}, "zz"),
        ("session/new", [], "params"),
        ("session/new", "x", "params"),
        ("session/list", {"limit": "3"}, "limit"),
        ("session/list", {"limit": True}, "limit"),
        ("session/list", {"limit": 0}, "limit"),
        ("session/undo", {"sessionId": "s", "dryRun": 1}, "dryRun"),
        ("session/prompt", {"sessionId": "s", "prompt": []}, "prompt"),
        ("session/prompt", {"sessionId": "s", "prompt": "hi"}, "prompt"),
        ("status", {"x": 1}, "x"),
    ],
)
def test_a_wrong_field_is_named(method: str, params: Any, field: str):
    assert field_of(method, params) == field


@pytest.mark.parametrize(
    ("block", "field"),
    [
        ({"type": "text", "text": "x", "zz": 1}, "prompt.1.zz"),
        ({"type": "text"}, "prompt.1.text"),
        ({"type": "text", "text": 3}, "prompt.1.text"),
        ({"type": "zz"}, "prompt.1.type"),
        ({}, "prompt.1.type"),
        ("x", "prompt.1"),
        ({"type": "image", "data": "x", "mime_type": "image/png"}, "prompt.1.mimeType"),
        (
            {"type": "resource", "uri": "u", "range": {**SPAN, "start": {"line": -1, "character": 0}}},
            "prompt.1.range.start.line",
        ),
        (
            {"type": "diagnostic", "uri": "u", "diagnostic": {"range": SPAN, "message": "m", "code": 1.5}},
            "prompt.1.diagnostic.code",
        ),
    ],
)
def test_the_name_of_a_field_has_no_name_of_a_union_in_it(block: Any, field: str):
    assert field_of("session/prompt", prompt(block)) == field


def test_everything_that_is_wrong_is_told():
    with pytest.raises(BadRequest) as caught:
        read(wire.METHODS["pilotfish/session/load"].params, {"session_id": "s", "limit": "3"})
    told = "sessionId: is needed; limit: Input should be a valid integer; session_id: there is no such field"
    assert str(caught.value) == told


def test_no_word_of_python_is_in_an_error():
    wrong: list[Any] = [[], {"sessionId": "s", "prompt": []}, {"sessionId": "s", "prompt": 3}]
    for params in wrong:
        with pytest.raises(BadRequest) as caught:
            read(wire.METHODS["pilotfish/session/prompt"].params, params)
        assert not any(word in str(caught.value) for word in ("Tuple", "tuple", "instance", "Params", "dictionary"))


def test_null_counts_as_left_out():
    assert read(wire.SessionListParams, {"limit": None, "query": None}) == wire.SessionListParams()
    assert read(wire.Empty, {}) == wire.Empty()


def test_what_belongs_to_lsp_may_have_more_in_it():
    diagnostic = {"range": SPAN, "message": "m", "code": "E1", "data": {"any": [1]}, "tags": [1]}
    block = {"type": "diagnostic", "uri": "u", "diagnostic": diagnostic}
    kept = read(wire.PromptParams, prompt(block)).prompt[1]
    assert kept.model_dump(by_alias=True, exclude_none=True, mode="json")["diagnostic"] == diagnostic


def test_what_is_nested_too_deeply_is_refused():
    deep: Any = {}
    for _ in range(600):
        deep = {"a": deep}
    with pytest.raises(BadRequest) as caught:
        read(wire.ApprovalAnswer, {"optionId": "allow_once", "args": deep})
    assert caught.value.field == "params"
