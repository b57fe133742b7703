"""The sample workspace of the demo: a small project with one bug and the test that shows it."""

from __future__ import annotations

import itertools
from pathlib import Path

BUG = "    return sum(values) / (len(values) - 1)"
FIX = "    return sum(values) / len(values)"
COMMAND = "python3 -m unittest"

CALC = f'''"""A few statistics."""


def mean(values):
    """The arithmetic mean of some numbers."""
{BUG}


def median(values):
    """The middle one of some numbers, or the mean of the two in the middle."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
'''

TEST = """import unittest

from calc import mean, median


class CalcTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([2, 4, 6]), 4)

    def test_median(self):
        self.assertEqual(median([5, 1, 3]), 3)


if __name__ == "__main__":
    unittest.main()
"""

README = """# A sample

`calc.py` has a bug, and `test_calc.py` shows it: run `python3 -m unittest`.
Ask Pilotfish to fix the failing test.
"""

FILES = {"calc.py": CALC, "test_calc.py": TEST, "README.md": README}
START = "calc.py"
PROMPT = "The test fails. Find out why, and fix it."


def new_sample(parent: Path) -> Path:
    """Write the sample into a new folder below `parent`. Raises OSError if that is not possible."""
    for number in itertools.count(1):
        try:
            return sample_workspace(parent / f"sample-{number}")
        except FileExistsError:
            continue
    raise AssertionError("count does not end")


def sample_workspace(path: Path) -> Path:
    """Write the sample into a folder, which is created if needed. Raises FileExistsError if a file exists."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in FILES.items():
        with (path / name).open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return path
