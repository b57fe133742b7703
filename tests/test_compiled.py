"""Bytecode of generated text: the same classes with it and without, from the second start on without compiling."""

from __future__ import annotations

import dataclasses
import enum
import os
import re
import subprocess
import sys
import tempfile
import typing
from collections.abc import Generator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish import compiled

LOAD = """
from pilotfish import compiled
compiled.install()
import pilotfish.engine.live
kept = compiled.uninstall()
if kept:
    kept.save()
print(len(kept._new) if kept else "off")
"""


@pytest.fixture
def kept(tmp_path: Path) -> compiled.Kept:
    return compiled.Kept(tmp_path / "kept")


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    monkeypatch.setattr(compiled, "cache_from_source", str(tmp_path / "kept.pyc").format)
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.delenv("PILOTFISH_LEAN", raising=False)
    compiled.install()
    yield tmp_path / "kept.generated"
    compiled.save()


def load(pycache: Path, **environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONDONT", "PILOTFISH"))}
    done = subprocess.run(
        [sys.executable, "-c", LOAD],
        env={**clean, "PYTHONPYCACHEPREFIX": str(pycache), **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def make(**options: Any) -> type:
    fields: list[Any] = [("a", int), ("b", "list[str]", dataclasses.field(default_factory=list)), ("c", float, 1.5)]
    return dataclasses.make_dataclass("Made", fields, **options)


def looks(kind: type) -> tuple[object, ...]:
    one, other = kind(a=1, b=["x"]), kind(a=2)
    names = sorted(name for name in vars(kind) if not name.startswith("__weak"))
    ordered = one < other if "__lt__" in vars(kind) else None
    said: str | None = None
    try:
        one.a = 3
    except dataclasses.FrozenInstanceError as error:
        said = str(error)
    return names, repr(one), one == kind(a=one.a, b=["x"]), one == other, ordered, said, typing.get_type_hints(kind)


@given(st.fixed_dictionaries({name: st.booleans() for name in ("frozen", "order", "slots", "kw_only", "unsafe_hash")}))
def test_a_class_is_the_same_with_kept_bytecode_and_without(options: dict[str, bool]) -> None:
    stock = looks(make(**options))
    compiled.install()
    try:
        assert looks(make(**options)) == stock
        assert looks(make(**options)) == stock
    finally:
        compiled.uninstall()


def test_a_class_of_the_next_start_is_the_same_too(installed: Path) -> None:
    first = looks(make(frozen=True, order=True))
    compiled.save()
    assert installed.is_file()
    compiled.install()
    assert looks(make(frozen=True, order=True)) == first
    kept = compiled.uninstall()
    assert kept is not None
    assert kept._new == {}


def test_afterwards_everything_is_as_python_has_it(installed: Path) -> None:
    assert "exec" in vars(dataclasses)
    assert "compile" in vars(typing)
    compiled.save()
    assert "exec" not in vars(dataclasses)
    assert "compile" not in vars(typing)


def test_text_that_does_not_compile_says_so_every_time(kept: compiled.Kept) -> None:
    for _ in range(2):
        with pytest.raises(SyntaxError):
            kept.code("a b", "eval")


def test_code_is_nobody_else_s(kept: compiled.Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    kept.code("1 + a", "eval")
    kept.save()
    again = compiled.Kept(kept._path)
    assert again.code("1 + a", "eval") is not again.code("1 + a", "eval")
    assert again._new == {}
    assert eval(again.code("1 + a", "eval"), {"a": 2}) == 3


@pytest.mark.parametrize("damage", [b"", b"nonsense", b"pilotfish 2 " + compiled.MAGIC_NUMBER, b"pilotfish 0 xxxx"])
def test_what_cannot_be_read_is_as_if_it_were_not_there(
    kept: compiled.Kept, damage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    kept.code("1", "eval")
    kept.save()
    whole = kept._path.read_bytes()
    for broken in (damage, whole[:-3], whole[:-1] + b"!"):
        kept._path.write_bytes(broken)
        assert compiled.Kept(kept._path)._known == {}
    kept._path.write_bytes(whole)
    assert list(compiled.Kept(kept._path)._known) == [("eval", "1")]


def test_a_folder_that_cannot_be_written_costs_only_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    kept = compiled.Kept(tmp_path / "not there" / "kept")
    kept.code("1", "eval")
    kept.save()
    assert list(tmp_path.iterdir()) == []


def test_what_grew_too_large_is_begun_anew(kept: compiled.Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    kept.code("1", "eval")
    kept.save()
    monkeypatch.setattr(compiled, "LARGEST", 10)
    later = compiled.Kept(kept._path)
    later.code("2", "eval")
    later.save()
    assert list(compiled.Kept(kept._path)._known) == [("eval", "2")]


def test_from_the_second_start_on_nothing_is_compiled(tmp_path: Path) -> None:
    assert int(load(tmp_path)) > 1000
    assert load(tmp_path) == "0"
    assert load(tmp_path, PILOTFISH_LEAN="0") == "off"


def test_where_python_keeps_no_bytecode_neither_do_we(tmp_path: Path) -> None:
    assert int(load(tmp_path, PYTHONDONTWRITEBYTECODE="1")) > 1000
    assert list(tmp_path.iterdir()) == []


_atoms = st.sampled_from(
    ["a", "[b-d]", r"\d", ".", "(x)", "(?P<n>y)", "(?:z|w)", r"\b", "é", "[^ab]", "(?i:Q)", "k{2,3}"]
)
_patterns = st.lists(_atoms, max_size=5).map("".join).filter(lambda text: text.count("(?P<n>") < 2)


@given(
    _patterns, st.sampled_from([0, re.IGNORECASE, re.MULTILINE | re.DOTALL, re.VERBOSE]), st.text("abcdxyzwqkQ é1\n")
)
def test_a_pattern_of_the_next_start_finds_what_python_s_own_finds(text: str, flags: int, subject: str) -> None:
    stock = re.compile(text, flags)
    with tempfile.TemporaryDirectory() as place:
        kept = compiled.Kept(Path(place) / "kept")
        for _ in range(2):
            found = _made(kept, text, flags)
            assert (found, found.flags, found.groups, found.groupindex) == (
                stock,
                stock.flags,
                stock.groups,
                stock.groupindex,
            )
            assert [(m.span(), m.groups(), m.lastgroup) for m in found.finditer(subject)] == [
                (m.span(), m.groups(), m.lastgroup) for m in stock.finditer(subject)
            ]
            assert found.sub("-", subject) == stock.sub("-", subject)
            with mock.patch.object(sys, "dont_write_bytecode", False):
                kept.save()
            kept = compiled.Kept(Path(place) / "kept")
        assert list(kept._known) == [("re", text, int(flags))]


def _made(kept: compiled.Kept, text: str, flags: int, *, loading: bool = True) -> re.Pattern[str]:
    compiled._patterns.install(kept)
    try:
        re.purge()
        with mock.patch.object(compiled, "_is_loading", return_value=loading):
            return re.compile(text, flags)
    finally:
        compiled._patterns.uninstall()


def test_a_pattern_that_is_wrong_says_so_every_time(kept: compiled.Kept) -> None:
    for _ in range(2):
        with pytest.raises(re.error, match="unterminated"):
            _made(kept, "(a", 0)
    assert kept._new == {}


def test_what_is_compiled_while_nothing_is_loaded_is_nobody_s_to_keep(kept: compiled.Kept) -> None:
    assert not compiled._is_loading()
    assert _made(kept, "secret.*", 0, loading=False).match("secret plans")
    assert kept._new == {}
    kind = enum.StrEnum("Kind", {"one": "a+"})
    assert _made(kept, kind.one, 0).match("aa")  # no plain text: left to Python
    assert kept._new == {}
