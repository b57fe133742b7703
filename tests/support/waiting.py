"""Waits for a condition that nothing announces, such as a file that another process writes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

PATIENCE = 60.0  # seconds; a busy machine is slow


async def until(holds: Callable[[], object]) -> None:
    """Return when `holds()` is true. Fails after a minute, long before the limit of a test."""
    async with asyncio.timeout(PATIENCE):
        while not holds():
            await asyncio.sleep(0.005)
