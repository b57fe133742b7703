"""Encodes a scripted reply in the format of Google's generateContent API.

Every chunk is a whole `GenerateContentResponse` with the usage so far. A function call arrives in one chunk, its
arguments as an object. The first call of a reply carries a thought signature; so does the end of a reply that has
thoughts and no call. Arguments that are not a JSON object cannot be sent: the reply then ends with
`MALFORMED_FUNCTION_CALL`, as the real API does.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cached_property
from typing import cast

from tests.support.provider_dialect import CREATED, Dialect, Json, data, error_body
from tests.support.provider_script import Call, Refusal, Reply, Search, Thought, Tokens
from tests.support.provider_strict import Memory

FINISH = {"stop": "STOP", "length": "MAX_TOKENS", "tool_calls": "STOP", "content_filter": "SAFETY"}


class Google(Dialect):
    kind = "google"
    interleaves = False

    def __init__(self, body: Json, reply: Reply, memory: Memory) -> None:
        super().__init__(body, reply, memory)
        self._written = 0
        self._malformed = False
        self._signed = False

    def first(self) -> list[bytes]:
        return []

    def text(self, text: str) -> list[bytes]:
        return [self._chunk({"text": text}, text)]

    def refusal(self, text: str) -> list[bytes]:
        return self.text(text)

    def thought(self, text: str) -> list[bytes]:
        return [self._chunk({"text": text, "thought": True}, text)]

    def call(self, index: int, name: str, call: Call) -> list[bytes]:
        part = self._call_part(name, call)
        return [self._chunk(part, call.json)] if part is not None else []

    def args(self, index: int, text: str) -> list[bytes]:
        return []

    def search(self, search: Search) -> list[bytes]:
        return []  # the last chunk has all searches

    def close(self) -> list[bytes]:
        return []

    def last(self) -> list[bytes]:
        parts: list[Json] = [{"text": ""}]
        if not self._signed and any(isinstance(part, Thought) for part in self.reply.parts):
            parts = [{"text": "", "thoughtSignature": self._sign("")}]
        return [data(self._response(parts, finish=self._finish, output=self._tokens.output))]

    def broken(self, error: str) -> bytes:
        status, name, reason, message = self.error(Reply(error=error))
        return data(error_body("google", status, message, name=name, code=reason))

    def whole(self) -> Json:
        parts: list[Json] = []
        for part in self.reply.parts:
            match part:
                case Call():
                    made = self._call_part(next(id_ for id_, call in self.calls if call is part), part)
                    parts += [made] if made is not None else []
                case Thought(text):
                    parts.append({"text": text, "thought": True})
                case _ if hasattr(part, "text"):
                    parts.append({"text": cast(Refusal, part).text * self.reply.times})
                case _:
                    pass
        return self._response(parts, finish=self._finish, output=self._tokens.output)

    @classmethod
    def failure(cls, reply: Reply) -> tuple[int, bytes]:
        """Google sends no `retry-after` header: the message and the details of the error hold the wait time."""
        if reply.body is not None or reply.retry_after is None:
            return super().failure(reply)
        status, name, reason, message = cls.error(reply)
        message = f"{message} Please retry in {reply.retry_after:g}s."
        body = error_body("google", status, message, name=name, code=reason)
        retry = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{reply.retry_after:g}s"}
        body["error"].setdefault("details", []).append(retry)
        return status, json.dumps(body).encode()

    def _call_part(self, name: str, call: Call) -> Json | None:
        args = _object(call.json)
        if args is None:
            self._malformed = True
            return None
        function = {"id": name, "name": call.name, "args": args}
        if self._signed:
            return {"functionCall": function}
        self._signed = True
        return {"functionCall": function, "thoughtSignature": self._sign(call.name)}

    def _sign(self, what: str) -> str:
        """A new signature for a part, recorded so that it is accepted back."""
        digest = hashlib.sha256(f"{self.n} {what}".encode()).digest()
        signature = base64.b64encode(b"sig-" + digest).decode()
        self.memory.google_signatures[signature] = what
        return signature

    def _chunk(self, part: Json, written: str) -> bytes:
        self._written += len(written)
        return data(self._response([part], output=min(max(self._written // 4, 1), self._tokens.output)))

    def _response(self, parts: list[Json], *, output: int, finish: str | None = None) -> Json:
        candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
        if finish is not None:
            candidate["finishReason"] = finish
            searches = [part for part in self.reply.parts if isinstance(part, Search)]
            pages = [{"web": {"uri": url, "title": title}} for search in searches for url, title in search.pages]
            if searches:
                queries = [search.query for search in searches]
                candidate["groundingMetadata"] = {"webSearchQueries": queries, "groundingChunks": pages}
        tokens = self._tokens
        usage: Json = {
            "promptTokenCount": tokens.input,
            "candidatesTokenCount": output,
            "totalTokenCount": tokens.input + output,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens.input}],
        }
        if tokens.reasoning:
            usage |= {"candidatesTokenCount": max(output - tokens.reasoning, 0), "thoughtsTokenCount": tokens.reasoning}
        if tokens.cached:
            usage["cachedContentTokenCount"] = tokens.cached
            usage["cacheTokensDetails"] = [{"modality": "TEXT", "tokenCount": tokens.cached}]
        return {
            "candidates": [candidate],
            "usageMetadata": usage,
            "modelVersion": self.model,
            "responseId": f"resp{CREATED}{self.n:06d}",
        }

    @cached_property
    def _tokens(self) -> Tokens:
        return self.tokens  # computed once, because the estimate reads the whole request and every chunk reports it

    @property
    def _finish(self) -> str:
        if self._malformed:
            return "MALFORMED_FUNCTION_CALL"
        refuses = any(isinstance(part, Refusal) for part in self.reply.parts)
        finish = self.reply.finish or ("content_filter" if refuses else "stop")
        return FINISH.get(finish, finish)


def _object(text: str) -> Json | None:
    try:
        found: object = json.loads(text)
    except ValueError:
        return None
    return cast(Json, found) if isinstance(found, dict) else None
