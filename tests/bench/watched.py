"""Pilotfish with a watch on its event loop: `python -m tests.bench.watched FILE` serves on stdio.

FILE always holds two numbers of milliseconds since SIGUSR1 came last: the longest the loop was away, and the most CPU
it used meanwhile, which other work on the machine does not add to.
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
    longest = busiest = 0.0
    written = time.monotonic()

    def reset() -> None:
        nonlocal longest, busiest
        longest = busiest = 0.0

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, reset)
    while True:
        begun, used = time.monotonic(), time.thread_time()
        await asyncio.sleep(STEP)
        now = time.monotonic()
        longest = max(longest, now - begun - STEP)
        busiest = max(busiest, time.thread_time() - used)
        if now - written > 0.5:  # often enough to be read
            fresh = file.with_suffix(".new")
            fresh.write_text(f"{longest * 1000:.1f} {busiest * 1000:.1f}", "ascii")
            fresh.replace(file)  # whoever reads it finds it whole
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
