"""A corpus of edit calls with the slips that models make, on real code, and the rules of two other agents beside ours.

Each case has a file, an edit that quotes some of its lines, and the file that the edit means. `python -m
tests.support.edit_corpus` prints the table of `server/BENCHMARKS.md`. The rules of Codex' apply_patch and of aider's
search/replace blocks are written here from their published behaviour.
"""

from __future__ import annotations

import html
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Literal

from pilotfish.errors import ToolError
from pilotfish.workspace.edits.matching import Replacement, match
from pilotfish.workspace.edits.patches import Chunk, match_chunks
from pilotfish.workspace.files.encoding import replace

ROOT = Path(__file__).parents[2]
SOURCES = ("server/pilotfish/**/*.py", "client-vscode/src/**/*.ts", "client-nvim/**/*.lua", "client-emacs/*.el")
EACH = 25  # cases of each slip

Outcome = Literal["right", "refused", "wrong"]


@dataclass(frozen=True)
class Case:
    """`old` is quoted in a call that wants `new`; `after` is what the file should be, None if the call is to be
    refused."""

    slip: str
    text: str
    old: tuple[str, ...]
    new: tuple[str, ...]
    after: str | None


@dataclass(frozen=True)
class _Edit:
    """A true edit: lines `start` to `end` of `lines` become `new`."""

    lines: tuple[str, ...]
    start: int
    end: int
    new: tuple[str, ...]

    @property
    def old(self) -> tuple[str, ...]:
        return self.lines[self.start : self.end]

    def case(self, slip: str, old: Sequence[str], new: Sequence[str], lines: Sequence[str] | None = None) -> Case:
        text = "\n".join(lines or self.lines)
        after = [*(lines or self.lines)]
        after[self.start : self.end] = self.new
        return Case(slip, text, tuple(old), tuple(new), "\n".join(after))


def corpus(seed: int = 19) -> list[Case]:
    """The cases, the same ones for the same code."""
    rng = random.Random(seed)
    files = [path for pattern in SOURCES for path in sorted(ROOT.glob(pattern))]
    texts = [text for path in files if 40 < (text := path.read_text("utf-8")).count("\n") < 600]
    cases: list[Case] = []
    for slip in SLIPS:
        found = 0
        while found < EACH:
            edit = _edit(rng, rng.choice(texts))
            if edit is not None and (case := slip(rng, edit)) is not None:
                cases.append(case)
                found += 1
    return cases


def _edit(rng: random.Random, text: str) -> _Edit | None:
    """A window of lines that the file has once, in which one line is changed, inserted or removed."""
    lines = tuple(text.split("\n"))
    size = rng.randint(4, 12)
    start = rng.randrange(1, len(lines) - size - 1)
    old = lines[start : start + size]
    if not old[0].strip() or not old[-1].strip() or "\n".join(lines).count("\n".join(old)) != 1:
        return None
    at = rng.randrange(1, size - 1)
    if not old[at].strip() or "..." in old[at]:
        return None
    words = re.findall(r"\b[a-z_]{4,}\b", old[at])
    new = list(old)
    kind = rng.choice(("change", "change", "insert", "remove"))
    if kind == "change":
        if not words:
            return None
        word = rng.choice(words)
        new[at] = re.sub(rf"\b{word}\b", f"{word}_new", old[at])
    elif kind == "insert":
        new.insert(at, _indent(old[at]) + "inserted = call(value)")
    else:
        del new[at]
    return _Edit(lines, start, start + size, tuple(new))


# -- the slips --------------------------------------------------------------------------------------------------------


def exact(_: random.Random, edit: _Edit) -> Case | None:
    return edit.case("exact", edit.old, edit.new)


def spaces_at_line_ends(rng: random.Random, edit: _Edit) -> Case | None:
    row = rng.randrange(len(edit.old))
    return (
        edit.case("spaces at line ends", _with(edit.old, row, edit.old[row] + "  "), edit.new)
        if _kept(edit, row)
        else None
    )


def indentation_cut(_: random.Random, edit: _Edit) -> Case | None:
    """Every line has lost the same indentation."""
    common = min((_indent(line) for line in (*edit.old, *edit.new) if line.strip()), key=len)
    if not common:
        return None
    return edit.case(
        "indentation cut", *([line.removeprefix(common) for line in lines] for lines in (edit.old, edit.new))
    )


def indentation_flat(_: random.Random, edit: _Edit) -> Case | None:
    """Every line has lost all its indentation."""
    if len({_indent(line) for line in edit.old if line.strip()}) < 2 or len(edit.old) != len(edit.new):
        return None
    return edit.case("indentation lost", *([line.lstrip() for line in lines] for lines in (edit.old, edit.new)))


def spaces_for_tabs(_: random.Random, edit: _Edit) -> Case | None:
    """The file has tabs, the call has spaces."""
    step = 4 if any(line.startswith("    ") for line in edit.lines) else 2
    if not any(_indent(line) for line in edit.old) or any(len(_indent(line)) % step for line in edit.lines):
        return None

    def tabbed(lines: Sequence[str]) -> tuple[str, ...]:
        return tuple("\t" * (len(_indent(line)) // step) + line.lstrip(" ") for line in lines)

    other = _Edit(tabbed(edit.lines), edit.start, edit.end, tabbed(edit.new))
    return other.case("spaces for tabs", edit.old, edit.new)


def plain_quotes(rng: random.Random, edit: _Edit) -> Case | None:
    """The file has typographic signs in a line that stays, the call has plain ones."""
    row = rng.randrange(len(edit.old))
    line = edit.old[row]
    if not _kept(edit, row) or not re.search(r"['\"-]", line):
        return None
    curly = line.replace("'", "’").replace('"', "”").replace("-", "–")
    new = tuple(curly if other == line else other for other in edit.new)
    lines = _with(edit.lines, edit.start + row, curly)
    return _Edit(lines, edit.start, edit.end, new).case("typographic quotes", edit.old, edit.new)


def line_numbers(_: random.Random, edit: _Edit) -> Case | None:
    def numbered(lines: Sequence[str]) -> list[str]:
        return [f"{edit.start + number:>6}\t{line}" for number, line in enumerate(lines, 1)]

    return edit.case("line numbers copied", numbered(edit.old), numbered(edit.new))


def elided(rng: random.Random, edit: _Edit) -> Case | None:
    """A run of lines that stay is left out, with a line of dots for it."""
    rows = [row for row in range(1, len(edit.old) - 2) if _kept(edit, row) and _kept(edit, row + 1)]
    if not rows:
        return None
    row = rng.choice(rows)
    dots = rng.choice(("...", "// ... existing code ...", "# ...", "    # ... rest of the code ..."))
    after = [*edit.new]
    at = _find(after, edit.old[row : row + 2])
    if at is None:
        return None
    after[at : at + 2] = [dots]
    return edit.case("lines elided", [*edit.old[:row], dots, *edit.old[row + 2 :]], after)


def blank_lines(rng: random.Random, edit: _Edit) -> Case | None:
    """A blank line of the file is not quoted, or one is quoted that is not there."""
    blank = [row for row, line in enumerate(edit.old) if not line.strip()]
    if blank and rng.random() < 0.6:
        row = rng.choice(blank)
        new = list(edit.new)
        if "" not in new or not _kept(edit, row) or _near_change(edit, row):
            return None
        new.remove("")
        return edit.case("blank lines", [*edit.old[:row], *edit.old[row + 1 :]], new) if new.count("") == 0 else None
    row = rng.randrange(1, len(edit.old))
    if not (_kept(edit, row) and _kept(edit, row - 1)):
        return None
    at = _find(edit.new, edit.old[row - 1 : row + 1])
    if at is None:
        return None
    return edit.case(
        "blank lines", [*edit.old[:row], "", *edit.old[row:]], [*edit.new[: at + 1], "", *edit.new[at + 1 :]]
    )


def misquoted(rng: random.Random, edit: _Edit) -> Case | None:
    """A line that stays is quoted from memory, with one word wrong."""
    row = rng.randrange(len(edit.old))
    words = re.findall(r"\b[a-z_]{4,}\b", edit.old[row])
    if not words or not _kept(edit, row) or len(edit.old[row].strip()) < 15 or _near_change(edit, row):
        return None
    wrong = edit.old[row].replace(rng.choice(words), rng.choice(("value", "thing", "item")), 1)
    new = tuple(wrong if line == edit.old[row] else line for line in edit.new)
    return (
        None if wrong == edit.old[row] else edit.case("a line that stays misquoted", _with(edit.old, row, wrong), new)
    )


def line_left_out(rng: random.Random, edit: _Edit) -> Case | None:
    """A line that stays is not quoted, and nothing says so."""
    rows = [row for row in range(2, len(edit.old) - 2) if all(_kept(edit, row + near) for near in (-1, 0, 1))]
    rows = [row for row in rows if edit.old[row].strip() and edit.old[row - 1].strip() and edit.old[row + 1].strip()]
    if not rows:
        return None
    row = rng.choice(rows)
    at = _find(edit.new, edit.old[row - 1 : row + 2])
    if at is None:
        return None
    return edit.case(
        "a line that stays left out",
        [*edit.old[:row], *edit.old[row + 1 :]],
        [*edit.new[: at + 1], *edit.new[at + 2 :]],
    )


def inner_spaces(rng: random.Random, edit: _Edit) -> Case | None:
    row = rng.randrange(len(edit.old))
    other = re.sub(r" ([=+<>:]+) ", r"\1", edit.old[row])
    if other == edit.old[row] or not _kept(edit, row):
        return None
    new = tuple(other if line == edit.old[row] else line for line in edit.new)
    return edit.case("other spaces inside a line", _with(edit.old, row, other), new)


def escaped(_: random.Random, edit: _Edit) -> Case | None:
    if "\\" in "".join((*edit.old, *edit.new)) or '"' not in "".join(edit.old):
        return None
    return edit.case(
        "quotes escaped twice", *([line.replace('"', '\\"') for line in part] for part in (edit.old, edit.new))
    )


def entities(_: random.Random, edit: _Edit) -> Case | None:
    if "&" in "".join((*edit.old, *edit.new)) or not re.search(r"[<>]", "".join(edit.old)):
        return None
    return edit.case(
        "HTML entities", *([html.escape(line, quote=False) for line in part] for part in (edit.old, edit.new))
    )


def ambiguous(rng: random.Random, edit: _Edit) -> Case | None:
    """A quote that is in the file more than once: nobody can know which place is meant."""
    counts = Counter(line for line in edit.lines if len(line.strip()) > 8)
    several = [line for line, count in counts.items() if count > 1 and sum(line in other for other in edit.lines) > 1]
    if not several:
        return None
    line = rng.choice(several)
    return Case("in the file twice", "\n".join(edit.lines), (line,), (f"{line} # new",), None)


def placeholder(rng: random.Random, edit: _Edit) -> Case | None:
    """The new text leaves out code that the quote has: writing it would lose the code."""
    row = rng.randrange(1, len(edit.new) - 1)
    dots = rng.choice(("// ... existing code ...", "# ... rest of the function ...", "// ... unchanged ..."))
    return Case(
        "code elided in the new text",
        "\n".join(edit.lines),
        edit.old,
        (*edit.new[:row], dots, *edit.new[row + 2 :]),
        None,
    )


SLIPS: tuple[Callable[[random.Random, _Edit], Case | None], ...] = (
    exact, spaces_at_line_ends, indentation_cut, indentation_flat, spaces_for_tabs, plain_quotes, line_numbers, elided,
    blank_lines, misquoted, line_left_out, inner_spaces, escaped, entities, ambiguous, placeholder,
)  # fmt: skip


# -- the rules --------------------------------------------------------------------------------------------------------


def ours_edit(case: Case) -> str | None:
    try:
        found = match(case.text, [Replacement(old="\n".join(case.old), new="\n".join(case.new))])
    except ToolError:
        return None
    return replace(case.text, found.hunks)


def ours_patch(case: Case) -> str | None:
    try:
        found = match_chunks(case.text, [Chunk((), case.old, case.new)])
    except ToolError:
        return None
    return replace(case.text, found.hunks)


def codex(case: Case) -> str | None:
    """apply_patch: the first place where all lines are equal, in four passes of ever less care; the new lines as they
    are."""
    lines = case.text.split("\n")
    size = len(case.old)
    dashes = str.maketrans(
        {**dict.fromkeys("‐‑‒–—―−", "-"), **dict.fromkeys("‘’‚‛", "'"), **dict.fromkeys("“”„‟", '"')}
    )
    passes: tuple[Callable[[str], str], ...] = (
        lambda line: line,
        lambda line: line.rstrip(),
        lambda line: line.strip(),
        lambda line: line.strip().translate(dashes),
    )
    for key in passes:
        wanted = [key(line) for line in case.old]
        for row in range(len(lines) - size + 1):
            if [key(line) for line in lines[row : row + size]] == wanted:
                return "\n".join((*lines[:row], *case.new, *lines[row + size :]))
    return None


def aider(case: Case) -> str | None:
    """Search/replace blocks: equal lines; then lines that lack the same indentation; then parts between `...` lines
    that the file has once each."""
    lines = case.text.split("\n")
    for old in (case.old, *([case.old[1:]] if len(case.old) > 2 and not case.old[0].strip() else [])):
        size = len(old)
        for row in range(len(lines) - size + 1):
            if tuple(lines[row : row + size]) == old:
                return "\n".join((*lines[:row], *case.new, *lines[row + size :]))
        both = [line for line in (*old, *case.new) if line.strip()]
        cut = min((len(line) - len(line.lstrip()) for line in both), default=0)
        bare_old = [line[cut:] if line.strip() else line for line in old]
        bare_new = [line[cut:] if line.strip() else line for line in case.new]
        for row in range(len(lines) - size + 1):
            here = lines[row : row + size]
            if any(a.lstrip() != b.lstrip() for a, b in zip(here, bare_old, strict=True)):
                continue
            added = {a[: len(a) - len(b)] for a, b in zip(here, bare_old, strict=True) if a.strip()}
            if len(added) == 1:
                (more,) = added
                new = [more + line if line.strip() else line for line in bare_new]
                return "\n".join((*lines[:row], *new, *lines[row + size :]))
    return _aider_dots(case)


def _aider_dots(case: Case) -> str | None:
    dots = re.compile(r"^\s*\.\.\.\n", re.MULTILINE)
    old, new = (dots.split("\n".join(part) + "\n") for part in (case.old, case.new))
    if len(old) == 1 or len(old) != len(new):
        return None
    text = case.text
    for before, after in zip(old, new, strict=True):
        if not before and not after:
            continue
        if text.count(before) != 1:
            return None
        text = text.replace(before, after, 1)
    return text


RULES: tuple[tuple[str, Callable[[Case], str | None]], ...] = (
    ("ours, quoted text", ours_edit),
    ("aider's search/replace", aider),
    ("ours, patch", ours_patch),
    ("Codex' apply_patch", codex),
)


def outcome(case: Case, rule: Callable[[Case], str | None]) -> Outcome:
    got = rule(case)
    if got is None:
        return "right" if case.after is None else "refused"
    return "right" if got == case.after else "wrong"


def table(cases: Sequence[Case]) -> Iterator[str]:
    yield "| slip | cases | " + " | ".join(name for name, _ in RULES) + " |"
    yield "| --- | --- |" + " --- |" * len(RULES)
    totals = [Counter[Outcome]() for _ in RULES]
    for slip in dict.fromkeys(case.slip for case in cases):
        rows = [case for case in cases if case.slip == slip]
        cells: list[str] = []
        for total, (_, rule) in zip(totals, RULES, strict=True):
            counts = Counter[Outcome](outcome(case, rule) for case in rows)
            total.update(counts)
            cells.append(f"{counts['right']}" + (f", {counts['wrong']} wrong" if counts["wrong"] else ""))
        yield f"| {slip} | {len(rows)} | " + " | ".join(cells) + " |"
    ends = [f"**{total['right'] / len(cases):.1%}**, {total['wrong'] / len(cases):.1%} wrong" for total in totals]
    yield f"| **right** | {len(cases)} | " + " | ".join(ends) + " |"


# -- helpers ----------------------------------------------------------------------------------------------------------


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _with(lines: Sequence[str], row: int, line: str) -> tuple[str, ...]:
    return (*lines[:row], line, *lines[row + 1 :])


def _kept(edit: _Edit, row: int) -> bool:
    """Whether a line of the quote stays, and is there once."""
    opcodes = SequenceMatcher(None, edit.old, edit.new, autojunk=False).get_opcodes()
    kept = any(tag == "equal" and i1 <= row < i2 for tag, i1, i2, _, _ in opcodes)
    return kept and edit.old.count(edit.old[row]) == 1 == edit.new.count(edit.old[row])


def _near_change(edit: _Edit, row: int) -> bool:
    return _find(edit.new, edit.old[max(0, row - 1) : row + 2]) is None


def _find(lines: Sequence[str], part: Sequence[str]) -> int | None:
    size = len(part)
    return next((row for row in range(len(lines) - size + 1) if tuple(lines[row : row + size]) == tuple(part)), None)


if __name__ == "__main__":
    print("\n".join(table(corpus())))  # noqa: T201 -- a program for the terminal
