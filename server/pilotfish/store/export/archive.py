"""Exports a session to a JSON archive and imports it again.

{"format": "pilotfish-session", "version": 1, "session": {…}, "records": [{"n", "seq", "record"}, …],
 "blobs": {hash: base64}}
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final, TypeVar

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from pilotfish.conversation.records import Entry, Usage, record_from_json, record_to_json
from pilotfish.errors import BadRequest
from pilotfish.store.rows import SessionRow
from pilotfish.store.tables.blobs import hash_of

FORMAT: Final = "pilotfish-session"
VERSION: Final = 1
MAX_COUNT: Final = 1 << 53
"""largest accepted number of tokens or records; sums of such numbers still fit into the database"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArchive:
    """A session with its records and blobs, for export and import."""

    row: SessionRow
    entries: Sequence[Entry]
    blobs: Mapping[str, bytes]


def _countable(usage: Usage) -> Usage:
    counts = (
        *(usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens),
        *(usage.requests, usage.tool_calls, usage.unpriced_requests),
    )
    if not all(0 <= count <= MAX_COUNT for count in counts) or not math.isfinite(usage.cost or 0.0):
        raise ValueError("a count is negative or too large, or the cost is not a finite number")
    return usage


_Number = Annotated[int, Field(ge=1, le=MAX_COUNT)]


class _Session(BaseModel):
    model_config = ConfigDict(extra="ignore")

    id: str
    title: str
    workspace: str | None = None
    model: str
    mode: str
    created_at: FiniteFloat
    updated_at: FiniteFloat
    forked_from: str | None = None
    usage: Annotated[Usage, AfterValidator(_countable)] = Usage()


class _Entry(BaseModel):
    n: _Number
    seq: _Number | None
    record: dict[str, Any]


class _Head(BaseModel):
    model_config = ConfigDict(extra="ignore")

    format: str = ""
    version: int = 0


class _File(_Head):
    session: _Session
    records: list[_Entry]
    blobs: dict[str, str] = {}


M = TypeVar("M", bound=BaseModel)


def to_json(archive: SessionArchive) -> str:
    row = archive.row
    file = {
        "format": FORMAT,
        "version": VERSION,
        "session": {
            "id": row.id,
            "title": row.title,
            "workspace": row.workspace,
            "model": row.model,
            "mode": row.mode,
            "created_at": row.created_at,
            "updated_at": row.updated_at,
            "forked_from": row.forked_from,
            "usage": row.usage,
            "imported": row.imported > 0,
        },
        "records": [
            {"n": entry.n, "seq": entry.seq, "record": orjson.Fragment(record_to_json(entry.record))}
            for entry in archive.entries
        ],
        "blobs": {hash_: base64.b64encode(data).decode() for hash_, data in archive.blobs.items()},
    }
    return orjson.dumps(file, option=orjson.OPT_INDENT_2).decode()


def from_json(text: str) -> SessionArchive:
    """Parse what `to_json` wrote. Raises `BadRequest` that names the wrong field."""
    head = _parse(_Head, text)
    if head.format != FORMAT:
        raise BadRequest("The text is not an exported Pilotfish session.", field="format")
    if head.version > VERSION:
        raise BadRequest(
            f"The file was written by a newer Pilotfish (format {head.version}; this one reads {VERSION}).",
            field="version",
        )
    file = _parse(_File, text)
    session = file.session
    return SessionArchive(
        row=SessionRow(
            id=session.id,
            title=session.title,
            workspace=session.workspace,
            model=session.model,
            mode=session.mode,
            created_at=session.created_at,
            updated_at=session.updated_at,
            forked_from=session.forked_from,
            **asdict(session.usage),
        ),
        entries=_entries(file.records),
        blobs=_blobs(file.blobs),
    )


def _parse(model: type[M], text: str) -> M:
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        place, reason = _fault(error)
        raise BadRequest(f"{place}: {reason}" if place else f"The text is not JSON: {reason}", field=place) from error


def _entries(records: Sequence[_Entry]) -> list[Entry]:
    entries: list[Entry] = []
    n = seq = 0
    for index, raw in enumerate(records):
        place = f"records.{index}"
        if raw.n <= n or (raw.seq is not None and raw.seq <= seq):
            raise BadRequest(f"{place}: n and seq must increase.", field=place)
        n, seq = raw.n, raw.seq if raw.seq is not None else seq
        try:
            record = record_from_json(json.dumps(raw.record, allow_nan=False))
        except ValidationError as error:
            where, reason = _fault(error)
            raise BadRequest(f"{place}.record.{where}: {reason}", field=f"{place}.record.{where}") from error
        except ValueError as error:  # NaN or infinity: the ledger would store null, and could not read the record again
            raise BadRequest(f"{place}.record: a number is NaN or infinite.", field=f"{place}.record") from error
        if record.type in ("chunk", "state"):
            continue
        entries.append(Entry(raw.n, raw.seq, record))
    return entries


def _blobs(encoded: Mapping[str, str]) -> dict[str, bytes]:
    blobs: dict[str, bytes] = {}
    for hash_, text in encoded.items():
        try:
            blobs[hash_] = base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise BadRequest(f"blobs.{hash_} is not base64.", field=f"blobs.{hash_}") from error
        if hash_of(blobs[hash_]) != hash_:
            raise BadRequest(f"blobs.{hash_}: the data does not match this hash.", field=f"blobs.{hash_}")
    return blobs


def _fault(error: ValidationError) -> tuple[str, str]:
    """The location and the message of the first validation error."""
    first = error.errors(include_url=False)[0]
    return ".".join(str(step) for step in first["loc"]), first["msg"]
