"""The strict grammar: bash reads accepted lines in the same way, and rejected lines have a reason."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.bash import BASH, words_run
from tests.support.policy import corpus
from tests.support.tries import tries

from pilotfish.policy.shell.parser import MAX_LENGTH, CommandLine, Redirect, Simple, Unreadable, parse

LONG = bool(os.environ.get("PILOTFISH_LONG"))

needs_bash = pytest.mark.skipif(BASH is None, reason="no bash here")


def check(text: str, *commands: Simple) -> None:
    assert parse(text) == CommandLine(commands)


def refuse(text: str, reason: str) -> None:
    assert parse(text) == Unreadable(reason)


def test_plain_words_and_quotes_become_words() -> None:
    check("git log -5", Simple(("git", "log", "-5")))
    check("""g'i't "a b"\\ c '$x' "\\$y\\z" '' """, Simple(("git", "a b c", "$x", "$y\\z", "")))


def test_each_command_has_the_operator_before_it() -> None:
    check(
        "a && b || c | d; e\nf",
        Simple(("a",)),
        Simple(("b",), (), "&&"),
        Simple(("c",), (), "||"),
        Simple(("d",), (), "|"),
        Simple(("e",), (), ";"),
        Simple(("f",), (), ";"),
    )


def test_redirections_are_parsed() -> None:
    check(
        "a <in 2>&1 >out 2>>err &>all",
        Simple(
            ("a",),
            (
                Redirect(0, "<", "in"),
                Redirect(2, ">&", "1"),
                Redirect(1, ">", "out"),
                Redirect(2, ">>", "err"),
                Redirect(1, ">", "all"),
                Redirect(2, ">", "all"),
            ),
        ),
    )


def test_digits_are_a_file_descriptor_only_directly_before_an_operator() -> None:
    check("echo 2 >x", Simple(("echo", "2"), (Redirect(1, ">", "x"),)))
    check("echo a2>x", Simple(("echo", "a2"), (Redirect(1, ">", "x"),)))
    check("echo '2'>x", Simple(("echo", "2"), (Redirect(1, ">", "x"),)))
    refuse("echo 3>x", "it uses an unusual file descriptor")


def test_a_loop_over_plain_words_is_unrolled() -> None:
    check(
        'for f in a b; do cat "$f" && ls ${f}.py; done; pwd',
        Simple(("cat", "a"), (), ";"),
        Simple(("ls", "a.py"), (), "&&"),
        Simple(("cat", "b"), (), ";"),
        Simple(("ls", "b.py"), (), "&&"),
        Simple(("pwd",), (), ";"),
    )


def test_a_loop_cannot_set_a_variable_that_programs_read() -> None:
    refuse("for PATH in x; do ls; done", "its loop sets the variable PATH")
    refuse("for http_proxy in x; do ls; done", "its loop sets the variable http_proxy")


def test_a_rejected_line_has_a_reason_for_the_user() -> None:
    refuse("echo $(id)", "the shell would insert a variable or the output of a command")
    refuse("cat *.py", "the shell would replace * with file names")
    refuse("ls &", "it would leave a process running in the background")
    refuse("A=b ls", "it sets an environment variable")
    refuse("echo 'a", "a quote is not closed")
    refuse("ls &&", "it is incomplete")
    refuse("if true; then ls; fi", "it uses the shell keyword if")
    refuse("echo a\u202eb", "it contains an unusual character: \\u{202e}")
    refuse("echo 'a\u200bb'", "it contains invisible characters")
    refuse("", "it is empty")
    refuse("a" * (MAX_LENGTH + 1), "it is too long to check")


SOUP = (
    "ls", "cat", "echo", "git", "a", "b", "c", "'a b'", '"c d"', '"$f"', "$f", "${f}", "'", '"', "\\", "\\ ", "\\;",
    "\\\n", "\\\r\n", ";", "&&", "||", "|", "&", "\n", " ", " ", " ", "  ", "\t", "<", "<a", ">", "2>&1", ">&2",
    ">b", "2>/dev/null", "&>b", ">>c", "for f in a b", "; do ", "; done", "done", "do", "in", "for", "if", "then",
    "fi", "f", "(", ")", "{", "}", "`", "$(", "$", "$$", "$1", "#", "~", "!", "[", "]", "[ ", " ]", "*", "?", "=",
    "x=y", "-", "--", "%", "^", ":", "\r", "é", "'é'", "\u00a0", "{a,b}", "${x@P}", "$IFS", "$'a'", "<(", ">(",
    "<<", "<<<", "|&", ";;", "time", "coproc", "[[", "]]", "2", "1", "9", "'$f'", '"\\$f"', '"a\\b"', '"`"', '"$"',
    '"a$|b"', "a~1", "~a", "a#b", "@(", "+", ",", "\x0b", "\x1b",
)  # fmt: skip


@given(st.lists(st.sampled_from(SOUP), max_size=25).map("".join) | st.text(max_size=60))
@example("[")
@example("\\")
@example("for f in ; do done")
@settings(max_examples=tries(150), deadline=None)
def test_any_text_is_parsed_or_rejected_with_a_reason(text: str) -> None:
    match parse(text):
        case CommandLine(commands):
            assert commands
            assert all(command.words for command in commands)
        case Unreadable(reason):
            assert reason


@needs_bash
def test_bash_runs_exactly_what_the_grammar_reads_in_soup(tmp_path: Path) -> None:
    dice = random.Random(7)
    texts = {_soup(dice) for _ in range(300_000 if LONG else 8_000)}
    _compare(sorted(texts), tmp_path, at_least=300)


@needs_bash
def test_bash_runs_exactly_what_the_grammar_reads_in_the_corpus(tmp_path: Path) -> None:
    texts = [text for _, text in corpus() if "/dev/" not in text and "builtin" not in text]
    _compare(texts, tmp_path, at_least=300)


BUILTINS = frozenset({
    "bind", "compgen", "complete", "enable", "fc", "history", "mapfile", "readarray", "shopt", "times", "ulimit",
    "caller", "dirs", "pushd", "popd", "jobs", "bg", "fg", "disown", "suspend", "logout", "help", "getopts",
    "typeset", "unalias",
})  # fmt: skip
"""Names that bash runs itself. It does not find any other name and reports it to the recorder."""


def _soup(dice: random.Random) -> str:
    words = dice.choices(SOUP, k=dice.randint(1, 9))
    return dice.choice(("ls ", "cat ", "", "echo a; ")) + dice.choice(("", " ")).join(words)


def _compare(texts: Sequence[str], tmp_path: Path, *, at_least: int) -> None:
    lines: dict[str, CommandLine] = {}
    for text in texts:
        line = parse(text)
        # A path as a command name would run a real program.
        if isinstance(line, CommandLine) and not any("/" in command.words[0] for command in line.commands):
            lines[text] = line
    texts = list(lines)
    assert len(texts) >= at_least
    names = {command.words[0] for line in lines.values() for command in line.commands}
    for status in (0, 1):
        folder = tmp_path / str(status) / "work"
        folder.mkdir(parents=True)
        for name in "abc":
            (folder / name).touch()
        ran_by_text = [
            ran
            for start in range(0, len(texts), 2_000)
            for ran in words_run(texts[start : start + 2_000], folder, status=status, names=names & BUILTINS)
        ]
        for text, ran in zip(texts, ran_by_text, strict=True):
            commands = lines[text].commands
            allowed = Counter(command.words for command in commands)
            assert Counter(ran) <= allowed, text
            if _all_files_exist(commands):
                assert Counter(ran) == Counter(_flow(commands, status)), text


def _all_files_exist(commands: Sequence[Simple]) -> bool:
    return all(
        redirect.op == ">&" or redirect.target in {"a", "b", "c", "/dev/null"}
        for command in commands
        for redirect in command.redirects
    )


def _flow(commands: Sequence[Simple], status: int) -> list[tuple[str, ...]]:
    """Return the commands that run if every command exits with `status`."""
    ran: list[tuple[str, ...]] = []
    runs = True
    for command in commands:
        match command.after:
            case "" | ";":
                runs = True
            case "&&":
                # After a skipped pipeline the status of the last pipeline that ran decides.
                runs = status == 0
            case "||":
                runs = status != 0
            case "|":
                pass
        if runs:
            ran.append(command.words)
    return ran
