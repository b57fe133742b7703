"""The log file: JSON lines, for diagnosing what the server did.

Nothing from a conversation is logged: no prompt, no answer, no tool output, no API key. Nothing is written to stdout,
which carries the protocol. `engine/model/tracing.py` has the OpenTelemetry traces.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from contextvars import ContextVar
from logging.handlers import RotatingFileHandler
from pathlib import Path

from platformdirs import user_log_path

from pilotfish.policy.secrets import mask

request_id: ContextVar[str] = ContextVar("request_id", default="-")
"""the last 8 characters of the id of the turn that a log line belongs to"""

MAX_BYTES = 2_000_000  # per log file; three files are kept
STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object per line: time, level, logger, request, message, and the `extra` fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "at": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "request": request_id.get(),
            "message": mask(record.getMessage())[0],
        }
        line |= {key: value for key, value in record.__dict__.items() if key not in STANDARD}
        if record.exc_info:
            line["traceback"] = mask(self.formatException(record.exc_info))[0]
        return json.dumps(line, default=str, ensure_ascii=False)


def log_path() -> Path | None:
    """The path of the log file: `PILOTFISH_LOG`, or a file in the user's log directory. None if it is `off`."""
    configured = os.environ.get("PILOTFISH_LOG", "")
    if configured == "off":
        return None
    return Path(configured).expanduser() if configured else user_log_path("pilotfish") / "pilotfish.log"


def start_logging(path: Path | None) -> None:
    """Log to a file that only the user can read. If the file cannot be opened, start without a log."""
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    for noisy in ("httpx2", "httpcore2", "openai", "anthropic", "pygls", "asyncio", "mcp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    handler: logging.Handler = logging.NullHandler()
    if path is not None:
        try:
            handler = file_handler(path)
        except OSError as error:
            sys.stderr.write(f"pilotfish: cannot write the log file: {error}\n")
    root.handlers = [handler]


def file_handler(path: Path) -> logging.Handler:
    """A rotating handler for a log file that only the user can read. Raises OSError if it cannot be opened."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = RotatingFileHandler(path, maxBytes=MAX_BYTES, backupCount=2, encoding="utf-8", delay=False)
    path.chmod(0o600)
    handler.setFormatter(JsonLines())
    return handler
