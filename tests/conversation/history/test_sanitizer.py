"""Repair of histories: an example for each rule, and properties for thousands of broken histories."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.history import broken_histories, parse, show, sound_histories, words
from tests.support.tries import tries

from pilotfish.conversation.history.sanitizer import (
    BEGINNING_IS_MISSING,
    INTERRUPTED,
    ONLY_SYSTEM_PROMPT,
    Cleanup,
    Closing,
    remove_consecutive_requests,
    remove_dangling_tool_calls,
    remove_empty_responses,
    repair,
    run_cleanup_loop,
    sanitize_history_for_resume,
)
from pilotfish.conversation.history.validation import find_dangling_tool_call_ids, find_faults
from pilotfish.conversation.messages import (
    CallStatus,
    CanonicalMessage,
    MessageRole,
    Part,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pilotfish.conversation.registry import ToolCallRegistry

thousands = settings(max_examples=tries(500), deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check(before: str, after: str) -> None:
    assert show(repair(parse(before))) == after


# ---- The rules -----------------------------------------------------------------------------------------------------


def test_an_unanswered_call_is_closed_before_the_next_prompt() -> None:
    check("user: hi / model: call a / user: stop", "user: hi / model: call a / user: interrupted a, stop")


def test_an_unanswered_call_at_the_end_is_closed_in_a_request_of_its_own() -> None:
    check("user: hi / model: on it, call a", "user: hi / model: on it, call a / user: interrupted a")


def test_an_unanswered_call_between_two_responses_is_closed_between_them() -> None:
    check(
        "user: hi / model: call a / model: well / user: ok",
        "user: hi / model: call a / user: interrupted a / model: well / user: ok",
    )


def test_the_unanswered_one_of_several_calls_is_closed_in_its_order() -> None:
    check(
        "user: hi / model: call a, call b, call c / user: return c, return a",
        "user: hi / model: call a, call b, call c / user: return a, interrupted b, return c",
    )


def test_a_return_at_the_end_of_the_list_is_moved_to_its_call() -> None:
    check(
        "user: hi / model: call a / user: stop / model: sorry / user: return a",
        "user: hi / model: call a / user: return a, stop / model: sorry",
    )


def test_returns_come_before_prompts() -> None:
    check("user: hi / model: call a / user: wait, return a", "user: hi / model: call a / user: return a, wait")


def test_a_return_without_a_call_is_removed() -> None:
    check("user: hi, return z / model: hello", "user: hi / model: hello")
    check("user: return a / model: call a", f"user: {BEGINNING_IS_MISSING} / model: call a / user: interrupted a")


def test_of_two_returns_the_first_counts() -> None:
    check(
        "user: hi / model: call a / user: return a = one, return a = two",
        "user: hi / model: call a / user: return a = one",
    )


def test_a_result_is_preferred_to_a_closing() -> None:
    check(
        "user: hi / model: call a / user: interrupted a / model: ok / user: return a = late",
        "user: hi / model: call a / user: return a = late / model: ok",
    )


def test_a_duplicate_id_in_one_response_gets_a_fresh_one_with_its_return_by_position() -> None:
    check(
        "user: hi / model: call a, call a / user: return a = one, return a = two",
        "user: hi / model: call a, call a_2 / user: return a = one, return a_2 = two",
    )


def test_an_id_used_again_in_a_later_response_gets_a_fresh_one() -> None:
    check(
        "user: hi / model: call a / user: return a / model: call a / user: return a = two",
        "user: hi / model: call a / user: return a / model: call a_2 / user: return a_2 = two",
    )


def test_a_later_call_of_the_same_id_takes_the_return() -> None:
    check(
        "user: hi / model: call a / user: no / model: call a / user: return a = x",
        "user: hi / model: call a / user: interrupted a, no / model: call a_2 / user: return a_2 = x",
    )


def test_a_fresh_id_is_unique() -> None:
    check(
        "user: hi / model: call a, call a, call a_2 / user: return a, return a = 2, return a_2",
        "user: hi / model: call a, call a_3, call a_2 / user: return a, return a_3 = 2, return a_2",
    )


def test_a_call_without_an_id_gets_one_and_its_return_is_found_by_name() -> None:
    check(
        "user: hi / model: call ? read, call ? write / user: return ? write = w, return ? read = r",
        "user: hi / model: call call_2 read, call call_3 write / user: return call_2 read = r, return call_3 write = w",
    )


def test_a_call_without_a_name_is_removed_with_every_part_of_its_id() -> None:
    check("user: hi / model: call a ?, text ok / user: return a, retried a, on", "user: hi / model: ok / user: on")


def test_an_invalid_name_is_replaced_in_call_and_return() -> None:
    check(
        "user: hi / model: call a functions.read / user: return a functions.read = x",
        "user: hi / model: call a functions_read / user: return a functions_read = x",
    )


def test_consecutive_requests_are_joined_in_order() -> None:
    check("user: one / user: two / system: three", "user: one, two, system three".replace("system three", "three"))


def test_consecutive_responses_are_joined_in_order() -> None:
    check(
        "user: hi / model: one / model: two, call a / user: return a",
        "user: hi / model: one, two, call a / user: return a",
    )


def test_empty_messages_of_both_sides_are_dropped() -> None:
    check("user: hi / model: / user: / model: hello / user:", "user: hi / model: hello")


def test_a_blank_part_is_dropped_and_the_rest_kept() -> None:
    check("user: hi / model: blank, call a / user: blank, return a", "user: hi / model: call a / user: return a")


def test_a_blank_return_gets_a_note() -> None:
    history = (
        *parse("user: hi / model: call a"),
        CanonicalMessage(MessageRole.USER, (ToolReturnPart("tool", " ", "a"),)),
    )
    assert show(repair(history)) == "user: hi / model: call a / user: return a = [no output]"


def test_parts_on_the_wrong_side_get_a_message_of_their_own() -> None:
    check(
        "user: hi, call a, go on / model: return a, thought hm",
        "user: hi / model: call a / user: return a, go on / model: thought hm",
    )


def test_a_history_that_begins_with_a_response_gets_a_beginning() -> None:
    check("model: hello / user: hi", f"user: {BEGINNING_IS_MISSING} / model: hello / user: hi")


def test_a_history_that_begins_with_only_a_system_prompt_gets_a_beginning() -> None:
    check(
        "system: system rules / model: hello / user: hi",
        f"system: system rules, {BEGINNING_IS_MISSING} / model: hello / user: hi",
    )


def test_a_request_of_system_prompts_between_two_responses_gets_a_prompt() -> None:
    check(
        "user: hi / model: hello / system: system rules / model: call a / user: return a",
        f"user: hi / model: hello / system: system rules, {ONLY_SYSTEM_PROMPT} / model: call a / user: return a",
    )


def test_closings_set_the_content_and_outcome_of_added_returns() -> None:
    repaired = repair(
        parse("user: hi / model: call a, call b"),
        {"a": Closing("denied: not that file", "denied"), "b": Closing("[Aborted by user]")},
    )
    assert repaired[2].parts == (
        ToolReturnPart("tool", "denied: not that file", "a", "denied"),
        ToolReturnPart("tool", "[Aborted by user]", "b", "interrupted"),
    )


def test_a_closing_has_the_timestamp_of_the_response() -> None:
    user, model = parse("user: hi / model: call a")
    model = replace(model, extra={"timestamp": "2026-01-01T00:00:00Z", "model_name": "m"})
    closing = ToolReturnPart("tool", INTERRUPTED.content, "a", "interrupted", {"timestamp": "2026-01-01T00:00:00Z"})
    assert repair((user, model))[2] == CanonicalMessage(MessageRole.USER, (closing,))


def test_arguments_that_are_not_json_are_kept() -> None:
    call = ToolCallPart("tool", {}, "a", '{"path": ')
    history = (*parse("user: hi"), CanonicalMessage(MessageRole.ASSISTANT, (call,)))
    assert repair(history)[1].parts == (call,)


def test_joined_messages_keep_the_fields_of_both_the_later_winning() -> None:
    one = CanonicalMessage(MessageRole.USER, (UserPromptPart("a"),), {"timestamp": "1", "metadata": {"x": 1}})
    two = CanonicalMessage(MessageRole.USER, (UserPromptPart("b"),), {"timestamp": "2"})
    assert repair((one, two)) == (
        CanonicalMessage(
            MessageRole.USER, (UserPromptPart("a"), UserPromptPart("b")), {"timestamp": "2", "metadata": {"x": 1}}
        ),
    )


def test_unchanged_messages_stay_the_same_objects() -> None:
    history = parse("user: hi / model: call a / user: return a / model: done / user: more / model: call b")
    repaired = repair(history)
    assert [after is before for before, after in zip(history, repaired, strict=False)] == [True] * 6


# ---- The seeds' names ----------------------------------------------------------------------------------------------


def test_the_cleanup_reports_its_changes_and_cancels_open_calls() -> None:
    registry = ToolCallRegistry()
    registry.register("a", "tool", {})
    registry.register("b", "tool", {})
    registry.move("b", CallStatus.FAILED)
    history = parse("user: hi / model: call a, call b / user: return b")
    cleanup = run_cleanup_loop(history, registry)
    assert cleanup == Cleanup(True, {"a"}, (*parse("user: hi / model: call a, call b"), cleanup.messages[2]))
    assert show(cleanup.messages) == "user: hi / model: call a, call b / user: interrupted a, return b"
    assert [call.status for call in registry] == [CallStatus.CANCELLED, CallStatus.FAILED]
    assert run_cleanup_loop(cleanup.messages, registry) == Cleanup(False, set(), cleanup.messages)


def test_the_cleanup_ignores_calls_unknown_to_the_registry() -> None:
    assert run_cleanup_loop(parse("user: hi / model: call a"), ToolCallRegistry()).dangling_ids == {"a"}


def test_dangling_calls_can_be_removed_with_every_part_of_their_id() -> None:
    history = parse("user: hi / model: ok, call a, call b / user: return b, retried z")
    assert show(remove_dangling_tool_calls(history)) == "user: hi / model: ok, call b / user: return b, retried z"
    assert show(remove_dangling_tool_calls(history, {"b", "z"})) == "user: hi / model: ok, call a / user:"


def test_empty_responses_are_removed() -> None:
    assert show(remove_empty_responses(parse("user: hi / model: / user: blank"))) == "user: hi"


def test_joining_consecutive_requests_keeps_all_text() -> None:
    assert show(remove_consecutive_requests(parse("user: a / user: b / model: c"))) == "user: a, b / model: c"


def test_resuming_removes_system_prompts_and_run_fields() -> None:
    first = CanonicalMessage(
        MessageRole.USER,
        (SystemPromptPart("be good"), UserPromptPart("hi")),
        {"run_id": "r", "instructions": "be brief", "timestamp": "1"},
    )
    system = CanonicalMessage(MessageRole.SYSTEM, (SystemPromptPart("rules"),))
    answer = CanonicalMessage(MessageRole.ASSISTANT, (TextPart("hello"),), {"run_id": "r"})
    later = CanonicalMessage(MessageRole.USER, (UserPromptPart("more"),))
    resumed = sanitize_history_for_resume((first, system, answer, later))
    assert resumed == (
        CanonicalMessage(MessageRole.USER, (UserPromptPart("hi"),), {"timestamp": "1"}),
        CanonicalMessage(MessageRole.ASSISTANT, (TextPart("hello"),)),
        later,
    )
    assert resumed[2] is later


def test_the_documented_function_names_exist() -> None:
    from pilotfish.conversation.history import sanitizer

    names = (
        "run_cleanup_loop",
        "remove_dangling_tool_calls",
        "remove_empty_responses",
        "remove_consecutive_requests",
        "sanitize_history_for_resume",
        "find_dangling_tool_call_ids",
    )
    assert [name for name in names if not callable(getattr(sanitizer, name, None))] == []


# ---- The laws ------------------------------------------------------------------------------------------------------


@thousands
@given(broken_histories)
def test_repair_makes_any_history_sound_and_keeps_what_was_said(history: tuple[CanonicalMessage, ...]) -> None:
    repaired = repair(history)
    no_faults_and_stable(repaired)
    every_word_in_its_order(history, repaired)
    every_call_answered_once_right_after_its_message(repaired)
    every_named_call_kept(history, repaired)


def no_faults_and_stable(repaired: tuple[CanonicalMessage, ...]) -> None:
    assert find_faults(repaired) == ()
    assert repair(repaired) is repaired


def every_word_in_its_order(history: tuple[CanonicalMessage, ...], repaired: tuple[CanonicalMessage, ...]) -> None:
    said = [word for word in words(repaired) if word not in (BEGINNING_IS_MISSING, ONLY_SYSTEM_PROMPT)]
    assert said == words(without_blank_items(history))


def every_call_answered_once_right_after_its_message(repaired: tuple[CanonicalMessage, ...]) -> None:
    for index, message in enumerate(repaired):
        calls = [part.tool_call_id for part in message.parts if isinstance(part, ToolCallPart)]
        if calls:
            answers = repaired[index + 1].parts[: len(calls)]
            assert [part.tool_call_id for part in answers if isinstance(part, ToolReturnPart)] == calls
    answered = [part.tool_call_id for message in repaired for part in message.returns]
    made = [part.tool_call_id for message in repaired for part in message.calls]
    assert answered == made
    assert len(set(made)) == len(made)


def every_named_call_kept(history: tuple[CanonicalMessage, ...], repaired: tuple[CanonicalMessage, ...]) -> None:
    named = [
        (part.args, part.raw_args)
        for message in history
        for part in message.parts
        if isinstance(part, ToolCallPart) and part.tool_name
    ]
    assert [(part.args, part.raw_args) for message in repaired for part in message.calls] == named


@thousands
@given(sound_histories)
def test_a_sound_history_is_given_back_as_it_is(history: tuple[CanonicalMessage, ...]) -> None:
    assert find_faults(history) == ()
    assert repair(history) is history
    assert run_cleanup_loop(history) == Cleanup(False, set(), history)


@settings(max_examples=tries(120), deadline=None)
@given(sound_histories, st.randoms(use_true_random=False))
def test_every_later_result_is_moved_to_its_call(history: tuple[CanonicalMessage, ...], random: Random) -> None:
    """Results are moved to random later places, and some of them are repeated."""
    strewn: list[CanonicalMessage] = []
    carried: list[ToolReturnPart] = []
    for message in history:
        carried += message.returns
        parts: list[Part] = [part for part in message.parts if not isinstance(part, ToolReturnPart)]
        if not message.is_response:
            random.shuffle(carried)
            while carried and random.random() < 0.5:
                parts.insert(random.randrange(len(parts) + 1), carried.pop())
        strewn.append(replace(message, parts=tuple(parts)))
    strewn += [CanonicalMessage(MessageRole.USER, (part, part)) for part in carried]
    repaired = repair(strewn)
    assert [part for message in repaired for part in message.returns] == [
        part for message in history for part in message.returns
    ]
    assert words(repaired) == words(history)


@settings(max_examples=tries(150), deadline=None)
@given(sound_histories, st.data())
def test_a_truncated_history_keeps_all_text_before_the_cut(
    history: tuple[CanonicalMessage, ...], data: st.DataObject
) -> None:
    """A crash leaves everything that was written before it, and nothing after."""
    cut = history[: data.draw(st.integers(0, len(history)))]
    repaired = repair(cut)
    assert words(repaired) == words(cut)
    assert repaired[: len(cut)] == cut
    assert find_dangling_tool_call_ids(repaired) == set()


def without_blank_items(history: tuple[CanonicalMessage, ...]) -> list[CanonicalMessage]:
    """Remove blank items from prompts."""
    cleaned: list[CanonicalMessage] = []
    for message in history:
        parts = [
            replace(part, content=tuple(item for item in part.content if not isinstance(item, str) or item.strip()))
            if isinstance(part, UserPromptPart) and not isinstance(part.content, str)
            else part
            for part in message.parts
        ]
        cleaned.append(replace(message, parts=tuple(parts)))
    return cleaned


@pytest.mark.parametrize("history", ["", "user: hi", "user: hi / model: hello / user: more"])
def test_the_cleanup_does_not_change_a_sound_history(history: str) -> None:
    assert run_cleanup_loop(parse(history)) == Cleanup(False, set(), parse(history))
