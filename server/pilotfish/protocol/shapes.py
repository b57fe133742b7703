"""Reads shapes, their fields and their docstrings from the wire modules, for the generators."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from pilotfish.config import settings
from pilotfish.protocol import wire
from pilotfish.protocol.wire import (
    approvals,
    background,
    base,
    connections,
    content,
    editor_requests,
    edits,
    hello,
    language_models,
    review,
    server_requests,
    session,
    session_requests,
    transcript,
    updates,
)

_PLAIN: dict[Any, str] = {str: "string", int: "number", float: "number", bool: "boolean"}

_TOPICS: tuple[ModuleType, ...] = (
    base,
    content,
    session,
    updates,
    transcript,
    approvals,
    background,
    hello,
    session_requests,
    review,
    server_requests,
    connections,
    editor_requests,
    edits,
    language_models,
)

BASES = frozenset({"Wire", "Whole", "Lsp", "ItemBase"})
"""classes that exist only to be inherited"""


@dataclass(frozen=True, slots=True)
class ShapeField:
    name: str
    """the name on the wire"""
    annotation: Any
    required: bool
    words: str
    default: Any
    """the value of an absent field; None if it has no default"""
    nullable: bool
    """whether the field is always sent, as null if it has no value"""


@dataclass(frozen=True, slots=True)
class Shape:
    """An object on the wire."""

    name: str
    words: str
    fields: tuple[ShapeField, ...]


@dataclass(frozen=True, slots=True)
class Alias:
    """A named union or set of literals."""

    name: str
    annotation: Any


def shapes() -> tuple[Shape | Alias, ...]:
    """Every public class and alias of the wire modules, in order, then the settings."""
    found: list[Shape | Alias] = []
    words = {name: docs for module in _TOPICS for name, docs in _words(module).items()}
    for name in (name for module in _TOPICS for name in _defined(module) if name not in BASES):
        value = getattr(wire, name, None)
        if inspect.isclass(value) and issubclass(value, wire.Wire):
            found.append(_shape(value, words))
        elif get_origin(value) in (Literal, Annotated):
            found.append(Alias(name, value))
    of_settings = _words(settings)
    of_user = (settings.Budget, settings.Endpoint, settings.RuleSetting, settings.Settings)
    return (*found, *(_shape(model, of_settings) for model in of_user))


def spell(annotation: Any, aliases: Mapping[object, str], *, array: str, record: str, union: str) -> str:
    """Format a type in the target language."""

    def go(kind: Any) -> str:
        if (named := aliases.get(key_of(kind))) is not None:
            return named
        origin = get_origin(kind)
        if origin is Annotated:
            return go(get_args(kind)[0])
        if origin is Literal:
            return union.join(f'"{value}"' for value in get_args(kind))
        if origin in (Union, UnionType):
            return union.join(dict.fromkeys(go(part) for part in get_args(kind) if part is not NoneType))
        if origin is tuple:
            inner = go(get_args(kind)[0])
            return array.format(f"({inner})" if union in inner else inner)
        if origin is dict:
            return record
        if inspect.isclass(kind) and issubclass(kind, BaseModel):
            return kind.__name__
        return _PLAIN[kind]

    return go(annotation)


def alias_names(found: tuple[Shape | Alias, ...]) -> dict[object, str]:
    """key (see `key_of`) → name of each alias"""
    return {key_of(shape.annotation): shape.name for shape in found if isinstance(shape, Alias)}


def key_of(annotation: Any) -> object:
    """The key of an alias: the values of a literal, because the settings define the same literals again, or its id."""
    return get_args(annotation) if get_origin(annotation) is Literal else id(annotation)


def _shape(model: type[BaseModel], words: Mapping[str, tuple[str, Mapping[str, str]]]) -> Shape:
    described: dict[str, str] = {}
    for parent in reversed(model.__mro__):
        described.update(words.get(parent.__name__, ("", {}))[1])
    # The annotations as written keep the identity of named unions; `FieldInfo.annotation` has lost it.
    written = _annotations(model)
    fields = tuple(
        ShapeField(
            name=info.alias or name,
            annotation=written[name],
            required=info.is_required(),
            words=described.get(name, ""),
            default=_default(info.default),
            nullable=info.is_required() and NoneType in get_args(written[name]),
        )
        for name, info in model.model_fields.items()
    )
    return Shape(model.__name__, words[model.__name__][0], fields)


def _annotations(model: type[BaseModel]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for parent in reversed(model.__mro__):
        if issubclass(parent, BaseModel) and parent is not BaseModel:
            scope = vars(inspect.getmodule(parent))
            for name, text in inspect.get_annotations(parent).items():
                found[name] = eval(text, dict(scope)) if isinstance(text, str) else text  # noqa: S307 -- our own source
    return found


def _default(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else None


def _defined(module: ModuleType) -> list[str]:
    """The names that a module defines, in order."""
    source = Path(inspect.getsourcefile(module) or "").read_text("utf-8")
    names: list[str] = []
    for node in ast.parse(source).body:
        match node:
            case ast.ClassDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                names.append(name)
            case _:
                pass
    return names


def _words(module: ModuleType) -> dict[str, tuple[str, dict[str, str]]]:
    """class name → (its docstring, field → the docstring below it)"""
    source = Path(inspect.getsourcefile(module) or "").read_text("utf-8")
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = (_flat(ast.get_docstring(node) or ""), _field_words(node))
    return found


def _field_words(node: ast.ClassDef) -> dict[str, str]:
    found: dict[str, str] = {}
    for before, after in zip(node.body, node.body[1:], strict=False):
        if (
            isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            found[before.target.id] = _flat(inspect.cleandoc(after.value.value))
    return found


def _flat(text: str) -> str:
    return " ".join(text.split())
