"""The keys of providers as ACP's authentication methods. A key comes from the environment, or from the client for as
long as the process runs; it is never stored."""

from __future__ import annotations

import os

from acp import schema
from pilotfish.engine.model.catalog.providers import BY_PREFIX, KnownProvider

OFFERED = ("anthropic", "openai", "google", "openrouter", "mistral", "deepseek", "xai", "github")
"""the providers that are offered in `initialize`; `authenticate` takes every known one"""


def methods() -> list[schema.EnvVarAuthMethod | schema.TerminalAuthMethod | schema.AuthMethodAgent]:
    return [_method(BY_PREFIX[prefix]) for prefix in OFFERED]


def provider_of(method_id: str) -> KnownProvider | None:
    return BY_PREFIX.get(method_id)


def has_key(provider: KnownProvider) -> bool:
    """Whether the environment has the key."""
    return any(os.environ.get(variable) for variable in provider.variables)


def _method(provider: KnownProvider) -> schema.EnvVarAuthMethod:
    return schema.EnvVarAuthMethod(
        type="env_var",
        id=provider.prefix,
        name=f"{provider.label} API key",
        description=f"Models of {provider.label}, with a key in {provider.variables[0]}",
        vars=[schema.AuthEnvVar(name=provider.variables[0], label=f"{provider.label} API key")],
    )
