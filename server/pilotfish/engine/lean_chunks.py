"""Chunks of a Chat stream as the SDK's objects, built by hand.

The SDK finds out what every field of every chunk may be, each time anew: a tenth of what a tool round costs. Here that
is found out once for each class. A chunk that is not of the usual shape, by so much as a type, is left to the SDK;
what comes out is the same (`tests/engine/test_lean_openai.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from openai import BaseModel
from openai.types.chat import ChatCompletionChunk
from pydantic_core import PydanticUndefined

Make = Callable[[Any], Any]
SCALARS = frozenset({str, int, bool})
NOTHING = object()


class Unusual(Exception):
    """Left to the SDK."""


def chunk(data: Any) -> ChatCompletionChunk | None:
    """The chunk, or None when it is not of the usual shape."""
    try:
        return _maker(ChatCompletionChunk)(data)
    except Unusual:
        return None


@cache
def _maker(cls: type[BaseModel]) -> Make:
    """What makes an object of a class from its JSON."""
    fields: dict[str, tuple[Any, Make]] = {}
    for name, field in cls.model_fields.items():
        if field.alias not in (None, name) or field.default_factory is not None:
            raise Unusual(f"{cls.__name__}.{name}")
        default = NOTHING if field.default is PydanticUndefined else field.default
        fields[name] = (default, _value(field.annotation))
    missing = {name: None if default is NOTHING else default for name, (default, _) in fields.items()}
    needed = frozenset(name for name, (default, _) in fields.items() if default is NOTHING)

    def make(data: Any) -> Any:
        if type(data) is not dict:
            raise Unusual
        given = cast("dict[str, Any]", data)
        values, extra = dict(missing), dict[str, Any]()
        for name, value in given.items():
            field = fields.get(name)
            if field is None:
                extra[name] = value
            elif value is not None:
                values[name] = field[1](value)
        if not needed <= given.keys():
            raise Unusual
        made = cls.__new__(cls)
        set_field = object.__setattr__
        set_field(made, "__dict__", values)
        set_field(made, "__pydantic_private__", None)
        set_field(made, "__pydantic_extra__", extra)
        set_field(made, "__pydantic_fields_set__", set(given) & fields.keys())
        return made

    return make


def _value(kind: Any) -> Make:
    """What makes a value of a type. A type we do not know makes the chunk unusual when it has such a value."""
    while get_origin(kind) is Annotated:
        kind = get_args(kind)[0]
    if get_origin(kind) in (Union, UnionType):
        some = [each for each in get_args(kind) if each is not NoneType]
        return _value(some[0]) if len(some) == 1 else _unusual
    if kind in SCALARS:
        return _exactly(kind)
    if get_origin(kind) is Literal:
        return _one_of(get_args(kind))
    if get_origin(kind) is list:
        each = _value(get_args(kind)[0])
        return lambda value: list(map(each, cast("list[Any]", value))) if type(value) is list else _unusual(value)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _maker(kind)
    return _unusual


def _exactly(kind: type) -> Make:
    return lambda value: value if type(value) is kind else _unusual(value)


def _one_of(values: tuple[Any, ...]) -> Make:
    return lambda value: value if type(value) is str and value in values else _unusual(value)


def _unusual(_: Any) -> Any:
    raise Unusual
