"""The known providers: prefix in model strings, label, and source of the API key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from pilotfish.config.settings import Endpoint


@dataclass(frozen=True, slots=True)
class KnownProvider:
    """A provider whose models need a key. `prefix` starts its model strings and names its secret."""

    prefix: str
    label: str
    variables: tuple[str, ...]
    """environment variables that may hold the key, in order of precedence"""
    address: str | None = None
    """of its OpenAI-compatible Chat API, for a provider that is reached without an SDK of its own"""


@dataclass(frozen=True, slots=True)
class OtherProvider:
    """A provider that the library configures from the environment. `extra` is its extra of pydantic-ai-slim, if any."""

    prefix: str
    label: str
    extra: str
    variables: tuple[str, ...]


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
    KnownProvider("mistral", "Mistral", ("MISTRAL_API_KEY",), "https://api.mistral.ai/v1"),
    KnownProvider("xai", "xAI", ("XAI_API_KEY",), "https://api.x.ai/v1"),
    KnownProvider("groq", "Groq", ("GROQ_API_KEY",), "https://api.groq.com/openai/v1"),
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
    KnownProvider("huggingface", "Hugging Face", ("HF_TOKEN",), "https://router.huggingface.co/v1"),
    KnownProvider("github", "GitHub Models", ("GITHUB_API_KEY",), "https://models.github.ai/inference"),
    KnownProvider("github-copilot", "GitHub Copilot", ("GITHUB_COPILOT_API_KEY", "COPILOT_GITHUB_TOKEN")),
    KnownProvider("openai-compatible", "OpenAI-compatible server", ("PILOTFISH_API_KEY",)),
)
OTHERS = (
    OtherProvider("azure", "Azure OpenAI", "", ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT")),
    OtherProvider("bedrock", "Amazon Bedrock", "bedrock", ("AWS_PROFILE", "AWS_DEFAULT_REGION")),
    OtherProvider("google-cloud", "Google Cloud (Vertex AI)", "", ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION")),
    OtherProvider("cohere", "Cohere", "cohere", ("CO_API_KEY",)),
    OtherProvider("crusoe", "Crusoe", "", ("CRUSOE_API_KEY",)),
    OtherProvider("heroku", "Heroku", "", ("HEROKU_INFERENCE_KEY",)),
    OtherProvider("ovhcloud", "OVHcloud", "", ("OVHCLOUD_API_KEY",)),
    OtherProvider("sambanova", "SambaNova", "", ("SAMBANOVA_API_KEY",)),
)
"""providers that the library knows and this program does not configure itself"""
OWN_EXTRAS = ("anthropic", "google", "bedrock")
"""providers whose SDK is an extra of this package"""
BY_PREFIX = {known.prefix: known for known in KNOWN}
OPENAI_PREFIXES = frozenset({"openai", "openai-chat", "openai-responses"})
SAME_KEY = dict.fromkeys(OPENAI_PREFIXES, "openai")
"""prefixes that share the key of another prefix"""
ALIASES = {
    "claude": "anthropic",
    "gemini": "google",
    "google-gla": "google",
    "google-vertex": "google-cloud",
    "vertex": "google-cloud",
    "vertexai": "google-cloud",
    "grok": "xai",
    "qwen": "alibaba",
    "dashscope": "alibaba",
    "kimi": "moonshotai",
    "moonshot": "moonshotai",
    "glm": "zai",
    "copilot": "github-copilot",
    "github-models": "github",
    "azure-openai": "azure",
    "hf": "huggingface",
    "lm-studio": "lmstudio",
    "llama.cpp": "llamacpp",
    "llama-cpp": "llamacpp",
}
"""prefixes that people type, and what they mean"""

LOOPBACK = ("127.0.0.1", "localhost", "::1")
"""hosts of servers on this machine, whose models cost nothing; LiteLLM is a gateway to others"""
LOCAL = (
    LocalServer("ollama", "Ollama", "http://127.0.0.1:11434/v1"),
    LocalServer("lmstudio", "LM Studio", "http://127.0.0.1:1234/v1"),
    LocalServer("llamacpp", "llama.cpp", "http://127.0.0.1:8080/v1"),
    LocalServer("vllm", "vLLM", "http://127.0.0.1:8000/v1"),
    LocalServer("litellm", "LiteLLM", "http://127.0.0.1:4000/v1"),
)
LOCAL_BY_PREFIX = {server.prefix: server for server in LOCAL}


def split(model: str) -> tuple[str, str]:
    """The prefix and the name in a model string. Without a prefix, the model is one of the server at `baseUrl`."""
    prefix, colon, name = model.partition(":")
    return (ALIASES.get(prefix, prefix), name) if colon else ("", model)


def name_of_key(provider: str) -> str:
    """The name of a provider's secret. `provider` is a prefix or a label."""
    folded = provider.strip().casefold()
    labelled = (known.prefix for known in KNOWN if known.label.casefold() == folded)
    return SAME_KEY.get(folded) or next(labelled, ALIASES.get(folded, folded))


def key_for(prefix: str, secrets: Mapping[str, str]) -> str | None:
    """The key of a provider, from the client's secrets or else from the environment. It is never read from a file."""
    name = SAME_KEY.get(prefix, prefix)
    known = BY_PREFIX.get(name)
    variables = known.variables if known else (f"{name.upper()}_API_KEY",) if name in LOCAL_BY_PREFIX else ()
    found = (secrets.get(name, ""), *(os.environ.get(variable, "") for variable in variables))
    return next((key for value in found if (key := value.strip())), None)


def endpoint_key(endpoint: Endpoint, secrets: Mapping[str, str]) -> str | None:
    """The key of one of the user's endpoints: the secret of its name, or else its environment variable."""
    found = (secrets.get(name_of_key(endpoint.name), ""), os.environ.get(endpoint.key_variable or "", ""))
    return next((key for value in found if (key := value.strip())), None)


def package_for(prefix: str) -> str:
    """What to install for the SDK of a provider: an extra of ours, or else one of the library."""
    if prefix in OWN_EXTRAS:
        return f"pilotfish[{prefix}]"
    extra = next((other.extra for other in OTHERS if other.prefix == prefix), "") or prefix
    return f"pydantic-ai-slim[{extra}]"


def how_to_set_key(provider: KnownProvider) -> str:
    """What a user can do about a missing key, in any client."""
    return f"Set {provider.variables[0]} in the environment, or connect the provider in your editor if it offers that."


def can_be_sent(key: str) -> bool:
    """Whether a key can be sent in an HTTP header. A key that cannot was copied incorrectly."""
    return key.isascii() and key.isprintable()
