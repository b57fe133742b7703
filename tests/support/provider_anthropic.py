"""Encodes a scripted reply in the format of Anthropic Messages."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence

from tests.support.provider_dialect import Dialect, Json, event
from tests.support.provider_script import Call, Refusal, Reply, Search
from tests.support.provider_strict import Memory


class Anthropic(Dialect):
    kind = "anthropic"
    interleaves = False
    garbage = b'event: content_block_delta\ndata: {"this is not": JSON\n\n'

    def __init__(self, body: Json, reply: Reply, memory: Memory) -> None:
        super().__init__(body, reply, memory)
        self._blocks: list[Json] = []
        self._open: str | None = None
        self._written: list[str] = []

    def _usage(self, output: int) -> Json:
        tokens = self.tokens
        return {
            "input_tokens": tokens.input - tokens.cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": tokens.cached,
            "output_tokens": output,
            "service_tier": "standard",
        }

    def _message(self, content: Sequence[Json], stop: str | None, output: int) -> Json:
        return {
            "id": f"msg_{self.n:06d}",
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": list(content),
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": self._usage(output),
        }

    def first(self) -> list[bytes]:
        return [event({"type": "message_start", "message": self._message((), None, 1)}), event({"type": "ping"})]

    def text(self, text: str) -> list[bytes]:
        return self._write("text", {"type": "text", "text": ""}, {"type": "text_delta", "text": text}, text)

    def refusal(self, text: str) -> list[bytes]:
        return self.text(text)

    def thought(self, text: str) -> list[bytes]:
        block = {"type": "thinking", "thinking": "", "signature": ""}
        return self._write("thinking", block, {"type": "thinking_delta", "thinking": text}, text)

    def call(self, index: int, name: str, call: Call) -> list[bytes]:
        if any(block["type"] == "thinking" for block in self._blocks):
            self.memory.thought_before.add(name)
        return self._begin("tool_use", {"type": "tool_use", "id": name, "name": call.name, "input": {}})

    def args(self, index: int, text: str) -> list[bytes]:
        return [self._delta({"type": "input_json_delta", "partial_json": text})]

    def search(self, search: Search) -> list[bytes]:
        name = f"srvtoolu_{self.n:06d}_{len(self._blocks)}"
        asked: Json = {"type": "server_tool_use", "id": name, "name": "web_search", "input": {}}
        typed = {"type": "input_json_delta", "partial_json": json.dumps({"query": search.query})}
        pages = [
            {"type": "web_search_result", "url": url, "title": title, "encrypted_content": "sealed", "page_age": None}
            for url, title in search.pages
        ]
        found = {"type": "web_search_tool_result", "tool_use_id": name, "content": pages}
        return [*self._begin("server_tool_use", asked), self._delta(typed), *self._begin("web_search_result", found)]

    def close(self) -> list[bytes]:
        if self._open is None:
            return []
        kind, self._open, block = self._open, None, self._blocks[-1]
        out: list[bytes] = []
        if kind == "thinking":
            thought = "".join(self._written)
            block["thinking"] = thought
            block["signature"] = "sig-" + hashlib.sha256(f"{self.n}{thought}".encode()).hexdigest()
            self.memory.signatures[block["signature"]] = thought
            out = [self._delta({"type": "signature_delta", "signature": block["signature"]})]
        elif kind == "text":
            block["text"] = "".join(self._written)
        self._written = []
        return [*out, event({"type": "content_block_stop", "index": len(self._blocks) - 1})]

    @property
    def _stop(self) -> str:
        words = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
        default = "tool_calls" if self.calls else "stop"
        if self.reply.finish is None and any(isinstance(part, Refusal) for part in self.reply.parts):
            default = "content_filter"
        finish = self.reply.finish or default
        return words.get(finish, finish)

    def last(self) -> list[bytes]:
        delta = {"stop_reason": self._stop, "stop_sequence": None}
        usage = self._usage(self.tokens.output)
        return [
            *self.close(),
            event({"type": "message_delta", "delta": delta, "usage": usage}),
            event({"type": "message_stop"}),
        ]

    def broken(self, error: str) -> bytes:
        _, name, _, message = self.error(Reply(error=error))
        return event({"type": "error", "error": {"type": name, "message": message}, "request_id": "req_scripted"})

    def whole(self) -> Json:
        self.close()
        inputs = dict(self.calls)
        for block in self._blocks:
            if block["type"] == "tool_use":
                block["input"] = json.loads(inputs[block["id"]].json)
        return self._message(self._blocks, self._stop, self.tokens.output)

    def _write(self, kind: str, block: Json, delta: Json, text: str) -> list[bytes]:
        out = self._begin(kind, block) if self._open != kind else []
        self._written.append(text)
        return [*out, self._delta(delta)]

    def _begin(self, kind: str, block: Json) -> list[bytes]:
        out = self.close()
        self._blocks.append(block)
        self._open = kind
        return [*out, event({"type": "content_block_start", "index": len(self._blocks) - 1, "content_block": block})]

    def _delta(self, delta: Json) -> bytes:
        return event({"type": "content_block_delta", "index": len(self._blocks) - 1, "delta": delta})
