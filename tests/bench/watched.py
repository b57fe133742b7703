"""Pilotfish with a watch on its event loop: `python -m tests.bench.watched FILE` serves on stdio.

FILE always holds the longest the loop was away since SIGUSR1 came last, in milliseconds.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

STEP = 0.005


async def watch(file: Path) -> None:
    longest, written = 0.0, time.monotonic()

    def reset() -> None:
        nonlocal longest
        longest = 0.0

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, reset)
    while True:
        begun = time.monotonic()
        await asyncio.sleep(STEP)
        now = time.monotonic()
        longest = max(longest, now - begun - STEP)
        if now - written > 0.5:  # often enough to be read
            file.write_text(f"{longest * 1000:.1f}", "ascii")  # a few bytes
            written = now


def main() -> int:
    run, file = asyncio.run, Path(sys.argv[1])

    def watched(main: Coroutine[Any, Any, Any], **options: Any) -> Any:
        async def both() -> Any:
            watching = asyncio.get_running_loop().create_task(watch(file))
            try:
                return await main
            finally:
                watching.cancel()

        return run(both(), **options)

    asyncio.run = watched
    from pilotfish.lsp import boot

    return boot.main()


if __name__ == "__main__":
    if len(sys.argv) > 2:  # `idle`: nothing but the watch, for what the machine itself adds
        asyncio.run(watch(Path(sys.argv[1])))
    sys.exit(main())
