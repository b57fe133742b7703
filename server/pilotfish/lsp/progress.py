"""`$/progress`: work the user sees, and may cancel."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from pilotfish.lsp.client import Client
from pilotfish.lsp.peer import ClientError, Peer

CREATE_SECONDS = 2.0


class Progress:
    """One piece of work. Says nothing where the client shows no progress."""

    def __init__(self, peer: Peer, title: str, cancelled: asyncio.Event) -> None:
        self.cancelled = cancelled
        """set when the user cancels"""
        self.token: int | str | None = None
        """once the client has a place for it"""
        self._peer = peer
        self._title = title
        self._last = ""
        self._over = False

    def show(self, token: int | str) -> None:
        """From now on there is a place for it; what was reported before is caught up with."""
        self.token = token
        self._say({"kind": "begin", "title": self._title, "cancellable": True})
        if self._last:
            self._say_last()

    def report(self, message: str) -> None:
        if message != self._last and not self._over:
            self._last = message
            self._say_last()

    def end(self, message: str) -> None:
        self._over = True
        self._say({"kind": "end", "message": message})

    def _say_last(self) -> None:
        self._say({"kind": "report", "message": self._last, "cancellable": True})

    def _say(self, value: dict[str, Any]) -> None:
        if self.token is not None:
            self._peer.notify("$/progress", {"token": self.token, "value": value})


class Progresses:
    """Everything that is under way."""

    def __init__(self, peer: Peer, client: Client) -> None:
        self._peer = peer
        self._client = client
        self._numbers = itertools.count(1)
        self._open: dict[int | str, Progress] = {}
        self._opening: dict[Progress, asyncio.Task[None]] = {}

    def start(self, title: str, token: Any = None, cancelled: asyncio.Event | None = None) -> Progress:
        """Begin; on the token a client sent along, or on one of ours where it can show that. The work need not wait
        until the client has made a place for it."""
        progress = Progress(self._peer, title, cancelled or asyncio.Event())
        if isinstance(token, int | str):
            self._show(progress, token)
        elif self._client.progress:
            self._opening[progress] = asyncio.get_running_loop().create_task(self._create(progress))
        return progress

    async def finish(self, progress: Progress, message: str) -> None:
        if (opening := self._opening.pop(progress, None)) is not None:
            await asyncio.wait((opening,))
        progress.end(message)
        if progress.token is not None:
            self._open.pop(progress.token, None)

    def cancel(self, token: Any) -> None:
        """`window/workDoneProgress/cancel`"""
        progress = self._open.get(token) if isinstance(token, int | str) else None
        if progress is not None:
            progress.cancelled.set()

    def _show(self, progress: Progress, token: int | str) -> None:
        self._open[token] = progress
        progress.show(token)

    async def _create(self, progress: Progress) -> None:
        token = f"pilotfish-{next(self._numbers)}"
        try:
            await self._peer.request("window/workDoneProgress/create", {"token": token}, CREATE_SECONDS)
        except (ClientError, TimeoutError):
            return
        self._show(progress, token)
