"""The server's log: warnings to stderr, and everything to the file that PILOTFISH_LOG names. Never to stdout.

An editor that does not read stderr must not stop the server, so a thread writes, and a full queue loses lines.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_WAITING = 2000  # lines


class _ToStderr(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: deque[str] = deque(maxlen=_WAITING)
        self._more = threading.Event()
        threading.Thread(target=self._write, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(self.format(record))
        self._more.set()

    def _write(self) -> None:
        while True:
            self._more.wait()
            self._more.clear()
            while self._lines:
                data = (self._lines.popleft() + "\n").encode("utf-8", "replace")
                try:
                    while data:
                        data = data[os.write(2, data) :]
                except OSError:
                    return


def start_log() -> None:
    """Called once, when the server starts."""
    root = logging.getLogger()
    handlers: list[logging.Handler] = [_ToStderr()]
    if path := os.environ.get("PILOTFISH_LOG"):
        try:
            handlers.append(logging.FileHandler(path, encoding="utf-8", delay=True))
            logging.getLogger("pilotfish").setLevel(logging.INFO)
        except OSError as error:
            root.warning("PILOTFISH_LOG cannot be written: %s", error)
    for handler in handlers:
        handler.setFormatter(logging.Formatter(_FORMAT))
        root.addHandler(handler)
