"""`pilotfish doctor --provider X`: checks the key, the address and one small request of a provider."""

from __future__ import annotations

import time
from collections.abc import Sequence

from pilotfish.cli.doctor import Check, Finding, connection_error, run_checks
from pilotfish.config.settings import Settings, load_user
from pilotfish.errors import TurnError


async def examine_provider(name: str) -> int:
    """Check one provider, endpoint or model, and print every finding. Returns 1 if a check failed."""
    return await run_checks(checks(name))


def checks(name: str) -> Sequence[Check]:
    """The checks of a provider (`groq`), an endpoint by its name, or a model (`groq:llama-3.3-70b-versatile`)."""
    from pilotfish.engine.model import resolve
    from pilotfish.engine.model.catalog.providers import endpoint_key, key_for, split
    from pilotfish.engine.model.trial import try_model

    settings = load_user().settings
    wanted = name if ":" in name else f"{name}:"
    prefix = split(wanted)[0]
    endpoint = settings.endpoint(wanted)

    async def key() -> Finding:
        found = endpoint_key(endpoint, {}) if endpoint is not None else key_for(prefix, {})
        try:
            resolve.resolve(_example(wanted), _pointed(settings, wanted), {})
        except TurnError as error:
            return Finding("key", good=False, words=str(error), remedy=error.remedy)
        return Finding("key", good=True, words="set" if found else "none, and none is needed")

    async def address() -> Finding:
        try:
            url = str(resolve.resolve(_example(wanted), _pointed(settings, wanted), {}).base_url or "")
        except TurnError as error:
            return Finding("address", good=False, words=str(error), remedy=error.remedy)
        if problem := await connection_error(url):
            remedy = "Check the network, the proxy and the address. If the server is local, start it."
            return Finding("address", good=False, words=f"{url} does not answer: {problem}", remedy=remedy)
        return Finding("address", good=True, words=f"{url} answers")

    async def request() -> Finding:
        try:
            model = await _model(wanted, settings)
            began = time.monotonic()
            answer = await try_model(model, _pointed(settings, wanted), {})
        except TurnError as error:
            return Finding("request", good=False, words=str(error), remedy=error.remedy)
        finally:
            await resolve.aclose()
        return Finding("request", good=True, words=f"{model} answered in {time.monotonic() - began:.1f} s: {answer}")

    return key, address, request


def _example(wanted: str) -> str:
    """A model string of the provider. Its key and address do not depend on the model."""
    return wanted if not wanted.endswith(":") else f"{wanted}openai/example"


def _pointed(settings: Settings, wanted: str) -> Settings:
    """The settings, with `baseUrl` only for the provider that it is set for."""
    from pilotfish.engine.model.catalog.providers import split

    same = split(settings.model)[0] == split(wanted)[0]
    return settings if same else settings.model_copy(update={"base_url": None, "model": _example(wanted)})


async def _model(wanted: str, settings: Settings) -> str:
    """The model to ask: the one that was named, the one of the settings, or the first one of the provider."""
    from pilotfish.engine.model import resolve
    from pilotfish.engine.model.catalog.providers import split

    if not wanted.endswith(":"):
        return wanted
    if split(settings.model)[0] == split(wanted)[0]:
        return settings.model
    prefix = wanted if settings.endpoint(wanted) is not None else f"{split(wanted)[0]}:"
    found = [model.id for model in await resolve.available(settings, {}) if model.id.startswith(prefix)]
    if not found:
        raise TurnError(
            f"No model of {wanted.rstrip(':')} is known.",
            remedy=f"Name one: pilotfish doctor --provider {wanted}MODEL.",
            kind="configuration",
        )
    return found[0]
