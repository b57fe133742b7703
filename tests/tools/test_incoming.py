"""Calls as models send them are read as our tools' calls, and what cannot be read is left for validation."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.conversation.calls import normalise_args
from pilotfish.tools import BY_NAME, TOOLS
from pilotfish.tools.incoming.aliases import ARGUMENT_NAMES, TOOL_NAMES, VALUE_NAMES
from pilotfish.tools.incoming.calls import ReadCall, nearest_names, own_name, read_call

EDIT = {"old_string": "a", "new_string": "b"}
PATCH = "*** Begin Patch\n*** Update File: a.py\n@@\n-a\n+b\n*** End Patch"
BLOCKS = "<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n"

READ: list[tuple[str, Any, str, Mapping[str, Any]]] = [
    ("read_file", {"file_path": "a"}, "read_file", {"path": "a"}),
    ("read_file", {"filePath": "a", "offset": 0}, "read_file", {"path": "a", "offset": 1}),
    ("read_file", {"path": "a", "limit": "20"}, "read_file", {"path": "a", "limit": 20}),
    ("read_file", {"path": "a", "limit": 0, "offset": None}, "read_file", {"path": "a"}),
    ("read_file", {"path": "a", "start_line": 3, "end_line": 7}, "read_file", {"path": "a", "offset": 3, "limit": 5}),
    ("read_file", {"path": "a", "view_range": [3, -1]}, "read_file", {"path": "a", "offset": 3}),
    ("read_file", {"path": "a", "lines": "10-12"}, "read_file", {"path": "a", "offset": 10, "limit": 3}),
    ("read_file", {"paths": ["a"]}, "read_file", {"path": "a"}),
    ("read_file", {"arguments": {"path": "a"}}, "read_file", {"path": "a"}),
    ("read_file", '{"path": "a",}', "read_file", {"path": "a"}),
    ("read_file", "{'path': 'a', 'offset': None}", "read_file", {"path": "a"}),
    ("read_file", '"{\\"path\\": \\"a\\"}"', "read_file", {"path": "a"}),
    ("read_file", '```json\n{"path": "a"}\n```', "read_file", {"path": "a"}),
    ("write_file", '{"path": "a", "content": "x\ny"}', "write_file", {"path": "a", "content": "x\ny"}),
    ("Read", {"file_path": "a"}, "read_file", {"path": "a"}),
    ("functions.read_file", {"path": "a"}, "read_file", {"path": "a"}),
    ("LS", {"path": ""}, "list_dir", {}),
    ("list_files", {"directory": "src", "recursive": "true"}, "list_dir", {"path": "src", "depth": 3}),
    ("edit", {"path": "a", "old_str": "a", "new_str": "b"}, "update_file", {"path": "a", "edits": [EDIT]}),
    ("str_replace", {"path": "a", "old": "a", "new": "b"}, "update_file", {"path": "a", "edits": [EDIT]}),
    ("update_file", {"path": "a", "edits": EDIT}, "update_file", {"path": "a", "edits": [EDIT]}),
    ("update_file", {"path": "a", "edits": json.dumps([EDIT])}, "update_file", {"path": "a", "edits": [EDIT]}),
    ("update_file", {"path": "a", "edits": [json.dumps(EDIT)]}, "update_file", {"path": "a", "edits": [EDIT]}),
    (
        "MultiEdit",
        {"file_path": "a", "edits": [{"oldText": "a", "newText": "b", "replaceAll": "True"}]},
        "update_file",
        {"path": "a", "edits": [EDIT | {"replace_all": True}]},
    ),
    (
        "replace_in_file",
        {"path": "a", "diff": BLOCKS},
        "update_file",
        {"path": "a", "edits": [{"old_string": "a\n", "new_string": "b\n"}]},
    ),
    ("edit_file", {"path": "a", "content": "x"}, "write_file", {"path": "a", "content": "x"}),
    (
        "str_replace_based_edit_tool",
        {"command": "str_replace", "path": "a", "old_str": "a", "new_str": "b"},
        "update_file",
        {"path": "a", "edits": [EDIT]},
    ),
    (
        "str_replace_editor",
        {"command": "view", "path": "a", "view_range": [2, 3], "old_str": None},
        "read_file",
        {"path": "a", "offset": 2, "limit": 2},
    ),
    (
        "str_replace_based_edit_tool",
        {"command": "create", "path": "a", "file_text": "x"},
        "write_file",
        {"path": "a", "content": "x"},
    ),
    (
        "write_file",
        {"path": "a.json", "content": {"b": 1}},
        "write_file",
        {"path": "a.json", "content": '{\n  "b": 1\n}\n'},
    ),
    ("write_file", {"path": "a", "content": ["x", "y"]}, "write_file", {"path": "a", "content": "x\ny"}),
    ("Bash", {"cmd": "ls"}, "bash", {"command": "ls"}),
    ("execute_command", {"command": ["ls", "a b"]}, "bash", {"command": "ls 'a b'"}),
    ("shell", {"command": ["bash", "-lc", "ls | wc"]}, "bash", {"command": "ls | wc"}),
    ("shell", {"command": '["ls", "-l"]'}, "bash", {"command": "ls -l"}),
    ("bash", {"command": "[ -f a ] && ls"}, "bash", {"command": "[ -f a ] && ls"}),
    ("bash", {"command": "ls", "timeout": 120000}, "bash", {"command": "ls", "timeout": 120}),
    ("bash", {"command": "ls", "timeout_ms": "5000"}, "bash", {"command": "ls", "timeout": 5}),
    ("bash", {"command": "ls", "run_in_background": "false"}, "bash", {"command": "ls", "background": False}),
    ("shell", {"command": ["ls"], "workdir": "a b"}, "bash", {"command": "(cd 'a b' && ls)"}),
    ("KillShell", {"shell_id": "bg1"}, "bash_output", {"id": "bg1", "action": "stop"}),
    (
        "Grep",
        {"pattern": "x", "-i": True, "-n": True, "-C": "2", "output_mode": "files_with_matches"},
        "grep",
        {"pattern": "x", "ignore_case": True, "context": 2, "mode": "files"},
    ),
    ("grep_search", {"query": "x", "case_sensitive": False}, "grep", {"pattern": "x", "ignore_case": True}),
    (
        "TodoWrite",
        {"todos": [{"content": "x", "status": "done"}]},
        "update_plan",
        {"steps": [{"content": "x", "status": "completed"}]},
    ),
    (
        "update_plan",
        {"plan": [{"step": "x", "status": "in-progress"}]},
        "update_plan",
        {"steps": [{"content": "x", "status": "in_progress"}]},
    ),
    (
        "update_plan",
        {"steps": "- [x] a\n2. b"},
        "update_plan",
        {"steps": [{"content": "a", "status": "completed"}, {"content": "b"}]},
    ),
    (
        "AskUserQuestion",
        {"questions": [{"question": "Which?", "options": [{"label": "red"}, {"label": "blue"}]}]},
        "ask_user",
        {"question": "Which?", "options": ["red", "blue"]},
    ),
]


@pytest.mark.parametrize(("name", "args", "ours", "read"), READ, ids=[f"{name} {args}"[:60] for name, args, *_ in READ])
def test_what_models_send_is_read_as_meant(name: str, args: Any, ours: str, read: Mapping[str, Any]) -> None:
    call = read_call(BY_NAME, name, args)
    assert (call.name, call.args, call.problem) == (ours, read, None)
    BY_NAME[ours].args.model_validate(call.args)


@pytest.mark.parametrize(
    ("name", "args", "notes"),
    [
        ("bash", {"command": "ls", "description": "List"}, ("bash has no argument description; it was ignored",)),
        ("Read", {"path": "a"}, ("the tool is called read_file",)),
        ("read_file", {"path": "a", "file": "b"}, ("read_file has no argument file; it was ignored",)),
        (
            "update_file",
            {"path": "a", "edits": [EDIT | {"why": "x"}], "instructions": "y"},
            ("update_file has no argument why, instructions; it was ignored",),
        ),
        ("read_file", {"file_path": "a"}, ()),
    ],
)
def test_what_was_ignored_is_noted(name: str, args: Mapping[str, Any], notes: tuple[str, ...]) -> None:
    assert read_call(BY_NAME, name, args).notes == notes


@pytest.mark.parametrize("args", ["[1]", "7", '{"path": "a', "{path: a}", '{"path": "a"} and more', '"text"'])
def test_arguments_that_are_no_object_are_a_problem_and_never_completed(args: str) -> None:
    call = read_call(BY_NAME, "write_file", args)
    assert call == ReadCall("write_file", {}, problem=f"The arguments are not a JSON object: {args}")


def test_an_unknown_tool_is_answered_with_the_nearest() -> None:
    assert (
        read_call(BY_NAME, "read_fil", {}).problem
        == "There is no tool 'read_fil'. Did you mean read_file or read_skill or write_file?"
    )
    assert read_call(BY_NAME, "xyzzy", {}).problem == "There is no tool 'xyzzy'."
    assert nearest_names("update_the_file", tuple(BY_NAME))[0] == "update_file"


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_the_tables_name_only_what_exists(tool: Any) -> None:
    assert own_name(tool.name) == tool.name
    assert set(ARGUMENT_NAMES.get(tool.name, {}).values()) <= set(tool.args.model_fields)
    assert set(TOOL_NAMES.values()) <= set(BY_NAME)
    for owner in VALUE_NAMES:
        assert owner.partition(".")[0] in BY_NAME


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 10_000)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = sorted({name for names in ARGUMENT_NAMES.values() for name in (*names, *names.values())})
CALLS = st.tuples(
    st.sampled_from(sorted({*TOOL_NAMES, *BY_NAME})),
    st.dictionaries(
        st.sampled_from([*ARGUMENTS, "description", "end_line", "view_range", "workdir"]), JSON, max_size=5
    ),
)


@given(CALLS)
def test_a_call_that_was_read_is_read_again_as_itself(sent: tuple[str, dict[str, Any]]) -> None:
    once = read_call(BY_NAME, *sent)
    again = read_call(BY_NAME, once.name, once.args)
    assert (again.name, again.args, again.notes) == (once.name, once.args, ())


@given(st.sampled_from(TOOLS), st.data())
def test_a_valid_call_of_ours_is_left_alone(tool: Any, data: st.DataObject) -> None:
    args = data.draw(st.fixed_dictionaries({}, optional=dict.fromkeys(tool.args.model_fields, JSON)))
    try:
        parsed = tool.args.model_validate(args, strict=True)
    except ValueError:
        return
    if tool.name == "bash" and str(args.get("command")).lstrip().startswith('["'):
        return
    call = read_call(BY_NAME, tool.name, args)
    assert (call.name, tool.args.model_validate(call.args), call.notes) == (tool.name, parsed, ())


@given(st.dictionaries(st.text(max_size=6), JSON, max_size=3))
def test_arguments_are_read_from_any_spelling_of_their_object(value: dict[str, Any]) -> None:
    for text in (json.dumps(value), json.dumps(json.dumps(value)), f"```json\n{json.dumps(value)}\n```", repr(value)):
        assert normalise_args(text) == (value, None)
