"""The tasks: the files of a workspace, a prompt, and a check of the result.

`script` is what the scripted model answers, in order. Each script makes slips that real models make; a server that
reads them as they are meant solves the task with it, and the number of requests shows what the slips cost.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.provider import Call, Reply, call, calls, say

Check = Callable[[Path, str], bool]
"""(workspace, the last answer) → whether the task is solved"""


@dataclass(frozen=True)
class Task:
    name: str
    language: str
    prompt: str
    files: Mapping[str, str]
    solved: Check
    slips: str
    """what the scripted model does wrong"""
    script: tuple[Reply, ...]


CALC = "def mean(values):\n    return sum(values) / (len(values) - 1)\n"
TEST_CALC = """import unittest

from calc import mean


class CalcTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([2, 4, 6]), 4)
"""
CART = """export function total(items) {
  let sum = 0;
  for (const item of items) {
    sum += item.price;
  }
  return sum;
}
"""
TEST_CART = """import assert from 'node:assert';
import { total } from './cart.js';

assert.equal(total([{ price: 2, count: 3 }, { price: 1, count: 1 }]), 7);
"""
WITH_MEDIAN = """def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2
"""
MODULE = json.dumps({"type": "module"}) + "\n"


def _python(code: str) -> Check:
    return lambda folder, _: _runs([sys.executable, "-c", code], folder)


def _node(code: str) -> Check:
    node = shutil.which("node", path=str(Path(sys.executable).parent)) or "node"
    return lambda folder, _: _runs([node, "--input-type=module", "-e", code], folder)


def _runs(command: list[str], folder: Path) -> bool:
    return subprocess.run(command, cwd=folder, capture_output=True, timeout=60).returncode == 0


def _renamed(folder: Path, _: str) -> bool:
    texts = "".join((folder / name).read_text() for name in ("shapes.py", "report.py"))
    return not re.search(r"\barea_of\b", texts) and _python("import report; assert report.text() == 'area 6'")(
        folder, ""
    )


def _follows_rule(folder: Path, _: str) -> bool:
    text = (folder / "dates.py").read_text()
    right = _python("import dates; assert dates.is_leap(2024) and not dates.is_leap(1900)")(folder, "")
    return right and "# checked" in text.splitlines()[-1]


TASKS = (
    Task(
        "fix a failing test",
        "Python",
        "The test in test_calc.py fails. Find out why and fix calc.py.",
        {"calc.py": CALC, "test_calc.py": TEST_CALC},
        _python("from calc import mean; assert mean([2, 4, 6]) == 4"),
        "another agent's tool names; `file_path`, `old_str`, `new_str`; an extra `description`",
        (
            call("Read", file_path="calc.py"),
            call("Bash", command=f"{sys.executable} -m unittest", description="Run the tests"),
            call("str_replace", file_path="calc.py", old_str="(len(values) - 1)", new_str="len(values)"),
            say("`mean` divided by one less than the number of values. It is fixed."),
        ),
    ),
    Task(
        "fix a failing test",
        "JavaScript",
        "node test.js fails. Fix cart.js.",
        {"cart.js": CART, "test.js": TEST_CART, "package.json": MODULE},
        _node("import './test.js'"),
        "an edit as a JSON string; line numbers copied into the old text",
        (
            calls(Call("read_file", {"path": "cart.js"}), Call("read_file", {"path": "test.js"})),
            call(
                "update_file",
                path="cart.js",
                edits=json.dumps(
                    [
                        {
                            "old_string": "     4\t    sum += item.price;",
                            "new_string": "    sum += item.price * item.count;",
                        }
                    ]
                ),
            ),
            say("The total now counts every item."),
        ),
    ),
    Task(
        "add a function",
        "Python",
        "Add a function `median(values)` to calc.py.",
        {"calc.py": "def mean(values):\n    return sum(values) / len(values)\n"},
        _python("from calc import mean, median; assert median([5, 1, 3]) == 3 and median([1, 2, 3, 4]) == 2.5"),
        "the call is written as text in a fence",
        (
            call("read_file", path="calc.py"),
            say(
                "I'll add it.\n\n```json\n"
                + json.dumps(
                    {
                        "name": "write_file",
                        "arguments": {
                            "path": "calc.py",
                            "content": WITH_MEDIAN,
                        },
                    }
                )
                + "\n```"
            ),
            say("`median` is there."),
        ),
    ),
    Task(
        "add a function",
        "JavaScript",
        "Add and export a function `count(items)` to cart.js: the number of all items.",
        {"cart.js": CART, "package.json": MODULE},
        _node("import { count } from './cart.js'; if (count([{ count: 2 }, { count: 3 }]) !== 5) process.exit(1)"),
        "a patch in a heredoc of the shell",
        (
            call("read_file", path="cart.js"),
            call(
                "bash",
                command="apply_patch <<'EOF'\n*** Begin Patch\n*** Update File: cart.js\n@@\n   return sum;\n }\n+\n"
                "+export function count(items) {\n+  return items.reduce((sum, item) => sum + item.count, 0);\n+}\n"
                "*** End Patch\nEOF",
            ),
            say("Added `count`."),
        ),
    ),
    Task(
        "rename across files",
        "Python",
        "Rename the function area_of to area in all files.",
        {
            "shapes.py": "def area_of(width, height):\n    return width * height\n",
            "report.py": "from shapes import area_of\n\n\ndef text():\n    return f'area {area_of(2, 3)}'\n",
        },
        _renamed,
        "one edit where a list is wanted; `replace_all` as a string",
        (
            call("grep", pattern="area_of"),
            calls(Call("read_file", {"path": "shapes.py"}), Call("read_file", {"path": "report.py"})),
            calls(
                Call("update_file", {"path": "shapes.py", "edits": {"old_string": "area_of", "new_string": "area"}}),
                Call(
                    "update_file",
                    {
                        "path": "report.py",
                        "edits": [{"old_string": "area_of", "new_string": "area", "replace_all": "true"}],
                    },
                ),
            ),
            say("Renamed in both files."),
        ),
    ),
    Task(
        "explain",
        "JavaScript",
        "What does cart.js export, and what does it leave out of the sum? Answer in two sentences.",
        {"cart.js": CART, "package.json": MODULE},
        lambda folder, answer: "total" in answer and "count" in answer and (folder / "cart.js").read_text() == CART,
        "`offset: 0`, numbers as strings",
        (
            call("read_file", path="cart.js", offset=0, limit="200"),
            say("It exports `total`. It ignores the `count` of each item."),
        ),
    ),
    Task(
        "refactor",
        "Python",
        "greet and part in words.py repeat each other. Extract a helper `_line(word, name)` and use it in both.",
        {
            "words.py": "def greet(name):\n    return 'Hello, ' + name + '!'\n\n\n"
            "def part(name):\n    return 'Goodbye, ' + name + '!'\n"
        },
        _python(
            "import words; assert words.greet('Bo') == 'Hello, Bo!' and words.part('Bo') == 'Goodbye, Bo!';"
            " assert words._line('Hi', 'Bo') == 'Hi, Bo!'; assert open('words.py').read().count('_line(') == 3"
        ),
        "wrong indentation and typographic quotes in the old text",
        (
            call("read_file", path="words.py"),
            call(
                "update_file",
                path="words.py",
                edits=[
                    {
                        "old_string": "def greet(name):\n  return ‘Hello, ’ + name + ‘!’",
                        "new_string": "def _line(word, name):\n    return word + ', ' + name + '!'\n\n\n"
                        "def greet(name):\n    return _line('Hello', name)",
                    },
                    {"old_string": "return ‘Goodbye, ’ + name + ‘!’", "new_string": "return _line('Goodbye', name)"},
                ],
            ),
            say("Both use `_line` now."),
        ),
    ),
    Task(
        "follow AGENTS.md",
        "Python",
        "Add a function is_leap(year) to dates.py.",
        {
            "AGENTS.md": "Every Python file that you change ends with the line `# checked`.\n",
            "dates.py": "def days(year):\n    return 366 if is_leap(year) else 365\n",
        },
        _follows_rule,
        "reads a file that is not there first",
        (
            call("read_file", path="src/dates.py"),
            call("read_file", path="dates.py"),
            call(
                "write_file",
                path="dates.py",
                content="def days(year):\n    return 366 if is_leap(year) else 365\n\n\ndef is_leap(year):\n"
                "    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)\n# checked\n",
            ),
            say("Added `is_leap`, with the line that AGENTS.md asks for."),
        ),
    ),
    Task(
        "recover from a wrong path",
        "Python",
        "In the settings module, change the timeout from 30 to 60.",
        {"src/app/settings.py": "TIMEOUT = 30\nRETRIES = 3\n"},
        _python("import runpy; assert runpy.run_path('src/app/settings.py')['TIMEOUT'] == 60"),
        "the same wrong path twice, then the one that the error names",
        (
            call("read_file", path="app/setting.py"),
            call("read_file", path="app/setting.py"),
            call("read_file", path="src/app/settings.py"),
            call("edit", filePath="src/app/settings.py", oldString="TIMEOUT = 30", newString="TIMEOUT = 60"),
            say("The timeout is 60 now."),
        ),
    ),
)
