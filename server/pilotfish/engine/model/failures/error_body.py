"""Reads the bodies of providers' errors: the message, whether the context overflowed, and how long to wait.

Bodies differ between providers, gateways and local servers. Nothing here knows which one sent a body.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import cast

MAX_QUOTE = 300  # characters quoted from a provider's error message
MAX_DEPTH = 8  # nesting of an error inside another one
_KEYS = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|hf|ghp|gho)[-_][\w*.-]{6,}|\bAIza[\w*-]{8,}"
    r"|(?<=\bbearer )\S{8,}|(?<=\bkey[:= ])(?=\S*[\d*])[\w*.-]{8,}",
    re.IGNORECASE,
)
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")

_OVERFLOWS = (
    r"context[_ ](?:length|window|size|limit)[_ ]exceeded",  # OpenAI, Fireworks
    r"context ?window ?exceeded",  # LiteLLM
    r"exceed_context_size",  # llama.cpp
    r"(?:exceed(?:s|ed)?|(?:larg|long|great)er than) (?:the |this |max |maximum |available |model'?s? )*context",
    r"exceed(?:s|ed)? (?:the |maximum |model )*(?:input )?(?:token|prompt length|sequence length) limit",  # Kimi
    r"context (?:window|length|size|limit) (?:exceeds|is exceeded|has been exceeded|overflow)",  # MiniMax
    r"context the overflows|context length of only",  # LM Studio
    r"maximum context (?:length|window|size|limit)",  # OpenAI, OpenRouter, DeepSeek, vLLM, Mistral
    r"(?:prompt|input|conversation|request) (?:is )?too long",  # Anthropic, Bedrock, Ollama, Perplexity
    r"exceeds? the (?:limit|maximum) of \d+ (?:input )?tokens?|token count of \d+ exceeds",  # Copilot
    r"exceeds the maximum number of (?:input )?tokens|input token count",  # Google
    r"maximum (?:prompt|input|model) length",  # xAI, vLLM
    r"reduce the length of (?:the |your )?(?:messages|prompt|input)",  # Groq, Cerebras
    r"input tokens exceed|too many input tokens|tokens in request more than max",  # Azure, Cohere
    r"`?inputs`? tokens \+ `?max_new_tokens`?",  # Hugging Face, Together
    r"range of input length should be",  # Alibaba
    r"prompt exceeds (?:the |its )?(?:length|max)",  # Z.ai
    r"request body too large for .* model|tokens_limit_reached",  # GitHub Models
)
"""how providers and servers say that a request does not fit into the model's context window"""
_OVERFLOW = re.compile("|".join(_OVERFLOWS), re.IGNORECASE | re.DOTALL)
_NEVER_FITS = re.compile(r"request too large .*(?:tokens per min|TPM)", re.IGNORECASE | re.DOTALL)
"""how OpenAI and Groq say that one request has more tokens than a minute allows, so that waiting does not help"""
_WAIT = re.compile(
    r"\b(?:try(?:ing)? again|retry(?:ing)?|wait)(?: (?:in|after|for|at least|about))*:? "
    r"(?P<time>(?:\d+(?:\.\d+)? ?(?:ms|milliseconds?|h(?:ours?)?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)\b"
    r"[, ]*(?:and )?|\d+(?:h|m(?!s))(?=\d))+)",
    re.IGNORECASE,
)
_TIME = re.compile(r"(\d+(?:\.\d+)?) ?(ms|mil|h|m|s)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "mil": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def message_in(body: object) -> str:
    """The provider's own words in an error body; empty for an HTML page or a body without any.

    A gateway's error may contain the error of the server behind it. The innermost message is the useful one.
    """
    return next(_messages(body, 0), "")


def is_overflow(body: object, *, rate_limited: bool) -> bool:
    """Whether an error body says that the request is too long for the model or, if rate limited, for any minute."""
    text = _whole(body)
    return bool(_NEVER_FITS.search(text) or (not rate_limited and _OVERFLOW.search(text)))


def wait_in(body: object) -> float | None:
    """The seconds that an error body asks to wait, as Google's `RetryInfo` or in words: "try again in 1m12s"."""
    delay = re.search(r'"retryDelay": ?"([\d.]+)s"', _whole(body))
    if delay:
        return float(delay[1])
    found = _WAIT.search(message_in(body))
    if not found:
        return None
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in _TIME.findall(found["time"]))


def redact(text: str) -> str:
    """The text without API keys and without credentials in URLs."""
    return _CREDENTIALS.sub("", _KEYS.sub("[key]", text))


def quoted(text: str) -> str:
    """Text of a provider on one line, without secrets, shortened."""
    line = redact(" ".join(text.split())).rstrip(".")
    return line if len(line) <= MAX_QUOTE else f"{line[:MAX_QUOTE]}…"


def _messages(body: object, depth: int) -> Iterator[str]:
    """The messages in a body, the innermost first."""
    if depth > MAX_DEPTH:
        return
    match body:
        case str():
            text = body.strip()
            if text.startswith(("{", "[")):  # a body inside a message, as JSON
                with contextlib.suppress(ValueError, RecursionError):
                    yield from _messages(json.loads(text), depth + 1)
            if text and not text.startswith("<"):  # not an HTML page
                yield text
        case list():
            for item in cast("list[object]", body):
                yield from _messages(item, depth + 1)
        case Mapping():
            fields = cast("Mapping[str, object]", body)
            metadata = fields.get("metadata")
            if isinstance(metadata, Mapping):  # OpenRouter: the answer of the provider behind it
                raw = cast("Mapping[str, object]", metadata)
                yield from _messages(raw.get("raw"), depth + 1)
            for name in ("error", "errors", "message", "detail", "msg", "error_message"):
                yield from _messages(fields.get(name), depth + 1)
        case _:
            return


def _whole(body: object) -> str:
    """The body as text, with everything that it contains."""
    if isinstance(body, str):
        return body
    try:
        return json.dumps(body, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(body)
