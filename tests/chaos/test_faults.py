"""After every fault of `faults.py`, nothing that was sent is lost, and work continues.

`make test` runs each once, `make chaos` many times (`PILOTFISH_TIMES`). The seed is printed; `PILOTFISH_SEED` sets it.
"""

from __future__ import annotations

import os
import random
from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio
from tests.chaos.faults import FAULTS
from tests.chaos.world import World, world

TIMES = int(os.environ.get("PILOTFISH_TIMES", "20" if os.environ.get("PILOTFISH_LONG") else "1"))
SEED = int(os.environ.get("PILOTFISH_SEED", str(random.randrange(1 << 30))))

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module", name="it")
async def _it(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[World]:
    """One world for all faults, so that what one fault leaves behind affects the next ones."""
    async with world(tmp_path_factory.mktemp("chaos"), SEED) as it:
        yield it


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.timeout(600 * TIMES)
async def test_nothing_is_lost_and_work_goes_on(it: World, name: str) -> None:
    print(f"seed {SEED}")  # noqa: T201 -- a failure must be repeatable
    it.dice.seed(f"{SEED} {name}")
    try:
        for _ in range(TIMES):
            await it.check(await FAULTS[name](it))
    except BaseException:
        await it.restart()  # so that the next fault does not fail too
        raise
