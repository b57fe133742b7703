"""The VS Code extension offers every setting of the server that a user may choose, with the same default."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pilotfish.config.settings import Budget, Settings

EXTENSION = Path(__file__).parents[2] / "client-vscode"
NOT_FOR_PEOPLE = {"protectTokens", "minimumSavedTokens", "telemetry", "endpoints"}  # the last one: in config.toml
OF_THE_EXTENSION = {
    "editorTitleButton",
    "notify",
    "notifyFinished",
    "server.command",
    "server.environment",
    "trace.server",
}


def offered() -> dict[str, Any]:
    groups: list[Any] = json.loads((EXTENSION / "package.json").read_text("utf-8"))["contributes"]["configuration"]
    settings = {name: setting for group in groups for name, setting in group["properties"].items()}
    return {name.removeprefix("pilotfish."): setting for name, setting in settings.items()}


def known() -> dict[str, Any]:
    fields = {info.alias or name: info.default for name, info in Settings.model_fields.items()}
    of_budget = {f"budget.{info.alias or name}": info.default for name, info in Budget.model_fields.items()}
    return {name: value for name, value in fields.items() if name != "budget"} | of_budget


def test_every_setting_a_user_may_choose_is_offered() -> None:
    assert offered().keys() - OF_THE_EXTENSION == known().keys() - NOT_FOR_PEOPLE


def test_defaults_are_the_same() -> None:
    server = known()
    differing = {
        name: (setting.get("default"), server[name])
        for name, setting in offered().items()
        if name in server and "default" in setting and not _same(setting["default"], server[name])
    }
    assert differing == {}


def _same(offers: Any, has: Any) -> bool:
    """An empty value is not sent, so the server's default applies."""
    return offers in ("", None) or offers == has or json.dumps(offers) == json.dumps(has)
