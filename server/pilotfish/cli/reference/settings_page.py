"""The page `docs/settings.md`: the settings of the server, those of VS Code alone, and the environment variables."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel

from pilotfish.config.settings import ENVIRONMENT, Budget, Endpoint, RuleSetting, Settings
from pilotfish.protocol.shapes import Shape, ShapeField, shapes, spell
from pilotfish.text.markdown_table import code, table

ROOT = Path(__file__).parents[4]
TARGET = ROOT / "docs" / "settings.md"
CLIENT = ROOT / "client-vscode"

HEAD = """# Settings

A setting is a line in `config.toml` (`pilotfish doctor` names the file), an entry of the editor's settings, or for a
few an environment variable. The editor overrides the environment, which overrides the file. An invalid value is
ignored, and `pilotfish doctor` and the editor name it; the other values still apply. Files in a workspace set nothing.
This page is generated (`make generate`) from the model that validates the settings.

```toml
model = "anthropic:claude-sonnet-4-5"
mode = "ask"
allowedHosts = ["pypi.org"]

[budget]
tokens = 2_000_000

[[rules]]
decision = "allow"
tool = "bash"
pattern = "npm test"
```

An editor sends them in `initializationOptions.settings` or in the section `pilotfish` of its configuration. In VS Code
each is called `pilotfish.` and its name; the last column says which ones are in its settings editor.

"""
VARIABLES = {
    "PILOTFISH_API_KEY": "the key of the server at `baseUrl`; keys of providers are in [Providers](providers.md)",
    "PILOTFISH_CONFIG": "the path of `config.toml`",
    "PILOTFISH_LOG": "the path of the log, or `off`",
    "PILOTFISH_POLICY": "the path of one more managed policy, which can only restrict ([For teams](teams.md))",
    "PILOTFISH_MODELS": "the folder of the weights that `pilotfish download` gets",
    "PILOTFISH_DEMO_PACE": "seconds for each word of the scripted guide",
}
BOUNDS = {"minimum": "≥ {}", "exclusiveMinimum": "> {}", "maximum": "≤ {}"}


def render() -> str:
    """The text of the page."""
    known = {shape.name: shape for shape in shapes() if isinstance(shape, Shape)}
    parts = [HEAD, "## All settings\n\n", _table(known["Settings"], Settings, _vscode()), "\n"]
    for model in (Endpoint, Budget, RuleSetting):
        shape = known[model.__name__]
        parts += [f"\n## {model.__name__}\n\n{shape.words}\n\n", _table(shape, model, None), "\n"]
    parts += ["\n## Only in VS Code\n\n", table(("setting", "default", "meaning"), _only_vscode()), "\n"]
    parts += ["\n## Environment variables\n\n", table(("variable", "meaning"), _variables()), "\n"]
    return "".join(parts)


def _table(shape: Shape, model: type[BaseModel], vscode: Mapping[str, Any] | None) -> str:
    properties = model.model_json_schema()["properties"]
    head = ("name", "type", "default", "meaning")
    rows: Iterator[tuple[str, ...]] = (
        (code(field.name), _type(field, properties[field.name]), _default(field, properties[field.name]), field.words)
        for field in shape.fields
    )
    if vscode is None:
        return table(head, rows)
    in_editor = {name.split(".")[1] for name in vscode}
    marked = ((*row, "yes" if row[0].strip("`") in in_editor else "") for row in rows)
    return table((*head, "VS Code"), marked)


def _type(field: ShapeField, schema: Mapping[str, Any]) -> str:
    words = spell(field.annotation, {}, array="list of {}", record="table", union=" · ").replace('"', "`")
    either: list[Mapping[str, Any]] = schema.get("anyOf", [schema])
    bounds = [text.format(f"{each[key]:g}") for each in either for key, text in BOUNDS.items() if key in each]
    return ", ".join((words, *bounds))


def _default(field: ShapeField, schema: Mapping[str, Any]) -> str:
    if field.required:
        return "required"
    value = schema.get("default")
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        value = {name: each for name, each in fields.items() if each is not None}
    return "" if value is None else code(json.dumps(value))


def _vscode() -> Mapping[str, Any]:
    """name → schema of every setting of the extension"""
    manifest = json.loads((CLIENT / "package.json").read_text("utf-8"))
    sections = manifest["contributes"]["configuration"]
    return {name: schema for section in sections for name, schema in section["properties"].items()}


def _only_vscode() -> Iterator[tuple[str, ...]]:
    texts = json.loads((CLIENT / "package.nls.json").read_text("utf-8"))
    ours = {field.alias for field in Settings.model_fields.values()}
    for name, schema in _vscode().items():
        if name.split(".")[1] not in ours:
            key = (schema.get("markdownDescription") or schema["description"]).strip("%")
            words = re.sub(r" ?\[[^]]*\]\(command:[^)]*\)", "", texts[key])  # a link to a command means nothing here
            yield (code(name), code(json.dumps(schema["default"])), words)


def _variables() -> Iterator[tuple[str, str]]:
    yield from ((code(name), f"the setting `{field}`") for name, field in ENVIRONMENT.items())
    yield from ((code(name), words) for name, words in VARIABLES.items())
