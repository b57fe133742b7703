"""Generates the protocol reference: `python -m pilotfish.protocol.reference` writes `server/PROTOCOL.md`.

The prose is `reference.md` beside this file. Tables come from the modules in `wire/`, examples from recorded traffic,
which `python -m tests.protocol.record` writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args

from pilotfish.protocol import wire
from pilotfish.protocol.shapes import Alias, Shape, ShapeField, alias_names, key_of, shapes, spell
from pilotfish.text.markdown_table import table

TARGET = Path(__file__).parents[2] / "PROTOCOL.md"
RECORDED = Path(__file__).parents[3] / "tests" / "protocol" / "recorded.json"

LONG_TEXT = 160
LONG_LIST = 4

_ERRORS = {
    "parse_error": "the message is not valid JSON",
    "invalid_request": "not a JSON-RPC 2.0 request, a second `initialize`, or a request after `shutdown`",
    "method_not_found": "the method is unknown",
    "invalid_params": "the params are wrong; `data.field` names the field",
    "internal": "a bug in the server; the log has the details",
    "not_initialized": "a request before `initialize`",
    "cancelled": "the request was cancelled (a prompt answers with a `PromptResult` instead)",
    "unknown_session": "no session has this id",
    "session_busy": "a turn is running in this session, or another process has the session's lease",
    "not_trusted": "the request needs a trusted folder",
    "unknown_call": "no call, prompt, question, rule or item has this id",
    "storage": "the store cannot be read or written; `data.remedy` says what to do",
}


def generate() -> str:
    """The text of PROTOCOL.md."""
    found = shapes()
    page = _Page({shape.name: shape for shape in found if isinstance(shape, Shape)}, alias_names(found))
    client = {name: row for name, row in wire.METHODS.items() if row.sender == "client"}
    server = {name: row for name, row in wire.METHODS.items() if row.sender == "server"}
    prose = Path(__file__).with_name("reference.md").read_text("utf-8")
    return prose.format(
        version=wire.PROTOCOL_VERSION,
        hello="\n\n".join(page.shape(name) for name in ("Hello", "ClientAbilities", "HelloResult")),
        settings="\n\n".join(page.shape(name) for name in ("Settings", "Budget", "Endpoint", "RuleSetting")),
        errors=table(
            ("code", "name", "when"),
            ((str(code), f"`{name}`", _ERRORS[name]) for name, code in wire.ERROR_CODES.items()),
        ),
        client_table=_methods_table(client),
        client_methods="\n\n".join(page.method(name, row) for name, row in client.items()),
        server_table=_methods_table(server),
        server_methods="\n\n".join(page.method(name, row) for name, row in server.items()),
        updates="\n\n".join(page.update(name) for name in _members(wire.Update)),
        items="\n\n".join(page.shape(name) for name in _members(wire.Item)),
        shapes="\n\n".join([*page.aliases(found), *page.rest()]),
    )


class _Page:
    """Renders shapes, and remembers which ones have been rendered."""

    def __init__(self, known: Mapping[str, Shape], aliases: Mapping[object, str]) -> None:
        self._known = known
        self._aliases = aliases
        self._shown: set[str] = set()

    def method(self, name: str, row: wire.Method) -> str:
        result = row.result.__name__ if row.result else None
        parts = [f"### `{name}`", row.words]
        for kind, shape in (("Params", row.params.__name__), ("Result", result)):
            if shape is not None and shape != "Empty":
                parts.append(f"{kind}: " + self._link(shape))
                if shape not in self._shown:
                    parts.append(self.shape(shape, level=4))
            elif shape is not None:
                parts.append(f"{kind}: `{{}}`")
        if (example := _recorded()["methods"].get(name)) is not None:
            parts.append(_example(example))
        return "\n\n".join(parts)

    def update(self, name: str) -> str:
        kind = self._known[name].fields[0].annotation
        example = _recorded()["updates"].get(get_args(kind)[0])
        shown = self.shape(name, title=f"`{get_args(kind)[0]}`")
        return shown if example is None else f"{shown}\n\n{_example(example)}"

    def shape(self, name: str, *, level: int = 3, title: str | None = None) -> str:
        self._shown.add(name)
        shape = self._known[name]
        head = f"{'#' * level} {title or name}\n\n{shape.words}"
        if not shape.fields:
            return head
        rows = ((f"`{field.name}`", self._type(field), field.words) for field in shape.fields)
        return f"{head}\n\n{table(('field', 'type', ''), rows)}"

    def aliases(self, found: Iterable[Shape | Alias]) -> list[str]:
        named = [alias for alias in found if isinstance(alias, Alias)]
        rows = ((f"`{alias.name}`", self._words(alias)) for alias in named)
        return [table(("name", "one of"), rows)]

    def rest(self) -> list[str]:
        """The shapes that have not been rendered yet; they are used by other shapes."""
        return [self.shape(name) for name in self._known if name not in self._shown and name != "Empty"]

    def _link(self, name: str) -> str:
        return f"[{name}](#{name.lower()})"

    def _words(self, alias: Alias) -> str:
        others = {key: name for key, name in self._aliases.items() if key != key_of(alias.annotation)}
        return spell(alias.annotation, others, array="{}[]", record="object", union=" · ").replace('"', "`")

    def _type(self, field: ShapeField) -> str:
        text = spell(field.annotation, self._aliases, array="{}[]", record="object", union=" · ")
        shown = "`" + text.replace('"', "").replace(" · ", "` · `") + "`"
        if field.required:
            return f"{shown} · `null`" if field.nullable else shown
        return (
            f"{shown}, optional" if field.default in (None, "") else f"{shown}, default `{json.dumps(field.default)}`"
        )


@cache
def _recorded() -> dict[str, dict[str, Any]]:
    if not RECORDED.exists():
        return {"methods": {}, "updates": {}}
    return json.loads(RECORDED.read_text("utf-8"))


def _example(value: Any) -> str:
    return f"```json\n{json.dumps(_short(value), indent=1, ensure_ascii=False)}\n```"


def _short(value: Any) -> Any:
    """Shorten long texts and lists in an example."""
    match value:
        case str():
            return value if len(value) <= LONG_TEXT else value[:LONG_TEXT] + "…"
        case list():
            shown: list[Any] = [_short(item) for item in cast("list[Any]", value)[:LONG_LIST]]
            return shown
        case dict():
            return {name: _short(item) for name, item in cast("dict[str, Any]", value).items()}
        case _:
            return value


def _methods_table(rows: Mapping[str, wire.Method]) -> str:
    return table(
        ("method", "kind", "params", "result", ""),
        (
            (
                f"[`{name}`](#{name.replace('/', '').lower()})",
                "notification" if row.result is None else "request",
                f"`{row.params.__name__}`",
                f"`{row.result.__name__}`" if row.result else "",
                row.words,
            )
            for name, row in rows.items()
        ),
    )


def _members(union: Any) -> list[str]:
    return [member.__name__ for member in get_args(get_args(union)[0])]


if __name__ == "__main__":
    TARGET.write_text(generate(), "utf-8")
