"""The model, mode and thinking of a session as ACP's configuration options."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from acp import schema
from pilotfish.engine.frontend import Session

if TYPE_CHECKING:
    from pilotfish.engine.model.catalog.listing import Available

DEFAULT_THINKING = "default"
MODES = {
    "ask": ("Ask", "Reading runs at once; changes and commands ask first."),
    "plan": ("Plan", "Nothing is changed; the agent makes a plan."),
    "edit": ("Edit", "Edits in the workspace run at once; other commands ask first."),
    "auto": ("Auto", "Everything runs unless a rule forbids it."),
}
THINKING = {
    DEFAULT_THINKING: ("Default", "The model's own default"),
    "off": ("Off", "The model answers without thinking, if it can"),
    "low": ("Low", "The model thinks briefly"),
    "medium": ("Medium", "The model thinks"),
    "high": ("High", "The model thinks as long as it can"),
}


def options(
    session: Session, thinking: str | None, models: Sequence[Available]
) -> list[schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean]:
    """The options with their current values. `models` are those that are known so far."""
    return [
        schema.SessionConfigOptionSelect(
            type="select",
            id="mode",
            name="Mode",
            category="mode",
            description="What runs without a question",
            current_value=session.mode,
            options=_choices(MODES),
        ),
        schema.SessionConfigOptionSelect(
            type="select",
            id="model",
            name="Model",
            category="model",
            current_value=session.model,
            options=_models(session.model, models),
        ),
        schema.SessionConfigOptionSelect(
            type="select",
            id="thinking",
            name="Thinking",
            category="thought_level",
            description="How long the model thinks before it answers. Applies to all sessions of this process.",
            current_value=thinking or DEFAULT_THINKING,
            options=_choices(THINKING),
        ),
    ]


def modes(current: str) -> schema.SessionModeState:
    return schema.SessionModeState(
        current_mode_id=current,
        available_modes=[
            schema.SessionMode(id=mode, name=name, description=description)
            for mode, (name, description) in MODES.items()
        ],
    )


def _choices(named: dict[str, tuple[str, str]]) -> list[schema.SessionConfigSelectOption]:
    return [
        schema.SessionConfigSelectOption(value=value, name=name, description=description)
        for value, (name, description) in named.items()
    ]


def _models(current: str, models: Sequence[Available]) -> list[schema.SessionConfigSelectGroup]:
    """The models that can be used now, by provider, and always the current one."""
    usable = sorted((model for model in models if model.available), key=lambda model: model.provider)
    groups = [
        schema.SessionConfigSelectGroup(
            group=provider,
            name=provider,
            options=[
                schema.SessionConfigSelectOption(value=model.id, name=model.label, description=model.warning)
                for model in found
            ],
        )
        for provider, found in groupby(usable, key=lambda model: model.provider)
    ]
    if not any(model.id == current for model in usable):
        shown = schema.SessionConfigSelectOption(value=current, name=current)
        groups.insert(0, schema.SessionConfigSelectGroup(group="current", name="Current", options=[shown]))
    return groups
