"""The common base of the scripted provider's dialects: streaming a reply delta by delta, and error responses."""

from __future__ import annotations

import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final, Literal

from tests.support.provider_script import (
    Call,
    Gate,
    Pause,
    Raw,
    Refusal,
    Reply,
    Search,
    Text,
    Thought,
    Tokens,
)
from tests.support.provider_strict import Memory

Kind = Literal["chat", "responses", "anthropic", "google"]
Piece = bytes | Pause | Gate
Json = dict[str, Any]
CREATED: Final = 1_700_000_000
_COUNT = itertools.count(1)

ERRORS: Final[dict[str, dict[str, tuple[int, str, str | None, str]]]] = {
    # kind of error → dialect → status, type, code, message
    "openai": {
        "rate_limit": (429, "requests", "rate_limit_exceeded", "Rate limit reached for scripted on requests per min."),
        "overloaded": (503, "server_error", None, "The engine is currently overloaded, please try again later."),
        "server": (500, "server_error", None, "The server had an error while processing your request."),
        "authentication": (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided: sk-***."),
        "permission": (403, "invalid_request_error", None, "You are not allowed to sample from this model."),
        "credit": (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota."),
        "context": (
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "This model's maximum context length is 128000 tokens. However, your messages resulted in 131072.",
        ),
        "not_found": (404, "invalid_request_error", "model_not_found", "The model `scripted` does not exist."),
        "bad_request": (400, "invalid_request_error", None, "Invalid value for 'messages'."),
    },
    "anthropic": {
        "rate_limit": (429, "rate_limit_error", None, "This request would exceed your rate limit."),
        "overloaded": (529, "overloaded_error", None, "Overloaded"),
        "server": (500, "api_error", None, "Internal server error"),
        "authentication": (401, "authentication_error", None, "invalid x-api-key"),
        "permission": (403, "permission_error", None, "Your API key does not have permission to use this model."),
        "credit": (400, "invalid_request_error", None, "Your credit balance is too low to access the Anthropic API."),
        "context": (400, "invalid_request_error", None, "prompt is too long: 205000 tokens > 200000 maximum"),
        "not_found": (404, "not_found_error", None, "model: scripted"),
        "bad_request": (400, "invalid_request_error", None, "messages: Input should be a valid list"),
    },
    "google": {
        "rate_limit": (429, "RESOURCE_EXHAUSTED", None, "Resource has been exhausted (e.g. check quota)."),
        "overloaded": (503, "UNAVAILABLE", None, "The model is overloaded. Please try again later."),
        "server": (500, "INTERNAL", None, "An internal error has occurred. Please retry."),
        "authentication": (400, "INVALID_ARGUMENT", "API_KEY_INVALID", "API key not valid. Please pass a valid one."),
        "permission": (403, "PERMISSION_DENIED", None, "The caller does not have permission."),
        "credit": (429, "RESOURCE_EXHAUSTED", None, "You exceeded your current quota, please check your plan."),
        "context": (
            400,
            "INVALID_ARGUMENT",
            None,
            "The input token count (1050000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        "not_found": (404, "NOT_FOUND", None, "models/scripted is not found for API version v1."),
        "bad_request": (400, "INVALID_ARGUMENT", None, "Request contains an invalid argument."),
    },
}
TYPES: Final = {  # status → Anthropic's word for it
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
STATUSES: Final = {  # status → Google's word for it
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def error_name(kind: Kind, status: int) -> str:
    """The dialect's name for an error with this HTTP status."""
    match kind:
        case "anthropic":
            return TYPES.get(status, "api_error")
        case "google":
            return STATUSES.get(status, "UNKNOWN")
        case "chat" | "responses":
            return "server_error" if status >= 500 else "invalid_request_error"


def error_body(
    kind: Kind, status: int, message: str, *, name: str | None = None, param: str | None = None, code: str | None = None
) -> Json:
    """The body of an error response in this dialect. `code` is Google's `reason`."""
    name = name or error_name(kind, status)
    match kind:
        case "anthropic":
            error: Json = {"type": name, "message": message}
            return {"type": "error", "error": error, "request_id": "req_scripted"}
        case "google":
            error = {"code": status, "message": message, "status": name}
            if code is not None:
                error["details"] = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": code}]
            return {"error": error}
        case "chat" | "responses":
            return {"error": {"message": message, "type": name, "param": param, "code": code}}


class Dialect(ABC):
    """One reply to one request: the pieces of its stream, or the whole."""

    kind: Kind
    interleaves = True
    """whether the arguments of parallel calls may arrive in turns"""
    garbage = b'data: {"this is not": JSON\n\n'
    """an event that is no JSON"""

    def __init__(self, body: Json, reply: Reply, memory: Memory) -> None:
        self.body = body
        self.reply = reply
        self.memory = memory
        self.model = str(body["model"])
        self.n = next(_COUNT)
        self._made = 0
        self.calls: list[tuple[str, Call]] = []

    @abstractmethod
    def first(self) -> list[bytes]: ...
    @abstractmethod
    def text(self, text: str) -> list[bytes]: ...
    @abstractmethod
    def thought(self, text: str) -> list[bytes]: ...
    @abstractmethod
    def refusal(self, text: str) -> list[bytes]: ...
    @abstractmethod
    def call(self, index: int, name: str, call: Call) -> list[bytes]: ...
    @abstractmethod
    def args(self, index: int, text: str) -> list[bytes]: ...
    def search(self, search: Search) -> list[bytes]:
        """a search that the provider makes"""
        raise NotImplementedError(f"{self.kind} has no search: {search.query}")

    @abstractmethod
    def close(self) -> list[bytes]:
        """what ends the open block or item, before another begins"""

    @abstractmethod
    def last(self) -> list[bytes]:
        """what ends a whole answer"""

    @abstractmethod
    def broken(self, error: str) -> bytes:
        """an error event inside the stream"""

    @abstractmethod
    def whole(self) -> Json:
        """the answer when no stream was asked for"""

    def again(self) -> bytes:
        """one more text delta, for an endless answer"""
        last = next((part.text for part in reversed(self.reply.parts) if isinstance(part, Text)), "again ")
        return b"".join(self.text(last))

    def pieces(self) -> Iterator[Piece]:
        """All deltas of the reply without its end, at most `after` of them."""
        if first := b"".join(self.first()):
            yield first
        limit = self.reply.after
        for count, piece in enumerate(piece for piece in self._deltas() if piece != b""):
            if limit is not None and count >= limit:
                return
            yield piece

    def _deltas(self) -> Iterator[Piece]:
        for part in self.reply.parts:
            match part:
                case Text(text):
                    for _ in range(self.reply.times):
                        yield b"".join(self.text(text))
                case Thought(text):
                    yield b"".join(self.thought(text))
                case Refusal(text):
                    yield b"".join(self.refusal(text))
                case Raw(text):
                    yield text.encode("utf-8", "surrogateescape")
                case Search():
                    yield b"".join(self.search(part))
                case Call():
                    self.calls.append((part.id or self.fresh_id(), part))
                    if not self.reply.interleave or not self.interleaves:
                        yield from self._one_call(len(self.calls) - 1)
                case Pause() | Gate():
                    yield part
        if self.reply.interleave and self.interleaves:
            yield from self._interleaved()

    def _one_call(self, index: int) -> Iterator[bytes]:
        name, call = self.calls[index]
        yield b"".join(self.call(index, name, call))
        for text in call.pieces:
            yield b"".join(self.args(index, text))

    def _interleaved(self) -> Iterator[bytes]:
        for index, (name, call) in enumerate(self.calls):
            yield b"".join(self.call(index, name, call))
        for turn in itertools.zip_longest(*(call.pieces for _, call in self.calls)):
            for index, text in enumerate(turn):
                if text is not None:
                    yield b"".join(self.args(index, text))

    def fresh_id(self) -> str:
        self._made += 1
        return f"{'toolu' if self.kind == 'anthropic' else 'call'}_{self.n:06d}_{self._made}"

    @property
    def tokens(self) -> Tokens:
        """usage as scripted, else a guess from sizes"""
        if self.reply.usage is not None:
            return self.reply.usage
        spoken = sum(len(part.text) for part in self.reply.parts if isinstance(part, Text | Thought | Refusal))
        spoken += sum(len(call.json) for _, call in self.calls)
        return Tokens(input=max(len(json.dumps(self.body)) // 4, 1), output=max(spoken // 4, 1))

    def joined(self, kind: type[Text | Thought | Refusal]) -> str:
        pieces = [part.text for part in self.reply.parts if isinstance(part, kind)]
        return "".join(pieces) * (self.reply.times if kind is Text else 1)

    @classmethod
    def failure(cls, reply: Reply) -> tuple[int, bytes]:
        """status and body of an error answer"""
        status, name, code, message = cls.error(reply)
        if reply.body is not None:
            return reply.status, reply.body.encode()
        return status, json.dumps(error_body(cls.kind, status, message, name=name, code=code)).encode()

    @classmethod
    def error(cls, reply: Reply) -> tuple[int, str, str | None, str]:
        if reply.error is not None:
            status, name, code, message = ERRORS.get(cls.kind, ERRORS["openai"])[reply.error]
        else:
            status, code, message = reply.status, None, f"scripted error {reply.status}"
            name = error_name(cls.kind, status)
        status = reply.status if reply.status != 200 else status
        return status, name, reply.code or code, reply.message or message


def data(value: Json) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n\n"


def event(value: Json) -> bytes:
    return b"event: " + str(value["type"]).encode() + b"\n" + data(value)
