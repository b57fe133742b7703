"""The settings of model requests: caching, thinking and temperature, as each provider wants them."""

from __future__ import annotations

from typing import Any, cast

from pydantic_ai.profiles import ModelProfile
from pydantic_ai.settings import ModelSettings

from pilotfish.config.settings import Settings, Thinking
from pilotfish.tools.families import family_of

_BY_TEMPLATE = ("vllm", "llamacpp")
"""servers that switch thinking off through the chat template of the model"""


def model_settings(system: str, profile: ModelProfile, settings: Settings, model: str) -> ModelSettings:
    """The user's settings for a model of the provider `system`.

    Prompts are cached and thoughts are shown wherever the provider has to be asked for it.
    """
    out: dict[str, Any] = {"cache": True}
    thinks = settings.thinking not in (None, "off")
    if settings.temperature is not None and not (thinks and system == "anthropic"):  # Anthropic refuses both together
        out["temperature"] = settings.temperature
    elif settings.temperature is None and (temperature := family_of(model).temperature) is not None:
        out["temperature"] = temperature
    if settings.thinking is not None:
        out["thinking"] = False if settings.thinking == "off" else settings.thinking
    if system == "anthropic":  # the breakpoints in the conversation are set in `own_model.py`
        del out["cache"]
        out |= {"anthropic_cache_instructions": True, "anthropic_cache_tool_definitions": True}
    if system == "openai":
        out["openai_store"] = False  # the ledger has the conversation; encrypted reasoning is sent along
        if profile.get("openai_supports_reasoning"):
            out["openai_reasoning_summary"] = "auto"
    if system == "google" and profile.get("supports_thinking") and settings.thinking is None:
        out["google_thinking_config"] = {"include_thoughts": True}
    return cast("ModelSettings", out)


def compatible_settings(prefix: str, model: str, profile: ModelProfile, settings: Settings) -> ModelSettings:
    """The user's settings for a model of an OpenAI-compatible server.

    Thinking is sent in the server's own words, because the library knows only which of OpenAI's models think.
    A server that cannot do it says so.
    """
    out = model_settings(prefix, profile, settings.model_copy(update={"thinking": None}), model)
    if settings.thinking is not None:
        out["extra_body"] = _thinking(prefix, settings.thinking)
    return out


def session_settings(session_id: str) -> ModelSettings:
    """The settings of all requests of a session. OpenAI keeps the caches of a key on the same machines."""
    return cast("ModelSettings", {"openai_prompt_cache_key": session_id})


def _thinking(prefix: str, thinking: Thinking) -> dict[str, Any]:
    if prefix in _BY_TEMPLATE:
        template = {"chat_template_kwargs": {"enable_thinking": thinking != "off"}}
        return template if thinking == "off" else {"reasoning_effort": thinking, **template}
    return {"reasoning_effort": "none" if thinking == "off" else thinking}
