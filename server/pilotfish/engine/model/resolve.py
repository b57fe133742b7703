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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from pydantic_ai import exceptions as library
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model, infer_model, known_model_names
from pydantic_ai.profiles import ModelProfile, merge_profile
from pydantic_ai.providers import Provider, infer_provider_class

from pilotfish.config.settings import Endpoint, Settings
from pilotfish.engine.model.catalog.listing import SMALL_WINDOW, Available, available, known_window, lacks_tools
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
    package_for,
    split,
)
from pilotfish.engine.model.editor.editor_models import PREFIX as EDITOR
from pilotfish.engine.model.editor.editor_models import EditorModels, offered_windows
from pilotfish.engine.model.failures.errors import failure, redact
from pilotfish.engine.model.local import weights
from pilotfish.engine.model.own_model import own_class, own_profile
from pilotfish.engine.model.request_settings import compatible_settings, model_settings
from pilotfish.engine.model.wire.http import create_client
from pilotfish.errors import TurnError

if TYPE_CHECKING:
    import httpx2

__all__ = ["Available", "aclose", "available", "broke_off", "check_endpoint", "failure", "resolve"]

DEMO = "demo"
IN_PROCESS = "http://in-process/v1"  # an address that is never connected to
IN_EDITOR = "http://editor/v1"  # another one
NO_KEY = "api-key-not-set"  # sent to servers that need no key, because the SDK requires one
FALLBACK_ON = (library.ModelUnavailableError, library.ModelRateLimitError, library.ModelServerError)


class _Kept:
    """The models and HTTP clients of one event loop."""

    def __init__(self) -> None:
        self.models: dict[tuple[object, ...], Model[Any]] = {}
        self.clients: dict[float, httpx2.AsyncClient] = {}
        self.in_process: dict[tuple[object, ...], httpx2.AsyncClient] = {}
        """clients of models in this process, by file, context window and stall timeout; and of the editor's models"""

    def client(self, settings: Settings) -> httpx2.AsyncClient:
        if settings.stall_timeout not in self.clients:
            self.clients[settings.stall_timeout] = create_client(settings.stall_timeout)
        return self.clients[settings.stall_timeout]

    def client_of_file(self, file: Path, window: int, settings: Settings) -> httpx2.AsyncClient:
        """The client that is answered by the model of a file, in this process."""
        key = (file, window, settings.stall_timeout)
        if key not in self.in_process:
            from pilotfish.engine.model.local.llama import LlamaTransport

            self.in_process[key] = create_client(settings.stall_timeout, LlamaTransport(file, window))
        return self.in_process[key]

    def client_of_editor(self, editor: EditorModels, settings: Settings) -> httpx2.AsyncClient:
        """The client that is answered by the models of the user's editor."""
        key = (editor, settings.stall_timeout)
        if key not in self.in_process:
            from pilotfish.engine.model.editor.transport import EditorTransport

            self.in_process[key] = create_client(settings.stall_timeout, EditorTransport(editor))
        return self.in_process[key]


_KEPT: WeakKeyDictionary[asyncio.AbstractEventLoop, _Kept] = WeakKeyDictionary()


def resolve(
    model: str, settings: Settings, secrets: Mapping[str, str], editor: EditorModels | None = None
) -> Model[Any]:
    """The model for a model string, with the user's settings and with the fallback model, if one is set.

    `editor` has the models of the user's editor, if it serves any.

    Raises TurnError of kind `configuration` or `authentication`, with a remedy. Call it on the event loop that will
    use the model. The same arguments give the same object.
    """
    kept = _KEPT.setdefault(asyncio.get_running_loop(), _Kept())
    windows = offered_windows(editor)
    asked = (
        model,
        editor,
        *(windows.get(name) for name in (model, settings.fallback_model or "")),
        _fingerprint(_keys_of(model, settings), settings.endpoints, secrets),
        known_window(model),
        lacks_tools(model),
        *_relevant(settings),
    )
    if asked not in kept.models:
        kept.models[asked] = _with_fallback(model, settings, secrets, kept, editor)
    return kept.models[asked]


def recognise(model: str, settings: Settings, editor: EditorModels | None = None) -> None:
    """Raises TurnError if a string cannot name a model, independent of keys. Blocking: it imports the provider."""
    if model == DEMO or settings.endpoint(model) is not None:
        return
    prefix, name = split(model)
    if prefix == weights.PREFIX:
        weights.file_of(name)
        return
    if prefix == EDITOR and name.strip():
        _of(editor, model)
        return
    if not name.strip() or (prefix in ("", "openai-compatible") and settings.base_url is None):
        raise _unknown(model)
    if prefix not in ("", "openai-compatible", *LOCAL_BY_PREFIX, *BY_PREFIX):
        try:
            infer_provider_class(prefix)
        except ValueError:
            raise _unknown(model) from None
        except ImportError:
            return  # the provider is known but its package is missing; the turn reports which


def addresses(model: Model[Any]) -> Iterator[str | None]:
    """Where a model and its fallback are asked; None for one in this process."""
    from pydantic_ai.models.fallback import FallbackModel

    for each in model.models if isinstance(model, FallbackModel) else (model,):
        yield None if each.base_url == IN_PROCESS else each.base_url


def check_endpoint(endpoint: Endpoint) -> None:
    """Raises TurnError if an endpoint has the name of a provider, or no address."""
    if endpoint.name in (*BY_PREFIX, *LOCAL_BY_PREFIX, *OPENAI_PREFIXES, *ALIASES, weights.PREFIX, EDITOR, DEMO):
        raise TurnError(
            f"The endpoint {endpoint.name} has the name of a provider.",
            remedy="Give the endpoint another name in the setting `endpoints`.",
            kind="configuration",
        )
    _checked(endpoint.url, "url")


async def aclose() -> None:
    """Close every connection of this event loop's models. They can be resolved again afterwards."""
    kept = _KEPT.pop(asyncio.get_running_loop(), None)
    for client in (*kept.clients.values(), *kept.in_process.values()) if kept else ():
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


def _with_tools(
    model: str, settings: Settings, secrets: Mapping[str, str], kept: _Kept, editor: EditorModels | None
) -> Model[Any]:
    built = _build(model, settings, secrets, kept, editor)
    # With the tool form of its template the small model repeated the prompt; a description of the tools is shorter.
    if not lacks_tools(model) and split(model)[0] != weights.PREFIX:
        return built
    from pilotfish.engine.model.text_tools import TextToolsModel

    return TextToolsModel(built)


def _with_fallback(
    model: str, settings: Settings, secrets: Mapping[str, str], kept: _Kept, editor: EditorModels | None
) -> Model[Any]:
    first = _with_tools(model, settings, secrets, kept, editor)
    if settings.fallback_model is None or model in (settings.fallback_model, DEMO):
        return first
    from pydantic_ai.models.fallback import FallbackModel

    second = _with_tools(settings.fallback_model, settings, secrets, kept, editor)
    return FallbackModel(first, second, fallback_on=FALLBACK_ON)


def _build(
    model: str, settings: Settings, secrets: Mapping[str, str], kept: _Kept, editor: EditorModels | None
) -> Model[Any]:
    if model == DEMO:
        from pilotfish.engine.model.guide.demo import DemoModel

        return DemoModel()
    prefix, name = split(model)
    if prefix == weights.PREFIX:
        return _in_process(name, settings, kept)
    if prefix == EDITOR and name.strip():
        return _in_editor(name, settings, kept, _of(editor, model))
    base_url = _base_url(prefix, settings)
    try:
        if (endpoint := settings.endpoint(model)) is not None:
            return _at_endpoint(endpoint, model, settings, secrets, kept)
        if (asks := BY_PREFIX.get(prefix)) is not None and asks.address is not None:
            key = _key_or_error(prefix, base_url, secrets)
            return _compatible(prefix, name, base_url or asks.address, key, settings, kept)
        if prefix in LOCAL_BY_PREFIX or not prefix or prefix == "openai-compatible":
            key = _key(prefix or "openai-compatible", secrets)
            return _compatible(prefix, name, base_url, key, settings, kept)
        return _inferred(f"{prefix}:{name}", base_url, settings, secrets, kept)
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
        return _checked(settings.base_url)
    return None


def _checked(address: str | None, setting: str = "baseUrl") -> str | None:
    if address is not None and not re.match(r"https?://[^/?#]", address):
        raise TurnError(
            f"{setting} is not an address: {redact(address)}.",
            remedy=f"Set {setting} to an address such as http://127.0.0.1:11434/v1.",
            kind="configuration",
        )
    return address


def _in_process(name: str, settings: Settings, kept: _Kept) -> Model[Any]:
    """A model that llama.cpp runs in this process."""
    file, known = weights.ready_file(name), weights.BY_NAME.get(name)
    window = settings.context_window or (known.window if known else SMALL_WINDOW)
    client = kept.client_of_file(file, window, settings)
    return _compatible(weights.PREFIX, name, IN_PROCESS, None, settings, kept, client=client, window=window)


def _in_editor(name: str, settings: Settings, kept: _Kept, editor: EditorModels) -> Model[Any]:
    """A model of the user's editor. Whether there is such a model the editor says when it is asked."""
    window = settings.context_window or offered_windows(editor).get(f"{EDITOR}:{name}")
    client = kept.client_of_editor(editor, settings)
    return _compatible(EDITOR, name, IN_EDITOR, None, settings, kept, client=client, window=window)


def _of(editor: EditorModels | None, model: str) -> EditorModels:
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
    kept: _Kept,
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
        raise _unknown(f"{prefix}:{name}" if prefix else name)
    from pydantic_ai.models.openai import OpenAIChatModel

    provider: Provider[Any]
    if prefix == "ollama":
        from pydantic_ai.providers.ollama import OllamaProvider

        provider = OllamaProvider(address, key or NO_KEY, http_client=client or kept.client(settings))
    else:
        from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

        provider = OpenAICompatibleProvider(
            prefix or "openai-compatible",
            base_url=address,
            api_key=key or NO_KEY,
            http_client=client or kept.client(settings),
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
    endpoint: Endpoint, model: str, settings: Settings, secrets: Mapping[str, str], kept: _Kept
) -> Model[Any]:
    """A model of one of the user's endpoints."""
    check_endpoint(endpoint)
    name, address, key = model.partition(":")[2], endpoint.url, endpoint_key(endpoint, secrets)
    if key is not None and not can_be_sent(key):
        raise _invalid_key(endpoint.name)
    if endpoint.api == "chat":
        return _compatible(endpoint.name, name, address, key, settings, kept)
    prefix = {"responses": "openai", "anthropic": "anthropic", "google": "google"}[endpoint.api]
    return _inferred(f"{prefix}:{name}", address, settings, {prefix: key or NO_KEY}, kept)


def _provider(
    kind: str, base_url: str | None, settings: Settings, secrets: Mapping[str, str], kept: _Kept
) -> Provider[Any]:
    """The library's provider, with those of our key, address and HTTP client that it accepts."""
    try:
        known = infer_provider_class(kind)
    except ValueError:
        raise _unknown(f"{kind}:…") from None
    key = _key_or_error(kind, base_url, secrets)
    takes = inspect.signature(known).parameters
    given: dict[str, Any] = {
        "api_key": key or (NO_KEY if base_url is not None else None),
        "base_url": base_url,
        "http_client": kept.client(settings) if "openai_client" in takes or kind in ("anthropic", "google") else None,
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
        raise _invalid_key(asks.label if asks else kind)
    return key


def _invalid_key(label: str) -> TurnError:
    return TurnError(
        f"The API key for {label} has invalid characters.",
        remedy="Copy the key again from the provider's page, and set it again.",
        kind="authentication",
    )


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


def _cannot_import(model: str, prefix: str, error: ImportError) -> TurnError:
    """The error for a package that is missing, or that is installed in a version that cannot be loaded."""
    cause = _first_cause(error)
    package = _distribution_of(cause.name or prefix)
    if package is None:
        return TurnError(
            f"The model {model} needs a package that is not installed: {_package_name(cause.name or prefix)}.",
            remedy=f"Install it beside Pilotfish: pip install '{package_for(prefix)}'.",
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
    name = _package_name(module)
    return name if name in found else next(iter(found), None) if name != "google-genai" else None


def _package_name(module: str) -> str:
    return "google-genai" if module.partition(".")[0] == "google" else module.partition(".")[0]


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


def _fingerprint(names: Iterable[str], endpoints: Iterable[Endpoint], secrets: Mapping[str, str]) -> str:
    """A hash of the keys, including those from the environment, to detect changes without storing them."""
    found = [f"{name}={key_for(name, secrets)}" for name in (*names, *sorted(secrets))]
    found += [f"{endpoint.name}={endpoint_key(endpoint, secrets)}" for endpoint in endpoints]
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


def _relevant(settings: Settings) -> tuple[object, ...]:
    return (
        settings.model,
        settings.base_url,
        settings.endpoints,
        settings.fallback_model,
        settings.thinking,
        settings.temperature,
        settings.stall_timeout,
        settings.context_window,
        *(os.environ.get(f"{prefix.upper()}_BASE_URL") for prefix in (*LOCAL_BY_PREFIX, "openai", "anthropic")),
    )
