"""Creates the pydantic-ai model for a model string, with its key, address and settings.

`resolve` imports only the SDK of the requested provider. Models are cached by their settings, and `aclose` closes their
connections. Keys are held in memory only and never appear in a log, a repr or an error.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import inspect
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pydantic_ai import exceptions as library
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, infer_model, known_model_names
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.providers import Provider, infer_provider_class
from pydantic_ai.settings import ModelSettings

from pilotfish.config.settings import Settings
from pilotfish.engine.model.catalog import Available, available, known_window
from pilotfish.engine.model.errors import failure, redact
from pilotfish.engine.model.http import create_client
from pilotfish.engine.model.providers import (
    BY_PREFIX,
    LOCAL_BY_PREFIX,
    OPENAI_PREFIXES,
    SAME_KEY,
    can_be_sent,
    key_for,
    split,
)
from pilotfish.errors import TurnError

if TYPE_CHECKING:
    import httpx2

__all__ = ["Available", "aclose", "available", "broke_off", "failure", "resolve"]

DEMO = "demo"
NO_KEY = "api-key-not-set"  # sent to servers that need no key, because the SDK requires one
MAX_CACHED_SCHEMAS = 500
FALLBACK_ON = (library.ModelUnavailableError, library.ModelRateLimitError, library.ModelServerError)


class _Kept:
    """The models and HTTP clients of one event loop."""

    def __init__(self) -> None:
        self.models: dict[tuple[object, ...], Model[Any]] = {}
        self.clients: dict[float, httpx2.AsyncClient] = {}

    def client(self, settings: Settings) -> httpx2.AsyncClient:
        if settings.stall_timeout not in self.clients:
            self.clients[settings.stall_timeout] = create_client(settings.stall_timeout)
        return self.clients[settings.stall_timeout]


_KEPT: WeakKeyDictionary[asyncio.AbstractEventLoop, _Kept] = WeakKeyDictionary()


def resolve(model: str, settings: Settings, secrets: Mapping[str, str]) -> Model[Any]:
    """The model for a model string, with the user's settings and with the fallback model, if one is set.

    Raises TurnError of kind `configuration` or `authentication`, with a remedy. Call it on the event loop that will
    use the model. The same arguments give the same object.
    """
    kept = _KEPT.setdefault(asyncio.get_running_loop(), _Kept())
    asked = (model, _fingerprint(_keys_of(model, settings), secrets), *_relevant(settings))
    if asked not in kept.models:
        kept.models[asked] = _with_fallback(model, settings, secrets, kept)
    return kept.models[asked]


def recognise(model: str, settings: Settings) -> None:
    """Raises TurnError if a string cannot name a model, independent of keys. Blocking: it imports the provider."""
    if model == DEMO:
        return
    prefix, name = split(model)
    if not name.strip() or (prefix in ("", "openai-compatible") and settings.base_url is None):
        raise _unknown(model)
    if prefix not in ("", "openai-compatible", *LOCAL_BY_PREFIX):
        try:
            infer_provider_class(prefix)
        except ValueError:
            raise _unknown(model) from None
        except ImportError:
            return  # the provider is known but its package is missing; the turn reports which


async def aclose() -> None:
    """Close every connection of this event loop's models. They can be resolved again afterwards."""
    kept = _KEPT.pop(asyncio.get_running_loop(), None)
    for client in kept.clients.values() if kept else ():
        await client.aclose()


def broke_off(response: ModelResponse) -> bool:
    """Whether the response is incomplete: its stream ended without an error and without a finish reason.

    A Chat stream that is cut off never gets here: `http.py` raises for it.
    """
    if response.provider_name is None:
        return False  # a model in this process
    if (raw := (response.provider_details or {}).get("finish_reason")) and raw not in _NOT_YET:
        return False  # the provider's own finish reason, which pydantic-ai may not know
    return response.finish_reason is None and response.state != "interrupted"


_NOT_YET = ("in_progress", "queued")  # statuses of an unfinished answer in the Responses API


def _with_fallback(model: str, settings: Settings, secrets: Mapping[str, str], kept: _Kept) -> Model[Any]:
    first = _build(model, settings, secrets, kept)
    if settings.fallback_model is None or model in (settings.fallback_model, DEMO):
        return first
    from pydantic_ai.models.fallback import FallbackModel

    second = _build(settings.fallback_model, settings, secrets, kept)
    return FallbackModel(first, second, fallback_on=FALLBACK_ON)


def _build(model: str, settings: Settings, secrets: Mapping[str, str], kept: _Kept) -> Model[Any]:
    if model == DEMO:
        from pilotfish.engine.model.demo import DemoModel

        return DemoModel()
    prefix, name = split(model)
    base_url = _base_url(prefix, settings)
    try:
        if prefix in LOCAL_BY_PREFIX or not prefix or prefix == "openai-compatible":
            return _compatible(prefix, name, base_url, _key(prefix or "openai-compatible", secrets), settings, kept)
        return _inferred(model, base_url, settings, secrets, kept)
    except TurnError:
        raise
    except ImportError as error:
        raise _cannot_import(model, prefix, error) from error
    except library.UserError as error:
        raise _not_configured(prefix, error) from error


def _inferred(
    model: str, base_url: str | None, settings: Settings, secrets: Mapping[str, str], kept: _Kept
) -> Model[Any]:
    """The model class that the library chooses for a model string, with our provider and the user's settings."""
    providers: list[Provider[Any]] = []

    def provide(kind: str) -> Provider[Any]:
        providers.append(_provider(kind, base_url, settings, secrets, kept))
        return providers[-1]

    inferred = infer_model(model, provide)
    # `infer_model` takes no settings, so the chosen class is instantiated again with them.
    model_class: Any = type(inferred)
    return model_class(
        inferred.model_name,
        provider=providers[-1],
        profile=_with_schema_cache,
        settings=model_settings(inferred.system, settings),
    )


def _with_schema_cache(profile: ModelProfile) -> ModelProfile:
    """The profile with a JSON schema transformer that keeps its results: the library asks for them in every request.

    A tool's schema is known by its identity, because no tool changes its schema in place.
    """
    transformer = profile.get("json_schema_transformer")
    if transformer is None:
        return profile
    results: dict[tuple[int, bool | None], tuple[dict[str, Any], dict[str, Any], bool]] = {}

    class CachingTransformer(transformer):
        def walk(self) -> dict[str, Any]:
            key = (id(self.schema), self.strict)
            if key not in results:
                if len(results) >= MAX_CACHED_SCHEMAS:
                    results.clear()
                # The original is kept as well, so that no other schema gets its id.
                results[key] = (self.schema, super().walk(), self.is_strict_compatible)
            _, transformed, self.is_strict_compatible = results[key]
            return transformed

    return merge_profile(profile, ModelProfile(json_schema_transformer=CachingTransformer))


def model_settings(system: str, settings: Settings) -> ModelSettings:
    """The user's settings for models of this provider. Anthropic caches prompts only if the request asks for it."""
    out = ModelSettings()
    thinks = settings.thinking not in (None, "off")
    if settings.temperature is not None and not (thinks and system == "anthropic"):  # Anthropic refuses both together
        out["temperature"] = settings.temperature
    if settings.thinking is not None:
        out["thinking"] = False if settings.thinking == "off" else settings.thinking
    if system == "anthropic":
        out["cache"] = True
    return out


def _base_url(prefix: str, settings: Settings) -> str | None:
    """`baseUrl`, if this provider is the one of the setting `model` or an OpenAI-compatible server.

    The key of any other provider is never sent to that address.
    """
    own, _ = split(settings.model)
    if prefix in OPENAI_PREFIXES and own not in (*OPENAI_PREFIXES, "", "openai-compatible"):
        return None  # an OpenAI key is for OpenAI, unless the address is that of an OpenAI-compatible server
    if prefix in OPENAI_PREFIXES or prefix in ("", "openai-compatible") or prefix == own:
        return _checked(settings.base_url)
    return None


def _checked(address: str | None) -> str | None:
    if address is not None and not re.match(r"https?://[^/?#]", address):
        raise TurnError(
            f"baseUrl is not an address: {redact(address)}.",
            remedy="Set baseUrl to an address such as http://127.0.0.1:11434/v1.",
            kind="configuration",
        )
    return address


def _compatible(
    prefix: str, name: str, base_url: str | None, key: str | None, settings: Settings, kept: _Kept
) -> Model[Any]:
    """A model of a server with an OpenAI-compatible Chat API: a local server, or the server at `baseUrl`."""
    local = LOCAL_BY_PREFIX.get(prefix)
    address = base_url or (local.address if local else None)
    if not name or address is None:
        raise _unknown(f"{prefix}:{name}" if prefix else name)
    from pydantic_ai.models.openai import OpenAIChatModel

    provider: Provider[Any]
    if prefix == "ollama":
        from pydantic_ai.providers.ollama import OllamaProvider

        provider = OllamaProvider(address, key or NO_KEY, http_client=kept.client(settings))
    else:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        provider = OpenAICompatibleProvider(
            local.prefix if local else "openai-compatible",
            base_url=address,
            api_key=key or NO_KEY,
            http_client=kept.client(settings),
        )
    _tune(provider)
    window = known_window(f"{prefix}:{name}") if local else None
    return OpenAIChatModel(
        name,
        provider=provider,
        profile=lambda profile: _with_schema_cache(
            merge_profile(profile, ModelProfile(context_window=window) if window is not None else None)
        ),
        settings=model_settings(provider.name, settings),
    )


def _provider(
    kind: str, base_url: str | None, settings: Settings, secrets: Mapping[str, str], kept: _Kept
) -> Provider[Any]:
    """The library's provider, with those of our key, address and HTTP client that it accepts."""
    try:
        known = infer_provider_class(kind)
    except ValueError:
        raise _unknown(f"{kind}:…") from None
    key = _key(kind, secrets)
    if key is None and base_url is None and (asks := BY_PREFIX.get(SAME_KEY.get(kind, kind))) is not None:
        raise TurnError(
            f"No API key for {asks.label}.",
            remedy=f"Set {asks.variables[0]} in the environment, or run “Pilotfish: Set Key of a Provider”.",
            kind="authentication",
        )
    takes = inspect.signature(known).parameters
    ours = "openai_client" in takes or kind in ("anthropic", "google")
    given: dict[str, Any] = {
        "api_key": key or (NO_KEY if base_url is not None else None),
        "base_url": base_url,
        "http_client": kept.client(settings) if ours else None,
    }
    provider = known(**{name: value for name, value in given.items() if name in takes and value is not None})
    _tune(provider)
    return provider


def _key(kind: str, secrets: Mapping[str, str]) -> str | None:
    key = key_for(kind, secrets)
    if key is not None and not can_be_sent(key):
        asks = BY_PREFIX.get(SAME_KEY.get(kind, kind))
        raise TurnError(
            f"The API key for {asks.label if asks else kind} has invalid characters.",
            remedy="Copy the key again from the provider's page, and set it again.",
            kind="authentication",
        )
    return key


def _tune(provider: Provider[Any]) -> None:
    """Disable the SDK's retries, because the turn retries, and send OpenAI bodies unchanged."""
    client: Any = provider.client
    if hasattr(client, "max_retries"):
        client.max_retries = 0
    if _is_openai(client):
        from pilotfish.engine.model.openai_client import send_bodies_unchanged

        send_bodies_unchanged(client)


def _is_openai(client: object) -> bool:
    """Whether this is a client of OpenAI's SDK, checked without importing the SDK."""
    return any(base.__module__.partition(".")[0] == "openai" for base in type(client).__mro__)


def _cannot_import(model: str, prefix: str, error: ImportError) -> TurnError:
    """The error for a package that is missing, or that is installed in a version that cannot be loaded."""
    cause = _first_cause(error)
    package = _distribution_of(cause.name or prefix)
    if package is None:
        return TurnError(
            f"The model {model} needs a package that is not installed: {(cause.name or prefix).partition('.')[0]}.",
            remedy=f"Install it beside Pilotfish: pip install 'pydantic-ai-slim[{prefix}]'.",
            kind="configuration",
        )
    return TurnError(
        f"The model {model} needs the package {package}, and the installed version"
        f" {importlib.metadata.version(package)} could not be loaded: {cause}.",
        remedy="Install the versions that this Pilotfish was tested with: pip install --force-reinstall pilotfish.",
        kind="configuration",
    )


def _first_cause(error: ImportError) -> ImportError:
    """The original import error: pydantic-ai wraps it in one that asks to install the package, whatever the cause."""
    while isinstance(error.__cause__, ImportError):
        error = error.__cause__
    return error


def _distribution_of(module: str) -> str | None:
    """The installed package that contains a module. Several packages share the namespace `google`."""
    found = importlib.metadata.packages_distributions().get(module.partition(".")[0], [])
    exact = "-".join(module.split(".")[:2])
    return exact if exact in found else next(iter(found), None)


def _not_configured(prefix: str, error: library.UserError) -> TurnError:
    """The error for a missing setting of a provider. The library's message names the environment variable."""
    message = error.message.partition("To try Pydantic AI")[0].strip()
    return TurnError(
        f"The provider {prefix} is not configured.",
        remedy=redact(message),
        kind="authentication" if "KEY" in message or "TOKEN" in message else "configuration",
    )


def _unknown(model: str) -> TurnError:
    if model.startswith("openai-compatible:") and model.partition(":")[2].strip():
        return TurnError(
            f"The model {model} is one of a server whose address is not set.",
            remedy="Set baseUrl (in the environment PILOTFISH_BASE_URL) to it, such as http://127.0.0.1:8000/v1.",
            kind="configuration",
        )
    names = [name for name in known_model_names() if not name.startswith("gateway/")]
    same = sorted((name for name in names if name.partition(":")[2] == model), key=len)
    close = same or get_close_matches(model, names, 1, 0.7)
    hint = f"Did you mean {close[0]}? " if close else ""
    why = "is not known" if ":" in model else "names no provider, and baseUrl is not set"
    return TurnError(
        f"The model {model} {why}.",
        remedy=f"{hint}A model is written provider:name, such as anthropic:claude-sonnet-5-5, or just its name when"
        " baseUrl is the address of an OpenAI-compatible server. The model `demo` needs no key.",
        kind="configuration",
    )


def _keys_of(model: str, settings: Settings) -> Sequence[str]:
    """The names of the secrets that a model and its fallback may use."""
    models = (model, settings.fallback_model) if settings.fallback_model else (model,)
    prefixes = [split(name)[0] or "openai-compatible" for name in models]
    names = [SAME_KEY.get(prefix, prefix) for prefix in prefixes]
    return names if all(name in BY_PREFIX for name in names) else (*BY_PREFIX, *LOCAL_BY_PREFIX)


def _fingerprint(names: Iterable[str], secrets: Mapping[str, str]) -> str:
    """A hash of the keys, including those from the environment, to detect changes without storing them."""
    found = [f"{name}={key_for(name, secrets)}" for name in (*names, *sorted(secrets))]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def _relevant(settings: Settings) -> tuple[object, ...]:
    return (
        settings.model,
        settings.base_url,
        settings.fallback_model,
        settings.thinking,
        settings.temperature,
        settings.stall_timeout,
        *(os.environ.get(f"{prefix.upper()}_BASE_URL") for prefix in (*LOCAL_BY_PREFIX, "openai", "anthropic")),
    )
