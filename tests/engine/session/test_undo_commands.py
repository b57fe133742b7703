"""Undo after a turn that ran commands: what they did is not recorded, and the turn before is never undone instead."""

from __future__ import annotations

from pathlib import Path

from tests.support.engine import beside, rig
from tests.support.provider import Call, call, calls, say

from pilotfish.engine.commands import reverted_text

EDIT = (call("write_file", path="a.txt", content="agent\n"), say("written"))
RUN = call("bash", command="echo b > b.txt", for_real=True)


async def test_after_a_turn_that_only_ran_commands_undo_says_so_and_leaves_the_turn_before(tmp_path: Path) -> None:
    async with rig(tmp_path, *EDIT, RUN, say("ran"), mode="ask") as turn:
        await turn.prompt("write")
        second = await turn.prompt("run")
        for dry_run in (True, False, False):
            done = await turn.engine.undo(turn.session_id, dry_run=dry_run)
            assert (done.changes, done.refused) == ((), ())
            assert (done.commands, done.turn_id) == (("echo b > b.txt",), second.turn_id)
        assert (turn.root / "a.txt").read_text() == "agent\n"
        assert (turn.root / "b.txt").read_text() == "b\n"
        assert "What these commands of the turn did cannot be undone" in reverted_text(done, "put back")
        assert "- `echo b > b.txt`" in reverted_text(done, "put back")
        # After a restart too.
        async with beside(turn, tmp_path) as other:
            assert (await other.undo(turn.session_id, dry_run=True)).commands == ("echo b > b.txt",)


async def test_the_turn_before_can_still_be_named(tmp_path: Path) -> None:
    async with rig(tmp_path, *EDIT, RUN, say("ran"), mode="ask") as turn:
        first = await turn.prompt("write")
        await turn.prompt("run")
        done = await turn.engine.undo(turn.session_id, first.turn_id)
        assert ([change.path.name for change in done.changes], done.commands) == (["a.txt"], ())
        assert not (turn.root / "a.txt").exists()


async def test_a_turn_with_edits_and_commands_undoes_the_edits_and_names_the_commands(tmp_path: Path) -> None:
    both = calls(
        Call("write_file", {"path": "a.txt", "content": "agent\n"}),
        Call("bash", {"command": "echo b > b.txt", "for_real": True}),
    )
    async with rig(tmp_path, both, say("done"), mode="ask") as turn:
        await turn.prompt("go")
        done = await turn.engine.undo(turn.session_id)
        assert ([change.path.name for change in done.changes], done.commands) == (["a.txt"], ("echo b > b.txt",))
        assert (turn.root / "b.txt").exists()


async def test_commands_that_changed_nothing_unrecorded_do_not_stand_in_the_way(tmp_path: Path) -> None:
    """What only reads, what ran read-only, what was denied, and what was tried out and applied."""
    reads = calls(Call("bash", {"command": "cat a.txt"}), Call("bash", {"command": "python3 -c 'print(1)'"}))
    tried = call("bash", command="sed -i s/agent/command/ a.txt")
    async with rig(tmp_path, *EDIT, tried, say("changed"), reads, say("read"), mode="ask") as turn:
        await turn.prompt("write")
        await turn.prompt("change")
        await turn.prompt("look")
        texts: list[str | None] = []
        for _ in range(2):
            done = await turn.engine.undo(turn.session_id)
            assert ([change.path.name for change in done.changes], done.commands) == (["a.txt"], ())
            texts.append((turn.root / "a.txt").read_text() if (turn.root / "a.txt").exists() else None)
        assert texts == ["agent\n", None]
