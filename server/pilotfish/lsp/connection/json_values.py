"""Parsed JSON values checked for their type, and JSON text made safe to parse."""

from __future__ import annotations

import re
from typing import Any

import orjson

_ESCAPES = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""every escape in JSON text; the group matches one half of a surrogate pair that has no other half"""


def loads(text: bytes) -> Any:
    """Parse JSON. Raises ValueError for anything that is not JSON, `NaN` and numbers too large for a float included."""
    return orjson.loads(without_lone_surrogates(text))


def without_lone_surrogates(text: bytes) -> bytes:
    """JSON text of the same length, where U+FFFD replaces each escape that UTF-8 cannot represent."""
    if b"\\ud" not in text and b"\\uD" not in text:
        return text
    return _ESCAPES.sub(lambda found: rb"\ufffd" if found[1] else found[0], text)


def as_object(value: Any) -> dict[str, Any] | None:
    """The value if it is a JSON object, else None."""
    kind = _type(value)
    return value if kind is dict else None


def as_objects(value: Any) -> list[dict[str, Any]]:
    """The JSON objects in a JSON array; empty for anything else."""
    kind = _type(value)
    return [item for item in value if _type(item) is dict] if kind is list or kind is tuple else []


def as_list(value: Any) -> list[Any] | None:
    """The value if it is a JSON array, an empty list for null, else None."""
    kind = _type(value)
    return [] if value is None else list(value) if kind is list or kind is tuple else None


def _type(value: object) -> object:
    return type(value)
