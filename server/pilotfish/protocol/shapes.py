"""What the generators know of wire.py: its shapes in order, their fields, and the words written beside them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from pilotfish import settings
from pilotfish.protocol import wire

_PLAIN: dict[Any, str] = {str: "string", int: "number", float: "number", bool: "boolean"}

BASES = frozenset({"Wire", "Whole", "Lsp", "ItemBase"})
"""classes that exist only to be inherited"""


@dataclass(frozen=True, slots=True)
class ShapeField:
    name: str
    """as on the wire"""
    annotation: Any
    required: bool
    words: str
    default: Any
    """what absence means, where it is not none"""
    nullable: bool
    """always there, and null where there is nothing"""


@dataclass(frozen=True, slots=True)
class Shape:
    """An object on the wire."""

    name: str
    words: str
    fields: tuple[ShapeField, ...]


@dataclass(frozen=True, slots=True)
class Alias:
    """A named union or set of words."""

    name: str
    annotation: Any


def shapes() -> tuple[Shape | Alias, ...]:
    """Every public class and alias of wire.py, in the order they stand there, then the settings."""
    found: list[Shape | Alias] = []
    words = _words(wire)
    for name, value in vars(wire).items():
        if name.startswith("_") or name in BASES or name in ("Any", "Annotated", "Literal"):
            continue
        if inspect.isclass(value) and issubclass(value, wire.Wire):
            found.append(_shape(value, words))
        elif get_origin(value) in (Literal, Annotated):
            found.append(Alias(name, value))
    of_settings = _words(settings)
    of_user = (settings.Budget, settings.RuleSetting, settings.Settings)
    return (*found, *(_shape(model, of_settings) for model in of_user))


def spell(annotation: Any, aliases: Mapping[object, str], *, array: str, record: str, union: str) -> str:
    """A type in the words of a target language."""

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
    """What each alias is recognised by → its name."""
    return {key_of(shape.annotation): shape.name for shape in found if isinstance(shape, Alias)}


def key_of(annotation: Any) -> object:
    """What an alias is recognised by: its words, which the settings write once more, or else its identity."""
    return get_args(annotation) if get_origin(annotation) is Literal else id(annotation)


def _shape(model: type[BaseModel], words: Mapping[str, tuple[str, Mapping[str, str]]]) -> Shape:
    described: dict[str, str] = {}
    for base in reversed(model.__mro__):
        described.update(words.get(base.__name__, ("", {}))[1])
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
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            scope = vars(inspect.getmodule(base))
            for name, text in inspect.get_annotations(base).items():
                found[name] = eval(text, dict(scope)) if isinstance(text, str) else text  # noqa: S307 -- our own source
    return found


def _default(value: Any) -> Any:
    return value if isinstance(value, str | int | float | bool) else None


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
