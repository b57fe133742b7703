"""Lists the models a user can choose: the demo, servers on this machine, and providers with or without a key."""

from __future__ import annotations

import asyncio
import logging
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

from pilotfish.config.settings import Endpoint, Settings
from pilotfish.engine.model.catalog.model_info import NOTHING, THE_ONE, listed_info, loaded_windows, server_info
from pilotfish.engine.model.catalog.providers import (
    BY_PREFIX,
    KNOWN,
    LOCAL,
    LOCAL_BY_PREFIX,
    LOOPBACK,
    OPENAI_PREFIXES,
    SAME_KEY,
    KnownProvider,
    LocalServer,
    can_be_sent,
    endpoint_key,
    how_to_set_key,
    key_for,
    split,
)
from pilotfish.engine.model.editor.editor_models import LABEL as EDITOR_LABEL
from pilotfish.engine.model.editor.editor_models import PREFIX as EDITOR
from pilotfish.engine.model.editor.editor_models import EditorModels
from pilotfish.engine.model.failures.error_body import message_in, quoted
from pilotfish.engine.model.failures.errors import failure
from pilotfish.engine.model.local import weights
from pilotfish.engine.model.wire.http import USER_AGENT, certificates
from pilotfish.errors import TurnError

log = logging.getLogger(__name__)

PROBE_SECONDS = 0.4  # a local server that answers later is not listed
REMOTE_SECONDS = 3.0
KEEP_SECONDS = 20.0  # how long the list of local models is cached
MAX_PER_PROVIDER = 12
SMALL_WINDOW = 16_384  # tokens; instructions, tools and one file fill less than this
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
    tools: bool | None = None
    """whether the model can call tools; None if unknown"""
    warning: str | None = None
    """why the model may not do the work of an agent, although it is available"""
    local: bool = False
    """whether the model runs on this machine"""
    download_bytes: int | None = None
    """what has to be downloaded before the model can be used"""
    missing_package: bool | None = None
    """True if the package that runs the model in this process is not installed"""


DEMO = Available(
    id="demo",
    label="Guide (scripted, no model connected)",
    provider="demo",
    available=True,
    context_window=128_000,
    images=False,
    local=True,
)


@dataclass(frozen=True, slots=True)
class _Found:
    at: float
    models: tuple[Available, ...]


_FOUND: dict[tuple[str, ...], _Found] = {}
_WINDOWS: dict[str, int] = {}
_WITHOUT_TOOLS: set[str] = set()
_TAKES_IMAGES = re.compile(
    r"^(?:anthropic|google)[^:]*:|claude-(?!2|instant)|gemini|gpt-(?:4o|4\.1|[5-9])|\bo[34]\b|-vl\b|pixtral",
    re.IGNORECASE,
)
"""names of models that take images"""


async def available(
    settings: Settings, secrets: Mapping[str, str], editor: EditorModels | None = None
) -> list[Available]:
    """The models to list: the demo, those of the editor, local models, models of providers with a key, and of providers
    without a key."""
    local = await _local(settings, secrets)
    hosted = [*_hosted(secrets)]
    hosted.sort(key=lambda model: not model.available)
    listed = [DEMO, *_in_editor(editor), *_in_process(), *local, *hosted]
    return [*_chosen(settings, secrets, {model.id for model in listed}), *listed]


def known_window(model_id: str) -> int | None:
    """The context window of a local model, as its server last reported it."""
    return _WINDOWS.get(model_id)


def lacks_tools(model_id: str) -> bool:
    """Whether the model is known not to be able to call tools."""
    return model_id in _WITHOUT_TOOLS


def note_lacking_tools(model_id: str) -> bool:
    """Remember that a server refused the tools of this model. Returns False if that was known."""
    if lacks_tools(model_id):
        return False
    _WITHOUT_TOOLS.add(model_id)
    return True


def takes_images(model_id: str, editor: EditorModels | None = None) -> bool:
    """Whether the model is known to take images: its server or editor says so, or its name does. A model that takes
    none and is sent one refuses every later request of the conversation, so an unknown one counts as taking none."""
    found = [*_in_editor(editor), *(model for found in _FOUND.values() for model in found.models)]
    known = (model.images for model in found if model.id == model_id)
    said = next((images for images in known if images is not None), None)
    return said if said is not None else _TAKES_IMAGES.search(model_id) is not None


async def small_window(model: str) -> int | None:
    """The context window with which Ollama has loaded a model, if it is too small for an agent. None if it is not.

    Ollama cuts off the beginning of a conversation that does not fit, without an error.
    """
    prefix, name = split(model)
    server = LOCAL_BY_PREFIX.get(prefix)
    if prefix != "ollama" or server is None:
        return None
    async with httpx2.AsyncClient(timeout=PROBE_SECONDS, trust_env=False, verify=False) as client:
        windows = await loaded_windows(client, server.address.rstrip("/").removesuffix("/v1"))
    window = windows.get(name) or windows.get(f"{name}:latest")
    if window is not None:
        _WINDOWS[model] = window
    return window if window is not None and window < SMALL_WINDOW else None


async def endpoint_models(endpoint: Endpoint, key: str | None) -> list[Available]:
    """The models that an endpoint lists; empty if it has no list. Raises TurnError if it cannot be reached or does not
    accept the key."""
    path, header = _LISTS[endpoint.api]
    headers = {"user-agent": USER_AGENT, **({header: key} if key and can_be_sent(key) else {})}
    if header == "authorization" and header in headers:
        headers[header] = f"Bearer {key}"
    if endpoint.api == "anthropic":
        headers["anthropic-version"] = "2023-06-01"
    async with httpx2.AsyncClient(timeout=REMOTE_SECONDS, verify=certificates()) as client:
        try:
            answer = await client.get(f"{endpoint.url.rstrip('/')}{path}", headers=headers)
        except httpx2.RequestError as error:
            raise failure(error) from error
        if answer.status_code in (401, 403):
            said = quoted(message_in(answer.text))
            words = f": “{said}”" if said else ""
            raise TurnError(
                f"{endpoint.name} did not accept the API key (HTTP {answer.status_code}){words}.",
                remedy="Check the key and the address.",
                kind="authentication",
            )
        entries = _entries(answer)
        return await _described(client, LocalServer(endpoint.name, endpoint.name, endpoint.url), endpoint.url, entries)


_LISTS = {
    "chat": ("/models", "authorization"),
    "responses": ("/models", "authorization"),
    "anthropic": ("/v1/models", "x-api-key"),
    "google": ("/v1beta/models", "x-goog-api-key"),
}
"""where each API lists its models, and the header of its key"""


def forget() -> None:
    """Clear the cached list of local models, and what is known about them."""
    _FOUND.clear()
    _WITHOUT_TOOLS.clear()


def _in_process() -> Iterator[Available]:
    """Models that run in this process. One whose weights are missing says so, and can be downloaded."""
    installed = weights.is_installed()
    for known in weights.KNOWN:
        missing = not known.path.is_file()
        size = f"{known.size / 1e9:.1f} GB"
        why = f"Its weights ({size}) have to be downloaded: pilotfish download {known.name}" if missing else None
        if not installed:
            why = f"A package is missing. Install it beside Pilotfish: {weights.how_to_install()}"
        yield Available(
            id=f"{weights.PREFIX}:{known.name}",
            label=f"{known.name} (on this machine, {size})",
            provider="On this machine",
            available=why is None,
            reason=why,
            context_window=known.window,
            images=False,
            warning="Nothing leaves this machine. It is small and slow: good for short questions and simple edits of"
            " one file, often wrong beyond that.",
            local=True,
            download_bytes=known.size if missing and installed else None,
            missing_package=None if installed else True,
        )


def _in_editor(editor: EditorModels | None) -> Iterator[Available]:
    """Models of the user's editor."""
    for model in editor.offered if editor is not None else ():
        model_id = f"{EDITOR}:{model.id}"
        if model.tools is not None:
            (_WITHOUT_TOOLS.discard if model.tools else _WITHOUT_TOOLS.add)(model_id)
        yield Available(
            id=model_id,
            label=model.label,
            provider=EDITOR_LABEL,
            available=True,
            context_window=model.context_window,
            images=model.images,
            tools=model.tools,
            warning=_warning(model.context_window, model.tools),
        )


def _chosen(settings: Settings, secrets: Mapping[str, str], listed: set[str]) -> Iterator[Available]:
    """The configured model, if it is not listed."""
    if settings.model in listed:
        return
    if (endpoint := settings.endpoint(settings.model)) is not None:
        yield Available(
            id=settings.model,
            label=settings.model.partition(":")[2],
            provider=endpoint.name,
            available=True,
            context_window=settings.context_window,
        )
        return
    prefix = split(settings.model)[0] or "openai-compatible"
    if prefix == EDITOR:
        label = settings.model.partition(":")[2]
        why = "VS Code does not offer this model now."
        yield Available(id=settings.model, label=label, provider=EDITOR_LABEL, available=False, reason=why)
        return
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
    return f"No API key. {how_to_set_key(known)}"


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
    """Models of the servers on this machine, at `baseUrl` and at the endpoints, cached for `KEEP_SECONDS`."""
    servers = [(server, server.address) for server in LOCAL]
    endpoints = settings.endpoints
    keys = hash(
        (*(key_for(each.prefix, secrets) for each in LOCAL), *(endpoint_key(each, secrets) for each in endpoints))
    )
    addresses = [address for _, address in servers]
    asked = (*addresses, settings.base_url or "", settings.model, *map(str, endpoints), str(keys))
    found = _FOUND.get(asked)
    if found is None or time.monotonic() - found.at > KEEP_SECONDS:
        # Local servers use plain HTTP: loading the root certificates would take longer than the requests.
        async with httpx2.AsyncClient(timeout=PROBE_SECONDS, trust_env=False, verify=False) as client:
            asking = [_ask(client, server, address, key_for(server.prefix, secrets)) for server, address in servers]
            asking += [_ask_endpoint(each, endpoint_key(each, secrets)) for each in endpoints]
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
    server = LocalServer(prefix, urlsplit(settings.base_url).hostname or "baseUrl", settings.base_url)
    return await _ask_remote(server, key_for(prefix or "openai-compatible", secrets))


async def _ask_remote(server: LocalServer, key: str | None) -> list[Available]:
    if key is not None and not can_be_sent(key):
        return []  # its models are listed as unavailable, with the reason
    async with httpx2.AsyncClient(timeout=REMOTE_SECONDS, verify=certificates()) as client:
        return await _ask(client, server, server.base_url, key)


async def _ask_endpoint(endpoint: Endpoint, key: str | None) -> list[Available]:
    try:
        return await endpoint_models(endpoint, key)
    except TurnError as error:
        log.info("the endpoint %s does not list its models: %s", endpoint.name, error)
        return []


async def _ask(client: httpx2.AsyncClient, server: LocalServer, address: str, key: str | None) -> list[Available]:
    """The models of one server; empty if it does not answer or does not serve this API."""
    headers = {"user-agent": USER_AGENT, **({"authorization": f"Bearer {key}"} if key and can_be_sent(key) else {})}
    try:
        answer = await client.get(f"{address.rstrip('/')}/models", headers=headers)
    except httpx2.HTTPError:
        return []
    return await _described(client, server, address, _entries(answer))


def _entries(answer: httpx2.Response) -> Mapping[str, Mapping[str, Any]]:
    """The models of a list, by name; empty if the answer is no list of models."""
    try:
        body = cast("dict[str, Any]", answer.json())
        data = body.get("data") or body.get("models")  # Google names its list and its models differently
    except (ValueError, AttributeError):
        return {}
    if answer.status_code != 200 or not isinstance(data, list):
        return {}
    entries = [cast("dict[str, Any]", entry) for entry in cast("list[Any]", data)[:50] if isinstance(entry, dict)]
    named = [(str(entry.get("id") or entry.get("name") or "").removeprefix("models/"), entry) for entry in entries]
    return {name: entry for name, entry in named if name and "embed" not in name.lower()}


async def _described(
    client: httpx2.AsyncClient, server: LocalServer, address: str, named: Mapping[str, Mapping[str, Any]]
) -> list[Available]:
    details = await server_info(client, server, address, tuple(named))
    out: list[Available] = []
    for name, entry in named.items():
        info = details.get(name, NOTHING).or_else(listed_info(entry)).or_else(details.get(THE_ONE, NOTHING))
        model_id = f"{server.prefix}:{name}" if server.prefix else name
        if info.context_window is not None:
            _WINDOWS[model_id] = info.context_window
        if info.tools is not None:
            (_WITHOUT_TOOLS.discard if info.tools else _WITHOUT_TOOLS.add)(model_id)
        out.append(
            Available(
                id=model_id,
                label=f"{name} ({server.label})" if server.prefix else name,
                provider=server.label,
                available=True,
                context_window=info.context_window,
                images=info.images,
                tools=info.tools,
                warning=_warning(info.context_window, info.tools),
                local=server.prefix != "litellm" and urlsplit(address).hostname in LOOPBACK,
            )
        )
    return out


def _warning(window: int | None, tools: bool | None) -> str | None:
    if tools is False:
        return "This model cannot call tools. It writes its calls as text, which works less well."
    if window is not None and window < SMALL_WINDOW:
        return f"Its context window has {window:,} tokens. An agent needs at least {SMALL_WINDOW:,}."
    return None
