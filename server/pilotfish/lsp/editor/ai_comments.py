"""Finds comments that end in `AI!` (do it) or `AI?` (answer) in open documents, and makes prompts of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pilotfish.lsp.editor.attachments import resource
from pilotfish.lsp.editor.documents import Document
from pilotfish.protocol import wire
from pilotfish.text.display_safe import one_line

MAX_COMMENTS = 20  # in one prompt
MAX_WORDS = 500
AROUND = 10
"""lines above and below a comment that are sent along"""

_COMMENT = re.compile(
    r"(?:(?<!\S)(?:\#+|--+|;+|%+|\*+)|(?<![:\w])//+|/\*+|<!--)"  # how a comment begins
    r"(?P<words>(?:[ \t].*)?)(?<!\w)AI(?P<kind>[!?])"
    r"[ \t]*(?:\*+/\}?|-->)?[ \t]*$",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class AiComment:
    """A comment for the agent."""

    document: Document
    line: int
    words: str
    kind: Literal["!", "?"]


def ai_comments(document: Document) -> list[AiComment]:
    """The comments of a document, from top to bottom."""
    text = document.text.value
    if "AI!" not in text and "AI?" not in text:
        return []
    found: list[AiComment] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n")):
        if ("AI!" in line or "AI?" in line) and (match := _COMMENT.search(line)):
            words = one_line(match["words"].strip())[:MAX_WORDS]
            found.append(AiComment(document, number, words, "!" if match["kind"] == "!" else "?"))
    return found


def prompt_of(comments: Sequence[AiComment]) -> list[wire.ContentBlock]:
    """One prompt for these comments: their words and places, and the lines around them."""
    comments = comments[:MAX_COMMENTS]
    rows = [
        f"- {_name(comment.document)}, line {comment.line + 1}, AI{comment.kind} {comment.words}".rstrip()
        for comment in comments
    ]
    todo, ask = (any(comment.kind == kind for comment in comments) for kind in "!?")
    words = ["I have left comments for you in the code. The documents may be unsaved: read them with read_file.", *rows]
    if todo:
        words.append("AI! asks for a change: make it, and remove the comment with the same edit.")
    if ask:
        words.append("AI? asks a question: answer it here, and change nothing for it.")
    return [
        wire.TextBlock(text="\n".join(words)),
        *(resource(comment.document.uri, _around(comment), comment.document) for comment in comments),
    ]


def _name(document: Document) -> str:
    return document.uri if document.path is None else str(document.path)


def _around(comment: AiComment) -> wire.Range:
    last = len(comment.document.text.starts) - 1
    return wire.Range(
        start=wire.Position(line=max(0, comment.line - AROUND), character=0),
        end=wire.Position(line=min(last, comment.line + AROUND + 1), character=0),
    )
