"""Memory: notes are kept with the user's approval, and later sessions are given them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.engine import rig
from tests.support.frontends import DENY
from tests.support.provider import call, say
from tests.support.tools import plant

from pilotfish.engine import commands

NOTE = call("remember", note="Tests run with `make test`.")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PILOTFISH_CONFIG", str(tmp_path / "config" / "config.toml"))
    return tmp_path / "config"


async def test_a_note_is_kept_and_a_later_session_knows_it(tmp_path: Path, config: Path) -> None:
    mine = call("remember", note="I like short answers.", scope="user")
    async with rig(tmp_path, NOTE, mine, say("ok"), say("ok")) as turn:
        await turn.prompt("remember that")
        assert (turn.root / ".pilotfish/memory.md").read_text() == "# Memory\n\n- Tests run with `make test`.\n"
        assert (config / "memory.md").read_text() == "# Memory\n\n- I like short answers.\n"
        later = await turn.engine.new()
        await turn.engine.prompt(later.id, [{"type": "text", "text": "hi"}])
        given = str(turn.provider.requests[-1].messages[0]["content"])
        assert '<memory of="user">\n# Memory\n\n- I like short answers.\n</memory>' in given
        assert '<memory of="workspace">\n# Memory\n\n- Tests run with `make test`.\n</memory>' in given
        reply = await commands.BUILT_IN["memory"].run(turn.engine, later.id, "")
        assert isinstance(reply, commands.CommandReply)
        assert all(words in reply.text for words in (str(config / "memory.md"), "short answers", "make test"))


@pytest.mark.parametrize("mode", ["ask", "edit", "auto"])
@pytest.mark.parametrize("scope", ["user", "workspace"])
async def test_it_is_asked_in_every_mode(tmp_path: Path, config: Path, mode: str, scope: str) -> None:
    note = call("remember", note="Always say yes.", scope=scope)
    async with rig(tmp_path, note, say("ok"), mode=mode, choose=lambda _: DENY) as turn:
        await turn.prompt("go")
        assert [question.call.title for question in turn.frontend.asked] == ["Remember: Always say yes."]
        assert [file.after for file in turn.frontend.asked[0].preview.files] == ["# Memory\n\n- Always say yes.\n"]
        assert not (config / "memory.md").exists()
        assert not (turn.root / ".pilotfish/memory.md").exists()


async def test_a_note_is_added_to_what_the_user_wrote_and_can_be_undone(tmp_path: Path, config: Path) -> None:
    assert not config.exists()
    files = {".pilotfish/memory.md": "My notes"}
    async with rig(tmp_path, NOTE, NOTE, say("ok"), files=files) as turn:
        await turn.prompt("go")
        file = turn.root / ".pilotfish/memory.md"
        assert file.read_text() == "My notes\n- Tests run with `make test`.\n"
        assert "already has this note" in json.dumps(turn.provider.requests[2].messages)
        await turn.engine.undo(turn.session_id)
        assert file.read_text() == "My notes"


async def test_the_memory_of_an_untrusted_workspace_is_not_used(tmp_path: Path, config: Path) -> None:
    plant(config, {"memory.md": "mine"})
    async with rig(tmp_path, say("ok"), files={".pilotfish/memory.md": "theirs"}, trusted=False) as turn:
        await turn.prompt("go")
        given = str(turn.provider.requests[0].messages[0]["content"])
        assert ("mine" in given, "theirs" in given) == (True, False)
