"""Exports a session as readable Markdown, with each call folded into one line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, assert_never

import orjson

from pilotfish.conversation.items import (
    CallItem,
    ClaimItem,
    CompactionItem,
    FileChangeItem,
    Item,
    MessageItem,
    NoticeItem,
    PlanItem,
    PromptItem,
    ThoughtItem,
    TurnEndItem,
)
from pilotfish.conversation.messages import CallStatus, CanonicalToolCall
from pilotfish.conversation.records import StopReason, Usage
from pilotfish.store.rows import SessionRow
from pilotfish.text.uris import path_of

MAX_OUTPUT_CHARS: Final = 4_000
"""length of the shown part of one call's result; the rest is not exported"""

_MARKS: Final[Mapping[CallStatus, str]] = {
    CallStatus.COMPLETED: "✓",
    CallStatus.FAILED: "✗",
    CallStatus.DENIED: "⊘",
    CallStatus.CANCELLED: "■",
}
_PLAN_MARKS: Final = {"pending": "[ ]", "in_progress": "[ ] ▸", "completed": "[x]"}
_ENDINGS: Final[Mapping[StopReason, str]] = {
    "end_turn": "",
    "max_iterations": "Stopped at the limit of iterations.",
    "max_tokens": "The answer was cut at the model's length limit.",
    "budget": "Stopped at the budget of the turn.",
    "refusal": "The model refused.",
    "cancelled": "Cancelled.",
    "failed": "Failed.",
}


def to_markdown(row: SessionRow, items: Sequence[Item], *, tz: tzinfo | None = None) -> str:
    """The whole transcript. `tz` is the time zone of its times; None means the local one."""
    writer = _Writer(row, tz)
    blocks = [*writer.head(), *(block for item in items for block in writer.blocks(item))]
    return "\n\n".join(blocks) + "\n"


class _Writer:
    def __init__(self, row: SessionRow, tz: tzinfo | None) -> None:
        self._row = row
        self._tz = tz
        self._speaker = ""

    def head(self) -> Iterator[str]:
        row = self._row
        yield f"# {row.title or 'Untitled session'}"
        facts = [f"{self._time(row.created_at)} – {self._time(row.updated_at)}", row.model]
        if row.workspace:
            facts.append(f"`{row.workspace}`")
        facts.append(f"{row.turns} turn{'' if row.turns == 1 else 's'}")
        facts += _usage(row.usage)
        facts += ["imported from a file"] if row.imported else []
        yield f"*{' · '.join(fact for fact in facts if fact)}*"

    def blocks(self, item: Item) -> Iterator[str]:
        match item:
            case PromptItem():
                yield from self._heading("You", item.timestamp)
                yield from self._prompt(item.prompt)
            case MessageItem():
                yield from self._heading("Pilotfish")
                yield item.text.strip()
            case ThoughtItem():
                yield from self._heading("Pilotfish")
                yield _folded("Thought", item.text.strip())
            case CallItem():
                yield from self._heading("Pilotfish")
                yield self._call(item.call)
            case PlanItem():
                yield from self._heading("Pilotfish")
                yield "\n".join(f"- {_PLAN_MARKS[entry.status]} {_line(entry.content)}" for entry in item.entries)
            case NoticeItem():
                remedy = f" {item.remedy}" if item.remedy else ""
                yield _quoted(f"**{item.level.capitalize()}:** {item.message}{remedy}")
            case ClaimItem():
                if item.verdict == "unsupported":
                    yield _quoted(f"**Not verified:** “{_line(item.text)}” ({item.evidence})")
            case FileChangeItem():
                yield self._file_change(item)
            case CompactionItem():
                summary = f"Earlier conversation summarised ({item.before:,} → {item.after:,} tokens)"
                yield _folded(summary, item.summary.strip())
            case TurnEndItem():
                yield from _ending(item)
            case _:
                assert_never(item)

    def _heading(self, speaker: str, timestamp: float | None = None) -> Iterator[str]:
        """A heading when the speaker changes, and before every prompt."""
        if speaker != self._speaker or speaker == "You":
            yield f"## {speaker}" + (f" — {self._time(timestamp)}" if timestamp else "")
        self._speaker = speaker

    def _prompt(self, blocks: Sequence[Mapping[str, Any]]) -> Iterator[str]:
        for block in blocks:
            match block:
                case {"type": "text", "text": str(text)}:
                    if text.strip():
                        yield text.strip()
                case {"type": "image"}:
                    yield f"*Attached: an image ({block.get('mimeType', 'unknown type')})*"
                case {"uri": str(uri)}:
                    yield f"*Attached: `{self._path(uri)}`{_lines(block.get('range'))}*"
                case _:
                    yield f"*Attached: {block.get('type', 'something')}*"

    def _call(self, call: CanonicalToolCall) -> str:
        took = f" ({call.duration_ms / 1000:.1f} s)" if call.duration_ms is not None else ""
        summary = f"{_MARKS.get(call.status, '…')} {_line(call.title or call.name)}{took}"
        if call.title and call.title != call.name:
            summary += f" — {call.name}"
        inside: list[str] = []
        if call.args or call.raw_args is not None:
            args = call.raw_args
            if args is None:
                args = orjson.dumps(call.args, option=orjson.OPT_INDENT_2, default=dict).decode()
            inside.append(_fenced(_cut(args), "json"))
        if call.approval is not None and call.approval.by == "user":
            feedback = f": “{_line(call.approval.feedback)}”" if call.approval.feedback else ""
            decided = "allowed" if call.approval.decision == "allow" else "denied"
            inside.append(f"*You {decided} it{feedback}.*")
        if call.diff:
            inside.append(_fenced(_cut(call.diff), "diff"))
        elif call.result is not None and call.result.text.strip():
            inside.append(_fenced(_cut(call.result.text), "text"))
        if call.error:
            inside.append(_quoted(f"**{call.status.value.capitalize()}:** {call.error}"))
        return _folded(summary, "\n\n".join(inside)) if inside else f"{summary}"

    def _file_change(self, item: FileChangeItem) -> str:
        origin = f"`{self._path(item.old_uri)}` → " if item.old_uri else ""
        return f"- {item.change} {origin}`{self._path(item.uri)}` (+{item.added} −{item.removed})"

    def _path(self, uri: str) -> str:
        path = path_of(uri)
        if path is None:
            return uri
        root = self._row.workspace
        return str(path.relative_to(root)) if root and path.is_relative_to(root) else str(path)

    def _time(self, seconds: float) -> str:
        return f"{datetime.fromtimestamp(seconds, tz=UTC).astimezone(self._tz):%Y-%m-%d %H:%M}"


def _ending(item: TurnEndItem) -> Iterator[str]:
    ending = _ENDINGS[item.stop_reason]
    if item.error is not None:
        ending = f"{ending} {item.error.message} {item.error.remedy}"
    if ending:
        yield _quoted(f"*{ending.strip()}*")
    if item.undone:
        yield _quoted("*The changes of this turn were undone.*")


def _usage(usage: Usage) -> list[str]:
    if not usage.requests and not usage.input_tokens:
        return []
    parts = [f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"]
    if usage.cost is not None:
        parts.append(f"${usage.cost:.2f}")
    return parts


def _folded(summary: str, text: str) -> str:
    safe = summary.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return f"<details>\n<summary>{safe}</summary>\n\n{text}\n\n</details>"


def _fenced(text: str, language: str) -> str:
    """A code block whose fence is longer than any inside it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _cut(text: str) -> str:
    if len(text) <= MAX_OUTPUT_CHARS:
        return text
    return f"{text[:MAX_OUTPUT_CHARS]}\n… ({len(text) - MAX_OUTPUT_CHARS:,} more characters)"


def _line(text: str) -> str:
    return " ".join(text.split())


def _lines(range_: Any) -> str:
    match range_:
        case {"start": {"line": int(first)}, "end": {"line": int(last)}}:
            return f", lines {first + 1}–{last + 1}" if last > first else f", line {first + 1}"
        case _:
            return ""
