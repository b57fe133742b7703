"""JSON-RPC messages on stdin and stdout, one in a line, for the connection of the SDK.

The SDK routes `session/delete`, `logout` and `$/cancel_request` to no method of an agent. They are passed on as
extension methods, which begin with `_` and which an agent gets by their name. A prompt is given the id of its request,
which `$/cancel_request` names, and so is `authenticate`, because a form for a key belongs to a request.
"""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any, cast

import acp

log = logging.getLogger(__name__)

MAX_LINE = 50 * 1024 * 1024  # bytes; a prompt may have images
UNROUTED = frozenset({"session/delete", "logout", "$/cancel_request"})
REQUEST_ID = "pilotfish_request"
"""the entry of `_meta` that has the id of the request"""
IDENTIFIED = frozenset({"session/prompt", "authenticate"})


class StdioMessages:
    """Implements the SDK's `Transport`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls) -> StdioMessages:
        return cls(*await acp.stdio_streams(limit=MAX_LINE))

    async def send(self, message: dict[str, Any]) -> None:
        self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        await self._writer.drain()

    async def receive(self) -> dict[str, Any] | None:
        """The next message, or None at the end of stdin. Lines that are no message are skipped."""
        while True:
            try:
                line = await self._reader.readline()
            except ValueError:  # the line is too long; asyncio has dropped it
                log.warning("a message of the client is longer than %d bytes", MAX_LINE)
                continue
            if not line:
                return None
            try:
                message = json.loads(line)
            except ValueError:
                if line.strip():
                    log.warning("a line of the client is not JSON")
                continue
            if isinstance(message, dict):
                return _for_router(cast("dict[str, Any]", message))

    async def close(self) -> None:
        self._writer.close()


def _for_router(message: dict[str, Any]) -> dict[str, Any]:
    method, params = message.get("method"), message.get("params")
    if method in UNROUTED:
        return {**message, "method": f"_{method}"}
    if method in IDENTIFIED and isinstance(params, dict):
        named = cast("dict[str, Any]", params)
        given = named.get("_meta")
        meta = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        return {**message, "params": {**named, "_meta": {**meta, REQUEST_ID: message.get("id")}}}
    return message
