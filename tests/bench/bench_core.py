"""What the conversation core costs, at 10,000 and 20,000 messages: every rule is linear, and repairing a history is
cheaper than parsing it. `python -m tests.bench.bench_core`.

Milliseconds of CPU at 20,000 messages, the best of three, beside the same at 10,000: a ratio of 2 is linear, 4 would
be quadratic.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Sequence

import orjson
from tests.bench.figures import Table

from pilotfish.conversation.answer_text.text_calls import find_calls
from pilotfish.conversation.calls import CallStatus, CanonicalToolCall
from pilotfish.conversation.history.call_ids import with_plain_ids
from pilotfish.conversation.history.sanitizer import (
    give_calls_their_own_ids,
    place_returns,
    remove_consecutive_requests,
    remove_dangling_tool_calls,
    remove_empty_responses,
    repair,
    run_cleanup_loop,
    sanitize_history_for_resume,
    split_by_side,
)
from pilotfish.conversation.history.trim import trim
from pilotfish.conversation.history.validation import find_dangling_tool_call_ids, find_faults, is_sound
from pilotfish.conversation.messages import (
    CanonicalMessage,
    MessageRole,
    Part,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
    message_from_json,
    message_to_json,
)
from pilotfish.conversation.model_history import get_messages_for_llm, transcript
from pilotfish.conversation.records import MessageRecord, Record, ToolCallRecord, record_from_json, record_to_json

SIZES = (10_000, 20_000)
LINEAR = 3  # what twice the messages may cost: caches of the processor make it a little more than 2
History = tuple[CanonicalMessage, ...]
Bench = Callable[[int], Callable[[], object]]


def sound(size: int) -> History:
    """Repeated rounds of a prompt, two calls with a thought, two results and an answer."""
    messages: list[CanonicalMessage] = []
    for number in range(size // 4):
        calls = [ToolCallPart("read", {"path": f"src/{number}.py"}, f"call_{number}_{side}") for side in "ab"]
        messages += [
            _user(UserPromptPart(f"please look at file {number}")),
            _model(ThoughtPart("let me think " * 8), TextPart("I will look at it. " * 4), *calls),
            _user(*(ToolReturnPart("read", "line of code\n" * 80, call.tool_call_id) for call in calls)),
            _model(TextPart("That is what it does. " * 10)),
        ]
    return tuple(messages)


def aborted(size: int) -> History:
    """A history without results: prompt, calls, prompt, calls, …"""
    return tuple(message for message in sound(size * 4 // 3) if not message.returns)[:size]


def one_id(size: int) -> History:
    """A history in which all calls have the same id and all results are at the end."""
    half = size // 2
    return (*_rounds(half, "call_0"), *(_user(ToolReturnPart("read", "x", "call_0")) for _ in range(half)))


def no_ids(size: int) -> History:
    return _rounds(size, "")


def wrong_sides(size: int) -> History:
    part: list[Part] = [
        TextPart("said"),
        UserPromptPart("asked"),
        ToolCallPart("read", {}, "a"),
        ToolReturnPart("read", "x", "a"),
    ]
    return tuple(CanonicalMessage(MessageRole.USER, tuple(part)) for _ in range(size))


def requests_only(size: int) -> History:
    return tuple(_user(UserPromptPart("again")) for _ in range(size))


def empties(size: int) -> History:
    return tuple(_model(TextPart(" ")) if number % 2 else _user() for number in range(size))


def _rounds(size: int, call_id: str) -> History:
    messages: list[CanonicalMessage] = []
    for _ in range(size // 2):
        messages += [_model(ToolCallPart("read", {}, call_id)), _user(ToolReturnPart("read", "x", call_id))]
    return tuple(messages)


def _user(*parts: Part) -> CanonicalMessage:
    return CanonicalMessage(MessageRole.USER, parts)


def _model(*parts: Part) -> CanonicalMessage:
    return CanonicalMessage(MessageRole.ASSISTANT, parts, {"model_name": "m", "usage": {"input_tokens": 9}})


def over(make: Callable[[int], History], work: Callable[[History], object]) -> Bench:
    def prepare(size: int) -> Callable[[], object]:
        history = make(size)
        return lambda: work(history)

    return prepare


def parsing(loads: Callable[[bytes], object]) -> Bench:
    def prepare(size: int) -> Callable[[], object]:
        lines = [orjson.dumps(message_to_json(message)) for message in sound(size)]
        return lambda: [loads(line) for line in lines]

    return prepare


def records(size: int) -> list[Record]:
    made: list[Record] = []
    for number, message in enumerate(sound(size)):
        made.append(
            MessageRecord(
                turn_id=f"t{number // 4}",
                message_id=f"m{number}",
                role="assistant" if message.is_response else "user",
                content=message.get_text_content(),
                message=message_to_json(message),
                timestamp=1.0,
            )
        )
        made += [
            ToolCallRecord(
                turn_id=f"t{number // 4}",
                call=CanonicalToolCall(id=call.tool_call_id, name="read", args=call.args, status=CallStatus.COMPLETED),
                timestamp=1.0,
            )
            for call in message.calls
        ]
    return made


def over_records(work: Callable[[Sequence[Record]], object]) -> Bench:
    def prepare(size: int) -> Callable[[], object]:
        made = records(size)
        return lambda: work(made)

    return prepare


def reading_records(size: int) -> Callable[[], object]:
    bodies = [record_to_json(record) for record in records(size)]
    return lambda: [record_from_json(body) for body in bodies]


def warm(work: Callable[[History], object]) -> Bench:
    """The same work repeated on the same history, as before every request of a long turn."""

    def prepare(size: int) -> Callable[[], object]:
        history = sound(size)
        work(history)
        return lambda: work(history)

    return prepare


def _send(history: History) -> object:
    from pilotfish.engine.model.adapter import from_canonical

    return [from_canonical(message) for message in trim(repair(history), tool_history_rounds=10)]


def _fresh_send(size: int) -> Callable[[], object]:
    from pilotfish.engine.model.adapter import from_canonical

    lines = [message_to_json(message) for message in sound(size)]
    return lambda: [from_canonical(message_from_json(line)) for line in lines]


def _texts(size: int) -> Callable[[], object]:
    text = "I will look at it now, and then say what I think.\n" * size + 'read(path="a")'
    return lambda: find_calls(text, {"read": lambda _: True})


PARSE = "parse: JSON to canonical messages"
REPAIRS = ("repair a sound history", "repair: every result lost")
BENCHES: dict[str, Bench] = {
    "parse: json.loads alone": parsing(json.loads),
    PARSE: parsing(lambda line: message_from_json(orjson.loads(line))),
    "read records": reading_records,
    "is it sound?": over(sound, is_sound),
    "find every fault": over(aborted, find_faults),
    "find dangling calls": over(aborted, find_dangling_tool_call_ids),
    REPAIRS[0]: over(sound, repair),
    REPAIRS[1]: over(aborted, repair),
    "repair: one id for all": over(one_id, repair),
    "repair: no ids at all": over(no_ids, repair),
    "repair: wrong sides": over(wrong_sides, repair),
    "repair: requests only": over(requests_only, repair),
    "repair: empties": over(empties, repair),
    "rule: split by side": over(wrong_sides, split_by_side),
    "rule: own ids": over(one_id, give_calls_their_own_ids),
    "rule: remove dangling": over(aborted, remove_dangling_tool_calls),
    "rule: place returns": over(aborted, lambda history: place_returns(history, {})),
    "rule: remove empty": over(empties, remove_empty_responses),
    "rule: join": over(requests_only, remove_consecutive_requests),
    "cleanup loop": over(aborted, run_cleanup_loop),
    "for resume": over(sound, sanitize_history_for_resume),
    "plain ids, again": warm(with_plain_ids),
    "trim": over(sound, lambda history: trim(history, tool_history_rounds=10)),
    "fold for the model": over_records(get_messages_for_llm),
    "fold for a person": over_records(transcript),
    "to the library, cold": _fresh_send,
    "repair, trim, to the library, again": warm(_send),
    "written calls": _texts,
}


def measure(work: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(3):
        gc.collect()
        gc.disable()
        began = time.process_time()
        work()
        best = min(best, time.process_time() - began)
        gc.enable()
    return best * 1000


def main() -> int:
    table = Table("core")
    costs: dict[str, float] = {}
    for name, prepare in BENCHES.items():
        small, large = (measure(prepare(size)) for size in SIZES)
        costs[name] = small
        table.add(f"{name}, 20,000 messages", large, "ms", ratio_target=LINEAR, of_10_000=small)
    for name in REPAIRS:
        table.add(f"{name}, 10,000 messages", costs[name], "ms", ratio_target=1, parsing_them=costs[PARSE])
    return table.finish()


if __name__ == "__main__":
    sys.exit(main())
