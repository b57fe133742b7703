"""`pilotfish serve`: takes over stdin and stdout before the server is imported.

Nothing that an imported module prints can reach the client.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

from pilotfish.lsp.process_exit import leave

INTERRUPTED = 130  # 128 + SIGINT
GC_THRESHOLD = 10_000
"""new objects until the garbage collector looks; Python's 700 let it look 450 times at what a start creates and keeps,
a tenth of the time until the first prompt is sent"""


def serve() -> int:
    """Serve on stdin and stdout until the client is done; returns only if one of them is closed."""
    gc.set_threshold(GC_THRESHOLD)
    # Ctrl+C exits with the code of a shell, also during the imports. `initialize` replaces this by an orderly end.
    signal.signal(signal.SIGINT, _interrupted)
    try:
        source, sink = _own_stdio()
    except OSError:
        sys.stderr.write("pilotfish serve talks to an editor over stdin and stdout, and one of them is closed.\n")
        return 1
    if os.isatty(source):
        sys.stderr.write("pilotfish serve waits for an editor to speak to it. To talk to it yourself: pilotfish chat\n")
    from pilotfish.lsp.features import register
    from pilotfish.lsp.server import PilotfishServer

    server = PilotfishServer(sink)
    register(server)
    return server.run(source)


def _own_stdio() -> tuple[int, int]:
    """Keep stdin and stdout for the protocol. Children and stray prints get the null device and stderr."""
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return source, sink


def _interrupted(_number: int, _frame: object) -> None:
    leave(INTERRUPTED)
