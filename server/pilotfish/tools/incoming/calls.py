"""Reads a call as the model meant it: our tool, our argument names, values of the type that the tool takes.

Pure, and the only place that does this. It runs before validation, approval and digest, so that what the user sees and
approves is what runs. It never invents a value: what cannot be read stays as it is, and validation refuses it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any, cast

from pilotfish.conversation.calls import json_text, normalise_args
from pilotfish.tools.incoming.aliases import ARGUMENT_NAMES, PREFIXES, TOOL_NAMES, VALUE_NAMES, key
from pilotfish.tools.tool import Args, Tool

Tools = Mapping[str, Tool[Any]]

MAX_TIMEOUT = 3600  # seconds; a larger number is in milliseconds


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call in our words. `name` is one of our tools if the tool could be told; `problem` says why it could not."""

    name: str
    args: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    """for the model: what was read differently from what it sent"""
    problem: str | None = None


def own_name(name: str) -> str | None:
    """Our name of a tool, or None if it is nobody's that we know."""
    wanted = key(name)
    for prefix in ("", *PREFIXES):
        if wanted.startswith(prefix) and (found := TOOL_NAMES.get(wanted.removeprefix(prefix))):
            return found
    return None


def nearest_names(name: str, names: Sequence[str]) -> list[str]:
    """The tools that a wrong name probably means."""
    keys = {key(known): known for known in names}
    meant = [known for known in names if key(known) and (key(known) in key(name) or key(name) in key(known))]
    close = [keys[match] for match in get_close_matches(key(name), keys, 3, 0.6)]
    return list(dict.fromkeys((*close, *meant)))[:3]


def _did_you_mean(names: Sequence[str]) -> str:
    return f" Did you mean {' or '.join(names)}?" if names else ""


def read_call(tools: Tools, name: str, args: object) -> ReadCall:
    """Read a call of one of `tools`. Reading the result again gives the same call, without notes."""
    given, raw = normalise_args(args)
    if raw is not None:
        return ReadCall(name, {}, problem=f"The arguments are not a JSON object: {raw[:200]}")
    call = _Call(name, own_name(name) or name, dict(given))
    _unwrap(call, tools)
    for rule in _RULES:
        rule(call)
    if (tool := tools.get(call.name)) is None:
        near = nearest_names(name, tuple(tools))
        return ReadCall(name, given, problem=f"There is no tool {name!r}.{_did_you_mean(near)}")
    if name not in tools:
        call.notes.append(f"the tool is called {call.name}")
    schema = _schema(tool.args)
    taken, dropped = _object(call.args, schema, schema.get("$defs", {}), call.name)
    if dropped:
        words = ", ".join(dict.fromkeys(dropped))
        call.notes.append(f"{call.name} has no argument {words}; it was ignored")
    return ReadCall(call.name, taken, tuple(call.notes))


@dataclass(slots=True)
class _Call:
    sent: str
    """the name that the model used"""
    name: str
    args: dict[str, Any]
    notes: list[str] = field(default_factory=list[str])

    def named(self, ours: str, *, of: str = "") -> str | None:
        """The name under which an argument was given."""
        names = ARGUMENT_NAMES[of or self.name]
        given = (name for name in (ours, *self.args) if name in self.args)
        return next((name for name in given if names.get(key(name)) == ours), None)

    def pop(self, *names: str) -> Any:
        """Take an argument out by any of its names."""
        keys = {key(name) for name in names}
        found = next((given for given in self.args if key(given) in keys), None)
        return None if found is None else self.args.pop(found)


# -- values of another type -------------------------------------------------------------------------------------------


@cache
def _schema(args: type[Args]) -> Mapping[str, Any]:
    return args.model_json_schema()


def _object(
    given: Mapping[str, Any], schema: Mapping[str, Any], shared: Mapping[str, Any], owner: str
) -> tuple[dict[str, Any], list[str]]:
    """(the arguments under our names, the names that are nobody's)"""
    known = schema.get("properties", {})
    names = ARGUMENT_NAMES.get(owner, {})
    taken: dict[str, Any] = {}
    dropped: list[str] = []
    # Arguments under their own name come first: an alias never replaces them.
    for name, value in sorted(given.items(), key=lambda item: item[0] not in known):
        ours = name if name in known else names.get(key(name))
        if ours is None or ours not in known or (ours in taken and taken[ours] != value):
            dropped.append(name)
        elif ours not in taken and value is not None:
            required = ours in schema.get("required", ())
            found, extra = _value(value, known[ours], shared, f"{owner}.{ours}")
            dropped += extra
            if required or not _means_default(found, known[ours]):
                taken[ours] = _at_most(found, known[ours])
    return taken, dropped


def _value(value: Any, schema: Mapping[str, Any], shared: Mapping[str, Any], owner: str) -> tuple[Any, list[str]]:
    schema = _inlined(schema, shared)
    match schema.get("type"):
        case "array":
            items = [_value(item, schema.get("items", {}), shared, owner) for item in _as_list(value, owner)]
            return [item for item, _ in items], [name for _, names in items for name in names]
        case "object" if "properties" in schema:
            mapping = _as_mapping(value, schema, owner)
            return (value, []) if mapping is None else _object(mapping, schema, shared, owner)
        case "string":
            return _as_text(value, schema, owner), []
        case "integer" | "number":
            return _as_number(value), []
        case "boolean":
            return _as_bool(value), []
        case _:
            return value, []


def _inlined(schema: Mapping[str, Any], shared: Mapping[str, Any]) -> Mapping[str, Any]:
    match schema:
        case {"$ref": str(name)}:
            return shared[name.rpartition("/")[2]]
        case {"anyOf": [one, {"type": "null"}]}:
            return _inlined(one, shared)
        case _:
            return schema


def _as_list(value: Any, owner: str) -> list[Any]:
    if isinstance(value, str):
        parsed = _json(value)
        if isinstance(parsed, list):
            value = cast("list[Any]", parsed)
        elif isinstance(parsed, dict):
            value = [parsed]
        elif owner == "update_plan.steps":
            value = [line for line in value.splitlines() if line.strip()]
    return cast("list[Any]", value) if isinstance(value, list | tuple) else [value]


def _as_mapping(value: Any, schema: Mapping[str, Any], owner: str) -> Mapping[str, Any] | None:
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    if isinstance(value, str):
        parsed = _json(value)
        if isinstance(parsed, dict):
            return cast("dict[str, Any]", parsed)
        required = schema.get("required", ())
        if owner == "update_plan.steps" and len(required) == 1:
            return _plan_step(value)
    return None


def _plan_step(line: str) -> dict[str, Any]:
    """A line of a list, perhaps with a check mark: `- [x] write the test`."""
    found = re.match(r"\s*(?:[-*]|\d+[.)])?\s*(?:\[(?P<mark>[ xX~>-])\])?\s*(?P<text>.*)", line, re.DOTALL)
    mark, text = (found["mark"], found["text"].strip()) if found else (None, line)
    status = {"x": "completed", "~": "in_progress", ">": "in_progress", "-": "in_progress"}.get((mark or "").lower())
    return {"content": text or line} | ({"status": status} if status else {})


def _as_text(value: Any, schema: Mapping[str, Any], owner: str) -> Any:
    match value:
        case str():
            allowed = schema.get("enum", ())
            if not allowed or value in allowed:
                return value
            names = {key(str(choice)): choice for choice in allowed}
            return VALUE_NAMES.get(owner, {}).get(key(value)) or names.get(key(value), value)
        case bool():
            return value
        case int() | float():
            return json_text(value)
        case [str(one)]:
            return one
        case {"label": str(label)} | {"text": str(label)} | {"answer": str(label)}:
            return label
        case [str(), *rest] if owner == "write_file.content" and all(isinstance(line, str) for line in rest):
            lines = cast("list[str]", value)
            return ("" if any(line.endswith("\n") for line in lines) else "\n").join(lines)
        case dict() | list() if owner == "write_file.content":  # a JSON file, written as its value
            from json import dumps

            return dumps(value, indent=2, ensure_ascii=False) + "\n"
        case _:
            return value


def _as_number(value: Any) -> Any:
    if isinstance(value, str) and (found := re.fullmatch(r"\s*([+-]?\d+(?:\.\d+)?)\s*s?\s*", value)):
        value = float(found[1])
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _as_bool(value: Any) -> Any:
    return _BOOLS.get(value.strip().casefold(), value) if isinstance(value, str) else value


_BOOLS = {**dict.fromkeys(("true", "yes", "on", "1"), True), **dict.fromkeys(("false", "no", "off", "0"), False)}


def _means_default(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether an optional argument was filled in only to fill it in: empty text, a number below what is possible."""
    if value == "" and "default" in schema:
        return True
    low = _bound(schema, "minimum")
    above = _bound(schema, "exclusiveMinimum")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return (low is not None and value < low) or (above is not None and value <= above)


def _at_most(value: Any, schema: Mapping[str, Any]) -> Any:
    high = _bound(schema, "maximum")
    if isinstance(value, bool) or not isinstance(value, int | float) or high is None:
        return value
    return min(value, int(high))


def _bound(schema: Mapping[str, Any], name: str) -> float | None:
    inner: Sequence[Mapping[str, Any]] = schema.get("anyOf", ())
    return next((part[name] for part in (schema, *inner) if name in part), None)


def _json(text: str) -> Any:
    """The list or object in a text, or None."""
    if text.lstrip()[:1] not in ("[", "{"):
        return None
    wrapped, raw = normalise_args(f'{{"value": {text}}}')
    return wrapped.get("value") if raw is None else None


# -- calls that other agents write in another shape --------------------------------------------------------------------


def _unwrap(call: _Call, tools: Tools) -> None:
    """Arguments inside another object, as `{"arguments": {…}}` or `{"read_file": {…}}`."""
    if len(call.args) != 1:
        return
    ((name, inner),) = call.args.items()
    if key(name) in {"arguments", "args", "parameters", "params", "input", "kwargs", "toolinput", key(call.name)}:
        if isinstance(inner, str):
            inner = _json(inner)
        tool = tools.get(call.name)
        if isinstance(inner, Mapping) and tool is not None and name not in tool.args.model_fields:
            call.args = dict(cast("Mapping[str, Any]", inner))


def _editor_command(call: _Call) -> None:
    """Anthropic's text editor: one tool whose `command` says what to do."""
    if call.name not in ("update_file", "read_file", "write_file"):
        return
    command = call.args.get("command")
    if command not in ("view", "create", "str_replace", "insert", "undo_edit"):
        return
    del call.args["command"]
    call.name = {"view": "read_file", "create": "write_file"}.get(command, "update_file")
    wanted = {"read_file": ("path", "view_range"), "write_file": ("path", "content")}.get(call.name)
    if wanted:  # the other commands' arguments, which some models send empty
        names = {key(name) for name in wanted} | {
            given for given, ours in ARGUMENT_NAMES[call.name].items() if ours in wanted
        }
        call.args = {name: value for name, value in call.args.items() if key(name) in names and value is not None}


def _line_range(call: _Call) -> None:
    """Lines by their first and last number instead of the first and their count."""
    if call.name != "read_file":
        return
    last = call.pop("end_line", "line_end", "end", "to_line", "last_line", "end_line_number", "stop_line",
                    "end_line_one_indexed_inclusive", "end_line_inclusive")  # fmt: skip
    span = call.pop("view_range", "range", "line_range", "lines")
    call.pop("should_read_entire_file")
    first = call.args.pop(named) if (named := call.named("offset")) else None
    if isinstance(span, int) and call.named("limit") is None:
        call.args["limit"] = span
    if isinstance(span, str):
        span = [int(number) for number in re.findall(r"-?\d+", re.sub(r"(?<=\d)\s*[-–:]\s*(?=\d)", " ", span))]
    if isinstance(span, list | tuple) and span:
        numbers = cast("Sequence[Any]", span)
        first, last = numbers[0], numbers[1] if len(numbers) > 1 else last
    first, last = _as_number(first), _as_number(last)
    if isinstance(first, int) and first < 0 and last is None:
        return  # from the end of the file: no line of ours
    start = max(first, 1) if isinstance(first, int) else 1
    if first is not None:
        call.args["offset"] = start if isinstance(first, int) else first
    if isinstance(last, int) and last >= start and call.named("limit") is None:
        call.args["limit"] = last - start + 1


def _one_edit(call: _Call) -> None:
    """One edit beside the path, search/replace blocks, or a whole file, where a list of edits is wanted."""
    if call.name != "update_file":
        return
    names = ARGUMENT_NAMES["update_file.edits"]
    edits = call.named("edits")
    texts = [name for name in call.args if key(name) in _DIFFS or name == edits]
    blocks = next((value for name in texts if isinstance(value := call.args[name], str)), None)
    if blocks is not None and blocks.lstrip().startswith("*** Begin Patch"):
        call.name, call.args = "apply_patch", {"patch": blocks}
    elif blocks is not None and (found := _BLOCK.findall(blocks)):
        call.args = {name: value for name, value in call.args.items() if value is not blocks}
        call.args["edits"] = [{"old_string": old, "new_string": new} for old, new in found]
    elif edits is not None:
        return
    elif call.named("old_string", of="update_file.edits") is not None:
        expected = _as_number(call.pop("expected_replacements", "expected_occurrences"))
        edit = {name: call.args.pop(name) for name in tuple(call.args) if key(name) in names}
        if isinstance(expected, int) and expected > 1:
            edit["replace_all"] = True
        call.args["edits"] = [edit]
    else:
        content = next((name for name in call.args if ARGUMENT_NAMES["write_file"].get(key(name)) == "content"), None)
        if content is not None:
            call.name = "write_file"
            call.args["content"] = call.args.pop(content)


_DIFFS = frozenset({"diff", "patch", "blocks", "input"})
_BLOCK = re.compile(
    r"^<{5,9} ?SEARCH>?[^\n]*\n(?::start_line:[^\n]*\n)?(?:-{5,9}\n)?(.*?)^={5,9}[^\n]*\n(.*?)^>{5,9} ?REPLACE[^\n]*$",
    re.DOTALL | re.MULTILINE,
)


def _shell(call: _Call) -> None:
    """A command as a list of words, in another folder, with its time in milliseconds; a patch given to the shell."""
    if call.name != "bash":
        return
    command = call.args.pop(named) if (named := call.named("command")) else None
    if isinstance(command, str) and command.lstrip().startswith('["'):
        command = _json(command) or command
    if isinstance(command, list | tuple) and all(isinstance(word, str) for word in cast("Sequence[Any]", command)):
        command = _from_words(cast("Sequence[str]", command))
    folder = call.pop("workdir", "cwd", "working_directory", "work_dir", "directory", "dir")
    if isinstance(command, str) and (patch := _patch_in(command, folder)) is not None:
        call.name, call.args = "apply_patch", {"patch": patch}
        return
    if isinstance(command, str) and isinstance(folder, str) and folder.strip() not in ("", ".", "./"):
        body = f"{{\n{command}\n}}" if "\n" in command else command
        command = f"(cd {shlex.quote(folder)} && {body})"
    if command is not None:
        call.args["command"] = command
    milliseconds = _as_number(call.pop("timeout_ms", "timeout_milliseconds", "timeout_millis"))
    given = call.named("timeout")
    seconds = _as_number(call.args[given]) if given else None
    if isinstance(seconds, int | float) and seconds > MAX_TIMEOUT:
        milliseconds = seconds
        del call.args[cast("str", given)]
    if isinstance(milliseconds, int | float) and milliseconds > 0 and call.named("timeout") is None:
        call.args["timeout"] = milliseconds / 1000


def _from_words(words: Sequence[str]) -> str:
    match list(words):
        case [shell, flag, script] if _SHELL.fullmatch(f"{shell} {flag}"):
            return script
        case [one]:
            return one
        case ["apply_patch", patch]:
            return f"apply_patch <<'PATCH'\n{patch}\nPATCH"
        case several:
            return shlex.join(several)


_SHELL = re.compile(r"(?:/\S*/)?(?:ba|z|da)?sh -[lix]*c")


def _patch_in(command: str, folder: Any) -> str | None:
    """The patch of a command that only applies one; its paths are seen from the folder the command runs in."""
    if (found := _HEREDOC.fullmatch(command)) is None:
        return None
    folders = [text for text in (folder, found["folder"]) if isinstance(text, str) and text.strip() not in ("", ".")]
    patch = found["patch"]
    for text in reversed(folders):
        prefix = text.strip("'\"").rstrip("/")
        patch = _NAMED_FILE.sub(lambda line, prefix=prefix: f"{line[1]}{prefix}/{line[2]}", patch)
    return patch


_HEREDOC = re.compile(
    r"\s*(?:cd\s+(?P<folder>\S+|'[^'\n]*'|\"[^\"\n$`]*\")\s*&&\s*)?apply_?patch\s*<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)"
    r"[ \t]*\n(?P<patch>\*\*\* Begin Patch\n.*)\n(?P=end)\s*",
    re.DOTALL,
)
_NAMED_FILE = re.compile(r"^(\*\*\* (?:(?:Add|Update|Delete) File|Move to): )(?!/|~)(.+)$", re.MULTILINE)


def _search(call: _Call) -> None:
    if call.name == "grep":
        if (sensitive := call.pop("case_sensitive")) is not None:
            call.args.setdefault("ignore_case", _as_bool(sensitive) is False)
        if (regular := call.pop("is_regexp", "is_regex", "use_regex")) is not None:
            call.args.setdefault("literal", _as_bool(regular) is False)
        call.pop("-n", "line_number", "line_numbers", "show_line_numbers")  # always shown
    elif call.name == "list_dir" and (recursive := call.pop("recursive")) is not None and _as_bool(recursive) is True:
        call.args.setdefault("depth", 3)


def _several(call: _Call) -> None:
    """A question in a list of questions, the end of a background command as a tool of its own."""
    if call.name == "ask_user" and isinstance(asked := call.args.get("questions"), list) and asked:
        one = cast("list[Any]", asked)[0]
        call.args = dict(cast("Mapping[str, Any]", one)) if isinstance(one, Mapping) else {"question": one}
    if call.name == "bash_output" and "kill" in key(call.sent):
        call.args.setdefault("action", "stop")


_RULES = (_editor_command, _line_range, _one_edit, _shell, _search, _several)
