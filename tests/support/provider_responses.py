"""Encodes a scripted reply in the format of OpenAI Responses."""

from __future__ import annotations

import itertools
from typing import Any

from tests.support.provider_dialect import CREATED, Dialect, Json, event
from tests.support.provider_script import Call, Reply, Search
from tests.support.provider_strict import Memory


class Responses(Dialect):
    kind = "responses"

    def __init__(self, body: Json, reply: Reply, memory: Memory) -> None:
        super().__init__(body, reply, memory)
        self._seq = itertools.count()
        self._items: list[Json] = []
        self._open: str | None = None
        """the kind of item that is being written: reasoning, message or refusal"""
        self._reasoning: str | None = None
        self._places: dict[int, int] = {}

    def _event(self, kind: str, /, **fields: Any) -> bytes:
        return event({"type": f"response.{kind}", "sequence_number": next(self._seq), **fields})

    def _response(self, status: str, **fields: Any) -> Json:
        return {
            "id": f"resp_{self.n:06d}",
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "model": self.model,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
            "temperature": 1.0,
            "top_p": 1.0,
            "metadata": {},
            "store": self.body.get("store", True),
            "usage": None,
            **fields,
        }

    def first(self) -> list[bytes]:
        return [
            self._event("created", response=self._response("in_progress")),
            self._event("in_progress", response=self._response("in_progress")),
        ]

    def text(self, text: str) -> list[bytes]:
        out = self._begin("message", {"type": "output_text", "text": "", "annotations": [], "logprobs": []})
        self._items[-1]["content"][0]["text"] += text
        return [*out, self._delta("output_text.delta", content_index=0, delta=text, logprobs=[])]

    def refusal(self, text: str) -> list[bytes]:
        out = self._begin("refusal", {"type": "refusal", "refusal": ""})
        self._items[-1]["content"][0]["refusal"] += text
        return [*out, self._delta("refusal.delta", content_index=0, delta=text)]

    def thought(self, text: str) -> list[bytes]:
        out: list[bytes] = []
        if self._open != "reasoning":
            out = self.close()
            name = self._name("rs")
            self._reasoning = name
            self._add({"id": name, "type": "reasoning", "summary": [], "encrypted_content": None})
            part = {"type": "summary_text", "text": ""}
            out += [self._added(), self._delta("reasoning_summary_part.added", summary_index=0, part=dict(part))]
            self._items[-1]["summary"].append(part)
            self._items[-1]["encrypted_content"] = f"sealed-{name}"
            self._open = "reasoning"
        self._items[-1]["summary"][0]["text"] += text
        return [*out, self._delta("reasoning_summary_text.delta", summary_index=0, delta=text)]

    def call(self, index: int, name: str, call: Call) -> list[bytes]:
        out = self.close()
        item = {"id": self._name("fc"), "type": "function_call", "status": "in_progress"}
        self._add({**item, "call_id": name, "name": call.name, "arguments": ""})
        self._places[index] = len(self._items) - 1
        return [*out, self._added()]

    def args(self, index: int, text: str) -> list[bytes]:
        place = self._places[index]
        self._items[place]["arguments"] += text
        return [self._delta("function_call_arguments.delta", place=place, delta=text)]

    def search(self, search: Search) -> list[bytes]:
        out = self.close()
        self._add({"id": self._name("ws"), "type": "web_search_call", "status": "in_progress", "action": None})
        out.append(self._added())
        pages = [{"type": "url", "url": url} for url, _ in search.pages]
        action = {"type": "search", "query": search.query, "queries": [search.query], "sources": pages}
        self._items[-1] |= {"status": "completed", "action": action}
        return [*out, self._done(len(self._items) - 1)]

    def close(self) -> list[bytes]:
        if self._open is None:
            return []
        kind, self._open, item = self._open, None, self._items[-1]
        if kind == "reasoning":
            part = item["summary"][0]
            return [
                self._delta("reasoning_summary_text.done", summary_index=0, text=part["text"]),
                self._delta("reasoning_summary_part.done", summary_index=0, part=part),
                self._done(len(self._items) - 1),
            ]
        part = item["content"][0]
        if kind == "message":
            over = self._delta("output_text.done", content_index=0, text=part["text"], logprobs=[])
        else:
            over = self._delta("refusal.done", content_index=0, refusal=part["refusal"])
        item["status"] = "completed"
        ended = self._delta("content_part.done", content_index=0, part=part)
        return [over, ended, self._done(len(self._items) - 1)]

    def _calls_done(self) -> list[bytes]:
        out: list[bytes] = []
        for place in self._places.values():
            item = self._items[place]
            item["status"] = "completed"
            out.append(
                self._delta("function_call_arguments.done", place=place, arguments=item["arguments"], name=item["name"])
            )
            out.append(self._done(place))
        return out

    def _ended(self) -> tuple[str, Json]:
        self.memory.responses[f"resp_{self.n:06d}"] = tuple(name for name, _ in self.calls)
        tokens = self.tokens
        fields: Json = {
            "output": self._items,
            "usage": {
                "input_tokens": tokens.input,
                "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
                "output_tokens": tokens.output,
                "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
                "total_tokens": tokens.input + tokens.output,
            },
        }
        if self.reply.finish in ("length", "max_output_tokens"):
            fields["incomplete_details"] = {"reason": "max_output_tokens"}
        elif self.reply.finish == "content_filter":
            fields["incomplete_details"] = {"reason": "content_filter"}
        status = "incomplete" if "incomplete_details" in fields else "completed"
        return status, self._response(status, **fields)

    def last(self) -> list[bytes]:
        out = [*self.close(), *self._calls_done()]
        status, response = self._ended()
        return [*out, self._event(status, response=response)]

    def broken(self, error: str) -> bytes:
        _, name, code, message = self.error(Reply(error=error))
        return event(
            {
                "type": "error",
                "sequence_number": next(self._seq),
                "code": code or name,
                "message": message,
                "param": None,
            }
        )

    def whole(self) -> Json:
        self.last()
        return self._ended()[1]

    def _begin(self, kind: str, part: Json) -> list[bytes]:
        if self._open == kind:
            return []
        out = self.close()
        self._add(
            {"id": self._name("msg"), "type": "message", "status": "in_progress", "role": "assistant", "content": []}
        )
        out += [self._added(), self._delta("content_part.added", content_index=0, part=dict(part))]
        self._items[-1]["content"].append(part)
        self._open = kind
        return out

    def _name(self, prefix: str) -> str:
        return f"{prefix}_{self.n:06d}_{len(self._items)}"

    def _add(self, item: Json) -> None:
        self._items.append(item)
        self.memory.items.add(item["id"])
        if self._reasoning is not None and item["type"] != "reasoning":
            self.memory.reasoning_of[item["id"]] = self._reasoning
            self._reasoning = None

    def _added(self) -> bytes:
        return self._event("output_item.added", output_index=len(self._items) - 1, item=self._items[-1])

    def _done(self, place: int) -> bytes:
        return self._event("output_item.done", output_index=place, item=self._items[place])

    def _delta(self, kind: str, /, *, place: int | None = None, **fields: Any) -> bytes:
        at = len(self._items) - 1 if place is None else place
        return self._event(kind, item_id=self._items[at]["id"], output_index=at, **fields)
