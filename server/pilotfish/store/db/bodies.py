"""Records as the database holds them, and back.

A long string inside a record is taken out of it and stored once by its hash: the same output lies in a call's record
and in the message that returns it, the same arguments in every status of a call, an image in every prompt that shows
it. In its place stands `{"$blob": hash}`.
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
    ToolCallRecord,
    record_from_json,
    record_to_json,
)
from pilotfish.store.db.blobs import hash_of

MIN_TAKEN_OUT: Final = 8_192
"""characters of a string that is stored apart"""

LOST: Final = "[This text was lost with a damaged database.]"

_MARK: Final = "$blob"
_NAMED: Final = re.compile(r'"\$blob":"([0-9a-f]{40})"')
_NOTHING: Final[Mapping[str, bytes]] = {}


@dataclass(frozen=True, slots=True)
class Body:
    """A record as it is stored: its JSON, and the long strings taken out of it by their hashes."""

    json: str
    taken_out: Mapping[str, bytes]


def encode(record: Record) -> Body:
    body = encode_whole(record)
    if len(body) < MIN_TAKEN_OUT and _MARK not in body:
        return Body(body, _NOTHING)
    taken_out: dict[str, bytes] = {}
    # json, not orjson: that would make floats of very large integers.
    remainder = _take_out(json.loads(body), taken_out)
    return Body(json.dumps(remainder, ensure_ascii=False, separators=(",", ":")), taken_out)


def encode_whole(record: Record) -> str:
    """With nothing taken out."""
    return record_to_json(record).decode()


def decode(n: int, type_: str, body: str, fetch: Callable[[str], bytes | None]) -> Record:
    """A record from its body. One that cannot be read becomes a notice in its place: it neither vanishes silently nor
    takes the session with it."""
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
    """The blobs a record names: they live as long as it does."""
    match record:
        case MessageRecord(binary_content=attached):
            return tuple(attachment.blob for attachment in attached)
        case ToolCallRecord(call=call):
            return (call.result.blob,) if call.result and call.result.blob else ()
        case FileChangeRecord(before=before, after=after):
            return tuple(blob for blob in (before, after) if blob is not None)
        case _:
            return ()


def taken_out_of(body: str) -> list[str]:
    """The hashes of the strings that were taken out of a stored body."""
    return _NAMED.findall(body)


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
            fat = cast("dict[str, Any]", value)
            mark = fat.get(_MARK)
            if isinstance(mark, str):
                data = fetch(mark)
                return LOST if data is None else data.decode()
            escaped = cast("dict[str, Any]", mark[0]) if isinstance(mark, list) else fat
            return {key: _put_back(item, fetch) for key, item in escaped.items()}
        case list():
            return [_put_back(item, fetch) for item in cast("list[Any]", value)]
        case _:
            return value
