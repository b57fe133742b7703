"""Finds tool calls that a model wrote as text instead of making a structured call.

Only the formats that models are known to use are recognised, and only for existing tools with valid arguments:
- tags, anywhere outside code: `<tool_call>…`, `<function_call>…`, `<function=name>…`, `<invoke name="…">…`,
  `[TOOL_CALLS] …`;
- at the very end of the text: a JSON object, a fenced block that holds nothing else, lines of `name(args)`.

A call that is only shown does not count: one with prose after it, inside other code, or introduced as an example.
"""

from __future__ import annotations

import ast
import contextlib
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

Tools = Mapping[str, Callable[[dict[str, Any]], bool]]
"""Maps the name of a tool to a function that checks its arguments."""

MAX_TEXT = 200_000  # characters from the end of the text that are searched
MAX_DEPTH = 2  # nesting of tags
MAX_MISSING = 2  # closing brackets that a call at the end of the text may lack
MAX_TRIES = 200  # possible beginnings of a call; the limit keeps the cost linear for every text


@dataclass(frozen=True, slots=True)
class TextCall:
    """A call found in text. `text[span[0]:span[1]]` is its source, including tags and fences."""

    name: str
    args: Mapping[str, Any]
    span: tuple[int, int]

    def within(self, start: int, end: int) -> TextCall:
        """The call with the part of its span in `text[start:end]`, counted from `start`."""
        first, last = (min(max(place, start), end) - start for place in self.span)
        return replace(self, span=(first, last))


def find_calls(text: str, tools: Tools) -> tuple[TextCall, ...]:
    """Return the calls in a text, in order. A call at its end may lack its last brackets."""
    if not any(name in text for name in tools):
        return ()
    offset = max(0, len(text) - MAX_TEXT)
    body = text[offset:]
    fences = _fences(body)
    found = sorted((*_tagged(body, fences, tools), *_trailing(body, fences, tools)), key=lambda call: call.span)
    return tuple(replace(call, span=(call.span[0] + offset, call.span[1] + offset)) for call in found)


def without_calls(text: str, calls: Sequence[TextCall]) -> str:
    """The text without the source of its calls. A model that reads its calls as text writes the next ones as text."""
    kept: list[str] = []
    position = 0
    for call in calls:
        kept.append(text[position : call.span[0]])
        position = max(position, call.span[1])
    return "".join((*kept, text[position:]))


# ---- Tags ----------------------------------------------------------------------------------------------------------

_TAG = re.compile(
    r"""
    (?<!`)
    (?: <(?P<tag>tool_call|tool_calls|function_call|function_calls|functioncall|tool_use)>
      | (?P<function><function=)
      | (?P<invoke><invoke\s+name=)
      | (?P<mistral>\[TOOL_CALLS\])
    )""",
    re.VERBOSE,
)
_FUNCTION = re.compile(r"<function=(?P<name>[\w.-]+)>(?P<body>.*?)(?:</function>|\Z)", re.DOTALL)
_INVOKE = re.compile(r"<invoke\s+name=[\"'](?P<name>[\w.-]+)[\"']\s*>(?P<body>.*?)(?:</invoke>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter(?:=(?P<key>[\w.-]+)|\s+name=[\"'](?P<named>[\w.-]+)[\"'][^<>]*)>")
_MISTRAL = re.compile(r"\[TOOL_CALLS\]\s*(?P<name>[\w.-]+)\s*\[ARGS\]\s*(?=\{)")


def _tagged(text: str, fences: list[_Fence], tools: Tools) -> Iterator[TextCall]:
    position, tries = 0, 0
    while tries < MAX_TRIES and (opened := _TAG.search(text, position)):
        tries += 1
        start = opened.start()
        fence = next((fence for fence in fences if fence.start <= start < fence.end), None)
        if fence is not None:
            position = fence.end
            continue
        end, calls = _at_tag(text, opened, tools)
        position = max(end, opened.end())
        for name, args in calls:
            yield TextCall(name, args, (start, end))
            start = end  # of several calls in a tag, the first has its span and the others empty spans after it


def _at_tag(text: str, opened: re.Match[str], tools: Tools, depth: int = 0) -> tuple[int, list[_Call]]:
    start = opened.start()
    if opened["function"] or opened["invoke"]:
        matched = (_FUNCTION if opened["function"] else _INVOKE).match(text, start)
        if matched is None:
            return start, []
        call = _fit(matched["name"], _parameters(matched["body"]), tools)
        return matched.end(), [call] if call else []
    if opened["mistral"]:
        if named := _MISTRAL.match(text, start):
            value, end = _json_at(text, named.end())
            call = _fit(named["name"], [value], tools)
            return end, [call] if call else []
        value, end = _json_at(text, _skip_space(text, opened.end()))
        return end, _calls_in(value, tools)
    closing = f"</{opened['tag']}>"
    close = text.find(closing, opened.end())
    inside_end = len(text) if close < 0 else close
    end = len(text) if close < 0 else close + len(closing)
    return end, _calls_in_text(text[opened.end() : inside_end], tools, depth + 1)


def _calls_in_text(body: str, tools: Tools, depth: int = 0) -> list[_Call]:
    """Return the calls in the body of a tag or a fence. Empty if the body contains anything else."""
    if depth > MAX_DEPTH:
        return []
    calls: list[_Call] = []
    position = _skip_space(body, 0)
    while position < len(body):
        if nested := _TAG.match(body, position):
            end, found = _at_tag(body, nested, tools, depth)
        elif body[position] in "{[":
            value, end = _json_at(body, position)
            found = _calls_in(value, tools)
        elif (keys := body.find("<arg_key>", position)) >= 0:
            call = _fit(body[position:keys].strip(), _readings(_arg_pairs(body, keys)), tools)
            end, found = len(body), [call] if call else []
        else:
            end, found = _call_line(body, position, tools)
        if not found or end <= position:
            return []
        calls.extend(found)
        position = _skip_space(body, end)
    return calls


def _parameters(body: str) -> list[object]:
    given: dict[str, str] = {}
    position = 0
    while opened := _PARAMETER.search(body, position):
        close = body.find("</parameter>", opened.end())
        if close < 0:
            break
        given[opened["key"] or opened["named"]] = body[opened.end() : close].strip("\n")
        position = close
    if given:
        return _readings(given)
    value, _ = _json_at(body, _skip_space(body, 0))
    return [value if isinstance(value, dict) else {} if not body.strip() else None]


def _arg_pairs(body: str, position: int) -> dict[str, str]:
    """Parse repeated `<arg_key>k</arg_key><arg_value>v</arg_value>` pairs."""
    given: dict[str, str] = {}
    while True:
        ends = [position]
        for mark in ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"):
            at = body.find(mark, ends[-1])
            if at < 0:
                return given
            ends += [at, at + len(mark)]
        _, _, key, key_end, _, _, value, value_end, position = ends
        given[body[key:key_end].strip()] = body[value:value_end].strip()


def _readings(given: Mapping[str, str]) -> list[object]:
    """Return the interpretations of unquoted values: all as text, objects and lists as JSON, or all as JSON."""
    structured = {key: _loads(value) if value[:1] in ("{", "[") else value for key, value in given.items()}
    return [dict(given), structured, {key: _loads(value) for key, value in given.items()}]


# ---- The end of the text -------------------------------------------------------------------------------------------

_FENCE = re.compile(r"^[ ]{0,3}(?P<mark>`{3,}|~{3,})[ \t]*(?P<info>[^\n`]*)\n", re.MULTILINE)
CALL_FENCES = frozenset(
    {"", "json", "tool_call", "tool_calls", "tool_code", "tool", "tool_use", "function_call", "xml"}
)
_EXAMPLE = re.compile(
    r"\b(?:example|e\.g\.|for instance|such as|like (?:this|so)|looks? like|sample|format|syntax|template|if you|"
    r"(?:you|one|they|we) (?:can|could|may|might|would|should)|(?:would|could|might) (?:be|call|use|write|run|do)|"
    r"do not|don't|never|instead of)\b",
    re.IGNORECASE,
)


class _Fence(NamedTuple):
    start: int
    end: int
    info: str
    body: str


def _fences(text: str) -> list[_Fence]:
    """Return the fenced blocks. An unclosed block extends to the end of the text."""
    fences: list[_Fence] = []
    position = 0
    while opened := _FENCE.search(text, position):
        mark = re.escape(opened["mark"])
        closed = re.compile(rf"^[ ]{{0,3}}{mark}[ \t]*$", re.MULTILINE).search(text, opened.end())
        body_end = closed.start() if closed else len(text)
        position = closed.end() if closed else len(text)
        fences.append(_Fence(opened.start(), position, opened["info"].strip().lower(), text[opened.end() : body_end]))
    return fences


def _trailing(text: str, fences: list[_Fence], tools: Tools) -> Iterator[TextCall]:
    """Yield the calls at the end of the text. Only white space may follow the last one."""
    run: list[tuple[int, int, list[_Call]]] = []
    position, tries = 0, 0
    starts = {fence.start: fence for fence in fences}
    while position < len(text):
        line_end = text.find("\n", position)
        line_end = len(text) if line_end < 0 else line_end
        end, calls = line_end, list[_Call]()
        if fence := starts.get(position):
            end = fence.end
            if fence.info in CALL_FENCES:
                calls = _calls_in_text(fence.body, tools)
        elif tries < MAX_TRIES:
            first = _skip_space(text, position)
            if first < line_end and text[first] in "{[":
                tries += 1
                value, after = _json_at(text, first)
                if after > first and not text[after : _line_end(text, after)].strip():
                    end, calls = after, _calls_in(value, tools)
            elif first < line_end and any(text.startswith(f"{name}(", first) for name in tools):
                tries += 1
                end, calls = _call_line(text, first, tools)
                end = max(end, line_end) if not calls else end
        if calls:
            run.append((position, end, calls))
        elif text[position:end].strip():
            run = []
        position = end + 1 if text[end : end + 1] == "\n" else max(end, position + 1)
    if run and not _is_example(text[: run[0][0]]):
        for start, end, calls in run:
            for index, (name, args) in enumerate(calls):
                yield TextCall(name, args, (end if index else start, end))


def _is_example(before: str) -> bool:
    """Whether the paragraph before a call introduces it as an example."""
    paragraphs = before.rstrip().rsplit("\n\n", 1)
    return bool(_EXAMPLE.search(paragraphs[-1]))


# ---- Formats of one call -------------------------------------------------------------------------------------------

_Call = tuple[str, dict[str, Any]]
NAME_KEYS = ("name", "tool_name", "tool", "function_name", "function", "action", "recipient_name")
ARGS_KEYS = ("arguments", "args", "parameters", "params", "input", "tool_input", "action_input", "tool_args", "kwargs")
WRAPPERS = ("function", "function_call", "tool_call", "tool_use")
LISTS = ("tool_calls", "function_calls", "tool_uses", "calls")


def _calls_in(value: object, tools: Tools) -> list[_Call]:
    """Return the calls that a JSON value represents. Empty if a part of the value is not a call."""
    if isinstance(value, list):
        each = [_calls_in(item, tools) for item in cast("list[object]", value)]
        return [call for calls in each for call in calls] if all(each) else []
    if not isinstance(value, dict):
        return []
    fields = cast("dict[str, Any]", value)
    for key in LISTS:
        if isinstance(fields.get(key), list) and len(fields) == 1:
            return _calls_in(fields[key], tools)
    for key in WRAPPERS:
        if isinstance(fields.get(key), dict):
            return _calls_in(fields[key], tools)
    name = next((fields[key] for key in NAME_KEYS if isinstance(fields.get(key), str)), None)
    if name is not None:
        given = [fields[key] for key in ARGS_KEYS if key in fields]
        call = _fit(name, [_loads(item) if isinstance(item, str) else item for item in given] or [{}], tools)
        return [call] if call else []
    if len(fields) == 1:
        (name, given), *_ = fields.items()
        call = _fit(name, [given], tools)
        return [call] if call else []
    return []


def _fit(name: str, readings: list[object], tools: Tools) -> _Call | None:
    """Return the call if the tool exists and accepts one of the interpretations of its arguments."""
    fits = tools.get(name) or tools.get(name := name.removeprefix("functions.").removeprefix("default_api."))
    if fits is None:
        return None
    for args in readings:
        if isinstance(args, dict) and fits(cast("dict[str, Any]", args)):
            return name, cast("dict[str, Any]", args)
    return None


def _call_line(text: str, start: int, tools: Tools) -> tuple[int, list[_Call]]:
    """Parse `name(key=value, …)` or `name({…})` on one or more lines with nothing else on them."""
    end = start
    for _ in range(MAX_TRIES):
        end = _line_end(text, end + 1 if end > start else end)
        line = text[start:end].rstrip().rstrip(";")
        if line.endswith(")"):
            if call := _python_call(line, tools):
                return end, [call]
            if line.count("(") <= line.count(")"):
                break
        if end >= len(text):
            break
    return start, []


def _python_call(source: str, tools: Tools) -> _Call | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ignore warnings about invalid escapes in strings of the model
            node = ast.parse(source.strip(), mode="eval").body
        if not isinstance(node, ast.Call):
            return None
        name = ast.unparse(node.func)
        if name == "print" and len(node.args) == 1 and isinstance(node.args[0], ast.Call):
            node = node.args[0]  # a tool_code block prints the result of its call
            name = ast.unparse(node.func)
        keywords = {keyword.arg: _literal(keyword.value) for keyword in node.keywords if keyword.arg is not None}
        if len(keywords) != len(node.keywords):
            return None
        if not node.args:
            return _fit(name, [keywords], tools)
        given = _literal(node.args[0])
        return _fit(name, [given], tools) if len(node.args) == 1 and not keywords else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_JSON_WORDS = {"true": True, "false": False, "null": None}


def _literal(node: ast.expr) -> object:
    match node:
        case ast.Name(id=word) if word in _JSON_WORDS:
            return _JSON_WORDS[word]
        case ast.List() | ast.Tuple():
            return [_literal(item) for item in node.elts]
        case ast.Dict():
            keys = [_literal(key) if key is not None else None for key in node.keys]
            if not all(isinstance(key, str) for key in keys):
                raise ValueError("a key is not text")
            return dict(zip(keys, [_literal(value) for value in node.values], strict=True))
        case ast.Constant(value=None | str() | int() as value):
            return value
        case ast.Constant(value=float() as value) if math.isfinite(value):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)) if math.isfinite(value):
            return -value
        case _:
            raise ValueError("not a JSON value")


# ---- JSON ----------------------------------------------------------------------------------------------------------

_DECODER = json.JSONDecoder(strict=False)


def _json_at(text: str, position: int) -> tuple[object, int]:
    """Return the JSON value at a position and its end, or None and the position itself if there is none.

    At the end of the text, a value may lack up to MAX_MISSING closing brackets: models stop one brace too early.
    """
    try:
        return _DECODER.raw_decode(text, position)
    except (ValueError, RecursionError):
        pass
    if missing := _missing_brackets(text, position):
        with contextlib.suppress(ValueError, RecursionError):
            return _DECODER.raw_decode(text + missing, position)[0], len(text)
    return None, position


_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|"|[{}\[\]]', re.DOTALL)


def _missing_brackets(text: str, position: int) -> str:
    """The closing brackets that a value lacks at the end of the text. Empty if it lacks none, more, or a quote."""
    if text[position : position + 1] not in ("{", "["):
        return ""
    open_: list[str] = []
    for found in _BRACKETS.finditer(text, position):
        match found[0]:
            case "{":
                open_.append("}")
            case "[":
                open_.append("]")
            case "}" | "]" as closing:
                if not open_ or open_.pop() != closing or not open_:
                    return ""  # complete, or not JSON
            case '"':
                return ""  # a text without an end
            case _:
                pass
    return "".join(reversed(open_)) if len(open_) <= MAX_MISSING else ""


def _loads(text: str) -> object:
    """Parse text as JSON. Returns the text if it is not JSON."""
    try:
        return _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return text


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position].isspace():
        position += 1
    return position


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end
