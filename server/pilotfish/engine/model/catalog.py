"""Lists the models a user can choose: the demo, servers on this machine, and providers with or without a key."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlsplit

import httpx2
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ModelInfo, TieredPrices
from pydantic_ai.models import known_model_names

from pilotfish.config.settings import Settings
from pilotfish.engine.model.http import certificates
from pilotfish.engine.model.model_info import NOTHING, THE_ONE, told_beside, told_in
from pilotfish.engine.model.providers import (
    BY_PREFIX,
    KNOWN,
    LOCAL,
    OPENAI_PREFIXES,
    SAME_KEY,
    KnownProvider,
    LocalServer,
    can_be_sent,
    key_for,
    split,
)

PROBE_SECONDS = 0.4  # a local server that answers later is not listed
REMOTE_SECONDS = 3.0
KEEP_SECONDS = 20.0  # how long the list of local models is cached
MAX_PER_PROVIDER = 12
_DATED = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2}|\d{2}-\d{4}|\d{4})$")
_NO_AGENT = re.compile(r"audio|image|search|research|computer-use|embed|realtime|tts|gpt-3|gpt-4(?![.o])|-chat")
_VERSION = re.compile(r"\d+(?:[.-]\d+)?")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens."""

    input: float
    output: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Available:
    """A model in the list. `reason` says why it is not available."""

    id: str
    label: str
    provider: str
    available: bool
    reason: str | None = None
    context_window: int | None = None
    price: Price | None = None
    images: bool | None = None
    """whether the model accepts images; None if unknown"""


DEMO = Available(
    id="demo",
    label="Demo (scripted, no key needed)",
    provider="demo",
    available=True,
    context_window=128_000,
    images=False,
)


@dataclass(frozen=True, slots=True)
class _Found:
    at: float
    models: tuple[Available, ...]


_FOUND: dict[tuple[str, ...], _Found] = {}
_WINDOWS: dict[str, int] = {}


async def available(settings: Settings, secrets: Mapping[str, str]) -> list[Available]:
    """The models to list: the demo, local models, models of providers with a key, and of providers without a key."""
    local = await _local(settings, secrets)
    hosted = [*_hosted(secrets)]
    hosted.sort(key=lambda model: not model.available)
    listed = [DEMO, *local, *hosted]
    return [*_chosen(settings, secrets, {model.id for model in listed}), *listed]


def known_window(model_id: str) -> int | None:
    """The context window of a local model, as its server last reported it."""
    return _WINDOWS.get(model_id)


def forget() -> None:
    """Clear the cached list of local models."""
    _FOUND.clear()


def _chosen(settings: Settings, secrets: Mapping[str, str], listed: set[str]) -> Iterator[Available]:
    """The configured model, if it is not listed."""
    if settings.model in listed:
        return
    prefix = split(settings.model)[0] or "openai-compatible"
    needs = BY_PREFIX.get(SAME_KEY.get(prefix, prefix))
    why = _missing(needs, key_for(prefix, secrets), needed=settings.base_url is None)
    yield Available(
        id=settings.model,
        label=settings.model.partition(":")[2] or settings.model,
        provider=prefix,
        available=why is None,
        reason=why,
        context_window=settings.context_window or _window(settings.model),
        price=None if settings.base_url else _price(settings.model),
    )


def _hosted(secrets: Mapping[str, str]) -> Iterator[Available]:
    names = known_model_names()
    for known in KNOWN:
        why = _missing(known, key_for(known.prefix, secrets), needed=True)
        mine = [name for name in names if name.startswith(f"{known.prefix}:")]
        kept = [name for name in mine if not _DATED.search(name) and not _NO_AGENT.search(name)]
        for name in sorted(kept, key=_newest)[: MAX_PER_PROVIDER if why is None else 3]:
            yield Available(
                id=name,
                label=name.partition(":")[2],
                provider=known.label,
                available=why is None,
                reason=why,
                context_window=_window(name) if why is None else None,
                price=_price(name) if why is None else None,
            )


def _missing(known: KnownProvider | None, key: str | None, *, needed: bool) -> str | None:
    """Why a provider's models are not available: its key is missing or invalid. None if they are available."""
    if key is not None:
        return None if can_be_sent(key) else "The API key has invalid characters. Set it again."
    if known is None or not needed:
        return None
    return f"No API key: set {known.variables[0]}, or run “Pilotfish: Set Key of a Provider”."


def _newest(name: str) -> tuple[float, str]:
    """A sort key that puts higher version numbers in model names first."""
    found = _VERSION.search(name)
    return (-float(found[0].replace("-", ".")) if found else 0.0, name)


def _window(name: str) -> int | None:
    known = _model_info(name)
    return known.context_window if known else None


def _price(name: str) -> Price | None:
    """The base price. Some providers charge more for long prompts."""
    known = _model_info(name)
    if known is None:
        return None
    prices = known.get_prices(datetime.now(UTC))
    each = [
        price.base if isinstance(price, TieredPrices) else price for price in (prices.input_mtok, prices.output_mtok)
    ]
    return None if each[0] is None or each[1] is None else Price(float(each[0]), float(each[1]))


def _model_info(name: str) -> ModelInfo | None:
    """The genai-prices entry of a model. It needs no SDK of the provider."""
    prefix, _, model = name.rpartition(":")
    try:
        _, known = get_snapshot().find_provider_model(
            model, provider=None, provider_id=prefix.removesuffix("-chat") or None, provider_api_url=None
        )
    except LookupError:
        return None
    return known


async def _local(settings: Settings, secrets: Mapping[str, str]) -> tuple[Available, ...]:
    """Models of the local servers and of the server at `baseUrl`, queried in parallel and cached for `KEEP_SECONDS`."""
    servers = [(server, server.address) for server in LOCAL]
    asked = (*(address for _, address in servers), settings.base_url or "", settings.model)
    found = _FOUND.get(asked)
    if found is None or time.monotonic() - found.at > KEEP_SECONDS:
        # Local servers use plain HTTP: loading the root certificates would take longer than the requests.
        async with httpx2.AsyncClient(timeout=PROBE_SECONDS, trust_env=False, verify=False) as client:
            asking = [_ask(client, server, address) for server, address in servers]
            answers = await asyncio.gather(_ask_base_url(settings, secrets), *asking)
        _FOUND.clear()
        found = _FOUND[asked] = _Found(time.monotonic(), tuple(model for answer in answers for model in answer))
    return found.models


async def _ask_base_url(settings: Settings, secrets: Mapping[str, str]) -> list[Available]:
    if settings.base_url is None:
        return []
    prefix, _ = split(settings.model)
    if prefix not in ("", "openai-compatible", *OPENAI_PREFIXES):
        return []
    key = key_for(prefix or "openai-compatible", secrets)
    if key is not None and not can_be_sent(key):
        return []
    headers = {"authorization": f"Bearer {key}"} if key else {}
    server = LocalServer(prefix, urlsplit(settings.base_url).hostname or "baseUrl", settings.base_url)
    async with httpx2.AsyncClient(timeout=REMOTE_SECONDS, headers=headers, verify=certificates()) as client:
        return await _ask(client, server, settings.base_url)


async def _ask(client: httpx2.AsyncClient, server: LocalServer, address: str) -> list[Available]:
    """The models of one server; empty if it does not answer or does not serve this API."""
    try:
        answer = await client.get(f"{address.rstrip('/')}/models")
        data = cast("dict[str, Any]", answer.json()).get("data")
    except (httpx2.HTTPError, ValueError, AttributeError):
        return []
    if answer.status_code != 200 or not isinstance(data, list):
        return []
    entries = [cast("dict[str, Any]", entry) for entry in cast("list[Any]", data)[:50] if isinstance(entry, dict)]
    named = {name: entry for entry in entries if (name := str(entry.get("id", ""))) and "embed" not in name.lower()}
    details = await told_beside(client, server, address, tuple(named))
    out: list[Available] = []
    for name, entry in named.items():
        info = details.get(name, NOTHING).or_else(told_in(entry)).or_else(details.get(THE_ONE, NOTHING))
        model_id = f"{server.prefix}:{name}" if server.prefix else name
        if info.context_window is not None:
            _WINDOWS[model_id] = info.context_window
        out.append(
            Available(
                id=model_id,
                label=f"{name} ({server.label})" if server.prefix else name,
                provider=server.label,
                available=True,
                context_window=info.context_window,
                images=info.images,
            )
        )
    return out
