"""The generated files are committed and up to date."""

from __future__ import annotations

import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

import pytest

from pilotfish.protocol import reference, shapes, typescript, wire

Generated = tuple[Callable[[], str], Path]

FILES: list[Generated] = [
    (typescript.generate, typescript.TARGET),
    (reference.generate, reference.TARGET),
]


@pytest.mark.parametrize(("generate", "target"), FILES, ids=lambda value: getattr(value, "name", ""))
def test_a_generated_file_is_what_make_generate_writes(generate: Callable[[], str], target: Path):
    assert target.read_text("utf-8") == generate(), f"{target.name} is stale: run `make generate`"


def test_a_new_method_makes_the_generated_files_stale(monkeypatch: pytest.MonkeyPatch):
    row = wire.Method("session/dream", "client", wire.Empty, wire.Empty, "Dream.")
    monkeypatch.setitem(wire.METHODS, "pilotfish/session/dream", row)
    for generate, target in FILES:
        assert target.read_text("utf-8") != generate()


def test_equal_literals_have_one_name():
    for forget in cast("Any", typing)._cleanups:  # equal literals are identical while `typing` caches them
        forget()
    again = Literal["ask", "plan", "edit", "auto"]
    names = shapes.alias_names(shapes.shapes())
    assert again is not wire.Mode
    assert shapes.spell(again, names, array="{}[]", record="", union=" | ") == "Mode"


def test_the_types_name_every_method_and_payload():
    text = typescript.generate()
    for method, row in wire.METHODS.items():
        assert f'"{method}": ' in text
        assert f"export interface {row.params.__name__} {{" in text
    assert "unknown[]" not in text
    assert 'export type Mode = "ask" | "plan" | "edit" | "auto";' in text
