"""Holds back streamed text that may be a tool call written as text, so that a reader never sees a recovered call.

Text that cannot be a call any more is shown at once. Nothing is lost: what was held back is either cut out as a call
when the response is complete (`text_calls.py`), or shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from pilotfish.conversation.answer_text.text_calls import ARGS_KEYS, CALL_FENCES, LISTS, NAME_KEYS, WRAPPERS

MAX_HELD = 100_000  # characters; a longer text is shown whatever it is

_TAGS: Final = r"(?<!`)(?:<(?:tool_calls?|function_calls?|functioncall|tool_use)>|<function=|<invoke\s|\[TOOL_CALLS\])"
_LINE: Final = r"^[ \t]*(?:(?P<json>[{\[])|(?P<fence>`{3,}|~{3,}))"
_PARTIAL: Final = re.compile(
    r"(?:(?<!`)<[a-z_]{0,15}|\[[A-Z_]{0,10}|^[ \t]*(?:`{1,2}|~{1,2}|(?P<word>\w+)))\Z", re.MULTILINE
)
_MISTRAL: Final = "[TOOL_CALLS]"
_FIRST_KEY: Final = re.compile(r'[\s\[{]*"(?P<key>[^"\\]*)(?P<closed>"?)')
_DECODER = json.JSONDecoder(strict=False)


@dataclass(slots=True)
class _Candidate:
    """Where a call may begin: text after `start`, with its opening up to `body`."""

    start: int
    body: int
    fence: str = ""


class TextCallHold:
    """One streamed text. `has_call` tells whether a complete text ends in, or contains, a call."""

    def __init__(self, tools: Collection[str], has_call: Callable[[str], bool]) -> None:
        self._tools = tuple(tools)
        self._has_call = has_call
        self._keys = frozenset((*NAME_KEYS, *ARGS_KEYS, *WRAPPERS, *LISTS, "id", "type", *tools))
        names = "|".join(map(re.escape, tools)) or r"(?!)"
        self._opening = re.compile(rf"(?P<tag>{_TAGS})|{_LINE}|^[ \t]*(?P<name>(?:{names})\()", re.MULTILINE)
        self._pending = ""
        self._line = ""
        """the shown part of the current line, if it has any but white space"""
        self._fence = ""
        """the mark of the code block that is being shown"""

    def feed(self, text: str) -> str:
        """Add text. Returns what can be shown now."""
        self._pending += text
        shown: list[str] = []
        while self._pending:
            if len(self._pending) > MAX_HELD:
                self._show(shown, len(self._pending))
            elif self._fence:
                if not self._show_code(shown):
                    break
            elif (candidate := self._find()) is None:
                self._show(shown, self._sure_end())
                break
            elif candidate.start:
                self._show(shown, candidate.start)
            elif self._may_be_call(candidate):
                break
            else:
                self._fence = candidate.fence
                self._show(shown, candidate.body)
        return "".join(shown)

    def close(self) -> str:
        """Everything that is still held back."""
        rest, self._pending = self._pending, ""
        return rest

    def _show(self, shown: list[str], end: int) -> None:
        text, self._pending = self._pending[:end], self._pending[end:]
        shown.append(text)
        if text:
            self._line = (self._line + text).rpartition("\n")[2].strip()

    def _show_code(self, shown: list[str]) -> bool:
        """Show a code block up to its end. Returns False if the rest of the text is inside it."""
        closed = re.search(rf"^[ ]{{0,3}}{re.escape(self._fence)}[ \t]*$\n?", self._pending, re.MULTILINE)
        if closed is not None:
            self._fence = ""
            self._show(shown, closed.end())
            return True
        line = self._pending.rfind("\n") + 1  # the last line may become the end of the block
        self._show(shown, line if not self._pending[line:].strip(" `~") else len(self._pending))
        return False

    def _find(self) -> _Candidate | None:
        for found in self._opening.finditer(self._pending):
            if self._line and not found["tag"] and "\n" not in self._pending[: found.start() + 1]:
                continue  # not at the beginning of a line
            if found["json"]:
                return _Candidate(found.start(), found.start("json") + 1)
            return _Candidate(found.start(), found.end(), found["fence"] or "")
        return None

    def _sure_end(self) -> int:
        """Where the end of the text may be the beginning of an opening."""
        found = _PARTIAL.search(self._pending)
        if found is None or (found["word"] and not any(name.startswith(found["word"]) for name in self._tools)):
            return len(self._pending)
        if self._line and "\n" not in self._pending[: found.start() + 1] and self._pending[found.start()] not in "<[":
            return len(self._pending)
        return found.start()

    def _may_be_call(self, candidate: _Candidate) -> bool:
        text = self._pending
        if candidate.fence:
            info, newline, body = text[candidate.body :].partition("\n")
            info = info.strip().lower()
            if not newline:
                return any(known.startswith(info) for known in CALL_FENCES)
            if info not in CALL_FENCES or not self._begins_call(body):
                return False
            closed = re.search(rf"^[ ]{{0,3}}{re.escape(candidate.fence)}[ \t]*$", body, re.MULTILINE)
            end = None if closed is None else len(text) - len(body) + closed.end()
        elif text[candidate.body - 1] in "{[" and not text.lstrip().startswith(_MISTRAL):
            if not self._begins_call(text):
                return False
            end = _json_end(text)
        elif text[candidate.body - 1] == "(":
            end = text.rfind(")") + 1 if text.count("(") <= text.count(")") else None
        else:
            return self._begins_call(text[candidate.body :]) or text.startswith(("<function=", "<invoke"))
        if end is None or not text[end:].strip():
            return end is None or self._has_call(text[:end])
        # A call at the end counts only if nothing but calls follows.
        following = self._opening.match(text[end:].lstrip())
        return following is not None and self._has_call(text[:end])

    def _begins_call(self, body: str) -> bool:
        """Whether the text after an opening can still become a call of a tool."""
        start = body.lstrip()
        if start[:1] in ("", "<") or _MISTRAL.startswith(start):
            return True
        if start[0] in "{[":
            key = _FIRST_KEY.match(start)
            if key is None:
                return not start.strip(" \t\r\n[{")
            known = self._keys if key["closed"] else [name for name in self._keys if name.startswith(key["key"])]
            return key["key"] in known if key["closed"] else bool(known)
        word = re.match(r"[\w.]+", start)
        name = word[0].removeprefix("functions.").removeprefix("default_api.") if word else ""
        return bool(name) and any(tool.startswith(name) for tool in (*self._tools, "print", "functions", "default_api"))


def _json_end(text: str) -> int | None:
    """The end of the JSON value that the text begins with. None if it is not complete."""
    start = len(text) - len(text.lstrip())
    try:
        return _DECODER.raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return None
