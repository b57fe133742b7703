"""One server for all tests of a module. A module that wants it set up otherwise has a `shared` of its own."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from tests.support.served import Rig, served


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("served") / "work"
    folder.mkdir()
    async with served(folder) as rig:
        yield rig


@pytest.fixture
def rig(shared: Rig) -> Rig:
    """The module's server, as if nothing had been heard of it yet; what waits at a gate waits for this test."""
    shared.client.forget()
    shared.provider.gate.clear()
    return shared
