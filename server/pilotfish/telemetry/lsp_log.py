"""The language server's log: warnings to stderr, everything to the user's log file, nothing to stdout.

The file is opened after the engine has been loaded, because the imports it needs would delay the start. Earlier records
are buffered until then. API keys are masked.

An editor that does not read stderr must not block the server, so a thread writes there, and lines are dropped when its
queue is full.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_MAX_QUEUED = 2000  # lines


class _ToStderr(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._lines: deque[str] = deque(maxlen=_MAX_QUEUED)
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


class _Buffer(logging.Handler):
    """Buffers records until the log file is open."""

    def __init__(self) -> None:
        super().__init__()
        self.records: deque[logging.LogRecord] = deque(maxlen=_MAX_QUEUED)

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


def start_log() -> None:
    """Log warnings to stderr and buffer everything else. Called once, when the server starts."""
    root = logging.getLogger()
    stderr = _ToStderr()
    stderr.setFormatter(_Masked(_FORMAT))
    root.addHandler(stderr)
    root.addHandler(_Buffer())
    # pygls logs a traceback for each error response; `report_server_error` logs the unexpected ones.
    logging.getLogger("pygls").setLevel(logging.CRITICAL)


def keep_log() -> None:
    """Open the log file and write the buffered records to it. `PILOTFISH_LOG` sets its path; `off` means no file."""
    from pilotfish.telemetry.logs import file_handler, log_path

    root = logging.getLogger()
    for buffer in [handler for handler in root.handlers if isinstance(handler, _Buffer)]:
        root.removeHandler(buffer)
        path = log_path()
        if path is None:
            continue
        try:
            file = file_handler(path)
        except OSError as error:
            root.warning("Cannot write the log file: %s", error)
            continue
        for record in buffer.records:
            file.handle(record)
        root.addHandler(file)
        logging.getLogger("pilotfish").setLevel(logging.INFO)
