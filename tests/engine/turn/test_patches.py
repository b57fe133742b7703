"""Patches, moves and deletions in a real turn: shown whole, all or nothing, undone; and who is offered which tool."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import Rig, rig
from tests.support.provider import call, say

from pilotfish.engine.frontend import Question

PATCH = """*** Begin Patch
*** Update File: a.py
@@
-x = 1
+x = 2
*** Add File: sub/new.py
+new
*** Update File: old.py
*** Move to: moved.py
@@
-o = 1
+o = 2
*** Delete File: gone.py
*** End Patch"""
FILES = {"a.py": "x = 1\n", "old.py": "o = 1\n", "gone.py": "gone\n", "b.bin": "\0\1"}


def tree(turn: Rig) -> dict[str, str]:
    return {
        path.relative_to(turn.root).as_posix(): path.read_text()
        for path in sorted(turn.root.rglob("*"))
        if path.is_file()
    }


def shown(turn: Rig) -> list[list[tuple[str, str | None, str | None]]]:
    """Keeps what each question shows."""
    asked: list[list[tuple[str, str | None, str | None]]] = []
    answer = turn.frontend.on_ask
    assert answer is not None

    def on_ask(question: Question) -> None:
        asked.append([(f.path.relative_to(turn.root).as_posix(), f.before, f.after) for f in question.preview.files])
        answer(question)

    turn.frontend.on_ask = on_ask
    return asked


@pytest.mark.parametrize(
    "reply",
    [
        call("apply_patch", patch=PATCH),
        call("apply_patch", input=PATCH),
        call("bash", command=f"apply_patch <<'EOF'\n{PATCH}\nEOF"),
        call("shell", command=["apply_patch", PATCH]),
    ],
    ids=["patch", "input", "heredoc", "words"],
)
async def test_every_file_of_a_patch_is_shown_changed_and_undone(tmp_path: Path, reply: Any) -> None:
    async with rig(tmp_path, reply, say("fine"), files=FILES, mode="ask") as turn:
        asked = shown(turn)
        assert (await turn.prompt("go")).stop_reason == "end_turn"
        assert asked == [
            [
                ("a.py", "x = 1\n", "x = 2\n"),
                ("sub/new.py", None, "new\n"),
                ("old.py", "o = 1\n", None),
                ("moved.py", None, "o = 2\n"),
                ("gone.py", "gone\n", None),
            ]
        ]
        assert tree(turn) == {"a.py": "x = 2\n", "sub/new.py": "new\n", "moved.py": "o = 2\n", "b.bin": "\0\1"}
        await turn.engine.undo(turn.session_id)
        assert tree(turn) == FILES
        turn.check_laws()


async def test_a_patch_that_does_not_fit_one_file_changes_none(tmp_path: Path) -> None:
    wrong = PATCH.replace("-o = 1", "-o = 7")
    async with rig(tmp_path, call("apply_patch", patch=wrong), say("fine"), files=FILES, mode="auto") as turn:
        await turn.prompt("go")
        assert tree(turn) == FILES
        assert turn.statuses()[next(iter(turn.statuses()))][-1] == "failed"


async def test_what_changed_after_it_was_approved_is_not_deleted_nor_moved(tmp_path: Path) -> None:
    replies = (call("delete_file", path="a.py"), call("move_file", path="old.py", to="new.py"), say("fine"))
    async with rig(tmp_path, *replies, files=FILES, mode="ask") as turn:
        answer = turn.frontend.on_ask
        assert answer is not None
        asked: list[str] = []

        def on_ask(question: Question) -> None:
            asked.append(question.digest)
            if len(asked) in (1, 3):
                for name in ("a.py", "old.py"):
                    (turn.root / name).write_text(f"{len(asked)}\n")
            answer(question)

        turn.frontend.on_ask = on_ask
        await turn.prompt("go")
        assert len(asked) == len(set(asked)) == 4  # each call was asked about again, as it is now


@pytest.mark.parametrize(
    ("name", "args", "after"),
    [
        ("delete_file", {"path": "b.bin"}, {**FILES, "b.bin": None}),
        ("rm", {"file_path": "a.py"}, {**FILES, "a.py": None}),
        ("move_file", {"path": "a.py", "to": "c/a.py"}, {**FILES, "a.py": None, "c/a.py": "x = 1\n"}),
        ("move_file", {"path": "b.bin", "to": "c/b.bin"}, {**FILES, "b.bin": None, "c/b.bin": "\0\1"}),
        ("mv", {"source": "a.py", "destination": "gone.py"}, FILES),
        ("delete_file", {"path": "."}, FILES),
    ],
)
async def test_files_are_moved_and_deleted_and_come_back(
    tmp_path: Path, name: str, args: Mapping[str, Any], after: Mapping[str, str | None]
) -> None:
    async with rig(tmp_path, call(name, **args), say("fine"), files=FILES, mode="auto") as turn:
        await turn.prompt("go")
        assert tree(turn) == {path: text for path, text in after.items() if text is not None}
        await turn.engine.undo(turn.session_id)
        assert tree(turn) == FILES


EDITING = {"update_file", "write_file", "apply_patch", "move_file", "delete_file"}


@pytest.mark.parametrize(
    ("model", "editing"),
    [
        ("gpt-5.2-codex", {"apply_patch"}),
        ("gpt-4.1-mini", {"apply_patch"}),
        ("o4-mini", {"apply_patch"}),
        ("gpt-4o", EDITING - {"apply_patch"}),
        ("claude-sonnet-4-5", EDITING - {"apply_patch"}),
        ("anthropic/claude-3.7-sonnet", EDITING - {"apply_patch"}),
        ("gemini-2.5-pro", EDITING - {"apply_patch"}),
        ("qwen2.5-coder:32b", EDITING - {"apply_patch"}),
        ("qwen3-30b-a3b", EDITING - {"apply_patch"}),
        ("llama-3.1-70b", EDITING - {"apply_patch"}),
        ("deepseek-v3", EDITING - {"apply_patch"}),
    ],
)
async def test_a_model_is_offered_the_edits_of_its_family_and_may_use_the_others(
    tmp_path: Path, model: str, editing: set[str]
) -> None:
    edit = call("update_file", path="a.py", edits=[{"old_string": "x = 1", "new_string": "x = 2"}])
    async with rig(tmp_path, edit, say("fine"), files=FILES, mode="auto", model=f"openai-chat:{model}") as turn:
        await turn.prompt("go")
        names = {tool["function"]["name"] for tool in turn.provider.requests[0].body["tools"]}
        assert names & EDITING == editing
        assert {"read_file", "grep", "bash"} <= names
        assert tree(turn)["a.py"] == "x = 2\n"
