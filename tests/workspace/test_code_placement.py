"""Where a code block of an answer belongs in a file."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotfish.workspace.code_placement import How, named_path, place_code

PYTHON = dedent('''\
    import os


    class Shop:
        """A shop."""

        def open(self):
            return True

        @property
        def name(self):
            return "shop"


    def total(prices):
        result = 0
        for price in prices:
            result += price
        return result


    def empty():
        return []
    ''')

TYPESCRIPT = dedent("""\
    import { a } from './a';

    export const LIMIT = 10;

    export interface Item {
      id: string;
    }

    export function sum(items: number[]): number {
      let total = 0;
      for (const item of items) total += item;
      return total;
    }

    class Cart {
      private items: Item[] = [];

      add(item: Item): void {
        this.items.push(item);
      }

      clear(): void {
        this.items = [];
      }
    }
    """)


def check(text: str, code: str, how: How | None, *changes: tuple[str, str]) -> None:
    """The block changes the text by these replacements only."""
    placed = place_code(text, dedent(code))
    assert (placed.how if placed else None) == how
    if placed is not None:
        wanted = text
        for old, new in changes:
            assert text.count(old) == 1, old
            wanted = wanted.replace(old, new)
        assert placed.text == wanted


def test_a_function_replaces_the_one_of_its_name():
    code = """
    def total(prices):
        return sum(prices)
    """
    old = "    result = 0\n    for price in prices:\n        result += price\n    return result\n"
    check(PYTHON, code, "symbol", (old, "    return sum(prices)\n"))


def test_a_method_without_its_class_is_indented_as_the_class_is():
    code = """
    def open(self):
        return False
    """
    check(PYTHON, code, "symbol", ("return True", "return False"))


def test_a_class_with_one_method_keeps_the_others():
    code = """
    class Shop:
        def open(self):
            return False
    """
    check(PYTHON, code, "symbol", ("return True", "return False"))


def test_an_elided_class_keeps_what_is_left_out():
    code = """
    class Cart {
      // ... existing code ...

      clear(): void {
        this.items.length = 0;
      }
    }
    """
    check(TYPESCRIPT, code, "symbol", ("    this.items = [];\n", "    this.items.length = 0;\n"))


def test_a_decorator_of_the_file_stays_and_one_of_the_block_replaces_it():
    check(PYTHON, 'def name(self):\n    return "x"\n', "symbol", ('return "shop"', 'return "x"'))
    code = '@cached_property\ndef name(self):\n    return "shop"\n'
    check(PYTHON, code, "symbol", ("    @property\n", "    @cached_property\n"))


def test_a_new_definition_goes_behind_the_one_before_it():
    code = """
    def total(prices):
        return sum(prices)


    def mean(prices):
        return total(prices) / len(prices)
    """
    placed = place_code(PYTHON, dedent(code))
    assert placed is not None
    assert re.findall(r"^def (\w+)", placed.text, re.MULTILINE) == ["total", "mean", "empty"]


def test_imports_that_the_file_lacks_are_added():
    code = """
    import math
    import os

    def empty():
        return math.nan
    """
    check(PYTHON, code, "symbol", ("import os\n", "import os\nimport math\n"), ("return []", "return math.nan"))


def test_braces_end_where_the_indentation_says():
    code = """
    export function sum(items: number[]): number {
      return items.reduce((a, b) => a + b, 0);
    }
    """
    old = "  let total = 0;\n  for (const item of items) total += item;\n  return total;\n"
    check(TYPESCRIPT, code, "symbol", (old, "  return items.reduce((a, b) => a + b, 0);\n"))
    check(TYPESCRIPT, "export const LIMIT = 20;\n", "symbol", ("LIMIT = 10", "LIMIT = 20"))


@pytest.mark.parametrize(
    ("text", "code", "changes"),
    [
        (
            "impl Shop {\n    fn open(&self) -> bool {\n        true\n    }\n}\n\nfn main() {\n    run();\n}\n",
            "fn open(&self) -> bool {\n    false\n}\n",
            [("        true\n", "        false\n")],
        ),
        (
            "func (s *Shop) Open() bool {\n\treturn true\n}\n\nfunc (c *Cart) Open() bool {\n\treturn c.ok\n}\n",
            "func (s *Shop) Open() bool {\n\treturn false\n}\n",
            [("return true", "return false")],
        ),
        (
            "class A {\n    int size() {\n        return 1;\n    }\n\n    void clear() {\n        n = 0;\n    }\n}\n",
            "int size() {\n    return 2;\n}\n",
            [("return 1", "return 2")],
        ),
    ],
)
def test_other_languages(text: str, code: str, changes: list[tuple[str, str]]):
    check(text, code, "symbol", *changes)


def test_statements_go_between_the_lines_they_begin_and_end_with():
    code = """
    result = 0
    for price in prices:
        result += price * 2
    return result
    """
    check(PYTHON, code, "lines", ("result += price\n", "result += price * 2\n"))


def test_a_new_version_of_the_whole_file_replaces_it():
    code = PYTHON.replace("return []", "return None").replace("import os\n", "import os\nimport sys\n")
    placed = place_code(PYTHON, code)
    assert placed is not None
    assert (placed.how, placed.text) == ("whole", code)


def test_a_block_that_is_there_already_changes_nothing():
    check(PYTHON, "def empty():\n    return []\n", "same")


@pytest.mark.parametrize(
    "code",
    [
        "",
        "print('hello')\n",
        "def other():\n    pass\n",
        "result = 1\nreturn None\n",
        "$ pytest -q\n",
    ],
)
def test_a_block_without_a_certain_place_is_not_placed(code: str):
    assert place_code(PYTHON, code) is None


def test_a_name_that_is_defined_twice_is_not_placed():
    text = "class A:\n    def f(self):\n        return 1\n\n\nclass B:\n    def f(self):\n        return 2\n"
    assert place_code(text, "def f(self):\n    return 3\n") is None


NAMES = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=6, unique=True)


@given(NAMES, NAMES, st.booleans(), st.booleans())
def test_no_definition_is_removed_unless_the_whole_file_is_given(
    ours: list[str], theirs: list[str], inside: bool, elided: bool
):
    def source(names: list[str], body: str, lines: int) -> str:
        functions = "\n".join(f"def {name}(self):\n" + f"    {body}\n" * lines for name in names)
        if not inside:
            return functions
        return "class C:\n" + "".join(f"    {line}\n" if line else "\n" for line in functions.split("\n"))

    text, code = source(ours, "x = 1", 3), source(theirs, "y = 2", 1)
    if elided:
        code += "    # ...\n" if inside else "# ...\n"
    placed = place_code(text, code)
    if placed is not None and placed.how != "whole":
        defined = re.findall(r"def (\w)", placed.text)
        assert set(ours) <= set(defined)
        assert len(defined) == len(set(defined))


@pytest.mark.parametrize(
    ("code", "path"),
    [
        ("# src/auth.py\nx = 1\n", "src/auth.py"),
        ("// file: src/a.ts\nx\n", "src/a.ts"),
        ("<!-- index.html -->\n<p>\n", "index.html"),
        ("# a comment about auth.py here\n", None),
        ("x = 1\n", None),
    ],
)
def test_the_path_in_the_first_line(code: str, path: str | None):
    assert named_path(code)[0] == path
