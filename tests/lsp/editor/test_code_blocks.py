"""Where a code block of an answer belongs: the file it names, the active document, the other open ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.client import OURS
from tests.support.scripted_editor import ABILITIES, CAPABILITIES, ScriptedEditor
from tests.support.served import Rig, served

pytestmark = pytest.mark.asyncio(loop_scope="module")

AUTH = "def check(token):\n    return True\n\n\ndef log(text):\n    print(text)\n"
CODE = "def check(token):\n    return token.valid\n"
AFTER = AUTH.replace("return True", "return token.valid")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("blocks") / "work"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "auth.py").write_text(AUTH)
    (folder / "src" / "other.py").write_text("x = 1\n")
    async with served(folder, hello={**OURS, "client": ABILITIES}, capabilities=CAPABILITIES) as rig:
        ScriptedEditor(rig.client).open(folder / "src" / "auth.py")
        yield rig


@pytest.fixture
def rig(shared: Rig) -> Rig:
    return shared


@pytest.fixture
def auth(rig: Rig) -> Path:
    return rig.folder / "src" / "auth.py"


async def locate(rig: Rig, code: str = CODE, **params: Any) -> Any:
    return await rig.client.request("pilotfish/edit/locate", {"code": code, **params})


async def test_a_block_goes_into_the_active_document(rig: Rig, auth: Path):
    found = await locate(rig, uri=auth.as_uri())
    assert found == {"code": CODE, "how": "symbol", "uri": auth.as_uri(), "before": AUTH, "after": AFTER}


async def test_another_open_document_is_found_if_the_active_one_has_no_place(rig: Rig, auth: Path):
    found = await locate(rig, uri=(rig.folder / "src" / "other.py").as_uri())
    assert (found["uri"], found["how"], found["after"]) == (auth.as_uri(), "symbol", AFTER)


@pytest.mark.parametrize(
    "params",
    [
        {"info": "python src/auth.py"},
        {"info": 'python title="src/auth.py"'},
        {"info": "python:src/auth.py"},
        {"info": "auth.py"},
        {"code": f"# src/auth.py\n{CODE}"},
    ],
)
async def test_a_path_that_the_block_names_counts_first(rig: Rig, auth: Path, params: dict[str, Any]):
    found = await locate(rig, **{"uri": (rig.folder / "src" / "other.py").as_uri(), **params})
    assert (found["code"], found["uri"], found["after"]) == (CODE, auth.as_uri(), AFTER)


async def test_a_named_file_that_does_not_exist_is_a_new_one(rig: Rig):
    found = await locate(rig, "# src/new.py\nx = 1", info="python")
    assert found == {"code": "x = 1", "how": "new", "uri": (rig.folder / "src/new.py").as_uri(), "after": "x = 1\n"}


async def test_without_a_certain_place_the_user_chooses(rig: Rig, auth: Path):
    assert await locate(rig, "print('hello')\n", uri=auth.as_uri()) == {"code": "print('hello')\n"}


async def test_a_path_outside_the_workspace_is_not_read(rig: Rig, tmp_path: Path):
    outside = tmp_path / "secret.py"
    outside.write_text(AUTH)
    found = await locate(rig, info=f"python {outside}")
    assert found["uri"] == (rig.folder / "src" / "auth.py").as_uri()
