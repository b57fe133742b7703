"""The editor of an ACP client, as the workspace's port: files with their unsaved text, read and written by `fs/*`.

ACP reports no changes of documents and has no versions, so a document is read again for every look, and gets a new
version when its text has changed. An edit compares before it writes: the text must be the one that the edit was made
for. Typing in the moment between that comparison and the write cannot be seen by the agent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pilotfish.workspace.editor import Buffer, Hunk, Saved
from pilotfish.workspace.files.encoding import replace as replace_hunks

if TYPE_CHECKING:
    import acp
    from acp import schema

log = logging.getLogger(__name__)

READ_SECONDS = 10.0
WRITE_SECONDS = 30.0  # a formatter on save may take its time
MAX_DOCUMENTS = 100  # that are remembered, the newest

T = TypeVar("T")


class AcpEditor:
    """Implements `workspace.editor.Editor` for one session. Without a session or `fs/*` every file is on disk only."""

    can_save = False  # ACP has no request for it; most clients save what they are given to write
    encoding = "utf-16"

    def __init__(
        self, client: acp.Client | None, capabilities: schema.FileSystemCapabilities | None, session_id: str | None
    ) -> None:
        self._client = client
        self._capabilities = capabilities
        self._session_id = session_id
        self._documents: dict[Path, Buffer] = {}

    def for_session(self, session_id: str) -> AcpEditor:
        return AcpEditor(self._client, self._capabilities, session_id)

    @property
    def can_edit(self) -> bool:
        offered = self._capabilities
        return self._reads and offered is not None and offered.write_text_file is True

    @property
    def _reads(self) -> bool:
        offered = self._capabilities
        return self._session_id is not None and offered is not None and offered.read_text_file is True

    def buffer(self, path: Path) -> Buffer | None:
        return self._documents.get(path)

    def buffers(self) -> Sequence[Buffer]:
        return tuple(self._documents.values())

    async def refresh(self, path: Path) -> None:
        if self._reads:
            text = await self._read(path)
            if text is None:
                self._documents.pop(path, None)
            else:
                self._note(path, text)

    async def hold(self, paths: Sequence[Path]) -> None:
        for path in paths:
            await self.refresh(path)

    async def apply(self, path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        await self.refresh(path)
        document = self._documents.get(path)
        if not self.can_edit or document is None or document.version != version:
            return False
        if not await self._write(path, replace_hunks(document.text, hunks)):
            return False
        await self.refresh(path)
        now = self._documents.get(path)
        return now is not None and now.version != version  # what the client made of it is looked at by the caller

    async def save(self, path: Path) -> Saved:
        del path
        return Saved(saved=False, reason="the editor cannot be asked to save")

    async def allows_disk_writes(self, paths: Sequence[Path]) -> bool:
        """No: a client that leaves what it wrote unsaved keeps it, and the model is told."""
        del paths
        return False

    def can_answer(self, method: str) -> bool:
        del method
        return False

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        """ACP clients do not pass on what their language servers know."""
        del method, params, timeout

    def _note(self, path: Path, text: str) -> None:
        known = self._documents.pop(path, None)
        if known is None:
            known = Buffer(path, text, version=1, held=True)
        elif known.text != text:
            known = replace(known, text=text, version=known.version + 1)
        self._documents[path] = known
        while len(self._documents) > MAX_DOCUMENTS:
            del self._documents[next(iter(self._documents))]

    async def _read(self, path: Path) -> str | None:
        """The text as the editor has it, or None if it has none: there is no such file, or it is not text."""
        if self._client is None or self._session_id is None:
            return None
        answer = await _answer(self._client.read_text_file(self._session_id, str(path)), READ_SECONDS)
        return None if answer is None else answer.content

    async def _write(self, path: Path, text: str) -> bool:
        if self._client is None or self._session_id is None:
            return False

        async def write(client: acp.Client, session_id: str) -> bool:
            await client.write_text_file(session_id, str(path), text)
            return True

        return await _answer(write(self._client, self._session_id), WRITE_SECONDS) is True


async def _answer(request: Awaitable[T], seconds: float) -> T | None:
    """The answer of the client, or None if it refuses or does not answer in time."""
    try:
        async with asyncio.timeout(seconds):
            return await request
    except TimeoutError:
        log.warning("the client did not answer a request for a file in time")
    except Exception as error:  # the SDK raises its own errors, those of validation, and ConnectionError
        log.info("the client refused a request for a file: %s", type(error).__name__)
    return None
