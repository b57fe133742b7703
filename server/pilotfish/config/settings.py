"""The user's settings, validated once, with the source of each value.

Precedence, weakest first: built-in, the user's `config.toml`, the environment, the editor. An invalid value is ignored
and reported as a problem with its source; the other values still apply. Files in a workspace are not read here.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

Source = Literal["built-in", "config file", "environment", "editor"]
Mode = Literal["ask", "plan", "edit", "auto"]
Thinking = Literal["off", "low", "medium", "high"]

ENVIRONMENT = {
    "PILOTFISH_MODEL": "model",
    "PILOTFISH_BASE_URL": "baseUrl",
    "PILOTFISH_MODE": "mode",
    "PILOTFISH_STORAGE": "storage",
}


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Budget(_Shape):
    """Hard limits of one turn; absent means none."""

    tokens: int | None = Field(default=None, gt=0)
    """input and output together"""
    cost: float | None = Field(default=None, gt=0)
    """in US dollars, for models whose price is known"""


class RuleSetting(_Shape):
    """A standing rule as a user writes it."""

    decision: Literal["allow", "ask", "deny"]
    """deny beats ask beats allow"""
    tool: str = "*"
    """a tool's name, or `*` for all"""
    pattern: str = "*"
    """a command (`npm test`, `git log *`) or a path (`src/**`), as the tool has one"""


class Settings(_Shape):
    """Every setting, camelCase on the wire and in `config.toml`, snake_case here."""

    model: str = "demo"
    """`provider:name`, just a name when `baseUrl` is the address of an OpenAI-compatible server, or `demo`"""
    base_url: str | None = None
    """the address of the provider that `model` names"""
    fallback_model: str | None = None
    """used when the first one is overloaded or out of reach"""
    mode: Mode = "ask"
    """what runs without a question: reading (`ask`), reading and nothing else at all (`plan`), edits too (`edit`),
    and commands too (`auto`)"""
    max_iterations: int = Field(default=15, ge=1, le=1000)
    """requests to the model in one turn"""
    tool_history_rounds: int = Field(default=10, ge=0)
    """calls that are sent again with arguments and output; older ones only by name"""
    protect_tokens: int = Field(default=40_000, ge=0)
    """the newest output that is never left out, in tokens"""
    minimum_saved_tokens: int = Field(default=20_000, ge=0)
    """less than this is not worth losing the provider's prompt cache for"""
    max_parallel_tools: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1)
    """calls that run at the same time; absent: as many as there are CPUs"""
    tool_timeout: float = Field(default=120.0, gt=0)
    """seconds a call may take"""
    tool_retries: int = Field(default=3, ge=0)
    """how often a call that only reads is tried again after an error that may pass"""
    max_tool_output: int = Field(default=20_000, ge=1_000)
    """bytes of one call's output that the model is given"""
    stall_timeout: float = Field(default=90.0, gt=0)
    """seconds without a word from the provider, after which the request has failed"""
    rules: tuple[RuleSetting, ...] = ()
    """standing answers to approvals"""
    budget: Budget = Budget()
    """hard limits of one turn"""
    mcp_config: str | None = None
    """path of a file with MCP servers"""
    storage: str | None = None
    """directory, or database URL, in which sessions are kept"""
    context_window: int | None = Field(default=None, gt=0)
    """in tokens, for models that do not tell theirs"""
    thinking: Thinking | None = None
    """how much the model thinks first, where it can; absent: its own default"""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """absent: the model's own default"""
    sandbox: Literal["auto", "off"] = "auto"
    """whether commands are confined where the system can do so"""
    network: bool = True
    """whether `web_fetch`, and commands where they are confined, may use the network"""
    telemetry: bool = False
    """traces by OpenTelemetry, to where its own environment variables say"""


_ALIASES = {name: to_camel(name) for name in Settings.model_fields}


@dataclass(frozen=True, slots=True)
class SettingProblem:
    """An invalid value that was ignored: its source, its name, and what is wrong with it."""

    source: Source
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    settings: Settings
    sources: Mapping[str, Source]
    """setting (camelCase) → the source of its value; built-in values are not listed"""
    problems: tuple[SettingProblem, ...]


def load(
    *,
    config: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
    editor: Mapping[str, Any] | None = None,
) -> LoadedSettings:
    """Merge the layers, strongest last. A null means that the layer does not set the value."""
    variables = environment or {}
    layers: tuple[tuple[Source, Mapping[str, Any]], ...] = (
        ("config file", config or {}),
        ("environment", {field: variables[name] for name, field in ENVIRONMENT.items() if variables.get(name)}),
        ("editor", editor or {}),
    )
    values: dict[str, Any] = {}
    sources: dict[str, Source] = {}
    problems: list[SettingProblem] = []
    for source, layer in layers:
        for name, value in layer.items():
            if value is None:
                continue
            field = _ALIASES.get(name, name)  # a layer may use snake_case or camelCase
            problem = _problem(field, value)
            if problem is None:
                values[field] = value
                sources[field] = source
            else:
                problems.append(SettingProblem(source, field, problem))
    return LoadedSettings(Settings.model_validate(values), sources, tuple(problems))


def config_path() -> Path:
    """The path of the user's configuration file. It is never inside a workspace."""
    override = os.environ.get("PILOTFISH_CONFIG")
    return Path(override) if override else user_config_path("pilotfish") / "config.toml"


def read_config(path: Path) -> tuple[Mapping[str, Any], tuple[SettingProblem, ...]]:
    """The settings in a configuration file. Its rules and trusted folders are read by `rule_store`."""
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}, ()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        return {}, (SettingProblem("config file", "", f"config.toml could not be read: {error}"),)
    return {name: value for name, value in table.items() if name != "workspace"}, ()


def load_user(editor: Mapping[str, Any] | None = None) -> LoadedSettings:
    """The settings of this process, from `config.toml`, the environment and the editor."""
    config, problems = read_config(config_path())
    loaded = load(config=config, environment=os.environ, editor=editor)
    return LoadedSettings(loaded.settings, loaded.sources, (*problems, *loaded.problems))


def _problem(field: str, value: Any) -> str | None:
    try:
        Settings.model_validate({field: value})
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        if first["type"] == "extra_forbidden" and len(first["loc"]) == 1:
            return f"there is no setting {field!r}"
        place = ".".join(str(step) for step in first["loc"])
        return f"{place}: {first['msg']}"
    return None
