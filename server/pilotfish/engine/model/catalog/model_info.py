"""Reads the context window and the abilities of models from the servers that serve them.

The library's profiles are not used for image support, because their default is that images are supported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import httpx2

from pilotfish.engine.model.catalog.providers import LocalServer

THE_ONE = ""  # key for the only model of a server that runs one model


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a server reports about a model; None if it does not report it."""

    context_window: int | None = None
    images: bool | None = None
    tools: bool | None = None

    def or_else(self, other: ModelInfo) -> ModelInfo:
        """This info, with unknown fields filled from `other`."""
        return ModelInfo(
            self.context_window if self.context_window is not None else other.context_window,
            self.images if self.images is not None else other.images,
            self.tools if self.tools is not None else other.tools,
        )


NOTHING = ModelInfo()


def listed_info(entry: Mapping[str, Any]) -> ModelInfo:
    """The info in an entry of `/v1/models`: vLLM, llama.cpp and OpenRouter use different fields."""
    meta, architecture = _inner(entry, "meta"), _inner(entry, "architecture")
    windows = (entry.get("max_model_len"), entry.get("context_length"), meta.get("n_ctx"), meta.get("n_ctx_train"))
    takes, parameters = architecture.get("input_modalities"), entry.get("supported_parameters")
    return ModelInfo(
        next((window for window in windows if isinstance(window, int) and window > 0), None),
        "image" in takes if isinstance(takes, list) else None,
        "tools" in parameters if isinstance(parameters, list) else None,
    )


async def server_info(
    client: httpx2.AsyncClient, server: LocalServer, address: str, names: Sequence[str]
) -> Mapping[str, ModelInfo]:
    """The info that a local server gives in its own API, by model name; empty if it has no such API."""
    root = address.rstrip("/").removesuffix("/v1")
    try:
        match server.prefix:
            case "lmstudio":
                entries = cast("list[dict[str, Any]]", (await client.get(f"{root}/api/v0/models")).json()["data"])
                return {str(entry["id"]): _lm_studio(entry) for entry in entries}
            case "llamacpp":
                props = cast("dict[str, Any]", (await client.get(f"{root}/props")).json())
                return {THE_ONE: _llama_cpp(props)}
            case "ollama":
                windows = await loaded_windows(client, root)
                shown = await asyncio.gather(*(_ollama(client, root, name) for name in names))
                infos = zip(names, shown, strict=True)
                return {name: ModelInfo(windows.get(name)).or_else(info) for name, info in infos}
            case _:
                return {}
    except (httpx2.HTTPError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _lm_studio(entry: Mapping[str, Any]) -> ModelInfo:
    window = entry.get("loaded_context_length") or entry.get("max_context_length")
    kind, capabilities = entry.get("type"), entry.get("capabilities")
    return ModelInfo(
        int(window) if window else None,
        kind == "vlm" if kind in ("vlm", "llm") else None,
        "tool_use" in capabilities if isinstance(capabilities, list) else None,
    )


def _llama_cpp(props: Mapping[str, Any]) -> ModelInfo:
    window = _inner(props, "default_generation_settings").get("n_ctx")
    vision = _inner(props, "modalities").get("vision")
    return ModelInfo(int(window) if window else None, vision if isinstance(vision, bool) else None)


async def loaded_windows(client: httpx2.AsyncClient, root: str) -> Mapping[str, int]:
    """The context windows with which Ollama has loaded models, by model name. Empty if it does not answer."""
    try:
        running = cast("dict[str, Any]", (await client.get(f"{root}/api/ps")).json()).get("models")
    except (httpx2.HTTPError, ValueError, AttributeError):
        return {}
    entries = [cast("dict[str, Any]", entry) for entry in cast("list[Any]", running or []) if isinstance(entry, dict)]
    return {str(entry.get("name")): size for entry in entries if isinstance(size := entry.get("context_length"), int)}


async def _ollama(client: httpx2.AsyncClient, root: str, name: str) -> ModelInfo:
    """The abilities only: the reported window is the model's maximum, and Ollama loads it with a smaller one."""
    try:
        shown = cast("dict[str, Any]", (await client.post(f"{root}/api/show", json={"model": name})).json())
    except (httpx2.HTTPError, ValueError):
        return NOTHING
    capabilities = shown.get("capabilities")
    if not isinstance(capabilities, list):
        return NOTHING
    return ModelInfo(images="vision" in capabilities, tools="tools" in capabilities)


def _inner(outer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    inner = outer.get(name)
    return cast("Mapping[str, Any]", inner) if isinstance(inner, dict) else {}
