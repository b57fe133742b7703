"""Converts records to the JSON bodies in the database, and back.

A long string inside a record is stored once as a blob and replaced by `{"$blob": hash}`. The same output occurs in the
record of a call and in the message that returns it, the same arguments in every status of a call, and an image in every
prompt that contains it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from pydantic import ValidationError

from pilotfish.conversation.records import (
    FileChangeRecord,
    MessageRecord,
    NoticeRecord,
    Record,
    ReviewRecord,
    ToolCallRecord,
    record_from_json,
    record_to_json,
)
from pilotfish.store.tables.blobs import hash_of

MIN_TAKEN_OUT: Final = 8_192
"""length in characters from which a string is stored as a blob"""

LOST: Final = "[This text was lost with a damaged database.]"

_MARK: Final = "$blob"
_REFERENCE: Final = re.compile(r'"\$blob":"([0-9a-f]{40})"')
_NO_STRINGS: Final[Mapping[str, bytes]] = {}


@dataclass(frozen=True, slots=True)
class Body:
    """A record as it is stored: its JSON, and the long strings that were taken out of it, keyed by hash."""

    json: str
    taken_out: Mapping[str, bytes]


def encode(record: Record) -> Body:
    body = encode_whole(record)
    if len(body) < MIN_TAKEN_OUT and _MARK not in body:
        return Body(body, _NO_STRINGS)
    taken_out: dict[str, bytes] = {}
    # json, not orjson: orjson would turn very large integers into floats.
    remainder = _take_out(json.loads(body), taken_out)
    return Body(json.dumps(remainder, ensure_ascii=False, separators=(",", ":")), taken_out)


def encode_whole(record: Record) -> str:
    """The JSON of a record with all its strings in place."""
    return record_to_json(record).decode()


def decode(n: int, type_: str, body: str, fetch: Callable[[str], bytes | None]) -> Record:
    """Parse a record from its body. An unreadable one is replaced by a notice, so that the loss is visible and the rest
    of the session can be read."""
    try:
        if _MARK in body:
            body = json.dumps(_put_back(json.loads(body), fetch), ensure_ascii=False)
        return record_from_json(body)
    except (ValidationError, ValueError):
        return NoticeRecord(
            turn_id="",
            level="error",
            message=f"Record {n} of this session ({type_}) could not be read.",
            timestamp=0.0,
            remedy="It is still in the database. A newer Pilotfish may read it.",
        )


def blobs_of(record: Record) -> tuple[str, ...]:
    """The hashes of the blobs that a record references."""
    match record:
        case MessageRecord(binary_content=attached):
            return tuple(attachment.blob for attachment in attached)
        case ToolCallRecord(call=call):
            return (call.result.blob,) if call.result and call.result.blob else ()
        case FileChangeRecord(before=first, after=second) | ReviewRecord(baseline=first, seen=second):
            return tuple(blob for blob in (first, second) if blob is not None)
        case _:
            return ()


def taken_out_of(body: str) -> list[str]:
    """The hashes of the strings that were taken out of a stored body."""
    return _REFERENCE.findall(body)


def _take_out(value: Any, taken_out: dict[str, bytes]) -> Any:
    match value:
        case str():
            if len(value) < MIN_TAKEN_OUT:
                return value
            data = value.encode()
            hash_ = hash_of(data)
            taken_out[hash_] = data
            return {_MARK: hash_}
        case dict():
            remainder = {key: _take_out(item, taken_out) for key, item in cast("dict[str, Any]", value).items()}
            return {_MARK: [remainder]} if _MARK in remainder else remainder
        case list():
            return [_take_out(item, taken_out) for item in cast("list[Any]", value)]
        case _:
            return value


def _put_back(value: Any, fetch: Callable[[str], bytes | None]) -> Any:
    match value:
        case dict():
            mapping = cast("dict[str, Any]", value)
            mark = mapping.get(_MARK)
            if isinstance(mark, str):
                data = fetch(mark)
                return LOST if data is None else data.decode()
            escaped = cast("dict[str, Any]", mark[0]) if isinstance(mark, list) else mapping
            return {key: _put_back(item, fetch) for key, item in escaped.items()}
        case list():
            return [_put_back(item, fetch) for item in cast("list[Any]", value)]
        case _:
            return value
