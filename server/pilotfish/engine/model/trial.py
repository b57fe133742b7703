"""Tries a model or an endpoint before it is used, so that a wrong key or address is found when it is entered.

Every failure is a TurnError with the provider's words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pilotfish.config.settings import Endpoint, Settings
from pilotfish.engine.model.catalog.listing import Available, endpoint_models
from pilotfish.engine.model.catalog.providers import can_be_sent, endpoint_key, name_of_key
from pilotfish.engine.model.failures.error_body import quoted
from pilotfish.engine.model.resolve import check_endpoint, failure, resolve
from pilotfish.errors import TurnError

PROMPT = "Reply with the word OK."


async def try_model(name: str, settings: Settings, secrets: Mapping[str, str]) -> str:
    """Send a model one small request. Returns its answer."""
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import ModelRequest

    model = resolve(name, settings.model_copy(update={"fallback_model": None}), secrets)
    try:
        async with model_request_stream(model, [ModelRequest.user_text_prompt(PROMPT)]) as stream:
            async for _ in stream:
                pass
            return quoted(stream.get().text or "(no text)")
    except Exception as error:
        raise failure(error) from error


async def try_endpoint(
    endpoint: Endpoint, key: str | None, model: str | None, settings: Settings, secrets: Mapping[str, str]
) -> Sequence[Available]:
    """The models of an endpoint that may not be stored yet. If a model is named, it is also asked something.

    `key` is the one that the user has just entered; without it the stored one is used.
    """
    check_endpoint(endpoint)
    if key is not None and not can_be_sent(key):
        raise TurnError(
            "The API key has invalid characters.", remedy="Copy the key again from its page.", kind="authentication"
        )
    keys = {**secrets, name_of_key(endpoint.name): key} if key is not None else secrets
    if model is not None:
        others = tuple(other for other in settings.endpoints if other.name != endpoint.name)
        tried = settings.model_copy(update={"endpoints": (*others, endpoint)})
        await try_model(f"{endpoint.name}:{model}", tried, keys)
    return await endpoint_models(endpoint, endpoint_key(endpoint, keys))
