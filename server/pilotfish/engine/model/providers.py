"""The known providers: prefix in model strings, label, and source of the API key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """A provider whose models need a key. `prefix` starts its model strings and names its secret."""

    prefix: str
    label: str
    variables: tuple[str, ...]
    """environment variables that may hold the key, in order of precedence"""


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A server on this machine with an OpenAI-compatible Chat API."""

    prefix: str
    label: str
    base_url: str

    @property
    def address(self) -> str:
        """the base URL, which the environment variable PREFIX_BASE_URL overrides"""
        return os.environ.get(f"{self.prefix.upper()}_BASE_URL") or self.base_url


KNOWN = (
    KnownProvider("anthropic", "Anthropic", ("ANTHROPIC_API_KEY",)),
    KnownProvider("openai", "OpenAI", ("OPENAI_API_KEY",)),
    KnownProvider("google", "Google", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
    KnownProvider("openrouter", "OpenRouter", ("OPENROUTER_API_KEY",)),
    KnownProvider("deepseek", "DeepSeek", ("DEEPSEEK_API_KEY",)),
    KnownProvider("moonshotai", "Moonshot AI", ("MOONSHOTAI_API_KEY",)),
    KnownProvider("zai", "Z.ai", ("ZAI_API_KEY",)),
    KnownProvider("cerebras", "Cerebras", ("CEREBRAS_API_KEY",)),
    KnownProvider("fireworks", "Fireworks", ("FIREWORKS_API_KEY",)),
    KnownProvider("together", "Together", ("TOGETHER_API_KEY",)),
    KnownProvider("nebius", "Nebius", ("NEBIUS_API_KEY",)),
    KnownProvider("alibaba", "Alibaba", ("ALIBABA_API_KEY", "DASHSCOPE_API_KEY")),
    KnownProvider("meta", "Meta", ("META_API_KEY",)),
    KnownProvider("vercel", "Vercel", ("VERCEL_AI_GATEWAY_API_KEY",)),
    KnownProvider("github-copilot", "GitHub Copilot", ("GITHUB_COPILOT_API_KEY", "COPILOT_GITHUB_TOKEN")),
    KnownProvider("openai-compatible", "OpenAI-compatible server", ("PILOTFISH_API_KEY",)),
)
BY_PREFIX = {known.prefix: known for known in KNOWN}
OPENAI_PREFIXES = frozenset({"openai", "openai-chat", "openai-responses"})
SAME_KEY = dict.fromkeys(OPENAI_PREFIXES, "openai")
"""prefixes that share the key of another prefix"""

LOCAL = (
    LocalServer("ollama", "Ollama", "http://127.0.0.1:11434/v1"),
    LocalServer("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1"),
    LocalServer("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1"),
    LocalServer("vllm", "vLLM", "http://127.0.0.1:8000/v1"),
)
LOCAL_BY_PREFIX = {server.prefix: server for server in LOCAL}


def split(model: str) -> tuple[str, str]:
    """The prefix and the name in a model string. Without a prefix, the model is one of the server at `baseUrl`."""
    prefix, colon, name = model.partition(":")
    return (prefix, name) if colon else ("", model)


def name_of_key(provider: str) -> str:
    """The name of a provider's secret. `provider` is a prefix or a label."""
    folded = provider.strip().casefold()
    labelled = (known.prefix for known in KNOWN if known.label.casefold() == folded)
    return SAME_KEY.get(folded) or next(labelled, folded)


def key_for(prefix: str, secrets: Mapping[str, str]) -> str | None:
    """The key of a provider, from the client's secrets or else from the environment. It is never read from a file."""
    name = SAME_KEY.get(prefix, prefix)
    known = BY_PREFIX.get(name)
    variables = known.variables if known else ()
    found = (secrets.get(name, ""), *(os.environ.get(variable, "") for variable in variables))
    return next((key for value in found if (key := value.strip())), None)


def can_be_sent(key: str) -> bool:
    """Whether a key can be sent in an HTTP header. A key that cannot was copied incorrectly."""
    return key.isascii() and key.isprintable()
