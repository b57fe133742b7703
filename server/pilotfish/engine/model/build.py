"""Builds the pydantic-ai model for a model string: its class, provider, key, address and HTTP client.

Imports only the SDK of the requested provider.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic_ai import exceptions as library
from pydantic_ai.models import Model, infer_model
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.providers import Provider, infer_provider_class

from pilotfish.config.settings import Endpoint, Settings
from pilotfish.engine.model.catalog.listing import SMALL_WINDOW, known_window, lacks_tools
from pilotfish.engine.model.catalog.providers import (
    ALIASES,
    BY_PREFIX,
    LOCAL_BY_PREFIX,
    OPENAI_PREFIXES,
    SAME_KEY,
    can_be_sent,
    endpoint_key,
    how_to_set_key,
    key_for,
    split,
)
from pilotfish.engine.model.editor.editor_models import PREFIX as EDITOR
from pilotfish.engine.model.editor.editor_models import EditorModels, offered_windows
from pilotfish.engine.model.failures.errors import redact
from pilotfish.engine.model.local import weights
from pilotfish.engine.model.model_clients import ModelClients
from pilotfish.engine.model.model_errors import cannot_import, invalid_key, not_configured, unknown
from pilotfish.engine.model.own_model import own_class, own_profile
from pilotfish.engine.model.request_settings import compatible_settings, model_settings
from pilotfish.errors import TurnError

if TYPE_CHECKING:
    import httpx2

DEMO = "demo"
IN_PROCESS = "http://in-process/v1"  # an address that is never connected to
IN_EDITOR = "http://editor/v1"  # another one
OWN_CLIENT = ("anthropic", "google")  # other providers that take an HTTP client of ours
NO_KEY = "api-key-not-set"  # sent to servers that need no key, because the SDK requires one


def build(
    model: str, settings: Settings, secrets: Mapping[str, str], clients: ModelClients, editor: EditorModels | None
) -> Model[Any]:
    built = _build(model, settings, secrets, clients, editor)
    # With the tool form of its template the small model repeated the prompt; a description of the tools is shorter.
    if not lacks_tools(model) and split(model)[0] != weights.PREFIX:
        return built
    from pilotfish.engine.model.text_tools import TextToolsModel

    return TextToolsModel(built)


def check_endpoint(endpoint: Endpoint) -> None:
    """Raises TurnError if an endpoint has the name of a provider, or no address."""
    if endpoint.name in (*BY_PREFIX, *LOCAL_BY_PREFIX, *OPENAI_PREFIXES, *ALIASES, weights.PREFIX, EDITOR, DEMO):
        raise TurnError(
            f"The endpoint {endpoint.name} has the name of a provider.",
            remedy="Give the endpoint another name in the setting `endpoints`.",
            kind="configuration",
        )
    checked_address(endpoint.url, "url")


def _build(
    model: str, settings: Settings, secrets: Mapping[str, str], clients: ModelClients, editor: EditorModels | None
) -> Model[Any]:
    if model == DEMO:
        from pilotfish.engine.model.guide.demo import DemoModel

        return DemoModel()
    prefix, name = split(model)
    if prefix == weights.PREFIX:
        return _in_process(name, settings, clients)
    if prefix == EDITOR and name.strip():
        return _in_editor(name, settings, clients, of_editor(editor, model))
    base_url = _base_url(prefix, settings)
    try:
        if (endpoint := settings.endpoint(model)) is not None:
            return _at_endpoint(endpoint, model, settings, secrets, clients)
        if (asks := BY_PREFIX.get(prefix)) is not None and asks.address is not None:
            key = _key_or_error(prefix, base_url, secrets)
            return _compatible(prefix, name, base_url or asks.address, key, settings, clients)
        if prefix in LOCAL_BY_PREFIX or not prefix or prefix == "openai-compatible":
            key = _key(prefix or "openai-compatible", secrets)
            return _compatible(prefix, name, base_url, key, settings, clients)
        return _inferred(f"{prefix}:{name}", base_url, settings, secrets, clients)
    except TurnError:
        raise
    except ImportError as error:
        raise cannot_import(model, prefix, error) from error
    except library.UserError as error:
        raise not_configured(prefix, error) from error


def _inferred(
    model: str, base_url: str | None, settings: Settings, secrets: Mapping[str, str], clients: ModelClients
) -> Model[Any]:
    """The model class that the library chooses for a model string, with our provider and the user's settings."""
    providers: list[Provider[Any]] = []

    def provide(kind: str) -> Provider[Any]:
        providers.append(_provider(kind, base_url, settings, secrets, clients))
        return providers[-1]

    inferred = infer_model(model, provide)
    _tune(providers[-1], type(inferred))
    # `infer_model` takes no settings, so the chosen class is instantiated again with them.
    return own_class(type(inferred))(
        inferred.model_name,
        provider=providers[-1],
        profile=own_profile,
        settings=model_settings(inferred.system, inferred.profile, settings, inferred.model_name),
    )


def _base_url(prefix: str, settings: Settings) -> str | None:
    """`baseUrl`, if this provider is the one of the setting `model` or an OpenAI-compatible server.

    The key of any other provider is never sent to that address.
    """
    own, _ = split(settings.model)
    if prefix in OPENAI_PREFIXES and own not in (*OPENAI_PREFIXES, "", "openai-compatible"):
        return None  # an OpenAI key is for OpenAI, unless the address is that of an OpenAI-compatible server
    if prefix in OPENAI_PREFIXES or prefix in ("", "openai-compatible") or prefix == own:
        return checked_address(settings.base_url)
    return None


def checked_address(address: str | None, setting: str = "baseUrl") -> str | None:
    if address is not None and not re.match(r"https?://[^/?#]", address):
        raise TurnError(
            f"{setting} is not an address: {redact(address)}.",
            remedy=f"Set {setting} to an address such as http://127.0.0.1:11434/v1.",
            kind="configuration",
        )
    return address


def _in_process(name: str, settings: Settings, clients: ModelClients) -> Model[Any]:
    """A model that llama.cpp runs in this process."""
    file, known = weights.ready_file(name), weights.BY_NAME.get(name)
    window = settings.context_window or (known.window if known else SMALL_WINDOW)
    client = clients.client_of_file(file, window, settings)
    return _compatible(weights.PREFIX, name, IN_PROCESS, None, settings, clients, client=client, window=window)


def _in_editor(name: str, settings: Settings, clients: ModelClients, editor: EditorModels) -> Model[Any]:
    """A model of the user's editor. Whether there is such a model the editor says when it is asked."""
    window = settings.context_window or offered_windows(editor).get(f"{EDITOR}:{name}")
    client = clients.client_of_editor(editor, settings)
    return _compatible(EDITOR, name, IN_EDITOR, None, settings, clients, client=client, window=window)


def of_editor(editor: EditorModels | None, model: str) -> EditorModels:
    if editor is None:
        raise TurnError(
            f"The model {model} is one of VS Code, and this client has no models of its own.",
            remedy="Use it in VS Code, or choose another model.",
            kind="configuration",
        )
    return editor


def _compatible(
    prefix: str,
    name: str,
    base_url: str | None,
    key: str | None,
    settings: Settings,
    clients: ModelClients,
    *,
    client: httpx2.AsyncClient | None = None,
    window: int | None = None,
) -> Model[Any]:
    """A model of a server with an OpenAI-compatible Chat API: a local server, a known one, or the one at `baseUrl`.

    `client` and `window` are given for a model in this process or in the editor.
    """
    local = LOCAL_BY_PREFIX.get(prefix)
    address = base_url or (local.address if local else None)
    if not name or address is None:
        raise unknown(f"{prefix}:{name}" if prefix else name)
    from pydantic_ai.models.openai import OpenAIChatModel

    provider: Provider[Any]
    if prefix == "ollama":
        from pydantic_ai.providers.ollama import OllamaProvider

        provider = OllamaProvider(address, key or NO_KEY, http_client=client or clients.client(settings))
    else:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        provider = OpenAICompatibleProvider(
            prefix or "openai-compatible",
            base_url=address,
            api_key=key or NO_KEY,
            http_client=client or clients.client(settings),
            profile=_family_profile(prefix),
        )
    _tune(provider, OpenAIChatModel)
    if local is not None:
        window = known_window(f"{prefix}:{name}")
    known = ModelProfile(context_window=window) if window is not None else None
    return own_class(OpenAIChatModel)(
        name,
        provider=provider,
        profile=partial(own_profile, known=known),
        settings=compatible_settings(prefix, name, provider.model_profile(name) or {}, settings),
    )


def _family_profile(prefix: str) -> Callable[[str], ModelProfile | None] | None:
    """What the library knows about the models of a provider that is reached without its SDK."""
    match prefix:
        case "groq":
            from pydantic_ai.profiles.groq import groq_model_profile as family
        case "mistral":
            from pydantic_ai.profiles.mistral import mistral_model_profile as family
        case "xai":
            from pydantic_ai.profiles.grok import grok_model_profile as family
        case _:
            return None
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    return lambda name: merge_profile(OpenAICompatibleProvider.model_profile(name), family(name))


def _at_endpoint(
    endpoint: Endpoint, model: str, settings: Settings, secrets: Mapping[str, str], clients: ModelClients
) -> Model[Any]:
    """A model of one of the user's endpoints."""
    check_endpoint(endpoint)
    name, address, key = model.partition(":")[2], endpoint.url, endpoint_key(endpoint, secrets)
    if key is not None and not can_be_sent(key):
        raise invalid_key(endpoint.name)
    if endpoint.api == "chat":
        return _compatible(endpoint.name, name, address, key, settings, clients)
    prefix = {"responses": "openai", "anthropic": "anthropic", "google": "google"}[endpoint.api]
    return _inferred(f"{prefix}:{name}", address, settings, {prefix: key or NO_KEY}, clients)


def _provider(
    kind: str, base_url: str | None, settings: Settings, secrets: Mapping[str, str], clients: ModelClients
) -> Provider[Any]:
    """The library's provider, with those of our key, address and HTTP client that it accepts."""
    try:
        known = infer_provider_class(kind)
    except ValueError:
        raise unknown(f"{kind}:…") from None
    key = _key_or_error(kind, base_url, secrets)
    takes = inspect.signature(known).parameters
    given: dict[str, Any] = {
        "api_key": key or (NO_KEY if base_url is not None else None),
        "base_url": base_url,
        "http_client": clients.client(settings)
        if "openai_client" in takes or kind in ("anthropic", "google")
        else None,
    }
    if base_url is not None and "base_url" not in takes:
        if "openai_client" not in takes:
            raise TurnError(
                f"The provider {kind} cannot be used with another address, and baseUrl is set.",
                remedy="Remove baseUrl, or name the model as openai-compatible:… if the address serves OpenAI's API.",
                kind="configuration",
            )
        from openai import AsyncOpenAI

        given = {"openai_client": AsyncOpenAI(**given)}
    return known(**{name: value for name, value in given.items() if name in takes and value is not None})


def _key_or_error(kind: str, base_url: str | None, secrets: Mapping[str, str]) -> str | None:
    """The key of a provider. Raises TurnError if it needs one, which a server at another address may not."""
    key = _key(kind, secrets)
    if key is None and base_url is None and (asks := BY_PREFIX.get(SAME_KEY.get(kind, kind))) is not None:
        raise TurnError(
            f"No API key for {asks.label}.",
            remedy=how_to_set_key(asks),
            kind="authentication",
        )
    return key


def _key(kind: str, secrets: Mapping[str, str]) -> str | None:
    key = key_for(kind, secrets)
    if key is not None and not can_be_sent(key):
        asks = BY_PREFIX.get(SAME_KEY.get(kind, kind))
        raise invalid_key(asks.label if asks else kind)
    return key


def _tune(provider: Provider[Any], model_class: type[Model[Any]]) -> None:
    """Disable the SDK's retries, because the turn retries, and send OpenAI bodies unchanged."""
    client: Any = provider.client
    if hasattr(client, "max_retries"):
        client.max_retries = 0
    if not _is_openai(client):
        return
    from pydantic_ai.models.openai import OpenAIResponsesModel

    if issubclass(model_class, OpenAIResponsesModel):
        from pilotfish.engine.model.wire.openai_responses import send_responses_unchanged

        send_responses_unchanged(client)
    else:
        from pilotfish.engine.model.wire.openai_client import send_chat_unchanged

        send_chat_unchanged(client, own_api=provider.name == "openai")


def _is_openai(client: object) -> bool:
    """Whether this is a client of OpenAI's SDK, checked without importing the SDK."""
    return any(base.__module__.partition(".")[0] == "openai" for base in type(client).__mro__)
