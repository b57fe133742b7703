"""Changes files of the user's configuration: atomically, one writer at a time, readable by the user only."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pilotfish.errors import StorageError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


class ConfigShapeError(Exception):
    """The file does not have the expected structure."""


def change_config(path: Path, change: Callable[[TOMLDocument], bool]) -> bool:
    """Change `config.toml` and keep its comments and order. Returns what `change` returns: whether anything changed.

    Raises StorageError.
    """
    import tomlkit
    import tomlkit.exceptions

    path = Path(os.path.realpath(path))  # a symbolic link into a dotfiles folder stays a link
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with locked(path):
            text = path.read_text("utf-8") if path.exists() else ""
            document = tomlkit.parse(text)
            changed = change(document)
            if changed:
                write_private(path, tomlkit.dumps(document))  # pyright: ignore[reportUnknownMemberType] -- its `mapping` is untyped
    except (OSError, UnicodeDecodeError, tomlkit.exceptions.TOMLKitError, ConfigShapeError) as error:
        raise StorageError(
            f"Your configuration could not be changed: {error}.",
            remedy=f"Check {path.name} in your configuration folder.",
        ) from error
    return changed


def new_entry(entries: list[Any]) -> dict[str, Any]:
    """An empty entry in the style of the list: a `[[name]]` table, or an inline table in an array."""
    import tomlkit
    from tomlkit.items import AoT

    tables = isinstance(cast("object", entries), AoT)
    return cast("dict[str, Any]", tomlkit.table() if tables else tomlkit.inline_table())


@contextlib.contextmanager
def locked(path: Path) -> Generator[None]:
    """Exclude other writers, including other processes, where the system has `flock`."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    lock = os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically by one that only the user can read."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # created with mode 0600
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise
