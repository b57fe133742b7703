"""The client's process, watched: a server whose editor is gone ends."""

from __future__ import annotations

import asyncio
import os


async def gone(process_id: int) -> None:
    """Returns when the process has ended, even if nobody has waited for it yet."""
    try:
        handle = os.pidfd_open(process_id)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux, or not allowed
        while _alive(process_id):  # noqa: ASYNC110  # there is nothing else to wait for
            await asyncio.sleep(0.5)
        return
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(handle, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _alive(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
