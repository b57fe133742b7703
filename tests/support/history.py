"""A one-line notation for histories, and random histories for property tests.

    "user: hi / model: thought hm, on it, call a / user: return a, and then? / model: done"

Messages are separated by ` / `, parts by `, `. A part is plain text, or it begins with its kind:
`call ID [NAME]` · `return ID`, `failed ID`, `denied ID`, `interrupted ID`, `retried ID` (`[NAME]`, `[= CONTENT]`) ·
`thought WORDS` · `system WORDS` · `prompt WORDS` · `text WORDS` · `retry WORDS` · `other KIND` · `blank`.
`parse` and `show` are inverse to each other for everything that the notation can express.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar, cast

from hypothesis import strategies as st

from pilotfish.conversation.messages import (
    OUTCOMES,
    CanonicalMessage,
    MessageRole,
    OtherPart,
    Outcome,
    Part,
    RetryPart,
    SystemPromptPart,
    TextPart,
    ThoughtPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

_ROLES = {"user": MessageRole.USER, "model": MessageRole.ASSISTANT, "system": MessageRole.SYSTEM}
_WORDS: dict[str, Outcome] = {
    "return": "success",
    "failed": "failed",
    "denied": "denied",
    "interrupted": "interrupted",
    "retried": "retried",
}


def parse(notation: str) -> tuple[CanonicalMessage, ...]:
    if not notation.strip():
        return ()
    messages: list[CanonicalMessage] = []
    for text in notation.split(" / "):
        speaker, _, body = text.strip().partition(":")
        role = _ROLES[speaker]
        parts = tuple(_part(role, part.strip()) for part in body.split(", ") if part.strip())
        messages.append(CanonicalMessage(role, parts))
    return tuple(messages)


def show(messages: Iterable[CanonicalMessage]) -> str:
    names = {role: name for name, role in _ROLES.items()}
    shown: list[str] = []
    for message in messages:
        parts = ", ".join(_show(message.role, part) for part in message.parts)
        shown.append(f"{names[message.role]}: {parts}".rstrip())
    return " / ".join(shown)


def _part(role: MessageRole, text: str) -> Part:
    word, _, rest = text.partition(" ")
    if word == "blank":
        return TextPart(" ") if role is MessageRole.ASSISTANT else UserPromptPart("")
    if word == "call":
        call_id, _, name = rest.partition(" ")
        return ToolCallPart("" if name == "?" else name or "tool", {"of": call_id}, _own(call_id))
    if word in _WORDS:
        rest, _, content = rest.partition(" = ")
        call_id, _, name = rest.partition(" ")
        name = "" if name == "?" else name or "tool"
        return ToolReturnPart(name, content or f"result of {call_id}", _own(call_id), _WORDS[word])
    match word:
        case "thought":
            return ThoughtPart(rest)
        case "system":
            return SystemPromptPart(rest)
        case "prompt":
            return UserPromptPart(rest)
        case "text":
            return TextPart(rest)
        case "retry":
            return RetryPart(rest)
        case "other":
            return OtherPart(rest, {})
        case _:
            return TextPart(text) if role is MessageRole.ASSISTANT else UserPromptPart(text)


def _own(call_id: str) -> str:
    return "" if call_id == "?" else call_id


def _show(role: MessageRole, part: Part) -> str:
    match part:
        case TextPart():
            if not part.content.strip():
                return "blank"
            return part.content if role is MessageRole.ASSISTANT else f"text {part.content}"
        case UserPromptPart():
            if not part.text.strip():
                return "blank"
            return part.text if role is not MessageRole.ASSISTANT else f"prompt {part.text}"
        case ThoughtPart():
            return f"thought {part.content}"
        case SystemPromptPart():
            return f"system {part.content}"
        case RetryPart():
            return f"retry {part.content}"
        case OtherPart():
            return f"other {part.kind}"
        case ToolCallPart():
            name = "" if part.tool_name == "tool" else f" {part.tool_name or '?'}"
            return f"call {part.tool_call_id or '?'}{name}"
        case ToolReturnPart():
            word = next(word for word, outcome in _WORDS.items() if outcome == part.outcome)
            name = "" if part.tool_name == "tool" else f" {part.tool_name or '?'}"
            plain = part.outcome == "interrupted" or part.content == f"result of {part.tool_call_id or '?'}"
            content = "" if plain else f" = {part.content}"
            return f"{word} {part.tool_call_id or '?'}{name}{content}"


# ---- Text ----------------------------------------------------------------------------------------------------------


def words(messages: Iterable[CanonicalMessage]) -> list[str]:
    """Return all text of user, model and system, and all other parts, in order."""
    said: list[str] = []
    for message in messages:
        for part in message.parts:
            match part:
                case TextPart() | ThoughtPart() | SystemPromptPart():
                    said.append(part.content)
                case UserPromptPart():
                    said.append(part.text)
                case RetryPart():
                    said.append(str(part.content))
                case OtherPart():
                    said.append(f"{part.kind} {part.data}")
                case ToolCallPart() | ToolReturnPart():
                    pass
    return [words for words in said if words.strip()]


# ---- Random histories ----------------------------------------------------------------------------------------------
# Built from bytes, because drawing one string is ten times as fast as drawing every part and shrinks as well.

_IDS = ("a", "b", "c", "d", "e", "a", "b", "", "f" * 45)
_NAMES = ("tool", "read", "write", "read", "tool", "", "no such tool!")
_TEXTS = ("hi", "go on", "", " ", "\n\t", "so what?", "ü 漢字 🐟", "[Interrupted]", "<tool_call>", "0")
_CONTENTS: tuple[Any, ...] = ("done", "", " ", None, {"a": 1}, [1, 2], "x" * 50, 0)
_ARGS: tuple[dict[str, Any], ...] = ({}, {"path": "a"}, {"n": 1, "none": None}, {"deep": {"er": [1]}})
_RAW = (None, None, None, "{broken", "[1]")
_OUTCOMES = tuple(sorted(OUTCOMES))

T = TypeVar("T")


class _Choices:
    """Interprets bytes as choices. After the last byte every choice is the first option."""

    def __init__(self, data: bytes) -> None:
        self._bytes = iter(data)

    def number(self, below: int) -> int:
        return next(self._bytes, 0) % below

    def of(self, options: Sequence[T]) -> T:
        return options[self.number(len(options))]

    def part(self, kinds: str) -> Part:
        match self.of(kinds):
            case "c":
                return ToolCallPart(self.of(_NAMES), self.of(_ARGS), self.of(_IDS), self.of(_RAW))
            case "r":
                outcome = cast("Outcome", self.of(_OUTCOMES))
                return ToolReturnPart(self.of(_NAMES), self.of(_CONTENTS), self.of(_IDS), outcome)
            case "t":
                return TextPart(self.of(_TEXTS))
            case "h":
                return ThoughtPart(self.of(_TEXTS))
            case "u":
                return UserPromptPart(self.of(_TEXTS))
            case "l":
                return UserPromptPart(tuple(self.of(_TEXTS) for _ in range(self.number(4))))
            case "s":
                return SystemPromptPart(self.of(_TEXTS))
            case "f":
                return RetryPart(self.of(_TEXTS), {"retry": {"cause": "model_retry"}})
            case _:
                return OtherPart("compaction", {"content": "so far"})


_SHAPES = (
    (MessageRole.USER, "ulsfrrro"),
    (MessageRole.ASSISTANT, "thccc"),
    (MessageRole.USER, "ur"),
    (MessageRole.ASSISTANT, "c"),
    (MessageRole.USER, "uscrth"),
    (MessageRole.ASSISTANT, "uscrth"),
    (MessageRole.SYSTEM, "su"),
)


def broken_history(data: bytes) -> tuple[CanonicalMessage, ...]:
    choices = _Choices(data[1:])
    messages: list[CanonicalMessage] = []
    for _ in range(data[0] % 12 if data else 0):
        role, kinds = choices.of(_SHAPES)
        messages.append(CanonicalMessage(role, tuple(choices.part(kinds) for _ in range(choices.number(5)))))
    return tuple(messages)


def _sound(data: bytes) -> tuple[CanonicalMessage, ...]:
    choices = _Choices(data[1:])
    messages: list[CanonicalMessage] = []
    owed: list[Part] = []
    number = 0
    for _ in range(data[0] % 8 if data else 0):
        spoken = [f"words {choices.number(9)}" for _ in range(choices.number(3))]
        prompts: list[Part] = [UserPromptPart(word) for word in spoken]
        if not owed and not prompts:
            prompts = [SystemPromptPart("rules"), UserPromptPart("begin")]
        messages.append(CanonicalMessage(MessageRole.USER, (*owed, *prompts)))
        parts: list[Part] = []
        owed = []
        for _ in range(choices.number(4) + 1):
            match choices.number(4):
                case 0:
                    parts.append(TextPart(f"answer {choices.number(9)}"))
                case 1:
                    parts.append(ThoughtPart("hm"))
                case _:
                    number += 1
                    outcome = cast("Outcome", choices.of(_OUTCOMES))
                    parts.append(ToolCallPart("read", choices.of(_ARGS), f"call_{number}"))
                    owed.append(ToolReturnPart("read", f"result {choices.number(9)}", f"call_{number}", outcome))
        messages.append(CanonicalMessage(MessageRole.ASSISTANT, tuple(parts)))
    if owed:
        messages.append(CanonicalMessage(MessageRole.USER, tuple(owed)))
    return tuple(messages)


broken_histories = st.binary(max_size=150).map(broken_history)
"""Histories that a crash, a bug or another program may have left. No rule holds for them."""

sound_histories = st.binary(max_size=100).map(_sound)
"""Histories that every provider accepts."""
