"""Stops the work of a request when the request is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

Done = TypeVar("Done")


async def unless(cancelled: asyncio.Event, work: Awaitable[Done]) -> Done | None:
    """The result of `work`, or None if `cancelled` is set first. The work has ended when this returns."""
    doing, stop = asyncio.ensure_future(work), asyncio.ensure_future(cancelled.wait())
    try:
        await asyncio.wait((doing, stop), return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            doing.cancel()
            await asyncio.wait((doing,))
        return None if doing.cancelled() else doing.result()
    finally:
        stop.cancel()
