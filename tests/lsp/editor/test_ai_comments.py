"""Comments for the agent: which lines are one, and what is sent for them."""

from __future__ import annotations

import pytest
from lsprotocol import types

from pilotfish.lsp.editor.ai_comments import ai_comments, prompt_of
from pilotfish.lsp.editor.documents import Document, Documents
from pilotfish.protocol import wire


def opened(text: str, uri: str = "file:///w/a.py") -> Document:
    documents = Documents("utf-16")
    documents.put_text_document(types.TextDocumentItem(uri, "python", 1, text))
    document = documents.get(uri)
    assert document is not None
    return document


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("# make it faster AI!", ("make it faster", "!")),
        ("x = 1  # why one? AI?", ("why one?", "?")),
        ("    // handle errors AI!  ", ("handle errors", "!")),
        ("call();// no blank AI!", ("no blank", "!")),
        ("/* use a map AI! */", ("use a map", "!")),
        ("{/* a label AI! */}", ("a label", "!")),
        ("<!-- a title AI? -->", ("a title", "?")),
        (" * in a block AI!", ("in a block", "!")),
        ("-- an index AI!", ("an index", "!")),
        (";; in lisp AI!", ("in lisp", "!")),
        ("# AI!", ("", "!")),
        ("# make it faster AI! please", None),
        ("# Hawaii!", None),
        ("# HAWAI!", None),
        ('print("# AI!")', None),
        ("see http://example.org/AI!", None),
        ("what AI!", None),
        ("#AI!", ("", "!")),
    ],
)
def test_which_lines_are_a_comment_for_the_agent(line: str, expected: tuple[str, str] | None) -> None:
    found = [(comment.words, comment.kind) for comment in ai_comments(opened(f"a\n{line}\r\nb\n"))]
    assert found == ([] if expected is None else [expected])


def test_one_prompt_has_all_places_and_says_what_to_do_with_the_comments() -> None:
    text = "".join(f"line {number}\n" for number in range(30))
    comments = ai_comments(opened(f"# first AI!\n{text}# second AI?\n"))
    assert prompt_of(comments) == [
        wire.TextBlock(
            text="I have left comments for you in the code. The documents may be unsaved: read them with read_file.\n"
            "- /w/a.py, line 1, AI! first\n"
            "- /w/a.py, line 32, AI? second\n"
            "AI! asks for a change: make it, and remove the comment with the same edit.\n"
            "AI? asks a question: answer it here, and change nothing for it."
        ),
        wire.ResourceBlock(uri="file:///w/a.py", range=lines(0, 11)),
        wire.ResourceBlock(uri="file:///w/a.py", range=lines(21, 32)),
    ]


def lines(first: int, last: int) -> wire.Range:
    return wire.Range(start=wire.Position(line=first, character=0), end=wire.Position(line=last, character=0))
