"""Encodes a scripted reply in the format of OpenAI Chat Completions."""

from __future__ import annotations

from typing import cast

from tests.support.provider_dialect import CREATED, Dialect, Json, data
from tests.support.provider_script import Call, Refusal, Reply, Text, Thought


class Chat(Dialect):
    kind = "chat"

    def _chunk(self, delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return data({**self._envelope, "choices": [choice]})

    @property
    def _envelope(self) -> Json:
        return {
            "id": f"chatcmpl-{self.n:06d}",
            "object": "chat.completion.chunk",
            "created": CREATED,
            "model": self.model,
            "service_tier": "default",
            "system_fingerprint": "fp_scripted",
        }

    def first(self) -> list[bytes]:
        return [self._chunk({"role": "assistant", "content": "", "refusal": None})]

    def text(self, text: str) -> list[bytes]:
        return [self._chunk({"content": text})]

    def thought(self, text: str) -> list[bytes]:
        return [self._chunk({self.reply.reasoning_field: text})]

    def refusal(self, text: str) -> list[bytes]:
        return [self._chunk({"refusal": text})]

    def call(self, index: int, name: str, call: Call) -> list[bytes]:
        start = {"index": index, "id": name, "type": "function", "function": {"name": call.name, "arguments": ""}}
        return [self._chunk({"tool_calls": [start]})]

    def args(self, index: int, text: str) -> list[bytes]:
        return [self._chunk({"tool_calls": [{"index": index, "function": {"arguments": text}}]})]

    def close(self) -> list[bytes]:
        return []

    @property
    def _finish(self) -> str:
        return self.reply.finish or ("tool_calls" if self.calls else "stop")

    @property
    def _usage(self) -> Json:
        tokens = self.tokens
        return {
            "prompt_tokens": tokens.input,
            "completion_tokens": tokens.output,
            "total_tokens": tokens.input + tokens.output,
            "prompt_tokens_details": {"cached_tokens": tokens.cached, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": tokens.reasoning, "audio_tokens": 0},
        }

    def last(self) -> list[bytes]:
        out = [self._chunk({}, self._finish)]
        if cast(Json, self.body.get("stream_options") or {}).get("include_usage"):
            out.append(data({**self._envelope, "choices": [], "usage": self._usage}))
        return [*out, b"data: [DONE]\n\n"]

    def broken(self, error: str) -> bytes:
        _, name, code, message = self.error(Reply(error=error))
        return data({"error": {"message": message, "type": name, "param": None, "code": code}})

    def whole(self) -> Json:
        message: Json = {"role": "assistant", "content": self.joined(Text) or None}
        message["refusal"] = self.joined(Refusal) or None
        if thought := self.joined(Thought):
            message[self.reply.reasoning_field] = thought
        if self.calls:
            message["tool_calls"] = [
                {"id": name, "type": "function", "function": {"name": call.name, "arguments": call.json}}
                for name, call in self.calls
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._finish}
        return {**self._envelope, "object": "chat.completion", "choices": [choice], "usage": self._usage}
