"""What happened, for those who have to find out: a log file of JSON lines, figures per turn, and traces on request.

Nothing of a conversation is written: no prompt, no answer, no output of a tool, no key. stdout is the protocol and
is never touched.
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
"""the turn that a log line belongs to: 8 characters"""

MAX_BYTES = 2_000_000  # of one log file; three are kept
STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, request, message, and what was passed as `extra`."""

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
    """Where the log goes: `PILOTFISH_LOG` (a file; `off` for none), else the user's log directory."""
    wanted = os.environ.get("PILOTFISH_LOG", "")
    if wanted == "off":
        return None
    return Path(wanted).expanduser() if wanted else user_log_path("pilotfish") / "pilotfish.log"


def start_logging(path: Path | None) -> None:
    """Send the log to a file, readable by the user alone. A log that cannot be written is not worth a failed start."""
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    for noisy in ("httpx2", "httpcore2", "openai", "anthropic", "pygls", "asyncio", "mcp"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    handler: logging.Handler = logging.NullHandler()
    if path is not None:
        try:
            handler = file_handler(path)
        except OSError as error:
            sys.stderr.write(f"pilotfish: no log is kept: {error}\n")
    root.handlers = [handler]


def file_handler(path: Path) -> logging.Handler:
    """What writes the log to a file, readable by the user alone. OSError when it cannot."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handler = RotatingFileHandler(path, maxBytes=MAX_BYTES, backupCount=2, encoding="utf-8", delay=False)
    path.chmod(0o600)
    handler.setFormatter(JsonLines())
    return handler


def trace(wanted: bool) -> None:
    """Trace every run with OpenTelemetry, contents left out, or stop to. Where traces go, OTEL's own settings say."""
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    Agent.instrument_all(InstrumentationSettings(include_content=False) if wanted else False)
