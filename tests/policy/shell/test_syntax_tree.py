"""The bash grammar finds nested commands, and no text crashes the process."""

from __future__ import annotations

import subprocess
import sys

from pilotfish.policy.shell.syntax_tree import MAX_TEXT, Tree, read


def test_nested_commands_and_output_files_are_found() -> None:
    assert read('for x in $(git log); do echo "é $(date)" > out; done; A=1 rm -rf b <<E\nE') == Tree(
        (("git", "log"), ("echo", '"é $(date)"'), ("date",), ("rm", "-rf", "b")), ("out",), whole=True
    )


def test_a_long_text_gives_an_empty_tree() -> None:
    assert read("a;" * MAX_TEXT) == Tree()


def test_no_character_crashes_the_scanner() -> None:
    """Run in a separate process, because a crash in C would end the tests."""
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
