"""`$/progress`: work that the user sees and may cancel."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from lsprotocol import types

from pilotfish.lsp.client import Client
from pilotfish.lsp.connection.protocol import ClientError, Connection

CREATE_SECONDS = 2.0


class WorkDoneProgress:
    """One piece of work. Sends nothing where the client shows no progress."""

    def __init__(self, connection: Connection, title: str, cancelled: asyncio.Event) -> None:
        self.cancelled = cancelled
        """set when the user cancels"""
        self.token: int | str | None = None
        """set when the client can show the progress"""
        self._progress: Any = connection.progress  # pygls does not type the futures of its tokens
        self._title = title
        self._last: tuple[str, int | None] = "", None
        self._over = False

    def show(self, token: int | str) -> None:
        """From now on the client can show it; the last report made before is sent too."""
        self.token = token
        self._progress.begin(token, types.WorkDoneProgressBegin(title=self._title, cancellable=True))
        self._progress.tokens[token].add_done_callback(self._cancel)
        self._send_last()

    def report(self, message: str, percentage: int | None = None) -> None:
        if (message, percentage) != self._last and not self._over:
            self._last = message, percentage
            self._send_last()

    def end(self, message: str) -> None:
        self._over = True
        if self.token is not None:
            self._progress.end(self.token, types.WorkDoneProgressEnd(message=message))
            self._progress.tokens.pop(self.token, None)  # pygls would keep it

    def _cancel(self, _: object) -> None:
        self.cancelled.set()

    def _send_last(self) -> None:
        message, percentage = self._last
        if self.token is not None and message:
            report = types.WorkDoneProgressReport(message=message, percentage=percentage, cancellable=True)
            self._progress.report(self.token, report)


class Progresses:
    """Starts and ends the progress of everything that runs."""

    def __init__(self, connection: Connection, client: Client) -> None:
        self._connection = connection
        self._client = client
        self._numbers = itertools.count(1)
        self._opening: dict[WorkDoneProgress, asyncio.Task[None]] = {}

    def start(self, title: str, token: Any = None, cancelled: asyncio.Event | None = None) -> WorkDoneProgress:
        """Begin, on the token the client sent or on one of ours where the client can show that. Does not wait for the
        client."""
        progress = WorkDoneProgress(self._connection, title, cancelled or asyncio.Event())
        if isinstance(token, int | str):
            progress.show(token)
        elif self._client.progress:
            self._opening[progress] = asyncio.get_running_loop().create_task(self._create(progress))
        return progress

    async def finish(self, progress: WorkDoneProgress, message: str) -> None:
        if (opening := self._opening.pop(progress, None)) is not None:
            await asyncio.wait((opening,))
        progress.end(message)

    async def _create(self, progress: WorkDoneProgress) -> None:
        token = f"pilotfish-{next(self._numbers)}"
        params = types.WorkDoneProgressCreateParams(token)
        try:
            await self._connection.request(types.WINDOW_WORK_DONE_PROGRESS_CREATE, params, CREATE_SECONDS)
        except (ClientError, TimeoutError):
            return
        progress.show(token)
