"""Calls as values: one call from announcement to end, and its arguments in their one normal form."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, Literal, cast

from pydantic_core import from_json, to_json

MAX_ID_LENGTH = 40  # the limit of the strictest provider


class Category(StrEnum):
    """What a tool does to the world; policy judges by it."""

    READ_ONLY = "read_only"
    RESEARCH = "research"
    WRITE = "write"
    EXECUTE = "execute"


class CallStatus(StrEnum):
    """The life of a call. The last four are final."""

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
    """A place a call touches. Lines and characters count from zero, as LSP does (UTF-16 code units)."""

    uri: str
    range: tuple[int, int, int, int] | None = None
    """start line, start character, end line, end character"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallResult:
    """What a call gave back. `text` is what the model sees; the whole may be kept apart as a blob."""

    text: str
    truncated: bool = False
    bytes: int = 0
    blob: str | None = None
    """hash of the whole output in the store, when `text` is a cut of it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallApproval:
    """How a call came to be allowed or denied: by a rule, a mode or a person."""

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
    """One call from announcement to end, as it is now."""

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
    """seconds since the epoch"""
    duration_ms: int | None = None
    approval: CallApproval | None = None
    raw_args: str | None = None
    """the arguments as the model wrote them, when they were not a JSON object"""
    recovered: bool = False
    """found in text, not called by structure"""


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
    """Arguments as a mapping, and what was written when that is no JSON object.

    A mapping is itself; a JSON object in text is parsed; nothing is the empty mapping. Anything else is kept as text.
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
            return {}, args
        if not isinstance(parsed, dict) or (_HUGE_EXPONENT.search(args) and not _is_finite(parsed)):
            return {}, args
        return cast("dict[str, Any]", parsed), None
    return {}, json_text(args)


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
