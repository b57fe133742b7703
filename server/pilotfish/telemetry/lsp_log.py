"""The server's log: warnings to stderr, and everything to the user's log file. Never to stdout.

The file is opened when the engine is there, because what it needs costs the start too much; what was said before is
written then. No line holds a key.

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
        from pilotfish.policy.secrets import mask

        return mask(super().format(record))[0]


class _Early(logging.Handler):
    """Keeps what is said before there is a file."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: deque[logging.LogRecord] = deque(maxlen=_WAITING)

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record)


def start_log() -> None:
    """Called once, when the server starts."""
    root = logging.getLogger()
    stderr = _ToStderr()
    stderr.setFormatter(_Masked(_FORMAT))
    root.addHandler(stderr)
    root.addHandler(_Early())
    # Each answer with an error would be a traceback; `report_server_error` logs what is unexpected.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)


def keep_log() -> None:
    """Have a file from now on, where `PILOTFISH_LOG` says or in the user's log directory; `off`: none."""
    from pilotfish.telemetry.logs import file_handler, log_path

    root = logging.getLogger()
    for early in [handler for handler in root.handlers if isinstance(handler, _Early)]:
        root.removeHandler(early)
        path = log_path()
        if path is None:
            continue
        try:
            file = file_handler(path)
        except OSError as error:
            root.warning("No log is kept: %s", error)
            continue
        for record in early.kept:
            file.handle(record)
        root.addHandler(file)
        logging.getLogger("pilotfish").setLevel(logging.INFO)
