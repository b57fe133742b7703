"""The laws of the store run on both databases: `backend` is `sqlite` or `postgres` for the modules of `BOTH`.

A test of a file, a directory or a lock file of SQLite is marked `sqlite_only`.
"""

from __future__ import annotations

import pytest
from tests.store import makers

BOTH = {
    *("test_ledger", "test_catalog", "test_leases", "test_processes", "test_model", "test_crash", "test_archive"),
    "test_usage",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    only = metafunc.definition.get_closest_marker("sqlite_only") is not None
    if metafunc.definition.path.stem in BOTH and not only:
        metafunc.parametrize("backend", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(name="backend", autouse=True)
def _backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(makers, "backend", getattr(request, "param", "sqlite"))
