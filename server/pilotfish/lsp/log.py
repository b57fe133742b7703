"""The server's log: warnings to stderr, and everything to the file that PILOTFISH_LOG names. Never to stdout.

The file is the user's alone, and no line holds a key.

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


class _Masked(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        from pilotfish.core.secrets import mask

        return mask(super().format(record))[0]


def start_log() -> None:
    """Called once, when the server starts."""
    root = logging.getLogger()
    handlers: list[logging.Handler] = [_ToStderr()]
    if path := os.environ.get("PILOTFISH_LOG"):
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600))
            os.chmod(path, 0o600)  # noqa: PTH101 (pathlib costs the start 4 ms)
            handlers.append(logging.FileHandler(path, encoding="utf-8", delay=True))
            logging.getLogger("pilotfish").setLevel(logging.INFO)
        except OSError as error:
            root.warning("PILOTFISH_LOG cannot be written: %s", error)
    for handler in handlers:
        handler.setFormatter(_Masked(_FORMAT))
        root.addHandler(handler)
