"""Stores named endpoints as `[[endpoints]]` in the user's `config.toml`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pilotfish.config.config_file import ConfigShapeError, change_config, new_entry
from pilotfish.config.settings import Endpoint, config_path, read_config

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def stored_names() -> set[object]:
    """The names of the endpoints in the file."""
    config, _ = read_config(config_path())
    stored: object = config.get("endpoints")
    entries = cast("list[object]", stored) if isinstance(stored, list) else []
    return {cast("dict[str, object]", entry).get("name") for entry in entries if isinstance(entry, dict)}


def store_endpoint(endpoint: Endpoint) -> None:
    """Add an endpoint, or replace the one of the same name. Raises StorageError."""

    def change(document: TOMLDocument) -> bool:
        stored = _entries(document)
        fields = endpoint.model_dump(by_alias=True, exclude_none=True)
        at = _place(stored, endpoint.name)
        if at is None:
            item = new_entry(stored)
            item.update(fields)
            stored.append(item)
            return True
        for name in set(stored[at]) - set(fields):
            del stored[at][name]
        stored[at].update(fields)
        return True

    change_config(config_path(), change)


def remove_endpoint(name: str) -> bool:
    """Remove an endpoint. Returns False if the file has none of this name. Raises StorageError."""

    def change(document: TOMLDocument) -> bool:
        stored = _entries(document)
        at = _place(stored, name)
        if at is None:
            return False
        del stored[at]
        if not stored:
            del document["endpoints"]
        return True

    return change_config(config_path(), change)


def _entries(document: TOMLDocument) -> list[dict[str, Any]]:
    import tomlkit

    stored = document.setdefault("endpoints", tomlkit.aot())
    if not isinstance(stored, list) or not all(isinstance(entry, dict) for entry in cast("list[object]", stored)):
        raise ConfigShapeError("`endpoints` is not a list of tables")
    return cast("list[dict[str, Any]]", stored)


def _place(stored: list[dict[str, Any]], name: str) -> int | None:
    return next((at for at, entry in enumerate(stored) if entry.get("name") == name), None)
