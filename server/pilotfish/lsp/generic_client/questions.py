"""Asks the user of a generic client by messages with buttons, and stores the answers that hold for a folder."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from lsprotocol import types

from pilotfish.engine.engine import Engine
from pilotfish.errors import StorageError
from pilotfish.lsp.connection.protocol import ClientError, Connection
from pilotfish.lsp.editor.choices import Choices

log = logging.getLogger(__name__)

TRUST, READ_ONLY = "Trust this folder", "Read only"
WRITE_ALWAYS, WRITE_ONCE, WRITE_NEVER = "Always write edits to disk", "Write them now", "Never"
WARNING = types.MessageType.Warning


class Questions:
    """The questions of a generic client. `roots` returns the folders of the workspace."""

    def __init__(
        self, connection: Connection, engine: Engine, choices: Choices, roots: Callable[[], Sequence[Path]]
    ) -> None:
        self._connection = connection
        self._engine = engine
        self._choices = choices
        self._roots = roots

    async def ask_for_trust(self, folder: Path) -> None:
        """Ask once for each folder and save the answer in the user's config. A dismissed question is asked again."""
        message = (
            f"Do you trust the folder {folder.name}? There Pilotfish would change files, run commands and follow "
            "instruction files, asking you as its mode says."
        )
        chosen = await self.choose(message, (TRUST, READ_ONLY))
        if chosen is None:
            return
        try:
            self._engine.book.trust(folder, chosen == TRUST)
        except StorageError as error:
            self._connection.message(WARNING, f"{error} Your answer applies until the editor is closed. {error.remedy}")

    async def ask_to_write(self, paths: Sequence[Path]) -> bool:
        """Ask once for each folder whether edits are written to disk too, because such an editor cannot be asked to
        save, and a command reads the disk."""
        folder = next(iter(self._roots()), None)
        stored = self._engine.book.writes_edits(folder) if folder else None
        if stored is not None:
            return stored
        names = ", ".join(path.name for path in paths[:5]) + (" and more" if len(paths) > 5 else "")
        message = (
            "A command will run now. It reads files from disk, but Pilotfish's edits are unsaved in the editor "
            f"({names}). Write them to disk too?"
        )
        chosen = await self.choose(message, (WRITE_ALWAYS, WRITE_ONCE, WRITE_NEVER))
        if folder is not None and chosen in (WRITE_ALWAYS, WRITE_NEVER):
            try:
                self._engine.book.store_writes_edits(folder, chosen == WRITE_ALWAYS)
            except StorageError as error:
                self._connection.message(WARNING, f"{error} Your answer applies until the editor is closed.")
        return chosen in (WRITE_ALWAYS, WRITE_ONCE)

    async def choose(self, message: str, options: Sequence[str]) -> str | None:
        """The chosen option; None if the message was closed or could not be shown."""
        try:
            return await self._choices.choose(message, options)
        except ClientError as error:
            log.warning("window/showMessageRequest: %s", error)
            return None
