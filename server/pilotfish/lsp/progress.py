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

    def __init__(self, peer: Peer, token: int | str | None, cancelled: asyncio.Event) -> None:
        self.cancelled = cancelled
        """set when the user cancels"""
        self.token = token
        self._peer = peer
        self._last = ""

    def begin(self, title: str) -> None:
        self._say({"kind": "begin", "title": title, "cancellable": True})

    def report(self, message: str) -> None:
        if message != self._last:
            self._last = message
            self._say({"kind": "report", "message": message, "cancellable": True})

    def end(self, message: str) -> None:
        self._say({"kind": "end", "message": message})

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

    async def start(self, title: str, token: Any = None, cancelled: asyncio.Event | None = None) -> Progress:
        """Begin; on the token a client sent along, or on one of ours where it can show that."""
        chosen = token if isinstance(token, int | str) else await self._created()
        progress = Progress(self._peer, chosen, cancelled or asyncio.Event())
        if chosen is not None:
            self._open[chosen] = progress
        progress.begin(title)
        return progress

    def finish(self, progress: Progress, message: str) -> None:
        progress.end(message)
        if progress.token is not None:
            self._open.pop(progress.token, None)

    def cancel(self, token: Any) -> None:
        """`window/workDoneProgress/cancel`"""
        progress = self._open.get(token) if isinstance(token, int | str) else None
        if progress is not None:
            progress.cancelled.set()

    async def _created(self) -> str | None:
        if not self._client.progress:
            return None
        token = f"pilotfish-{next(self._numbers)}"
        try:
            await self._peer.request("window/workDoneProgress/create", {"token": token}, CREATE_SECONDS)
        except (ClientError, TimeoutError):
            return None
        return token
