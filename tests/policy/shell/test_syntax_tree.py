"""The grammar of bash that explains: it sees nested commands, and no text brings the process down."""

from __future__ import annotations

import subprocess
import sys

from pilotfish.policy.shell.syntax_tree import MAX_TEXT, Tree, read


def test_commands_and_what_is_written_are_found_wherever_they_stand() -> None:
    assert read('for x in $(git log); do echo "é $(date)" > out; done; A=1 rm -rf b <<E\nE') == Tree(
        (("git", "log"), ("echo", '"é $(date)"'), ("date",), ("rm", "-rf", "b")), ("out",), whole=True
    )


def test_a_long_text_is_left_to_others() -> None:
    assert read("a;" * MAX_TEXT) == Tree()


def test_characters_that_crashed_the_scanner_do_not() -> None:
    """Run apart: a crash in C would take the tests with it."""
    code = (
        "import random\n"
        "from pilotfish.policy.shell.syntax_tree import read\n"
        "dice = random.Random(5)\n"
        "kinds = ((0, 127), (128, 0x2fff), (0x10000, 0x10ffff))\n"
        "for _ in range(3000):\n"
        "    read(''.join(chr(dice.randint(*dice.choice(kinds))) for _ in range(dice.randint(1, 80))))\n"
        "read('a{\\ud800}')\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
