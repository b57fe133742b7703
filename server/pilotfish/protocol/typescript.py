"""Generates the client's types: `python -m pilotfish.protocol.typescript` writes `protocol.gen.ts`."""

from __future__ import annotations

from pathlib import Path

from pilotfish.protocol import wire
from pilotfish.protocol.shapes import Alias, Shape, alias_names, key_of, shapes, spell

TARGET = Path(__file__).parents[3] / "client-vscode" / "src" / "protocol.gen.ts"

_HEAD = """\
// Generated from server/pilotfish/protocol/wire by `make generate`. Do not edit.
// Absent means none: the server sends null only where the type says so.

export const PROTOCOL_VERSION = {version};
"""

_NARROWER = {("Hello", "settings"): "Settings"}
"""fields whose wire type is wider than the shape that is actually sent"""


def generate() -> str:
    """The text of protocol.gen.ts."""
    found = shapes()
    names = alias_names(found)

    def ts(annotation: object) -> str:
        return spell(annotation, names, array="{}[]", record="Record<string, unknown>", union=" | ")

    parts = [_HEAD.format(version=wire.PROTOCOL_VERSION)]
    for shape in found:
        match shape:
            case Alias(name, annotation):
                parts.append(f"export type {name} = {spell_alias(annotation, names)};\n")
            case Shape(name, words, fields):
                lines = [f"/** {words} */", f"export interface {name} {{"]
                for field in fields:
                    if field.words:
                        lines.append(f"  /** {field.words} */")
                    optional = "" if field.required or _always_sent(name, field.name) else "?"
                    kind = _NARROWER.get((name, field.name)) or ts(field.annotation)
                    kind += " | null" if field.nullable else ""
                    lines.append(f"  {field.name}{optional}: {kind};")
                parts.append("\n".join([*lines, "}\n"]))
    parts += [
        _table("ClientRequests", "Requests that the client sends.", sender="client", requests=True),
        _table("ClientNotifications", "Notifications that the client sends.", sender="client", requests=False),
        _table("ServerRequests", "Requests that the server sends.", sender="server", requests=True),
        _table("ServerNotifications", "Notifications that the server sends.", sender="server", requests=False),
        _codes(),
    ]
    return "\n".join(parts)


def spell_alias(annotation: object, names: dict[object, str]) -> str:
    """The right-hand side of an alias."""
    others = {key: name for key, name in names.items() if key != key_of(annotation)}
    return spell(annotation, others, array="{}[]", record="Record<string, unknown>", union=" | ")


def write() -> None:
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(generate(), "utf-8")


def _always_sent(shape: str, field: str) -> bool:
    """Whether the field is always present: it has a default other than None, and the server sends the shape. The client
    may leave it out of shapes that it sends."""
    model = getattr(wire, shape, None)
    if model is None or model in _SENT_BY_CLIENT:
        return False
    info = next(info for name, info in model.model_fields.items() if (info.alias or name) == field)
    return info.get_default(call_default_factory=False) is not None


def _sent_by_client() -> frozenset[type[wire.Wire]]:
    sent_params = {row.params for row in wire.METHODS.values() if row.sender == "client"}
    sent_results = {row.result for row in wire.METHODS.values() if row.sender == "server" and row.result}
    return frozenset(sent_params | sent_results | {wire.Hello, wire.ClientAbilities})


_SENT_BY_CLIENT = _sent_by_client()


def _table(name: str, words: str, *, sender: str, requests: bool) -> str:
    lines = [f"/** {words} */", f"export interface {name} {{"]
    for method, row in wire.METHODS.items():
        if row.sender != sender or (row.result is not None) != requests:
            continue
        lines.append(f"  /** {row.words} */")
        if row.result is None:
            lines.append(f'  "{method}": {row.params.__name__};')
        else:
            lines.append(f'  "{method}": {{ params: {row.params.__name__}; result: {row.result.__name__} }};')
    return "\n".join([*lines, "}\n"])


def _codes() -> str:
    rows = "\n".join(f"  {name}: {code}," for name, code in wire.ERROR_CODES.items())
    return f"/** Every error code the server answers with. */\nexport const ErrorCode = {{\n{rows}\n}} as const;\n"


if __name__ == "__main__":
    write()
