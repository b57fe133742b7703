"""Calls written as text: formats that count as calls, and texts that only show a call."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.tries import tries

from pilotfish.conversation.answer_text.text_call_hold import TextCallHold
from pilotfish.conversation.answer_text.text_calls import TextCall, find_calls, without_calls


def read_fits(args: dict[str, Any]) -> bool:
    return isinstance(args.get("path"), str) and set(args) <= {"path", "limit", "tags"} and _tags_fit(args)


def _tags_fit(args: dict[str, Any]) -> bool:
    return "tags" not in args or isinstance(args["tags"], list)


def bash_fits(args: dict[str, Any]) -> bool:
    return isinstance(args.get("command"), str)


def list_fits(args: dict[str, Any]) -> bool:
    return args == {}


TOOLS = {"read_file": read_fits, "bash": bash_fits, "list_all": list_fits}
READ = ("read_file", {"path": "a.py"})
LS = ("bash", {"command": "ls -l"})


def check(text: str, *calls: tuple[str, dict[str, Any]]) -> None:
    assert [(call.name, call.args) for call in find_calls(text, TOOLS)] == list(calls)


# ---- What is a call ------------------------------------------------------------------------------------------------


FORMATS = [
    '<tool_call>{"name": "read_file", "arguments": {"path": "a.py"}}</tool_call>',
    '<tool_call>\n{"name": "read_file", "arguments": "{\\"path\\": \\"a.py\\"}"}\n</tool_call>',
    'I look first.\n<tool_call>{"name": "read_file", "arguments": {"path": "a.py"}}</tool_call>\nThen I go on.',
    '<tool_call>{"name": "read_file", "arguments": {"path": "a.py"}}',
    '<function_call>{"name": "read_file", "parameters": {"path": "a.py"}}</function_call>',
    '<tool_use>{"name": "read_file", "input": {"path": "a.py"}}</tool_use>',
    '<tool_call>read_file(path="a.py")</tool_call>',
    "<tool_call>\n<function=read_file>\n<parameter=path>\na.py\n</parameter>\n</function>\n</tool_call>",
    '<function=read_file>{"path": "a.py"}</function>',
    '<function_calls><invoke name="read_file"><parameter name="path">a.py</parameter></invoke></function_calls>',
    '<invoke name="read_file"><parameter name="path">a.py</parameter></invoke>',
    "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a.py</arg_value>\n</tool_call>",
    '[TOOL_CALLS] [{"name": "read_file", "arguments": {"path": "a.py"}}]',
    '[TOOL_CALLS]read_file[ARGS]{"path": "a.py"}',
    '{"name": "read_file", "arguments": {"path": "a.py"}}',
    'Let me look.\n\n{"tool": "read_file", "args": {"path": "a.py"}}\n',
    '{\n  "name": "read_file",\n  "arguments": {\n    "path": "a.py"\n  }\n}',
    '{"type": "function", "function": {"name": "read_file", "arguments": "{\\"path\\": \\"a.py\\"}"}}',
    '{"type": "tool_use", "id": "x", "name": "read_file", "input": {"path": "a.py"}}',
    '{"tool_calls": [{"function": {"name": "read_file", "arguments": {"path": "a.py"}}}]}',
    '{"function_call": {"name": "read_file", "arguments": {"path": "a.py"}}}',
    '{"action": "read_file", "action_input": {"path": "a.py"}}',
    '{"read_file": {"path": "a.py"}}',
    '{"name": "functions.read_file", "arguments": {"path": "a.py"}}',
    '```json\n{"name": "read_file", "arguments": {"path": "a.py"}}\n```',
    'I will read it.\n\n```tool_call\n{"name": "read_file", "arguments": {"path": "a.py"}}\n```\n',
    '```\n{"name": "read_file", "arguments": {"path": "a.py"}}\n',
    '~~~json\n{"name": "read_file", "arguments": {"path": "a.py"}}\n~~~',
    '```xml\n<tool_call>{"name": "read_file", "arguments": {"path": "a.py"}}</tool_call>\n```',
    '```tool_code\nprint(read_file(path="a.py"))\n```',
    'read_file(path="a.py")',
    "read_file({'path': 'a.py'})",
    'I look.\nread_file(\n    path="a.py",\n)',
    'I would like to see the file first:\n{"name": "read_file", "arguments": {"path": "a.py"}}',
    'For example, a.py could hold it. That is a guess.\n\nLet me read it.\nread_file(path="a.py")',
    '{"name": "read_file", "arguments": {"path": "a.py"}',
    'I look.\n```json\n{"name": "read_file", "arguments": {"path": "a.py"\n```',
    '<tool_call>{"name": "read_file", "arguments": {"path": "a.py"}</tool_call>',
]


@pytest.mark.parametrize("text", FORMATS)
def test_a_known_format_is_a_call(text: str) -> None:
    check(text, READ)


def test_several_calls_are_found_in_order() -> None:
    one = '{"name": "read_file", "arguments": {"path": "a.py"}}'
    two = '{"name": "bash", "arguments": {"command": "ls -l"}}'
    check(f"<tool_call>{one}</tool_call>\n<tool_call>{two}</tool_call>", READ, LS)
    check(f"<tool_call>{one}\n{two}\n{two}</tool_call>", READ, LS, LS)
    check(f"[{one}, {two}]", READ, LS)
    check(f"{one}\n\n{two}", READ, LS)
    check(f"```json\n{one}\n```\n\n```json\n{two}\n```", READ, LS)
    check('read_file(path="a.py")\nbash(command="ls -l")', READ, LS)


def test_a_tool_without_arguments_needs_none() -> None:
    check("list_all()", ("list_all", {}))
    check('<tool_call>{"name": "list_all"}</tool_call>', ("list_all", {}))
    check("<function=list_all></function>", ("list_all", {}))


def test_unquoted_values_are_parsed_to_fit_the_tool() -> None:
    text = "<function=read_file><parameter=path>12</parameter><parameter=tags>[1, 2]</parameter></function>"
    check(text, ("read_file", {"path": "12", "tags": [1, 2]}))


def test_text_in_arguments_is_unchanged() -> None:
    check('bash(command="""grep -n "x\\d" a.py\nls""")', ("bash", {"command": 'grep -n "x\\d" a.py\nls'}))
    check(
        "<function=bash><parameter=command>\n  a <b> && c\n</parameter></function>",
        ("bash", {"command": "  a <b> && c"}),
    )


def test_json_words_are_values_in_a_call_line() -> None:
    check('bash(command="x", wait=true, n=[1, null])', ("bash", {"command": "x", "wait": True, "n": [1, None]}))


def test_the_span_covers_the_source_of_the_call() -> None:
    text = 'So:\n<tool_call>{"name": "list_all"}</tool_call> and\n```json\n{"name": "list_all"}\n```'
    assert [text[slice(*call.span)] for call in find_calls(text, TOOLS)] == [
        '<tool_call>{"name": "list_all"}</tool_call>',
        '```json\n{"name": "list_all"}\n```',
    ]
    assert find_calls("list_all()", TOOLS) == (TextCall("list_all", {}, (0, 10)),)


# ---- What is not a call --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I would use read_file for that.",
        "Call `read_file(path='a.py')` and see.",
        "The function read_file(path) reads a file.",
        '{"name": "no_such_tool", "arguments": {"path": "a.py"}}',
        '{"name": "read_file", "arguments": {"paths": "a.py"}}',
        '{"name": "read_file", "arguments": "a.py"}',
        '{"name": "read_file", "arguments": {"path": 7}}',
        '<tool_call>{"name": "read_file", "arguments": {"path": </tool_call>',
        "<tool_call>I think read_file is right</tool_call>",
        'Write `<tool_call>{"name": "list_all"}</tool_call>` to call it.',
        'For example:\n```json\n{"name": "read_file", "arguments": {"path": "a.py"}}\n```',
        'You could call it like this:\n\n{"name": "read_file", "arguments": {"path": "a.py"}}',
        'The format is\n```\n{"name": "list_all"}\n```',
        'One would write\nread_file(path="a.py")',
        "Never run this:\n```\nlist_all()\n```",
        '```json\n{"name": "read_file", "arguments": {"path": "a.py"}}\n```\nThis is how a call looks.',
        '{"name": "list_all"}\n\nThat was the last entry of the log.',
        '```python\nread_file(path="a.py")\n```',
        '```python\nfrom tools import read_file\ntext = read_file(path="a.py")\nprint(text)\n```',
        '```json\n{"tools": [{"name": "list_all"}, {"name": "other"}], "version": 2}\n```',
        '```json\n[{"name": "list_all"}, {"name": "nobody"}]\n```',
        '```\n<tool_call>{"name": "list_all"}</tool_call>\n```\nis what the model writes.',
        '```json\n{"name": "list_all"}\n// a comment\n```',
        'result = read_file(path="a.py")',
        'read_file(path="a.py") returns the text',
        "read_file(path=some_variable)",
        'read_file("a.py")',
        "list_all",
        "def list_all():\n    pass",
        '{"list_all": {}, "read_file": {"path": "a.py"}}',
    ],
)
def test_a_call_that_is_only_shown_is_not_found(text: str) -> None:
    check(text)


def test_without_tools_there_are_no_calls() -> None:
    assert find_calls('{"name": "read_file", "arguments": {"path": "a.py"}}', {}) == ()


# ---- Robustness ----------------------------------------------------------------------------------------------------

_PIECES = [
    *("<tool_call>", "</tool_call>", "<function=read_file>", "</function>", "<parameter=path>", "</parameter>"),
    *('<invoke name="bash">', "</invoke>", "[TOOL_CALLS]", "[ARGS]", "```json\n", "\n```\n", "<arg_key>", "</arg_key>"),
    *('{"name": "read_file", "arguments": ', '{"path": "a"}', "}", "{", "[", "]", "read_file(", 'path="a"', ")"),
    *("\n", " ", "words", "`", '"', "\\", "<arg_value>", "</arg_value>", "list_all()"),
]


@settings(max_examples=tries(200), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(st.sampled_from(_PIECES), st.text(max_size=3)), max_size=25).map("".join))
def test_any_text_gives_only_valid_calls_with_spans_inside_the_text(text: str) -> None:
    before = 0
    for call in find_calls(text, TOOLS):
        assert TOOLS[call.name](dict(call.args))
        start, end = call.span
        assert before <= start <= end <= len(text)
        before = start


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>" * 50_000 + "read_file",
        "{\n" * 50_000 + "read_file",
        '{"read_file": "' * 20_000,
        "[" * 100_000 + "read_file",
        "read_file(" * 20_000,
        "read_file(\n" * 20_000,
        "read_file(" + "[" * 5_000,
        "```\n" * 50_001 + "read_file",
        "<function=read_file>" * 10_000,
        "<function=read_file>" + "<parameter=path>" * 10_000,
        "<tool_call>read_file\n" + "<arg_key>" * 20_000,
        "<tool_call>read_file\n" + "<arg_key>a</arg_key>" * 10_000,
        " " * 200_000 + "read_file()",
        'bash(command="' + "x\n" * 50_000,
    ],
    ids=range(14),
)
@pytest.mark.timeout(60)
def test_an_adversarial_text_is_not_slow(text: str) -> None:
    assert find_calls(text, TOOLS) == ()


def test_only_the_end_of_a_huge_text_is_searched() -> None:
    text = "word " * 200_000 + "\nlist_all()"
    assert find_calls(text, TOOLS) == (TextCall("list_all", {}, (len(text) - 10, len(text))),)


# ---- What a reader sees of a call ----------------------------------------------------------------------------------


@pytest.mark.parametrize("text", FORMATS)
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_no_part_of_a_call_is_shown_however_it_is_streamed(text: str, step: int) -> None:
    kept = without_calls(text, find_calls(text, TOOLS))
    hold = TextCallHold(TOOLS, lambda text: bool(find_calls(text, TOOLS)))
    shown = "".join(hold.feed(text[at : at + step]) for at in range(0, len(text), step))
    assert kept.startswith(shown)
    assert shown + hold.close() == text


@pytest.mark.parametrize(
    "text",
    [
        "Hello. `<tool_call>` is a tag.",
        "The tag <tool_call> begins a call.",
        'In JSON:\n```json\n{"version": 3}\n```\nThat is all.',
        'In JSON:\n```json\n{"name": "x", "version": 3}\n```\nThat is all.',
        '```python\nread_file(path="a.py")\n```\nis how.',
        '{"version": 3} is the object.',
        "read_files are read.",
        "[a link](x) and `[1]`.",
        '```py\n{"name": "read_file", "arguments": {"path": "a.py"}}\n```\nIt ends.',
    ],
)
def test_text_that_cannot_be_a_call_is_shown_at_once(text: str) -> None:
    hold = TextCallHold(TOOLS, lambda text: bool(find_calls(text, TOOLS)))
    assert "".join(map(hold.feed, text)) == text


@given(st.lists(st.sampled_from(["`", "``", "\n", " ", "<tool_call>", "{", '"name": "bash"', "}", "[", "x", "bash("])))
def test_what_is_held_back_is_never_lost(pieces: list[str]) -> None:
    hold = TextCallHold(TOOLS, lambda text: bool(find_calls(text, TOOLS)))
    assert "".join([hold.feed(piece) for piece in pieces] + [hold.close()]) == "".join(pieces)


def test_a_call_that_ends_inside_a_text_is_not_completed() -> None:
    check('{"name": "bash", "arguments": {"command": "rm -r /tmp/x')
    check('{"name": "bash", "arguments": {"command": "ls", "more": [{"a": 1')
