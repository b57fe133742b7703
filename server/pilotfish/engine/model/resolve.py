"""Gives the model for a model string: builds it once for the same settings and keys, and closes its connections.

Keys are held in memory only and never appear in a log, a repr or an error.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from pydantic_ai import exceptions as library
from pydantic_ai.messages import ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.providers import infer_provider_class

from pilotfish.config.settings import Endpoint, Settings
from pilotfish.engine.model.build import DEMO, IN_PROCESS, build, check_endpoint, of_editor
from pilotfish.engine.model.catalog.listing import Available, available, known_window, lacks_tools
from pilotfish.engine.model.catalog.providers import (
    BY_PREFIX,
    LOCAL_BY_PREFIX,
    SAME_KEY,
    endpoint_key,
    key_for,
    split,
)
from pilotfish.engine.model.editor.editor_models import PREFIX as EDITOR
from pilotfish.engine.model.editor.editor_models import EditorModels, offered_windows
from pilotfish.engine.model.failures.errors import failure
from pilotfish.engine.model.local import weights
from pilotfish.engine.model.model_clients import ModelClients
from pilotfish.engine.model.model_errors import unknown

__all__ = ["Available", "aclose", "available", "broke_off", "check_endpoint", "failure", "resolve"]

FALLBACK_ON = (library.ModelUnavailableError, library.ModelRateLimitError, library.ModelServerError)
_CLIENTS: WeakKeyDictionary[asyncio.AbstractEventLoop, ModelClients] = WeakKeyDictionary()


def resolve(
    model: str, settings: Settings, secrets: Mapping[str, str], editor: EditorModels | None = None
) -> Model[Any]:
    """The model for a model string, with the user's settings and with the fallback model, if one is set.

    `editor` has the models of the user's editor, if it serves any.

    Raises TurnError of kind `configuration` or `authentication`, with a remedy. Call it on the event loop that will
    use the model. The same arguments give the same object.
    """
    clients = _CLIENTS.setdefault(asyncio.get_running_loop(), ModelClients())
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
    if asked not in clients.models:
        clients.models[asked] = _with_fallback(model, settings, secrets, clients, editor)
    return clients.models[asked]


def recognise(model: str, settings: Settings, editor: EditorModels | None = None) -> None:
    """Raises TurnError if a string cannot name a model, independent of keys. Blocking: it imports the provider."""
    if model == DEMO or settings.endpoint(model) is not None:
        return
    prefix, name = split(model)
    if prefix == weights.PREFIX:
        weights.file_of(name)
        return
    if prefix == EDITOR and name.strip():
        of_editor(editor, model)
        return
    if not name.strip() or (prefix in ("", "openai-compatible") and settings.base_url is None):
        raise unknown(model)
    if prefix not in ("", "openai-compatible", *LOCAL_BY_PREFIX, *BY_PREFIX):
        try:
            infer_provider_class(prefix)
        except ValueError:
            raise unknown(model) from None
        except ImportError:
            return  # the provider is known but its package is missing; the turn reports which


def addresses(model: Model[Any]) -> Iterator[str | None]:
    """Where a model and its fallback are asked; None for one in this process."""
    from pydantic_ai.models.fallback import FallbackModel

    for each in model.models if isinstance(model, FallbackModel) else (model,):
        yield None if each.base_url == IN_PROCESS else each.base_url


async def aclose() -> None:
    """Close every connection of this event loop's models. They can be resolved again afterwards."""
    clients = _CLIENTS.pop(asyncio.get_running_loop(), None)
    if clients is not None:
        await clients.aclose()


def broke_off(response: ModelResponse) -> bool:
    """Whether the response is incomplete: its stream ended without an error and without a finish reason.

    A Chat stream that is cut off never gets here: `wire/http.py` raises for it.
    """
    if response.provider_name is None:
        return False  # a model in this process
    if (raw := (response.provider_details or {}).get("finish_reason")) and raw not in _NOT_YET:
        return False  # the provider's own finish reason, which pydantic-ai may not know
    return response.finish_reason is None and response.state != "interrupted"


_NOT_YET = ("in_progress", "queued")  # statuses of an unfinished answer in the Responses API


def _with_fallback(
    model: str, settings: Settings, secrets: Mapping[str, str], clients: ModelClients, editor: EditorModels | None
) -> Model[Any]:
    first = build(model, settings, secrets, clients, editor)
    if settings.fallback_model is None or model in (settings.fallback_model, DEMO):
        return first
    from pydantic_ai.models.fallback import FallbackModel

    second = build(settings.fallback_model, settings, secrets, clients, editor)
    return FallbackModel(first, second, fallback_on=FALLBACK_ON)


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
