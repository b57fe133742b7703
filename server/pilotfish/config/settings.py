"""The user's settings, validated once, with the source of each value.

Precedence, weakest first: built-in, the user's `config.toml`, the environment, the editor. An invalid value is ignored
and reported as a problem with its source; the other values still apply. Files in a workspace are not read here.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from platformdirs import user_config_path
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

Source = Literal["built-in", "config file", "environment", "editor"]
Mode = Literal["ask", "plan", "edit", "auto"]
Thinking = Literal["off", "low", "medium", "high"]
AllowedHost = Annotated[
    str,
    Field(
        pattern=r"^(?:\*|(?:(?:\*\.)?[A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?)$"
    ),
]
"""`example.org`, `*.example.org` (what is below it), with or without `:port`, an address, or `*`"""

ENVIRONMENT = {
    "PILOTFISH_MODEL": "model",
    "PILOTFISH_BASE_URL": "baseUrl",
    "PILOTFISH_MODE": "mode",
    "PILOTFISH_STORAGE": "storage",
    "PILOTFISH_LANGUAGE_SERVERS": "languageServers",
}

WORKSPACE_MEMORY = ".pilotfish/memory.md"
"""the notes of a workspace for the agent"""


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="forbid")


class Budget(_Shape):
    """Hard limits of one turn; absent means none."""

    tokens: int | None = Field(default=None, gt=0)
    """input and output together"""
    cost: float | None = Field(default=None, gt=0)
    """in US dollars, for models whose price is known"""


class Endpoint(_Shape):
    """A server of models at an address of its own. Its models are called `name:model`."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """starts the names of its models; not the name of a provider"""
    url: str
    """the address of its API, such as `https://gateway.example/v1`"""
    api: Literal["chat", "responses", "anthropic", "google"] = "chat"
    """what it speaks: OpenAI Chat Completions or Responses, Anthropic Messages, or Google"""
    key_variable: str | None = None
    """the environment variable that holds its key; the key may also be set in the editor, under `name`"""


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
    endpoints: tuple[Endpoint, ...] = ()
    """servers of models beside the known providers, each at its own address"""
    fallback_model: str | None = None
    """used when the first one is overloaded or out of reach"""
    completion_model: str = ""
    """a fast model for inline completion in the editor, such as `ollama:qwen2.5-coder:1.5b`; empty: no completion"""
    mode: Mode = "ask"
    """what runs without a question: reading (`ask`), reading and nothing else at all (`plan`), edits too (`edit`),
    and commands too (`auto`)"""
    max_iterations: int | None = Field(default=None, ge=1, le=1000)
    """requests to the model in one turn; absent: no fixed number, `budget` and the check for repeated calls end it"""
    tool_history_rounds: int | None = Field(default=None, ge=0)
    """calls that are sent again with arguments and output, older ones as one line; absent: all, while the context
    window has room"""
    protect_tokens: int = Field(default=40_000, ge=0)
    """the newest output that is never left out, in tokens; less in a small context window"""
    minimum_saved_tokens: int = Field(default=20_000, ge=0)
    """less than this is not worth losing the provider's prompt cache for; less in a small context window"""
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
    budget: Budget = Budget(tokens=5_000_000)
    """hard limits of one turn; `{}` for none"""
    titles: bool = True
    """let the model write the title of a session after its first turn, in clients that list sessions"""
    verify_claims: bool = True
    """check what an answer says about tests, builds and files against the calls, and tell the model once"""
    try_commands: bool = True
    """before a question about a command that changes files, run it in a throwaway copy-on-write view of the workspace,
    without network, so that the question shows what it changes"""
    check_command: str | None = Field(default=None, min_length=1)
    """a command that runs once at the end of a turn that changed files, such as `make test`; if it fails, the model is
    told"""
    instruction_files: tuple[str, ...] = (
        "AGENTS.md",
        "CLAUDE.md",
        ".github/copilot-instructions.md",
        ".cursor/rules",
    )
    """files of a trusted workspace whose rules the agent follows; AGENTS.md and CLAUDE.md apply in every folder"""
    language_servers: Literal["auto", "off"] = "auto"
    """whether language servers of the machine are started in a trusted folder, in the read-only sandbox, where the
    editor cannot answer for its own: basedpyright or pyright, ruff, gopls, rust-analyzer, typescript-language-server,
    clangd"""
    git_attribution: Literal["off", "trailer", "notes"] = "off"
    """whether commits in a trusted folder say which turns wrote their lines: by `trailer` lines in the message, which a
    `prepare-commit-msg` hook adds that is installed for this and removed with it, or by git `notes` in
    `refs/notes/pilotfish`"""
    mcp_config: str | None = None
    """path of a file with MCP servers"""
    storage: str | None = None
    """directory, or database URL, in which sessions are kept"""
    context_window: int | None = Field(default=None, gt=0)
    """in tokens, for models that do not report theirs"""
    thinking: Thinking | None = None
    """how much the model thinks first, where it can; absent: its own default"""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """absent: the model's own default"""
    sandbox: Literal["auto", "off"] = "auto"
    """whether commands are confined where the system can do so"""
    network: bool = True
    """whether `web_fetch` and `web_search` may use the network, and confined commands when they are allowed to"""
    allowed_hosts: tuple[AllowedHost, ...] = ()
    """hosts that confined commands may reach without a question: `pypi.org`, `*.npmjs.org`, `example.org:8080`; `*` for
    the whole network"""
    telemetry: bool = False
    """traces and metrics by OpenTelemetry, to where its own environment variables say"""

    def endpoint(self, model: str) -> Endpoint | None:
        """The endpoint whose model this is, if it is one of `endpoints`."""
        prefix, colon, _ = model.partition(":")
        return next((each for each in self.endpoints if colon and each.name == prefix), None)


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
                values[field] = _joined(values.get(field, ()), value) if field == "endpoints" else value
                sources[field] = source
            else:
                problems.append(SettingProblem(source, field, problem))
    return LoadedSettings(Settings.model_validate(values), sources, tuple(problems))


def config_path() -> Path:
    """The path of the user's configuration file. It is never inside a workspace."""
    override = os.environ.get("PILOTFISH_CONFIG")
    return Path(override) if override else user_config_path("pilotfish") / "config.toml"


def memory_path() -> Path:
    """The path of the user's notes for the agent."""
    return config_path().parent / "memory.md"


def mcp_path(settings: Settings) -> Path:
    """The path of the file with MCP servers: the one of the settings, or else `mcp.json` beside the configuration."""
    if settings.mcp_config:
        return Path(settings.mcp_config).expanduser()
    return config_path().parent / "mcp.json"


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


def _joined(weaker: Sequence[Mapping[str, Any]], stronger: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The endpoints of two layers side by side. Of two with one name the stronger layer's counts."""
    names = {entry["name"] for entry in stronger}
    return [*(entry for entry in weaker if entry["name"] not in names), *stronger]


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
