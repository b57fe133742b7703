"""Without a model the scripted guide serves in any folder, through the real process over stdio."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.client import Client, connect

from pilotfish.protocol import wire
from pilotfish.text.uris import path_of

SHOP = "class Shop:\n    def open(self):\n        return True\n"


def final_calls(client: Client) -> list[tuple[str, str]]:
    """(tool, status) of every finished call."""
    final = ("completed", "failed", "denied", "cancelled")
    told = [each.update.call for each in client.updates if isinstance(each.update, wire.CallUpdate)]
    return [(call.name, call.status) for call in told if call.status in final]


async def test_a_tour_of_the_open_file_in_a_folder_it_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "main.py").write_text("import shop\n")
    asked: list[Any] = []

    async def allow(params: dict[str, Any]) -> Any:
        asked.append(params["preview"]["files"][0]["after"])
        return {"optionId": "allow_once"}

    async with connect(tmp_path, settings={"model": "demo"}, PILOTFISH_DEMO_PACE="0") as client:
        client.answers["pilotfish/approval/request"] = allow
        session = await client.new_session()
        place: dict[str, Any] = {"uri": (tmp_path / "shop.py").as_uri(), "cursor": {"line": 0, "character": 0}}
        prompt = [{"type": "text", "text": "add a dark mode"}, {"type": "context", "active": place}]
        result = await client.prompt(session, "", prompt=prompt)
        assert result.stop_reason == "end_turn"
        assert final_calls(client) == [
            ("glob", "completed"),
            ("update_plan", "completed"),
            ("read_file", "completed"),
            ("update_plan", "completed"),
            ("update_file", "completed"),
            ("update_plan", "completed"),
        ]
        assert asked == [f"# Overview: Shop, open\n{SHOP}"]
        assert (tmp_path / "shop.py").read_text() == asked[0]
        plans = [each.update for each in client.updates if isinstance(each.update, wire.PlanUpdate)]
        assert {entry.status for entry in plans[-1].entries} == {"completed"}
        await client.request("pilotfish/session/undo", {"sessionId": session})
        assert (tmp_path / "shop.py").read_text() == SHOP


async def test_an_untrusted_folder_is_read_only_and_nothing_fails(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    hello = {"protocolVersion": 1, "client": {"approvals": True}, "trusted": False, "settings": {"model": "demo"}}
    async with connect(tmp_path, hello=hello, PILOTFISH_DEMO_PACE="0") as client:
        await client.prompt(await client.new_session(), "tour")
        assert {status for _, status in final_calls(client)} == {"completed"}
        assert (tmp_path / "shop.py").read_text() == SHOP


async def test_a_sample_project_is_written_and_the_guide_fixes_it(tmp_path: Path) -> None:
    async with connect(tmp_path, settings={"model": "demo"}, PILOTFISH_DEMO_PACE="0") as client:
        first = await client.request("pilotfish/sample/create", {})
        second = await client.request("pilotfish/sample/create", {})
        assert first["folder"] != second["folder"]
        folder = path_of(second["folder"])
        assert folder is not None
        assert path_of(second["file"]) == folder / "calc.py"
        event = {
            "added": [{"uri": second["folder"], "name": "sample"}],
            "removed": [{"uri": tmp_path.as_uri(), "name": tmp_path.name}],
        }
        client.notify("workspace/didChangeWorkspaceFolders", {"event": event})
        session = await client.new_session(workspaceFolder=second["folder"])
        await client.prompt(session, second["prompt"])
        assert "len(values) - 1" not in (folder / "calc.py").read_text()
        assert {status for _, status in final_calls(client)} == {"completed"}


@pytest.mark.parametrize("asked", ["what modes are there?", "help"])
async def test_questions_about_the_product_need_no_call(tmp_path: Path, asked: str) -> None:
    async with connect(tmp_path, settings={"model": "demo"}, PILOTFISH_DEMO_PACE="0") as client:
        await client.prompt(await client.new_session(), asked)
        assert final_calls(client) == []
