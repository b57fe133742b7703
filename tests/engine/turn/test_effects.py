"""A command that is asked about is tried out first: the question shows what it changes, "Allow" applies exactly that.

Law: what was approved is exactly what is applied, and nothing else happens.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.editor import FakeEditor
from tests.support.engine import Rig, rig
from tests.support.frontends import ALLOW, DENY
from tests.support.provider import Call, call, calls, say

from pilotfish.engine.frontend import Answer, Question
from pilotfish.workspace.sandbox.sandbox import find_sandbox

if find_sandbox().bwrap is None and not os.environ.get("PILOTFISH_GATE"):
    pytest.skip(f"the workspace sandbox does not work here: {find_sandbox().reason}", allow_module_level=True)

REAL = Answer(option_id="allow_real", by="test")
FILES = {"a.txt": "one\ntwo\n", "src/b.txt": "b\n", "src/c.txt": "c\n", "run.sh": "date +%N > stamp\necho out\n"}


def tree(root: Path) -> dict[str, bytes | str]:
    """Every file with its bytes, every link with its target, every folder."""
    found: dict[str, bytes | str] = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        else:
            found[name] = "folder" if path.is_dir() else path.read_bytes()
    return found


def results(turn: Rig) -> list[str]:
    return [str(item["content"]) for item in turn.provider.requests[-1].body["messages"] if item["role"] == "tool"]


def diffs(turn: Rig, question: Question) -> dict[str, tuple[str | None, str | None]]:
    return {file.path.relative_to(turn.root).as_posix(): (file.before, file.after) for file in question.preview.files}


CASES: list[tuple[str, dict[str, tuple[str | None, str | None]]]] = [
    ("sed -i s/one/ONE/ a.txt", {"a.txt": ("one\ntwo\n", "ONE\ntwo\n")}),
    ("echo new > src/new.txt; echo done", {"src/new.txt": (None, "new\n")}),
    ("mkdir -p x/y && cp a.txt x/y/z.txt", {"x/y/z.txt": (None, "one\ntwo\n")}),
    ("rm src/b.txt", {"src/b.txt": ("b\n", None)}),
    ("rm -rf src", {"src/b.txt": ("b\n", None), "src/c.txt": ("c\n", None)}),
    ("mv src/b.txt b.txt", {"src/b.txt": ("b\n", None), "b.txt": (None, "b\n")}),
    ("python3 -c 'import shutil; shutil.move(\"src\", \"lib\")'; true; touch -c a.txt; tee -a a.txt < /dev/null", {
        "src/b.txt": ("b\n", None), "src/c.txt": ("c\n", None), "lib/b.txt": (None, "b\n"), "lib/c.txt": (None, "c\n"),
    }),
    ("sed -i 's/$/\\r/' a.txt", {"a.txt": ("one\ntwo\n", "one\r\ntwo\r\n")}),
]  # fmt: skip


@pytest.mark.parametrize(("command", "changes"), CASES, ids=[command for command, _ in CASES])
async def test_the_question_shows_what_a_command_changes_and_allow_applies_exactly_that(
    tmp_path: Path, command: str, changes: dict[str, tuple[str | None, str | None]]
) -> None:
    expected = tmp_path / "expected"
    async with rig(tmp_path, call("bash", command=command), say("done"), files=FILES, mode="ask") as turn:
        before = tree(turn.root)
        shown: list[dict[str, tuple[str | None, str | None]]] = []

        def answer(question: Question) -> Answer:
            assert tree(turn.root) == before, "a trial changes nothing"
            shown.append(diffs(turn, question))
            return ALLOW

        turn.answers(answer)
        await turn.prompt("go")
        assert shown == [changes]
        # What the command would have done for real.
        expected.mkdir()
        for name, text in FILES.items():
            (expected / name).parent.mkdir(exist_ok=True)
            (expected / name).write_text(text)
        done = await asyncio.create_subprocess_exec("bash", "-c", command, cwd=expected)
        await done.wait()
        assert tree(turn.root) == tree(expected)
        assert "[exit code 0]" in results(turn)[0]
        # Undo covers it to the byte; a folder that was made may stay.
        undone = await turn.engine.undo(turn.session_id)
        assert undone.refused == ()
        left = {name: data for name, data in tree(turn.root).items() if data != "folder"}
        assert left == {name: text.encode() for name, text in FILES.items()}


async def test_deny_changes_nothing_and_the_model_does_not_get_the_output(tmp_path: Path) -> None:
    reply = call("bash", command="echo x > a.txt; echo secret output")
    async with rig(tmp_path, reply, say("done"), files=FILES, mode="ask", choose=lambda _: DENY) as turn:
        before = tree(turn.root)
        await turn.prompt("go")
        assert tree(turn.root) == before
        (question,) = turn.frontend.asked
        assert question.preview.tried is not None
        assert question.preview.tried.output == "secret output\n"
        assert "The user denied this call" in results(turn)[0]
        assert "secret output\n" not in results(turn)[0]


async def test_the_command_does_not_run_again(tmp_path: Path) -> None:
    async with rig(tmp_path, call("bash", command="bash run.sh"), say("done"), files=FILES, mode="ask") as turn:
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        assert diffs(turn, question) == {"stamp": (None, (turn.root / "stamp").read_text())}
        assert "out\n[exit code 0]" in results(turn)[0]


async def test_the_user_can_run_it_for_real_instead(tmp_path: Path) -> None:
    async with rig(
        tmp_path, call("bash", command="bash run.sh"), say("done"), files=FILES, mode="ask", choose=lambda _: REAL
    ) as turn:
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        assert [(option.id, option.label) for option in question.options][:2] == [
            ("allow_once", "Allow once"),
            ("allow_real", "Run it for real"),
        ]
        assert diffs(turn, question)["stamp"] != (None, (turn.root / "stamp").read_text())


async def test_amended_arguments_run_for_real(tmp_path: Path) -> None:
    amended = Answer(option_id="allow_once", args={"command": "echo mine > b.txt"}, by="test")
    async with rig(
        tmp_path, call("bash", command="echo x > a.txt"), say("done"), files=FILES, mode="ask", choose=lambda _: amended
    ) as turn:
        await turn.prompt("go")
        assert len(turn.frontend.asked) == 1
        assert ((turn.root / "a.txt").read_text(), (turn.root / "b.txt").read_text()) == ("one\ntwo\n", "mine\n")


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        ("sed -i s/one/ONE/ a.txt", {"tryCommands": False}),
        ("git commit -am x", {}),
        ("cd src && /usr/bin/git add . && rm b.txt", {}),
        ("curl -o a.txt https://example.org/", {}),
        ("echo x > a.txt", {"rules": [{"decision": "ask", "tool": "bash", "pattern": "echo *"}]}),
        ("echo x > /tmp/x", {}),
    ],
)
async def test_what_a_view_of_the_workspace_cannot_show_is_not_tried(
    tmp_path: Path, command: str, settings: dict[str, Any]
) -> None:
    async with rig(
        tmp_path, call("bash", command=command), say("done"), files=FILES, mode="ask", choose=lambda _: DENY, **settings
    ) as turn:
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        assert question.preview.tried is None
        assert not any("was tried" in line for line in question.parsed)


@pytest.mark.parametrize("args", [{"for_real": True}, {"background": True}])
async def test_a_call_that_says_so_is_not_tried(tmp_path: Path, args: dict[str, bool]) -> None:
    reply = call("bash", command="echo x > a.txt", **args)
    async with rig(tmp_path, reply, say("done"), files=FILES, mode="ask", choose=lambda _: DENY) as turn:
        await turn.prompt("go")
        assert turn.frontend.asked[0].preview.tried is None


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("true; touch -c a.txt", "it changed nothing there"),
        ("bash link.sh", "symbolic link: link"),
        ("ln -s a.txt link", "it makes, changes or removes a symbolic link: link"),
        ("rm -r src && ln -s a.txt src", "symbolic link: src"),
        ("chmod +x a.txt", "it gives a.txt the mode 755"),
        ("install -m 600 a.txt b.txt", "it gives b.txt the mode 600"),
        ("mkdir empty", "it makes the empty folder empty"),
        ("rmdir hollow", "it removes the empty folder hollow"),
        ("ln a.txt b.txt", "a hard link"),
        ("rm -r src; echo f > src", "a file of a folder"),
        ("mkdir .git && echo x > .git/config", "it changes the state of git"),
        ("mkfifo pipe", "neither a file nor a link"),
        ("for i in $(seq 200); do echo $i > f$i; done", "it changes 200 files, too many to show"),
        ("head -c 2000000 /dev/zero > big", "too much to show"),
        ("sleep 5; echo x > a.txt", "it ran longer than 0.5 s"),
    ],
)
async def test_what_cannot_be_applied_exactly_is_asked_about_as_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, why: str
) -> None:
    monkeypatch.setattr("pilotfish.workspace.effects.MAX_SECONDS", 0.5 if "sleep" in command else 20)
    async with rig(
        tmp_path, call("bash", command=command), say("done"), files=FILES, mode="ask", choose=lambda _: DENY
    ) as turn:
        (turn.root / "hollow").mkdir()
        (turn.root / "link.sh").write_text("ln -s /etc link; echo x > link/passwd")
        before = tree(turn.root)
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        assert (question.preview.tried, question.preview.files) == (None, ())
        assert why in question.parsed[-1]
        assert "allow_real" not in [option.id for option in question.options]
        assert tree(turn.root) == before


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("mkdir -p .vscode; echo '{}' > .vscode/tasks.json", "editor settings"),
        ("echo A=2 > .env", "environment file, often with secrets"),
        ("rm AGENTS.md", "instructs agents"),
        ("mkdir -p .github/workflows; echo x > .github/workflows/ci.yml", "runs on a build server"),
        ("echo x > .husky/pre-commit", "runs on commit"),
    ],
)
async def test_an_effect_on_a_sensitive_file_is_asked_about_as_such(tmp_path: Path, script: str, reason: str) -> None:
    files = {**FILES, ".env": "A=1\n", "AGENTS.md": "be kind\n", ".husky/x": "", "gen.py": "", "s.sh": script + "\n"}
    async with rig(
        tmp_path, call("bash", command="bash s.sh"), say("done"), files=files, mode="ask", choose=lambda _: DENY
    ) as turn:
        before = tree(turn.root)
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        assert reason in question.reason
        assert tree(turn.root) == before


async def test_a_rule_about_a_file_denies_a_command_that_changes_it(tmp_path: Path) -> None:
    rules = [{"decision": "deny", "tool": "write", "pattern": "stamp"}]
    async with rig(
        tmp_path, call("bash", command="bash run.sh"), say("done"), files=FILES, mode="ask", rules=rules
    ) as turn:
        await turn.prompt("go")
        assert turn.frontend.asked == []
        assert "Not allowed: a rule forbids it" in results(turn)[0]
        assert not (turn.root / "stamp").exists()


def _typed(root: Path) -> None:
    (root / "a.txt").write_text("the user's\n")


def _deleted(root: Path) -> None:
    (root / "a.txt").unlink()


@pytest.mark.parametrize("meanwhile", [_typed, _deleted])
async def test_a_file_that_changes_while_the_question_is_open_is_asked_about_again(
    tmp_path: Path, meanwhile: Callable[[Path], None]
) -> None:
    reply = call("bash", command="cat src/b.txt > a.txt")
    async with rig(tmp_path, reply, say("done"), files=FILES, mode="ask") as turn:
        shown: list[tuple[str | None, str | None]] = []

        def answer(question: Question) -> Answer:
            shown.append(diffs(turn, question)["a.txt"])
            if len(shown) == 1:
                meanwhile(turn.root)
            return ALLOW

        turn.answers(answer)
        await turn.prompt("go")
        now = "the user's\n" if meanwhile is _typed else None
        assert shown == [("one\ntwo\n", "b\n"), (now, "b\n")]
        assert (turn.root / "a.txt").read_text() == "b\n"


async def test_a_link_that_is_put_in_the_way_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "b.txt").write_text("b\n")
    reply = call("bash", command="echo pwned > src/b.txt; echo pwned > src/new.txt")
    async with rig(tmp_path, reply, say("done"), files=FILES, mode="ask") as turn:

        def answer(_: Question) -> Answer:
            if len(turn.frontend.asked) == 1:
                (turn.root / "src").rename(turn.root / "moved")
                (turn.root / "src").symlink_to(outside)
            return ALLOW if len(turn.frontend.asked) == 1 else DENY

        turn.answers(answer)
        await turn.prompt("go")
        assert tree(outside) == {"b.txt": b"b\n"}


async def test_binary_files_are_named_by_their_hash_and_applied_and_undone_to_the_byte(tmp_path: Path) -> None:
    command = "printf '\\0\\1\\2' > new.bin; printf '\\0\\377' > old.bin; rm gone.bin; true"
    files = {"old.bin": "\0old", "gone.bin": "\0gone"}
    async with rig(tmp_path, call("bash", command=command), say("done"), files=files, mode="ask") as turn:
        before = tree(turn.root)
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        shown = diffs(turn, question)
        assert shown["new.bin"][1] == (
            "[3 bytes, SHA-256 ae4b3280e56e2faf83f414a6e3dabe9d5fbe18976544c05fed121accb85b53fc]\n"
        )
        assert tree(turn.root) == {"new.bin": b"\0\1\2", "old.bin": b"\0\xff"}
        assert (await turn.engine.undo(turn.session_id)).refused == ()
        assert tree(turn.root) == before
        assert (await turn.engine.redo(turn.session_id)).refused == ()
        assert tree(turn.root) == {"new.bin": b"\0\1\2", "old.bin": b"\0\xff"}


async def test_an_open_document_is_edited_through_the_editor_and_unsaved_text_is_named(tmp_path: Path) -> None:
    editor = FakeEditor()
    reply = call("bash", command="sed -i s/one/ONE/ a.txt")
    async with rig(tmp_path, reply, say("done"), files=FILES, mode="ask", editor=editor) as turn:
        editor.open(turn.root / "a.txt")
        editor.open(turn.root / "src/b.txt")
        editor.type(turn.root / "src/b.txt", 0, "typed ")
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        assert question.preview.tried is not None
        assert question.preview.tried.note == "it did not see the unsaved text of src/b.txt"
        assert any(request.startswith("apply") for request in editor.requests)
        assert (turn.root / "a.txt").read_text() == "ONE\ntwo\n"


async def test_a_command_that_changes_an_unsaved_document_is_asked_about_as_before(tmp_path: Path) -> None:
    editor = FakeEditor()
    reply = call("bash", command="sed -i s/one/ONE/ a.txt")
    async with rig(tmp_path, reply, say("done"), files=FILES, mode="ask", editor=editor, choose=lambda _: DENY) as turn:
        editor.open(turn.root / "a.txt")
        editor.type(turn.root / "a.txt", 0, "typed ")
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        assert question.preview.tried is None
        assert "has unsaved text in the editor" in question.parsed[-1]


async def test_a_trial_sees_what_earlier_calls_of_the_answer_did(tmp_path: Path) -> None:
    reply = calls(
        Call("write_file", {"path": "new.txt", "content": "first\n"}),
        Call("bash", {"command": "sed -i s/first/second/ new.txt"}),
        Call("bash", {"command": "sed -i s/second/third/ new.txt"}),
    )
    async with rig(tmp_path, reply, say("done"), files=FILES, mode="ask") as turn:
        await turn.prompt("go")
        assert [diffs(turn, question)["new.txt"] for question in turn.frontend.asked] == [
            (None, "first\n"),
            ("first\n", "second\n"),
            ("second\n", "third\n"),
        ]
        assert (turn.root / "new.txt").read_text() == "third\n"


async def test_the_working_directory_follows_and_read_files_are_reported_as_changed(tmp_path: Path) -> None:
    replies = (
        call("read_file", path="a.txt"),
        call("bash", command="cd src && sed -i s/one/ONE/ ../a.txt"),
        call("bash", command="pwd"),
        say("done"),
    )
    async with rig(tmp_path, *replies, files=FILES, mode="ask") as turn:
        await turn.prompt("go")
        assert "changed since you read them: a.txt" in results(turn)[1]
        assert f"{turn.root}/src\n" in results(turn)[2]


async def test_a_huge_output_is_cut_in_the_question(tmp_path: Path) -> None:
    reply = call("bash", command="seq 1000000; echo x > a.txt")
    async with rig(tmp_path, reply, say("done"), files=FILES, mode="ask") as turn:
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        assert question.preview.tried is not None
        assert len(question.preview.tried.output) < 21_000
        assert "bytes cut" in question.preview.tried.output
        assert (turn.root / "a.txt").read_text() == "x\n"


async def test_a_failing_command_shows_what_it_did_until_then(tmp_path: Path) -> None:
    reply = call("bash", command="echo x > a.txt; false")
    async with rig(tmp_path, reply, say("done"), files=FILES, mode="ask") as turn:
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        assert question.preview.tried is not None
        assert question.preview.tried.exit_code == 1
        assert (turn.root / "a.txt").read_text() == "x\n"
        assert "[exit code 1]" in results(turn)[0]
