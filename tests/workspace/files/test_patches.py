"""Patches in OpenAI's format: how they are read, and where their chunks go."""

from __future__ import annotations

import pytest

from pilotfish.errors import ToolError
from pilotfish.workspace.edits.matching import Ambiguous, NotFound
from pilotfish.workspace.edits.patches import Chunk, FilePatch, match_chunks, parse
from pilotfish.workspace.files.encoding import replace

CODE = """\
class A:
    def run(self):
        x = 1
        return x

    def stop(self):
        x = 1
        return x


class B:
    def run(self):
        x = 1
        return x
"""
LAST = "        x = 1\n        return x\n"


def patched(text: str, body: str) -> str:
    (file,) = parse(f"*** Begin Patch\n*** Update File: a.py\n{body}\n*** End Patch")
    return replace(text, match_chunks(text, file.chunks).hunks)


def changed(line: int, new: str, text: str = CODE) -> str:
    lines = text.split("\n")
    lines[line - 1 : line] = new.split("\n")
    return "\n".join(lines)


def test_a_patch_names_what_happens_to_each_file() -> None:
    patch = """*** Begin Patch
*** Add File: new.py
+a
+
+b
*** Update File: old.py
*** Move to: moved.py
@@ class A
@@     def run(self):
 x
-y
+z
*** End of File
*** Delete File: gone.py
*** End Patch
"""
    chunk = Chunk(("class A", "    def run(self):"), ("x", "y"), ("x", "z"), at_end=True)
    assert parse(patch) == (
        FilePatch("new.py", "add", text="a\n\nb\n"),
        FilePatch("old.py", "update", chunks=(chunk,), move_to="moved.py"),
        FilePatch("gone.py", "delete"),
    )


@pytest.mark.parametrize(
    ("patch", "says"),
    [
        ("hello", "this is no patch"),
        ("*** Begin Patch\n*** End Patch", "names no file"),
        ("*** Begin Patch\nx\n*** Update File: a\n-a\n+b\n*** End Patch", "before its first file"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "changes nothing in a"),
        ("*** Begin Patch\n*** Update File: a\n@@\nfoo\n-a\n+b\n*** End Patch", "begins with neither"),
        ("*** Begin Patch\n*** Delete File: a\n*** Update File: a\n-a\n+b\n*** End Patch", "names a twice"),
    ],
)
def test_what_is_no_patch_is_refused_with_its_reason(patch: str, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        parse(patch)


@pytest.mark.parametrize(
    ("body", "after"),
    [
        # the context around a change is enough
        ("@@\n     def stop(self):\n-        x = 1\n+        x = 2\n         return x", changed(7, "        x = 2")),
        # @@ names a line before it; the first place after it counts
        ("@@ class B:\n-        x = 1\n+        x = 2", changed(13, "        x = 2")),
        ("@@ class A:\n@@     def stop(self):\n-        x = 1\n+        x = 2", changed(7, "        x = 2")),
        # @@ with the line that the chunk begins with, as a unified diff has it, or only its beginning
        ("@@ class B:\n class B:\n-    def run(self):\n+    def go(self):", changed(12, "    def go(self):")),
        ("@@ -10,4 +10,4 @@ class B:\n-        x = 1\n+        x = 2", changed(13, "        x = 2")),
        ("@@ def stop\n-        x = 1\n+        x = 2", changed(7, "        x = 2")),
        # indentation lost, a blank line without its space
        ("@@\n def stop(self):\n-x = 1\n+x = 2\n return x", changed(7, "        x = 2")),
        (
            "         return x\n\n     def stop(self):\n+        y = 1\n         x = 1",
            changed(7, "        y = 1\n        x = 1"),
        ),
        # only new lines: after the line that @@ names, or at the end
        ("@@ class B:\n+    y = 1", changed(11, "class B:\n    y = 1")),
        ("@@\n+C = 1", CODE + "C = 1\n"),
        # chunks in order, and a later one that comes first in the file
        (
            "@@ class A:\n-        x = 1\n+        x = 2\n@@ class B:\n-        x = 1\n+        x = 3",
            changed(13, "        x = 3", changed(3, "        x = 2")),
        ),
        ("@@\n-class B:\n+class C:\n@@\n-class A:\n+class D:", changed(1, "class D:", changed(11, "class C:"))),
        # the end of the file
        ("@@\n         x = 1\n-        return x\n+        return y\n*** End of File", changed(14, "        return y")),
        # lines removed
        ("@@ class B:\n     def run(self):\n-        x = 1", CODE[: -len(LAST)] + LAST.removeprefix("        x = 1\n")),
    ],
)  # fmt: skip
def test_a_chunk_goes_where_its_lines_are(body: str, after: str) -> None:
    assert patched(CODE, body) == after


@pytest.mark.parametrize(("text", "after"), [("a\nb", "a\nc"), ("a\nb\n", "a\nc\n"), ("b", "c")])
def test_the_end_of_the_last_line_stays_as_it_is(text: str, after: str) -> None:
    assert patched(text, "-b\n+c") == after
    assert patched(text, "+x") == text + ("x\n" if text.endswith("\n") else "\nx")


def test_lines_that_are_in_the_file_more_than_once_are_refused() -> None:
    with pytest.raises(Ambiguous, match=r"3 times \(at lines 3, 7, 13\)"):
        patched(CODE, "@@\n-        x = 1\n+        x = 2")


def test_lines_that_are_nowhere_are_answered_with_the_nearest() -> None:
    with pytest.raises(NotFound, match="The nearest text is:\n     6\t    def stop"):
        patched(CODE, "@@\n     def stop(self):\n-        y = 1\n+        y = 2")
    with pytest.raises(NotFound, match="no line 'class Z'"):
        patched(CODE, "@@ class Z\n-        x = 1\n+        x = 2")
