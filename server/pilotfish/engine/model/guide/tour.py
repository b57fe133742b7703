"""The scripted turn in any folder: read the open file, outline it, propose one harmless edit, and explain undo."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pilotfish.engine.model.guide.answers import HOW_TO
from pilotfish.engine.model.guide.outline import Symbol, best_file, can_comment, commented, outline
from pilotfish.engine.model.guide.script import DemoStep, Play, plan, reason, short

PATTERN = "**/*.*"
FOUND = 1000  # file names that are looked at
MAX_OUTLINE = 12
MAX_TRIES = 3  # files that cannot be read before the guide goes on without one
MARK = "Overview"
NOTE = "pilotfish-tour.md"
NOTE_TEXT = "# A note of Pilotfish's guide\n\nYou allowed this file. Undo of the turn removes it again.\n"
_LINE = re.compile(r"^ *(\d+)\t(.*)$")


def find_files() -> DemoStep:
    """The first response of every scripted turn: it sees whether this is the sample project."""
    return DemoStep(
        "No model is connected: a scripted guide answers. I'll see which files are here.",
        "The user has no model connected. I look for a file to show a turn on; reading needs no permission.",
        (("glob", {"pattern": PATTERN, "limit": FOUND}),),
    )


def found_files(play: Play) -> list[str]:
    """The files that `find_files` found."""
    result = play.last("glob")
    if result is None or result.outcome != "success":
        return []
    return [line for line in result.text.splitlines() if can_comment(line) and not line.startswith(("[", "<", "No "))]


def next_step(play: Play) -> DemoStep:
    """The next response of the tour. It is defined for every turn."""
    path = _chosen(play)
    if path is None:
        return _propose_note(play, ("Look for a file",), "I found no source file here to read.")
    read = play.last("read_file", path)
    if read is None:
        steps = _steps(path)
        why = "the file you have open" if path == play.active else "a good place to start"
        cannot = "I cannot do what you ask, but I can show you on your own files how a turn works."
        look = f"{cannot} I'll read `{path}`, {why}."
        return DemoStep(look, "", (("update_plan", {"steps": plan(steps, 0)}), ("read_file", {"path": path})))
    lines = [match[2] for line in read.text.splitlines() if (match := _LINE.match(line))]
    symbols = outline(path, lines)
    if play.last("update_file") is not None or play.last("write_file") is not None:
        return _ended(play, path)
    return _propose(play, path, lines, symbols)


def _chosen(play: Play) -> str | None:
    """The open file, or the best one of the folder. A file that could not be read is left out."""
    failed = {
        str(each.args.get("path")) for each in play.returned if each.tool == "read_file" and each.outcome != "success"
    }
    if len(failed) >= MAX_TRIES:
        return None
    if play.active is not None and play.active not in failed:
        return play.active
    return best_file([name for name in found_files(play) if name not in failed])


def _steps(path: str) -> tuple[str, ...]:
    return (f"Read {path}", "Outline it", "Propose a small edit")


def _propose(play: Play, path: str, lines: Sequence[str], symbols: Sequence[Symbol]) -> DemoStep:
    """Show the outline and propose a comment at the top of the file."""
    shown = _outline_text(path, len(lines), symbols)
    names = ", ".join(symbol.name for symbol in symbols[:5]) or f"{len(lines)} lines"
    if any(MARK in line for line in lines[:10]):
        return play.ended(
            _steps(path)[:2], f"{shown}\n\nThe comment of an earlier tour is still there.\n\n{_WHAT_ELSE}"
        )
    edit = commented(path, lines, f"{MARK}: {names}")
    if edit is None or any("more characters in this line]" in line for line in edit[0].splitlines()):
        return _propose_note(play, _steps(path)[:2], shown)
    old, new = edit
    if (why := _cannot_edit(play, "update_file")) is not None:
        return play.ended(
            _steps(path)[:2], f"{shown}\n\n{why} This is the edit I would propose:\n\n{_diff(old, new)}\n\n{_WHAT_ELSE}"
        )
    return DemoStep(
        f"{shown}\n\nNow an edit, so that you see how one works: a comment at the top of `{path}`. It changes nothing"
        " that runs. You are asked first; deny it if you like, or change it in the question.",
        "A comment is harmless in this kind of file, and undo removes it.",
        (
            ("update_plan", {"steps": plan(_steps(path), 2)}),
            ("update_file", {"path": path, "edits": [{"old_string": old, "new_string": new}]}),
        ),
    )


def _propose_note(play: Play, done: Sequence[str], shown: str) -> DemoStep:
    """Where no comment can be put into a file, propose a new one."""
    if play.last("write_file") is not None:
        return _ended(play, NOTE)
    said = (
        "The note of an earlier tour is still there." if NOTE in found_files(play) else _cannot_edit(play, "write_file")
    )
    if said is not None:
        return play.ended(done, f"{shown}\n\n{said}\n\n{_WHAT_ELSE}")
    return DemoStep(
        f"{shown}\n\nNow a change, so that you see how one works: a new file `{NOTE}`. You are asked first.",
        "",
        (
            ("update_plan", {"steps": plan((*done, "Propose a new file"), len(done))}),
            ("write_file", {"path": NOTE, "content": NOTE_TEXT}),
        ),
    )


def _cannot_edit(play: Play, tool: str) -> str | None:
    """Why no edit is proposed, or None. The guide never edits without a question."""
    if not play.trusted:
        return "This folder is not trusted, so nothing may be changed here."
    if play.mode == "plan":
        return "The session is in mode `plan`, so nothing is changed."
    if play.mode != "ask":
        return f"In mode `{play.mode}` an edit runs without a question, and a script should not do that in your files."
    return "I cannot edit files here." if tool not in play.tools else None


def _ended(play: Play, path: str) -> DemoStep:
    """Report what became of the edit, and how to take it back."""
    edited = play.last("update_file") or play.last("write_file")
    assert edited is not None, "_ended runs after an edit"  # noqa: S101  # a broken script is a bug
    match edited.outcome:
        case "success":
            text = (
                f"`{path}` is changed. Now take it back: *Undo* at this turn, or `/undo`, restores the file as it was"
                " and keeps what you have typed since. *Keep* in the review accepts it."
            )
        case "denied":
            text = f"I left `{path}` as it is{reason(edited)}. A real model reads the words of a denial."
        case _:
            text = f"The edit did not work: {short(edited.text)}."
    planned = play.last("update_plan")
    steps = [str(entry["content"]) for entry in planned.args.get("steps", ())] if planned is not None else []
    return play.ended(steps, f"{text}\n\n{_WHAT_ELSE}")


_WHAT_ELSE = (
    "That was a turn: a plan, files read without a question, and a change that waits for your answer. Ask me about"
    " **modes**, **models**, **undo**, **stop**, **sessions** or **approvals**.\n\n" + HOW_TO
)


def _outline_text(path: str, count: int, symbols: Sequence[Symbol]) -> str:
    if not symbols:
        return f"`{path}` has {count} line{'' if count == 1 else 's'}, and I see no definitions in it."
    rows = [f"- {symbol.kind} `{symbol.name}`, line {symbol.line}" for symbol in symbols[:MAX_OUTLINE]]
    more = [f"- … and {len(symbols) - MAX_OUTLINE} more"] if len(symbols) > MAX_OUTLINE else []
    return "\n".join([f"`{path}` has {count} lines. Its outline:", "", *rows, *more])


def _diff(old: str, new: str) -> str:
    added = [line for line in new.split("\n") if line not in old.split("\n")]
    return "```diff\n" + "\n".join(f"+{line}" for line in added) + "\n```"
