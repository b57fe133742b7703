"""A language server that misbehaves costs a tool its answer, never a turn, and leaves no process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from tests.support.language_servers import alive, fake, inside, plain_client
from tests.support.waiting import until

FILES = {"a.py": "fish\n", ".env": "TOKEN=secret\n"}
WHERE = {"path": "a.py", "line": 1, "name": "fish"}
NOBODY = '{"error":"No language server answered; use grep and read_file instead"}'


async def test_a_server_can_change_nothing_and_sees_no_secret(tmp_path: Path) -> None:
    async with plain_client(tmp_path, FILES, fake("good"), SOME_KEY="sk-1") as asked:
        found = await asked.run("diagnostics", path="a.py")
        assert inside(found) == ["a.py:1: error: 1 lines; can do: nothing [fake]"]
        assert inside(await asked.run("find_symbol", **WHERE)) == ["a.py:1: fish"]
        assert not (tmp_path / "work" / "written").exists()


@pytest.mark.parametrize("behaviour", ["crashes at once", "crashes later", "floods", "claims a huge message"])
async def test_a_server_that_ends_or_is_cut_off_is_started_a_few_times_only(tmp_path: Path, behaviour: str) -> None:
    async with plain_client(tmp_path, FILES, fake(behaviour)) as asked:
        for _ in range(3):
            assert await asked.run("find_symbol", **WHERE) == NOBODY
        await asked.run("list_dir")
        assert "find_symbol" not in asked.offered()
        await until(lambda: not alive(tmp_path))


async def test_edits_go_on_where_diagnostics_never_come(tmp_path: Path) -> None:
    async with plain_client(tmp_path, FILES, fake("publishes nothing")) as asked:
        for old, new in (("fish", "bird"), ("bird", "crab"), ("crab", "newt"), ("newt", "wasp")):
            edited = await asked.run("update_file", path="a.py", edits=[{"old": old, "new": new}])
            assert edited.startswith("Edited a.py (+1 −1).\n---")
        assert (tmp_path / "work" / "a.py").read_text() == "wasp\n"


async def test_an_edit_for_another_text_or_outside_the_workspace_is_not_taken(tmp_path: Path) -> None:
    rename = {**WHERE, "new_name": "bird"}
    (tmp_path / "outside.py").write_text("fish\n")
    async with plain_client(tmp_path, FILES, fake("edits an old text")) as asked:
        assert await asked.run("rename_symbol", **rename) == NOBODY
    async with plain_client(tmp_path, FILES, fake("edits outside")) as asked:
        assert "outside the workspace" in await asked.run("rename_symbol", **rename)
    assert (tmp_path / "outside.py").read_text() == "fish\n"
    assert (tmp_path / "work" / "a.py").read_text() == "fish\n"


async def test_a_line_of_a_file_outside_is_not_read_because_a_server_names_it(tmp_path: Path) -> None:
    key = tmp_path / "home" / ".ssh" / "id_rsa"
    key.parent.mkdir(parents=True)
    key.write_text("a private key\n")
    async with plain_client(tmp_path, FILES, fake("names a key")) as asked:
        assert inside(await asked.run("find_symbol", **WHERE)) == [f"{key}:1: "]


async def test_no_process_is_left_when_the_server_is_killed(tmp_path: Path) -> None:
    async with plain_client(tmp_path, FILES, fake("leaves a child")) as asked:
        await asked.run("diagnostics", path="a.py")
        assert alive(tmp_path)
        os.kill(asked.rig.client.process.pid, signal.SIGKILL)
        await until(lambda: not alive(tmp_path))


async def test_no_process_is_left_when_the_server_ends(tmp_path: Path) -> None:
    async with plain_client(tmp_path, FILES, fake("leaves a child")) as asked:
        await asked.run("diagnostics", path="a.py")
        assert alive(tmp_path)
        assert await asked.rig.client.stop() == 0
        await until(lambda: not alive(tmp_path))
