"""Law 10, end to end: a command that runs without approval changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.engine import rig
from tests.support.provider import call, say

from pilotfish.engine.frontend import Answer
from pilotfish.workspace.process.sandbox import find_sandbox

HOLES = [
    "for f in x; do find README.md $fX-exec sh $fX-c 'id > PWNED' ';' ; done",
    "awk 'BEGIN { system(\"id > PWNED\") }'",
    "sed '1e id > PWNED' README.md",
    "git ls-files | xargs -I{} sh -c 'id > PWNED'; ls | xargs -I{} sh -c 'id > PWNED'",
    "find . -name README.md -exec bash -c 'id > PWNED' ';'",
    "bash -c 'env -i sort README.md --compress-program=id; id | cat > /dev/null; ls > /dev/null'",
    "echo $(id; date) | cat; ls | awk '{ print > \"PWNED\" }'",
    "rg --no-config x; xargs -a README.md touch",
]


@pytest.fixture(autouse=True)
def _needs_a_wall() -> None:
    if not find_sandbox().read_only.stands:
        missing = pytest.fail if os.environ.get("PILOTFISH_GATE") else pytest.skip
        missing("no read-only sandbox works on this machine")


def files(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("mode", ["ask", "plan"])
async def test_what_is_not_asked_about_changes_nothing(tmp_path: Path, mode: str) -> None:
    replies = [call("bash", command=command) for command in HOLES]
    async with rig(tmp_path, *replies, say("done"), files={"README.md": "x\n"}, mode=mode) as turn:
        before = files(turn.root)
        turn.answers(lambda _: Answer(option_id="reject"))
        await turn.prompt("go")
        assert files(turn.root) == before


async def test_a_trial_that_met_the_wall_says_how_to_ask(tmp_path: Path) -> None:
    replies = (
        call("bash", command="cat README.md | awk '{ print > \"out\" }'"),
        call("bash", command="cat README.md | awk '{ print > \"out\" }'", for_real=True),
        say("done"),
    )
    async with rig(tmp_path, *replies, files={"README.md": "x\n"}, mode="ask") as turn:
        turn.answers(lambda _: Answer(option_id="allow_once"))
        await turn.prompt("go")
        told = str(turn.provider.requests[1].body)
        assert "set for_real to ask the user" in told
        assert [question.reason for question in turn.face.asked] == ["it would run outside the read-only sandbox"]
        assert (turn.root / "out").read_text() == "x\n"


async def test_the_status_names_the_sandbox(tmp_path: Path) -> None:
    async with rig(tmp_path, say("hi")) as turn:
        assert "read-only sandbox without network" in await turn.live.sandbox_words()
    async with rig(tmp_path, say("hi"), sandbox="off") as turn:
        assert "all but a few plain commands are asked about" in await turn.live.sandbox_words()


async def test_without_a_sandbox_the_same_commands_are_asked_about(tmp_path: Path) -> None:
    replies = [call("bash", command=command) for command in ("git diff", "ls *", "ls -l")]
    async with rig(tmp_path, *replies, say("done"), files={"README.md": "x\n"}, mode="ask", sandbox="off") as turn:
        turn.answers(lambda _: Answer(option_id="reject"))
        await turn.prompt("go")
        assert [question.call.args["command"] for question in turn.face.asked] == ["git diff", "ls *"]
