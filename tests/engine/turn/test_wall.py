"""Law 10, end to end: a command that runs without approval changes nothing."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from tests.support.engine import Rig, rig
from tests.support.provider import call, say

from pilotfish.engine.frontend import Answer
from pilotfish.workspace.sandbox.sandbox import find_sandbox

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
        assert [question.reason for question in turn.frontend.asked] == [
            "it would have the network, and could write to the workspace"
        ]
        assert (turn.root / "out").read_text() == "x\n"


async def test_the_status_names_the_sandbox(tmp_path: Path) -> None:
    async with rig(tmp_path, say("hi")) as turn:
        assert "read-only sandbox without network" in await turn.engine.sandbox_words()
    async with rig(tmp_path, say("hi"), sandbox="off") as turn:
        assert "all but a few plain commands are asked about" in await turn.engine.sandbox_words()


async def test_without_a_sandbox_the_same_commands_are_asked_about(tmp_path: Path) -> None:
    replies = [call("bash", command=command) for command in ("git diff", "ls *", "ls -l")]
    async with rig(tmp_path, *replies, say("done"), files={"README.md": "x\n"}, mode="ask", sandbox="off") as turn:
        turn.answers(lambda _: Answer(option_id="reject"))
        await turn.prompt("go")
        assert [question.call.args["command"] for question in turn.frontend.asked] == ["git diff", "ls *"]


EVERYDAY = (
    "ls",
    "git diff",
    "rg foo src/**/*.ts || true",
    "wc -l src/*.ts",
    "timeout 10 git status",
    "LC_ALL=C sort README.md",
    "(cd src && ls)",
    "find . -name '*.ts' -exec grep -l foo {} +",
    "git ls-files | xargs wc -l",
    "bash -c 'ls'",
)
WORK = (
    "python3 -c 'print(1 + 1)'",
    "mkdir -p out && echo built > out/app.txt",
    "sed -i s/foo/bar/ src/a.ts",
    "cat > new.py <<'EOF'\nprint('new')\nEOF\npython3 new.py",
    "echo note > /tmp/note.txt && cat /tmp/note.txt",
    "cat /tmp/note.txt",
)
HOSTILE = """
import pathlib, socket
try:
    socket.create_connection(("127.0.0.1", {port}), 2)
    print("CONNECTED")
except OSError:
    pass
pathlib.Path({outside!r}).write_text("theirs")
"""
FILES = {"README.md": "x\n", "src/a.ts": "foo\n"}


def repository(root: Path) -> None:
    subprocess.run(["git", "init", "-q", str(root)], check=True)


def texts(turn: Rig) -> list[str]:
    """The results of all calls, as the model got them."""
    return [str(item["content"]) for item in turn.provider.requests[-1].body["messages"] if item["role"] == "tool"]


@pytest.mark.parametrize("mode", ["ask", "edit", "auto"])
async def test_everyday_reading_is_not_asked_about_and_works(tmp_path: Path, mode: str) -> None:
    replies = [call("bash", command=command) for command in EVERYDAY]
    async with rig(tmp_path, *replies, say("done"), files=FILES, mode=mode) as turn:
        repository(turn.root)
        await turn.prompt("look around")
        assert turn.frontend.asked == []
        assert [text for text in texts(turn) if "[exit code 0]" not in text] == []


async def test_in_edit_mode_work_inside_the_workspace_is_not_asked_about_and_works(tmp_path: Path) -> None:
    _needs_bubblewrap()
    replies = [call("bash", command=command) for command in WORK]
    async with rig(tmp_path, *replies, say("done"), files=FILES, mode="edit") as turn:
        await turn.prompt("build it")
        assert turn.frontend.asked == []
        assert [text for text in texts(turn) if "[exit code 0]" not in text] == []
        assert (turn.root / "out/app.txt").read_text() == "built\n"
        assert (turn.root / "src/a.ts").read_text() == "bar\n"
        assert not Path("/tmp/note.txt").exists()


async def test_in_edit_mode_a_command_reaches_neither_the_network_nor_files_outside(tmp_path: Path) -> None:
    _needs_bubblewrap()
    outside = tmp_path / "outside.txt"
    outside.write_text("mine\n")
    async with rig(tmp_path, files=FILES, mode="edit") as turn:
        (turn.root / "hostile.py").write_text(HOSTILE.format(port=turn.provider.port, outside=str(outside)))
        turn.provider.replies.extend([call("bash", command="python3 hostile.py"), say("done")])
        await turn.prompt("go")
        assert turn.frontend.asked == []
        assert "CONNECTED" not in texts(turn)[0]
        assert outside.read_text() == "mine\n"


@pytest.mark.parametrize("command", ["rm -rf src", "git reset --hard", "git push", "pip install x"])
async def test_in_edit_mode_what_needs_more_is_asked_about(tmp_path: Path, command: str) -> None:
    async with rig(tmp_path, call("bash", command=command), say("done"), files=FILES, mode="edit") as turn:
        turn.answers(lambda _: Answer(option_id="reject"))
        await turn.prompt("go")
        assert [question.call.args["command"] for question in turn.frontend.asked] == [command]
        assert (turn.root / "src/a.ts").read_text() == "foo\n"


def _needs_bubblewrap() -> None:
    if find_sandbox().bwrap is None:
        missing = pytest.fail if os.environ.get("PILOTFISH_GATE") else pytest.skip
        missing("no workspace sandbox works on this machine")


async def test_the_network_is_off_until_the_user_allows_it_for_one_call(tmp_path: Path) -> None:
    if find_sandbox().bwrap is None:
        (pytest.fail if os.environ.get("PILOTFISH_GATE") else pytest.skip)("bubblewrap does not work on this machine")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        connect = f"socket.create_connection(('127.0.0.1', {listener.getsockname()[1]})); print('reached it')"
        reach = f'python3 -c "import socket; {connect}"'
        replies = (
            call("bash", command=reach),
            call("bash", command=reach, for_real=True),
            call("bash", command="curl -sSf https://pypi.org/"),
            say("done"),
        )
        async with rig(tmp_path, *replies, mode="auto") as turn:
            turn.answers(lambda _: Answer(option_id="allow_once"))
            await turn.prompt("go")
            assert [question.reason for question in turn.frontend.asked] == ["it would have the network"]
            cut_off, reached, refused = (str(request.body) for request in turn.provider.requests[1:])
            assert ("reached it\\n" in cut_off, "reached it\\n" in reached) == (False, True)
            assert "the sandbox refused the network (pypi.org); set for_real to ask the user" in refused


async def test_a_script_that_changes_while_its_question_is_open_is_asked_about_again(tmp_path: Path) -> None:
    files = {"s.sh": "echo one > made\n"}
    async with rig(tmp_path, call("bash", command="bash s.sh"), say("done"), files=files, mode="ask") as turn:

        def answer(_: object) -> Answer:
            if len(turn.frontend.asked) == 1:
                (turn.root / "s.sh").write_text("echo two > made\n")
            return Answer(option_id="allow_once" if len(turn.frontend.asked) == 1 else "reject")

        turn.answers(answer)
        await turn.prompt("go")
        assert len(turn.frontend.asked) == 2
        assert not (turn.root / "made").exists()


PRINT = """
import pathlib
for path in sorted(pathlib.Path().rglob("*")):
    if path.is_file() and ".git" not in path.parts:
        print(path, path.read_text())
"""
SECRETS = {"p.py": PRINT, ".env": "A=hunter2\n", "app/.env": "A=hunter2\n", "app/id_rsa": "hunter2\n"}


@pytest.mark.parametrize("mode", ["edit", "auto"])
async def test_a_command_that_nobody_approved_reads_no_secret_by_any_name(tmp_path: Path, mode: str) -> None:
    _needs_bubblewrap()
    commands = (
        "python3 p.py",
        "mv app target",  # a folder that is not searched for secrets
        "git add -A -f . && git status && python3 p.py",
        "git status && python3 p.py",
        'python3 -c \'import os; os.link(".e" + "nv", "copy")\'; python3 p.py',
    )
    replies = [call("bash", command=command) for command in commands]
    async with rig(tmp_path, *replies, say("done"), files=SECRETS, mode=mode) as turn:
        repository(turn.root)
        os.link(turn.root / ".env", turn.root / "notes.txt")
        before = {name: text for name, text in files(turn.root).items() if "/.git/" not in name}
        turn.answers(lambda _: Answer(option_id="reject"))
        await turn.prompt("go")
        assert turn.frontend.asked == []
        assert [text for text in texts(turn) if "hunter2" in text] == []
        assert "import pathlib" in texts(turn)[0]
        assert {name: text for name, text in files(turn.root).items() if "/.git/" not in name} == before


async def test_an_approved_command_reads_the_secrets_of_the_workspace(tmp_path: Path) -> None:
    replies = (call("bash", command="python3 p.py", for_real=True), say("done"))
    async with rig(tmp_path, *replies, files=SECRETS, mode="edit") as turn:
        turn.answers(lambda _: Answer(option_id="allow_once"))
        await turn.prompt("go")
        assert "hunter2" in texts(turn)[0]


async def test_a_failed_command_tells_which_files_were_hidden(tmp_path: Path) -> None:
    _needs_bubblewrap()
    replies = (call("bash", command='python3 -c \'assert open(".e" + "nv").read()\''), say("done"))
    async with rig(tmp_path, *replies, files={".env": "A=1\n"}, mode="edit") as turn:
        await turn.prompt("go")
        assert "[secret files were empty for this command: .env; set for_real to ask the user]" in texts(turn)[0]


async def test_a_download_that_the_sandbox_refused_brought_nothing(tmp_path: Path) -> None:
    _needs_bubblewrap()
    replies = (call("bash", command="curl -sS https://pypi.org/"), call("bash", command="git fetch"), say("done"))
    async with rig(tmp_path, *replies, mode="auto") as turn:
        repository(turn.root)
        await turn.prompt("go")
        assert turn.frontend.asked == []
