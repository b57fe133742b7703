"""The words of a question: one line, nothing hidden in it, and what it is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from pilotfish.conversation.messages import CanonicalToolCall
from pilotfish.engine.frontend import Option, Question
from pilotfish.errors import BadRequest
from pilotfish.lsp.editor.approvals import LABEL_CHARS, TITLE_CHARS, label, option_of, preview_text, says_all, title
from pilotfish.tools.tool import Preview
from pilotfish.workspace.edits.drafts import FilePreview


def question(name: str, preview: Preview, reason: str = "it changes files") -> Question:
    return Question(
        approval_id="a",
        session_id="s",
        turn_id="t",
        call=CanonicalToolCall(id="c", name="x", args={}, title=name),
        reason=reason,
        digest="d",
        preview=preview,
        parsed=("runs ls",),
        options=(),
        amendable=True,
    )


TEXT = Preview(kind="text", text="words")


def test_a_title_is_one_line_that_can_be_read():
    assert title(question("Edit a.py", TEXT)) == "Edit a.py? It changes files."
    assert title(question("Run rm x", TEXT, "rm may change files")) == ("Run rm x? rm may change files.")
    long = title(question("Run " + "x" * 500, TEXT))
    assert len(long) == TITLE_CHARS
    assert long.endswith("…")


@pytest.mark.parametrize(
    ("command", "background", "whole"),
    [("npm test", False, True), ("npm test", True, False), ("x" * 130, False, False), ("ls\nrm x", False, False)],
)
def test_a_title_says_all_of_a_short_plain_command_only(command: str, background: bool, whole: bool):
    preview = Preview(kind="command", command=command, cwd="/w", background=background)
    assert says_all(question(f"Run {command}", preview)) is whole


def test_nothing_hides_in_a_title():
    shown = title(question("Run a\nb\u202egnp.exe\x1b[2K", TEXT))
    assert shown.startswith("Run a b\\u202egnp.exe\\u001b[2K?")


def test_a_button_that_writes_a_rule_says_which():
    assert label(Option(id="allow_once", label="Allow once")) == "Allow once"
    assert label(Option(id="allow_always", label="Always allow", rule="npm test")) == "Always allow: npm test"
    assert len(label(Option(id="allow_always", label="Always allow", rule="x" * 200))) == LABEL_CHARS


def test_a_preview_as_text_is_a_diff_a_command_or_words():
    file = FilePreview(path=Path("/w/a.py"), before="one\ntwo\n", after="one\n2\n", version="v")
    new = FilePreview(path=Path("/w/b.py"), before=None, after="x\n", version="v")
    shown = preview_text(question("Edit", Preview(kind="diff", files=(file, new))))
    assert "--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n one\n-two\n+2" in shown
    assert "--- /dev/null\n+++ b/b.py" in shown
    forged = FilePreview(path=Path("/w/c\n-old\n+new"), before=None, after="x\n", version="v")
    shown = preview_text(question("Edit", Preview(kind="diff", files=(forged,))))
    assert "+++ b/c\\n-old\\n+new\n@@" in shown
    command = preview_text(question("Run", Preview(kind="command", command="ls\n-l  x\u200b", cwd="/w", timeout=60)))
    assert command == "ls⏎\n-l··x\\u{200b}\n\nin /w, stopped after 60 s\n\nruns ls"
    assert preview_text(question("Do", TEXT)) == "words"


def test_the_argument_of_the_command_is_an_object_or_two_words():
    assert option_of(["a", "reject"]) == {"approvalId": "a", "optionId": "reject"}
    assert option_of([{"approvalId": "a", "optionId": "reject"}]) == {"approvalId": "a", "optionId": "reject"}
    for wrong in ([], [5], ["a"], "a"):
        with pytest.raises(BadRequest):
            option_of(wrong)
