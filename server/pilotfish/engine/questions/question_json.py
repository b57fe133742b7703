"""A question, an answer, and how a turn ended, as JSON for another process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from pilotfish.conversation.records import Receipt
from pilotfish.engine.frontend import Answer, Outcome, Question

V = TypeVar("V", Answer, Outcome, Question, Receipt)


def to_json(value: Answer | Outcome | Question | Receipt) -> dict[str, Any]:
    return _adapter(type(value)).dump_python(value, mode="json")


def from_json(shape: type[V], value: Mapping[str, Any]) -> V:
    """Raises ValueError if another version of this program wrote something else."""
    return _adapter(shape).validate_python(value)


@cache
def _adapter(shape: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(shape)
