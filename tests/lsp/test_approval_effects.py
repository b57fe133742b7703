"""What a client is shown of a command that was tried out: its effects, or all of it as text."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.client import OURS, never
from tests.support.provider import call, say
from tests.support.served import served

from pilotfish.workspace.sandbox.sandbox import find_sandbox

if find_sandbox().bwrap is None and not os.environ.get("PILOTFISH_GATE"):
    pytest.skip(f"the workspace sandbox does not work here: {find_sandbox().reason}", allow_module_level=True)


async def previews(tmp_path: Path, client: dict[str, Any]) -> list[dict[str, Any]]:
    """The preview of a tried command: in the request, in the list, and in a session that is loaded."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    async with served(folder, hello=OURS | {"client": client}) as rig:
        rig.client.answers["pilotfish/approval/request"] = never
        session = await rig.client.new_session()
        name = rig.script("sed", call("bash", command="sed -i s/one/ONE/ a.txt; rm -f gone; echo said"), say("done"))
        turn = rig.client.begin(session, name)
        await rig.client.until(lambda: bool(rig.client.of("pilotfish/approval/request")))
        (asked,) = rig.client.of("pilotfish/approval/request")
        (listed,) = (await rig.client.request("pilotfish/approval/list", {"sessionId": session}))["approvals"]
        loaded = await rig.client.request("pilotfish/session/load", {"sessionId": session})
        uri = (folder / "a.txt").as_uri()
        item = {"uri": uri, "languageId": "text", "version": 1, "text": "one\ntwo\n"}
        rig.client.notify("textDocument/didOpen", {"textDocument": item})
        lenses = await rig.client.request("textDocument/codeLens", {"textDocument": {"uri": uri}})
        # One file is not all that the command does, so it is not allowed from there.
        assert [lens["command"]["title"] for lens in lenses] == ["Deny", "Diff"]
        rig.client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
        said = {"approvalId": asked["approvalId"], "optionId": "allow_once"}
        assert await rig.client.request("pilotfish/approval/answer", said) == {"accepted": True}
        assert (await turn).stop_reason == "end_turn"
        assert (folder / "a.txt").read_text() == "ONE\ntwo\n"
        return [asked["preview"], listed["preview"], loaded["pendingApprovals"][0]["preview"]]


async def test_a_client_that_shows_effects_gets_them(tmp_path: Path):
    for preview in await previews(tmp_path, {"approvals": True, "approvalEffects": True}):
        assert preview["kind"] == "command"
        (file,) = preview["effects"]["files"]
        assert (file["before"], file["after"]) == ("one\ntwo\n", "ONE\ntwo\n")
        assert preview["effects"]["output"] == "said\n"


async def test_a_client_that_does_not_know_effects_is_shown_all_of_them_as_text(tmp_path: Path):
    for preview in await previews(tmp_path, {"approvals": True}):
        assert preview["kind"] == "text"
        shown = preview["text"]
        assert shown.startswith("sed -i s/one/ONE/ a.txt; rm -f gone; echo said\n\nin ")
        assert "-one\n+ONE\n two\n" in shown
        assert "exit code 0\n\nsaid" in shown
