"""What a client sends, read once at the door: camelCase only, nothing unknown, nothing coerced.

Promises: whatever does not fit is a BadRequest that names the field as the client wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import orjson
from pydantic import ValidationError

from pilotfish.errors import BadRequest
from pilotfish.lsp.connection.json_values import as_list, as_object
from pilotfish.protocol import wire

Shape = TypeVar("Shape", bound=wire.Wire)

_WORDS = {
    "missing": "is needed",
    "extra_forbidden": "there is no such field",
    "model_type": "an object is needed",
    "dict_type": "an object is needed",
    "tuple_type": "a list is needed",
    "too_short": "must not be empty",
    "union_tag_not_found": "is needed",
    "json_invalid": "is nested too deeply",
}
"""pydantic's errors that speak of Python, in words for whoever wrote the client"""
_SHOWN = 3  # things that are wrong at once; more help nobody
_TAG = "type"  # the discriminator of content blocks, the only unions that are received


def read(shape: type[Shape], value: Any) -> Shape:
    """A JSON value in its shape. A field that is null counts as left out."""
    given = _without_nulls(shape, value)
    try:
        # From JSON, because strict Python values would have to be tuples and instances already.
        return shape.model_validate_json(orjson.dumps(given), strict=True, by_alias=True, by_name=False)
    except ValidationError as error:
        raise bad_request(error, given) from None
    except orjson.JSONEncodeError:
        raise BadRequest("params: is nested too deeply", field="params") from None


def bad_request(error: ValidationError, value: Any) -> BadRequest:
    """What is wrong with a value, by the names it has on the wire; `field` is the first."""
    found: dict[str, str] = {}
    for wrong in error.errors(include_url=False, include_context=False, include_input=False):
        steps = _place(wrong["loc"], value)
        if wrong["type"].startswith("union_tag"):
            steps.append(_TAG)
        found.setdefault(".".join(map(str, steps)) or "params", _WORDS.get(wrong["type"], wrong["msg"]))
    # pydantic reports a list with a wrong item as empty too.
    innermost = {
        field: words for field, words in found.items() if not any(other.startswith(f"{field}.") for other in found)
    }
    shown = list(innermost.items())[:_SHOWN]
    return BadRequest("; ".join(f"{field}: {words}" for field, words in shown), field=shown[0][0])


def _without_nulls(shape: type[wire.Wire], value: Any) -> Any:
    fields = as_object(value)
    if fields is None or None not in fields.values():
        return value
    known = {info.alias for info in shape.model_fields.values()}
    return {name: field for name, field in fields.items() if field is not None or name not in known}


def _place(steps: tuple[int | str, ...], value: Any) -> list[int | str]:
    """Where an error is, without the names that pydantic gives to the members of unions."""
    place: list[int | str] = []
    here, just_arrived = value, True
    for step in steps:
        fields, items = as_object(here), as_list(here) if here is not None else None
        if fields is None and items is None:
            break  # the member of a union of plain values
        if fields is not None and just_arrived and fields.get(_TAG) == step:
            just_arrived = False
            continue
        place.append(step)
        here, just_arrived = _inside(fields, items, step), True
    return place


def _inside(fields: Mapping[str, Any] | None, items: list[Any] | None, step: int | str) -> Any:
    if fields is not None:
        return fields.get(str(step))
    return items[step] if items is not None and isinstance(step, int) and step < len(items) else None
