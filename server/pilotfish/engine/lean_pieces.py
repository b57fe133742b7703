"""Which events of OpenAI's two dialects carry a piece of text and nothing else, and which of those may be joined.

What may be joined is narrow, because pydantic-ai reads meaning into single deltas: it compares whole deltas with
thinking tags, and drops whitespace that begins a part. Anything unusual goes through as it came.
"""

from __future__ import annotations

from typing import Any

from openai._streaming import ServerSentEvent

Json = dict[str, Any]
Piece = tuple[tuple[object, ...], Json, str]
"""what may be joined with its neighbours: the same key means the same text; where it stands, under which name"""


class Parsed(ServerSentEvent):
    """An event whose data is parsed already."""

    def __init__(self, name: str | None, value: Any) -> None:
        super().__init__(event=name)
        self.value = value

    def json(self) -> Any:
        return self.value


def joined(events: list[ServerSentEvent]) -> tuple[list[ServerSentEvent], bool]:
    """The events with neighbouring deltas of one text joined, and whether there was any text."""
    out: list[ServerSentEvent] = []
    run: list[str] = []
    key: tuple[object, ...] | None = None
    holder: Json = {}
    field = ""
    texts = False
    for event in events:
        piece = _piece(event.value) if isinstance(event, Parsed) else None
        if piece is not None:
            texts = True
            if piece[0] == key:
                run.append(piece[1][piece[2]])
                if "sequence_number" in holder:
                    holder["sequence_number"] = piece[1]["sequence_number"]
                continue
        if len(run) > 1:
            holder[field] = "".join(run)
        out.append(event)
        if piece is None or not _may_lead(piece):
            key, run = None, []
        else:
            key, holder, field = piece
            run = [holder[field]]
    if len(run) > 1:
        holder[field] = "".join(run)
    return out, texts


def _may_lead(piece: Piece) -> bool:
    """Whether others may be joined to this one: not when it may be whitespace that pydantic-ai would drop."""
    key, holder, field = piece
    return key[0] == "args" or not holder[field].isspace()


def _piece(event: Any) -> Piece | None:
    """The one text that an event carries, or None when it must go through untouched."""
    try:
        piece = _chat_piece(event) if "choices" in event else _response_piece(event)
        if piece is None:
            return None
        text = piece[1][piece[2]]
        if type(text) is not str or not text:
            return None
        if piece[0][0] != "args" and (text[0] == "<" or text[-1] == ">"):
            return None
    except (AttributeError, KeyError, TypeError, IndexError):
        return None  # not in the shape we know
    return piece


_ENVELOPE = frozenset(
    {
        "id",
        "object",
        "created",
        "model",
        "system_fingerprint",
        "choices",
        "usage",
        "service_tier",
        "obfuscation",
        "provider",
        "p",
    }
)
_CHOICE = frozenset({"index", "delta", "finish_reason", "logprobs", "native_finish_reason"})
_TEXTS = frozenset({"content", "reasoning_content", "reasoning"})


def words_in(event: Any) -> str | None:
    """The words of a Chat chunk that holds words and nothing else; none at all are words too. None: it holds more, or
    something odd."""
    try:
        delta = _lone_delta(event)
        if delta is None or event.get("usage") is not None or type(event["created"]) is not int:
            return None
        if any(type(name) is not str for name in (event["id"], event["model"], event.get("service_tier") or "")):
            return None
        words = ""
        for name, value in delta.items():
            if not value or name == "role":
                continue
            if name != "content" or type(value) is not str:
                return None
            words = value
    except (AttributeError, KeyError, TypeError, IndexError):
        return None  # not in the shape we know
    return words


def _lone_delta(event: Json) -> Json | None:
    """The delta of a Chat chunk that has one, and says nothing else."""
    choices = event["choices"]
    if len(choices) != 1 or event.get("usage") or not _ENVELOPE.issuperset(event):
        return None
    choice: Json = choices[0]
    if choice.get("finish_reason") or choice.get("logprobs") or choice.get("index") or not _CHOICE.issuperset(choice):
        return None
    return choice["delta"]


def _chat_piece(event: Json) -> Piece | None:
    delta = _lone_delta(event)
    if delta is None:
        return None
    found: str | None = None
    for name, value in delta.items():
        if not value or name == "role":
            continue
        if found is not None:
            return None
        found = name
    whose = (event.get("id"), event.get("model"))
    if found in _TEXTS:
        return (found, whose), delta, found
    if found == "tool_calls":
        return _arguments(delta["tool_calls"], whose)
    return None


def _arguments(calls: list[Json], whose: tuple[object, ...]) -> Piece | None:
    """A delta of one call's arguments and nothing else."""
    (call,) = calls if len(calls) == 1 else ({},)
    function: Json = call["function"]
    if call.get("id") or function.get("name"):
        return None
    if not {"index", "id", "type", "function"}.issuperset(call) or not {"name", "arguments"}.issuperset(function):
        return None
    return ("args", call["index"], whose), function, "arguments"


_DELTAS = {
    "response.output_text.delta": "text",
    "response.reasoning_summary_text.delta": "thought",
    "response.reasoning_text.delta": "thought",
    "response.function_call_arguments.delta": "args",
}
_PLACES = ("item_id", "output_index", "content_index", "summary_index")
_EVENT = frozenset({"type", "delta", "sequence_number", "logprobs", "obfuscation", *_PLACES})


def _response_piece(event: Json) -> Piece | None:
    kind = _DELTAS.get(event["type"])
    if kind is None or event.get("logprobs") or not _EVENT.issuperset(event):
        return None
    return (kind, event["type"], *map(event.get, _PLACES)), event, "delta"
