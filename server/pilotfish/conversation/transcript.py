"""Builds the items of a transcript, which the user sees, from the records of the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from pilotfish.conversation.history.sanitizer import NEVER_STARTED, STARTED
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
from pilotfish.conversation.messages import (
    FINAL_STATUSES,
    CallResult,
    CallStatus,
    CanonicalMessage,
    CanonicalToolCall,
    Outcome,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    is_news,
)
from pilotfish.conversation.records import (
    ApprovalRecord,
    ChunkRecord,
    ClaimRecord,
    CompactionRecord,
    Entry,
    FileChangeRecord,
    MessageRecord,
    NoticeRecord,
    PlanRecord,
    Record,
    ReviewRecord,
    SessionRecord,
    StateRecord,
    SteerRecord,
    ToolCallRecord,
    TurnEndRecord,
    TurnStartRecord,
    UndoRecord,
    UsageRecord,
    message_of,
)


def transcript(records: Iterable[Record | Entry], *, running: str | None = None) -> tuple[Item, ...]:
    """Return the items of a session or of one page of it, in display order.

    An open call of a turn other than `running` is shown as cancelled, because nothing will end it. The text of an item
    comes from its chunks until its message is stored, and from the message afterwards.
    """
    fold = _Transcript()
    for index, entry in enumerate(records, 1):
        if isinstance(entry, Entry):
            fold.take(entry.record, entry.n, entry.seq or 0)
        else:
            fold.take(entry, index, 0)
    return fold.items(running)


class _Transcript:
    """Collects items. An item is placed at its first record, and the parts of a message keep their order."""

    def __init__(self) -> None:
        self._items: dict[str, Item] = {}
        self._places: dict[str, tuple[int, int]] = {}
        self._streamed: dict[str, list[str]] = {}
        self._prompted: set[str] = set()  # turns with a start record and no message yet
        self._steered: dict[str, int] = {}  # number of steering prompts without a message yet, by turn
        self._undone: set[str] = set()
        self._bare_calls: set[str] = set()  # calls that are known only from messages
        self._first_n = 0

    def items(self, running: str | None) -> tuple[Item, ...]:
        order = sorted(self._items, key=self._places.__getitem__)
        return tuple(self._finished(self._items[item_id], running) for item_id in order)

    def take(self, record: Record, n: int, seq: int) -> None:
        at_start = self._first_n == 0
        if at_start:
            self._first_n = n
        turn_id = record.turn_id
        match record:
            case TurnStartRecord():
                self._prompted.add(turn_id)
                self._put(_prompt(f"{turn_id}.prompt", record, n, seq))
            case SteerRecord():
                self._steered[turn_id] = self._steered.get(turn_id, 0) + 1
                self._put(_prompt(f"steer.{n}", record, n, seq))
            case MessageRecord():
                self._message(record, n, at_start=at_start)
            case ToolCallRecord():
                self._bare_calls.discard(record.call.id)
                self._put(CallItem(id=record.call.id, turn_id=turn_id, n=n, seq=seq, call=record.call))
            case ChunkRecord():
                self._chunk(record, n, seq)
            case PlanRecord():
                self._put(PlanItem(id=f"{turn_id}.plan", turn_id=turn_id, n=n, seq=seq, entries=record.entries))
            case FileChangeRecord():
                self._put(
                    FileChangeItem(
                        id=f"file.{n}",
                        turn_id=turn_id,
                        n=n,
                        seq=seq,
                        uri=record.uri,
                        change=record.change,
                        added=record.added,
                        removed=record.removed,
                        via=record.via,
                        call_id=record.call_id,
                        old_uri=record.old_uri,
                        background=record.background,
                    )
                )
            case NoticeRecord():
                self._put(
                    NoticeItem(
                        id=f"notice.{n}",
                        turn_id=turn_id,
                        n=n,
                        seq=seq,
                        level=record.level,
                        message=record.message,
                        remedy=record.remedy,
                        cause=record.cause,
                    )
                )
            case ClaimRecord():
                self._put(
                    ClaimItem(
                        id=f"claim.{n}",
                        turn_id=turn_id,
                        n=n,
                        seq=seq,
                        text=record.text,
                        verdict=record.verdict,
                        evidence=record.evidence,
                    )
                )
            case CompactionRecord():
                self._put(
                    CompactionItem(
                        id=f"compaction.{n}",
                        turn_id=turn_id,
                        n=n,
                        seq=seq,
                        before=record.before,
                        after=record.after,
                        summary=record.summary,
                    )
                )
            case TurnEndRecord():
                self._put(
                    TurnEndItem(
                        id=f"{turn_id}.end",
                        turn_id=turn_id,
                        n=n,
                        seq=seq,
                        stop_reason=record.stop_reason,
                        usage=record.usage,
                        error=record.error,
                        receipt=record.receipt,
                        timestamp=record.timestamp,
                    )
                )
            case UndoRecord():
                (self._undone.add if record.direction == "undo" else self._undone.discard)(turn_id)
            case StateRecord() | UsageRecord() | SessionRecord() | ApprovalRecord() | ReviewRecord():
                pass
            case _:
                assert_never(record)

    def _put(self, item: Item, place: tuple[int, int] | None = None) -> None:
        known = self._items.get(item.id)
        if known is not None and known.seq > item.seq:
            item = replace(
                item, seq=known.seq
            )  # a record without an update changed the item; `seq` counts updates only
        self._items[item.id] = item
        if place is not None:
            self._places[item.id] = place
        else:
            self._places.setdefault(item.id, (item.n, 0))

    def _chunk(self, record: ChunkRecord, n: int, seq: int) -> None:
        if record.channel not in ("message", "thought"):
            return
        texts = self._streamed.setdefault(record.item_id, [])
        texts.append(record.text)
        kind = MessageItem if record.channel == "message" else ThoughtItem
        # the chunks are joined at the end, because a long answer has thousands of them
        self._put(kind(id=record.item_id, turn_id=record.turn_id, n=n, seq=seq, text=""))

    def _message(self, record: MessageRecord, n: int, *, at_start: bool) -> None:
        message = message_of(record)
        if message.is_response:
            self._response(record, message, n)
            return
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolReturnPart):
                self._answer(part, n)
            elif isinstance(part, UserPromptPart):
                if record.turn_id in self._prompted:
                    # the item of the first prompt comes from the start record of the turn
                    self._prompted.discard(record.turn_id)
                    continue
                if is_news(part.text):
                    continue
                if left := self._steered.get(record.turn_id, 0):
                    self._steered[record.turn_id] = left - 1
                    continue
                if at_start and n > 1 and not message.returns:
                    continue  # the page begins after the start record: the item is on the previous page
                blocks = ({"type": "text", "text": _prompt_text(record, part, message)},)
                item = PromptItem(
                    id=f"{record.message_id}.{index}",
                    turn_id=record.turn_id,
                    n=n,
                    prompt=blocks,
                    timestamp=record.timestamp,
                )
                self._put(item, (n, index))

    def _response(self, record: MessageRecord, message: CanonicalMessage, n: int) -> None:
        """Place the items of a response in the order of its parts, at the place of the first known item."""
        ids = [
            part.tool_call_id if isinstance(part, ToolCallPart) else f"{record.message_id}.{index}"
            for index, part in enumerate(message.parts)
        ]
        first = min((self._places[item_id][0] for item_id in ids if item_id in self._places), default=n)
        for index, (item_id, part) in enumerate(zip(ids, message.parts, strict=True)):
            place = (first, index + 1)
            match part:
                case TextPart() | ThoughtPart() if part.content:
                    self._streamed.pop(item_id, None)
                    kind = MessageItem if isinstance(part, TextPart) else ThoughtItem
                    self._put(kind(id=item_id, turn_id=record.turn_id, n=n, text=part.content), place)
                case ToolCallPart() if item_id in self._items:
                    self._places[item_id] = place
                case ToolCallPart():
                    self._bare_calls.add(item_id)
                    call = CanonicalToolCall(
                        id=item_id,
                        name=part.tool_name,
                        args=part.args,
                        title=part.tool_name,
                        raw_args=part.raw_args,
                    )
                    self._put(CallItem(id=item_id, turn_id=record.turn_id, n=n, call=call), place)
                case _:
                    pass

    def _answer(self, part: ToolReturnPart, n: int) -> None:
        """Set the result of a call that has no record of its own, as in an imported history."""
        item = self._items.get(part.tool_call_id)
        if part.tool_call_id in self._bare_calls and isinstance(item, CallItem):
            status = _STATUS_OF[part.outcome]
            failed = status is not CallStatus.COMPLETED
            text = part.text
            call = replace(
                item.call,
                status=status,
                error=text if failed else None,
                result=None if failed else CallResult(text=text, bytes=len(text.encode("utf-8", "replace"))),
            )
            self._put(replace(item, n=n, call=call))

    def _finished(self, item: Item, running: str | None) -> Item:
        match item:
            case MessageItem() | ThoughtItem() if item.id in self._streamed:
                return replace(item, text="".join(self._streamed[item.id]))
            case CallItem() if item.call.status not in FINAL_STATUSES and item.turn_id != running:
                reason = STARTED if item.call.status is CallStatus.IN_PROGRESS else NEVER_STARTED
                return replace(item, call=replace(item.call, status=CallStatus.CANCELLED, error=reason))
            case TurnEndItem() if item.turn_id in self._undone:
                return replace(item, undone=True)
            case _:
                return item


_STATUS_OF: dict[Outcome, CallStatus] = {
    "success": CallStatus.COMPLETED,
    "failed": CallStatus.FAILED,
    "retried": CallStatus.FAILED,
    "denied": CallStatus.DENIED,
    "interrupted": CallStatus.CANCELLED,
}


def _prompt(item_id: str, record: TurnStartRecord | SteerRecord, n: int, seq: int) -> PromptItem:
    return PromptItem(
        id=item_id,
        turn_id=record.turn_id,
        n=n,
        seq=seq,
        prompt=record.prompt,
        prompt_id=record.prompt_id,
        timestamp=record.timestamp,
    )


def _prompt_text(record: MessageRecord, part: UserPromptPart, message: CanonicalMessage) -> str:
    """Return a prompt as the user wrote it: the text of the record, if the message has only one prompt."""
    prompts = [other for other in message.parts if isinstance(other, UserPromptPart)]
    return record.content if len(prompts) == 1 and record.content else part.text
