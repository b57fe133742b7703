"""Decides which messages of a conversation a summary replaces, and what is kept beside the summary's own words.

`summaries.summarise` writes the summary. The ledger keeps every message; only the messages that are sent change.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pilotfish.conversation.history.budget import content_tokens
from pilotfish.conversation.messages import CanonicalMessage, OtherPart, is_news
from pilotfish.conversation.model_history import get_messages_for_llm
from pilotfish.conversation.records import (
    CompactionRecord,
    FileChangeRecord,
    MessageRecord,
    PlanRecord,
    Record,
    message_of,
)

KEEP_MESSAGES = 6  # the newest messages are not summarised, if they are small enough
KEEP_TOKENS = 12_000  # of the newest messages, at most
KEEP_SHARE = 0.25  # of the context window, at most
MAX_TASK_CHARS = 6_000  # of the prompt of the running turn
MAX_FILES = 40
MAX_SCALE = 1.5  # a provider's count of a text, compared with our estimate


class Cut(NamedTuple):
    """A conversation divided at the first message that is kept."""

    keep_from: str
    """the id of that message"""
    old: tuple[CanonicalMessage, ...]
    """what the summary replaces; begins with the last summary, if there is one"""
    facts: str
    """what follows the summary word for word: the task, the plan, the files"""


def cut(records: Sequence[Record], window: int | None) -> Cut | None:
    """Where to cut a conversation. None if there is nothing to summarise."""
    earlier = next((record for record in reversed(records) if isinstance(record, CompactionRecord)), None)
    places = [
        (index, record)
        for index, record in enumerate(records)
        if isinstance(record, MessageRecord) and not record.shown_only
    ]
    ids = [record.message_id for _, record in places]
    if earlier is not None and earlier.keep_from in ids:
        places = places[ids.index(earlier.keep_from) :]
    limit = min(KEEP_TOKENS, int(KEEP_SHARE * window)) if window else KEEP_TOKENS
    first = _first_kept([message_of(record) for _, record in places], limit)
    if first is None:
        return None
    place, kept_record = places[first]
    before = list(records[:place])
    if earlier is not None and earlier not in before:
        before.append(earlier)
    return Cut(
        kept_record.message_id,
        get_messages_for_llm(before),
        _facts(records, [record for _, record in places], first),
    )


def _first_kept(messages: Sequence[CanonicalMessage], limit: int) -> int | None:
    """The index of the first message to keep: a prompt KEEP_MESSAGES from the end if possible, else a response, so that
    no call is separated from its return. The messages from there on have at most `limit` tokens, if possible."""
    sizes = accumulate(content_tokens(message) for message in reversed(messages))
    fits = [size <= limit for size in sizes][::-1]
    answered = next((index + 1 for index, message in enumerate(messages) if message.is_response), len(messages))
    starts = [
        index for index in range(answered, len(messages)) if messages[index].is_response or not messages[index].returns
    ]
    prompts = [index for index in starts if not messages[index].is_response and fits[index]]
    if early := [index for index in prompts if index <= len(messages) - KEEP_MESSAGES]:
        return early[-1]
    if prompts:
        return prompts[0]
    newest = [index for index in starts if index >= len(messages) - KEEP_MESSAGES]
    return next((index for index in newest if fits[index]), newest[-1] if newest else None)


def _facts(records: Sequence[Record], messages: Sequence[MessageRecord], first: int) -> str:
    """The task of a turn that is cut, the open plan, and the files of the part that is summarised."""
    sections: list[str] = []
    if not any(map(_is_prompt, messages[first:])):
        task = next((record.content for record in reversed(messages[:first]) if _is_prompt(record)), "")
        if task:
            sections.append(f"The task, in the user's words:\n{task[:MAX_TASK_CHARS]}")
    plan = next((record for record in reversed(records) if isinstance(record, PlanRecord)), None)
    if plan is not None and any(entry.status != "completed" for entry in plan.entries):
        steps = "\n".join(f"- [{entry.status}] {entry.content}" for entry in plan.entries)
        sections.append(f"The plan (update_plan changes it):\n{steps}")
    changed = dict.fromkeys(_path(record.uri) for record in records if isinstance(record, FileChangeRecord))
    calls = [call for record in messages[:first] for call in message_of(record).calls]
    named = dict.fromkeys(str(call.args["path"]) for call in calls if call.args.get("path"))
    for title, files in (("Files changed", changed), ("Files and folders that calls named", named)):
        if files:
            sections.append(f"{title}: {', '.join(list(files)[-MAX_FILES:])}")
    return "\n\n".join(sections)


def _is_prompt(record: MessageRecord) -> bool:
    """Whether the user wrote this message: it has no results of calls."""
    return (
        record.role == "user"
        and not is_news(record.content)
        and not any(
            part.get("part_kind") in ("tool-return", "retry-prompt", "retry-feedback")
            for part in record.message.get("parts", ())
        )
    )


def _path(uri: str) -> str:
    return unquote(urlsplit(uri).path)


def tokens(messages: Sequence[CanonicalMessage]) -> int:
    """An estimate."""
    return sum(map(content_tokens, messages))


def tokens_after(before: int, fixed: int, estimate: int, now: int) -> int:
    """The tokens after a summary, from what a provider counted `before` it and our estimates of both conversations. Old
    content that was left out of requests is in the estimate and not in the count, so the count may be the smaller."""
    scale = min(max((before - fixed) / max(1, estimate), 1.0), MAX_SCALE)
    return min(before, fixed + int(now * scale))


def readable(message: CanonicalMessage) -> str:
    """A message as plain text, for the summary."""
    lines = [f"{'Agent' if message.is_response else 'User'}: {message.get_text_content()}"]
    lines += [
        f"[summary of what came before] {part.data.get('content', '')}"
        for part in message.parts
        if isinstance(part, OtherPart) and part.kind == "compaction"
    ]
    lines += [f"[call {call.tool_name} {dict(call.args)}]" for call in message.calls]
    lines += [f"[result of {part.tool_name}] {part.text[:2000]}" for part in message.returns]
    return "\n".join(lines)
