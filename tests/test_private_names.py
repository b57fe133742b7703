"""The server uses only public names of the libraries it is built on: a private one may be gone in the next release."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVER = Path(__file__).parents[1] / "server" / "pilotfish"
LIBRARIES = frozenset(
    {"pydantic_ai", "openai", "anthropic", "google", "httpx2", "httpcore2", "re", "dataclasses", "typing", "asyncio"}
)
EXCEPTIONS = {
    (
        "workspace/web/fetch.py",
        "_pool",
    ): "httpx2 has no parameter for the network backend of its pool, which checks addresses",
}
"""(file, name) → why there is no public way"""
DOCUMENTED = frozenset({"_exit", "_replace", "_make", "_asdict", "_fields"})
"""public names of the standard library that start with an underscore: of `os` and of named tuples"""


def private_names(source: str) -> Iterator[str]:
    """Private names in a module that may belong to a library: imported, or accessed on anything but `self`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if _is_of_library(alias.name):
                        yield from filter(_is_private, alias.name.split("."))
            case ast.ImportFrom(module=str(module), names=names, level=0) if _is_of_library(module):
                yield from filter(_is_private, module.split("."))
                yield from (alias.name for alias in names if _is_private(alias.name))
            case ast.Attribute(value=value, attr=attr) if _is_private(attr) and not _is_own(value):
                yield attr
            case ast.Call(func=ast.Name(id="getattr" | "setattr" | "hasattr" | "delattr"), args=[owner, name, *_]):
                if isinstance(name, ast.Constant) and _is_private(str(name.value)) and not _is_own(owner):
                    yield str(name.value)
            case (
                ast.Subscript(value=ast.Call(func=ast.Name(id="vars")))
                | ast.Subscript(value=ast.Attribute(attr="__dict__"))
            ):
                if isinstance(node.slice, ast.Constant) and _is_private(str(node.slice.value)):
                    yield str(node.slice.value)
            case _:
                pass


def _is_of_library(module: str) -> bool:
    return module.partition(".")[0] in LIBRARIES


def _is_private(name: str) -> bool:
    is_special = name.startswith("__") and name.endswith("__")
    return name.startswith("_") and not is_special and name not in DOCUMENTED


def _is_own(owner: ast.expr) -> bool:
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def files() -> list[Path]:
    return sorted(SERVER.rglob("*.py"))


def _name(path: Path) -> str:
    return path.relative_to(SERVER).as_posix()


def own_names(source: str) -> set[str]:
    """Private names that a module defines: it may use them on other objects of its own classes."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attr, ctx=ast.Store()):
                found.add(attr)
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case _:
                pass
    return found


@pytest.mark.parametrize("path", files(), ids=_name)
def test_a_module_uses_public_names_only(path: Path) -> None:
    source = path.read_text("utf-8")
    foreign = set(private_names(source)) - own_names(source)
    assert {name for name in foreign if (_name(path), name) not in EXCEPTIONS} == set()


def test_every_exception_is_still_needed() -> None:
    used = {(_name(path), name) for path in files() for name in private_names(path.read_text("utf-8"))}
    assert EXCEPTIONS.keys() <= used


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("from pydantic_ai._utils import now_utc", ["_utils"]),
        ("from openai import _types", ["_types"]),
        ("import httpx2._client", ["_client"]),
        ("import _json", []),
        ("x = model._settings", ["_settings"]),
        ("x = self._settings", []),
        ("x = self._client._post", ["_post"]),
        ("x = getattr(task, '_fut_waiter', None)", ["_fut_waiter"]),
        ("setattr(model, '_map_messages', f)", ["_map_messages"]),
        ("client.__dict__['_make_sse_decoder'] = f", ["_make_sse_decoder"]),
        ("vars(model)['_process'] = f", ["_process"]),
        ("x = a.__module__", []),
    ],
)
def test_a_private_name_is_found_however_it_is_reached(source: str, names: list[str]) -> None:
    assert list(private_names(source)) == names
