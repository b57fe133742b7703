"""Tool calls as values: the state of a call, its arguments in normalised form, and new call ids."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, Literal, cast

from pydantic_core import from_json, to_json

from pilotfish.conversation.provenance import Source

MAX_LENIENT = 1_000_000  # characters of broken JSON that are read leniently
MAX_ID_LENGTH = 40  # the limit of the strictest provider


class Category(StrEnum):
    """The effect of a tool, which policy uses to judge its calls."""

    READ_ONLY = "read_only"
    RESEARCH = "research"
    WRITE = "write"
    EXECUTE = "execute"


class CallStatus(StrEnum):
    """The status of a call. The last four are final."""

    PENDING = "pending"
    AWAITING_APPROVAL = "awaiting_approval"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    DENIED = "denied"
    CANCELLED = "cancelled"


FINAL_STATUSES = frozenset({CallStatus.COMPLETED, CallStatus.FAILED, CallStatus.DENIED, CallStatus.CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class Location:
    """A location that a call touches. Lines and characters count from zero in UTF-16 code units, as in LSP."""

    uri: str
    range: tuple[int, int, int, int] | None = None
    """Start line, start character, end line, end character."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """The result of a call. `text` is what the model sees; the complete output may be stored as a blob."""

    text: str
    truncated: bool = False
    bytes: int = 0
    blob: str | None = None
    """The hash of the complete output in the store, if `text` is truncated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallApproval:
    """Why a call was allowed or denied, and by whom: a rule, a mode or the user."""

    decision: Literal["allow", "deny"]
    by: Literal["mode", "rule", "user", "nobody"]
    reason: str
    approval_id: str | None = None
    option_id: str | None = None
    rule: str | None = None
    digest: str | None = None
    feedback: str | None = None
    amended: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CanonicalToolCall:
    """The current state of one call."""

    id: str
    name: str
    args: Mapping[str, Any]
    status: CallStatus = CallStatus.PENDING
    title: str = ""
    category: Category = Category.READ_ONLY
    locations: tuple[Location, ...] = ()
    result: CallResult | None = None
    diff: str | None = None
    error: str | None = None
    started_at: float | None = None
    """Seconds since the epoch."""
    duration_ms: int | None = None
    approval: CallApproval | None = None
    raw_args: str | None = None
    """The arguments as the model wrote them, if they were not a JSON object."""
    source: Source | None = None
    """Where the text of the result comes from. None if no other party wrote any of it."""
    unrecorded: bool = False
    """It is a command that ran where it could change files, so no record names what it changed."""
    recovered: bool = False
    """The call was found in the text of the model instead of a structured call."""
    parent_id: str | None = None
    """The call whose subagent made this one. None if the model of the turn made it."""
    may_ask: bool = True
    """Whether the user may be asked about it."""


def fresh_id(wanted: str, used: Collection[str], counts: dict[str, int] | None = None) -> str:
    """Return an id like `wanted` that is not in `used` and that no provider rejects as too long.

    The same inputs give the same id. `counts` stores the next number of each id for callers that ask often.
    """
    stem = wanted or "call"
    number = 2 if counts is None else counts.get(stem, 2)
    while (candidate := _numbered(stem, number)) in used:
        number += 1
    if counts is not None:
        counts[stem] = number + 1
    return candidate


def _numbered(stem: str, number: int) -> str:
    candidate = f"{stem}_{number}"
    if len(candidate) <= MAX_ID_LENGTH:
        return candidate
    return f"call_{hashlib.sha256(stem.encode('utf-8', 'replace')).hexdigest()[:24]}_{number}"


def normalise_args(args: object) -> tuple[dict[str, Any], str | None]:
    """Return arguments as a mapping, and the raw text if the arguments are not a JSON object.

    A JSON object in text is parsed, also one with the slips that models make (`_lenient`). Empty text and None become
    the empty mapping. Any other value is kept as raw text.
    """
    if args is None or args == "":
        return {}, None
    if isinstance(args, Mapping):
        return dict(cast("Mapping[str, Any]", args)), None
    if isinstance(args, str):
        if not args.strip():
            return {}, None
        try:
            parsed = from_json(args, allow_inf_nan=False)
        except ValueError:
            parsed = _lenient(args)
        if isinstance(parsed, str):  # encoded twice
            parsed = _lenient(parsed)
        if not isinstance(parsed, dict) or (_HUGE_EXPONENT.search(args) and not _is_finite(parsed)):
            return {}, args
        return cast("dict[str, Any]", parsed), None
    return {}, json_text(args)


def _lenient(text: str) -> object:
    """A JSON object with line breaks inside strings, in a code fence, with commas before a bracket, or written as a
    Python value. None for anything else: text that breaks off is never completed."""
    body = text.strip()
    if fenced := _FENCED.fullmatch(body):
        body = fenced[1].strip()
    if len(body) > MAX_LENIENT or body[:1] != "{" or body[-1:] != "}":
        return None
    for read in (_json_with_breaks, _json_without_last_commas, ast.literal_eval):
        try:
            found = read(body)
            to_json(found, inf_nan_mode="strings")  # a Python value may be none of JSON's
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        if isinstance(found, dict) and all(isinstance(name, str) for name in cast("dict[Any, Any]", found)):
            return cast("dict[str, Any]", found) if _is_finite(found) else None
    return None


def _json_with_breaks(text: str) -> object:
    return json.loads(text, strict=False)


def _json_without_last_commas(text: str) -> object:
    return json.loads(_STRING_OR_COMMA.sub(lambda found: found["string"] or "", text), strict=False)


_FENCED = re.compile(r"```\w*\n(.*)\n```", re.DOTALL)
_STRING_OR_COMMA = re.compile(r'(?P<string>"(?:[^"\\]|\\.)*")|,(?=\s*[\]}])', re.DOTALL)
_HUGE_EXPONENT = re.compile(r"[eE]\+?\d{3}")


def json_text(value: object) -> str:
    return to_json(value, inf_nan_mode="constants").decode()


def _is_finite(value: Any) -> bool:
    return all(isfinite(number) for number in _floats(value))


def _floats(value: object) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[str, object]", value).values():
            yield from _floats(item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for item in cast("Sequence[object]", value):
            yield from _floats(item)
