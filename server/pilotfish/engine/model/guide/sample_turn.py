"""The scripted turn in the sample project: read, fix the bug, run the tests."""

from __future__ import annotations

import re

from pilotfish.engine.model.guide.answers import HOW_TO
from pilotfish.engine.model.guide.sample import BUG, COMMAND, FIX
from pilotfish.engine.model.guide.script import DemoStep, Play, plan, reason, short

FILES = frozenset({"calc.py", "test_calc.py"})
STEPS = ("Read the code and its test", "Fix the bug", "Run the tests")
_FAILED = re.compile(r"exit code (?!0\b)")


def next_step(play: Play) -> DemoStep | None:
    """The next response in the sample project. None if `calc.py` is another file of this name."""
    read = play.last("read_file", "calc.py")
    if read is None:
        return _look()
    if read.outcome == "success" and BUG not in read.text and FIX not in read.text:
        return None
    return _edit(play) or _check(play) or _summarize(play)


def _look() -> DemoStep:
    """Read the code and its test in parallel."""
    return DemoStep(
        "I'll look at the code and its test first.",
        "The user wants the failing test to pass. I should see what the test expects and what the code does before"
        " I change anything; reading needs no permission.",
        (
            ("update_plan", {"steps": plan(STEPS, 0)}),
            ("read_file", {"path": "calc.py"}),
            ("read_file", {"path": "test_calc.py"}),
        ),
    )


def _edit(play: Play) -> DemoStep | None:
    """Fix the faulty line. The edit needs approval."""
    read, edited = play.last("read_file", "calc.py"), play.last("update_file")
    if read is None or read.outcome != "success":
        why = read.text if read is not None else "the file does not exist"
        return play.ended((), f"I could not read `calc.py`: {short(why)}\n\n{HOW_TO}")
    if edited is not None or BUG not in read.text:
        return None
    if "update_file" not in play.tools:
        text = f"I see the bug, but I cannot edit files here. This is the change I would make:\n\n{_diff()}"
        return play.ended(STEPS[:1], text)
    return DemoStep(
        "Found it: `mean` divides by one less than the number of values, so `mean([2, 4, 6])` gives 6 instead of 4. "
        "I'll fix that line. You'll be asked first, and you can change the edit before you allow it.",
        "`mean` divides by len(values) - 1. That is the sample variance's denominator, not the mean's. The test expects"
        " 4 for [2, 4, 6]. One line to change.",
        (("update_file", {"path": "calc.py", "edits": [{"old_string": BUG, "new_string": FIX}]}),),
    )


def _check(play: Play) -> DemoStep | None:
    """Run the tests, or explain why there is nothing to run. Without a sandbox the user is asked about it."""
    edited, ran = play.last("update_file"), play.last("bash")
    if edited is not None and edited.outcome == "denied":
        return play.ended(
            (STEPS[0], "Propose a fix (you declined it)"),
            f"I leave the file as it is{reason(edited)}. This is the change I had in mind:\n\n{_diff()}"
            "\n\nYou can make it yourself, ask again and amend the edit in the question, or tell me what you"
            " prefer. A real model would use your feedback; I only follow a script.",
        )
    if edited is not None and edited.outcome != "success":
        text = f"The edit did not work: {short(edited.text)}\n\nThis is what I tried:\n\n{_diff()}"
        return play.ended((STEPS[0], "Propose a fix"), text)
    if ran is not None:
        return None
    if "bash" not in play.tools:
        text = f"The line is fixed. I cannot run commands here. Run `{COMMAND}` to see whether the tests pass."
        return play.ended(STEPS[:2], text)
    begin = "Now the tests." if edited is not None else "The line is already correct. I'll run the tests to be sure."
    return DemoStep(begin, "", (("update_plan", {"steps": plan(STEPS, 2)}), ("bash", {"command": COMMAND})))


def _summarize(play: Play) -> DemoStep:
    """Report the result of the tests."""
    ran = play.last("bash")
    assert ran is not None, "_summarize runs after _check"  # noqa: S101  # a broken script is a bug
    if ran.outcome == "denied":
        return play.ended(
            STEPS[:2],
            f"I did not run the tests{reason(ran)}. The fix is in place but not tested: run `{COMMAND}`"
            " yourself to see it pass. *Undo* reverts the edit.",
        )
    if ran.outcome != "success" or _FAILED.search(ran.text):
        text = f"The tests do not pass yet:\n\n```\n{short(ran.text, 600)}\n```\n\n*Undo* reverts the edit."
        return play.ended((*STEPS[:2], "Run the tests (they fail)"), text)
    return play.ended(
        STEPS,
        "Done. `mean` now divides by the number of values, and both tests pass.\n\n"
        "That was a complete turn: thinking, reading two files at once, an edit and a command that you were asked"
        f" about, and a plan. *Undo* restores the file.\n\n{HOW_TO}",
    )


def _diff() -> str:
    return f"```diff\n-{BUG}\n+{FIX}\n```"
