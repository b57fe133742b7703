"""What depends on the files that a call would change, in one line, in time or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import rig
from tests.support.provider import Answer, call, say
from tests.support.tools import FakeEditor

from pilotfish.workspace import impact

FILES = {
    "app/parse.py": "def parse_line(text):\n    return text\n\n\ndef other():\n    return 1\n",
    "app/a.py": "from app.parse import parse_line\n\nparse_line('a')\n",
    "app/b.py": "import app.parse\n\napp.parse.parse_line('b')\n",
    "app/unused.py": "x = 1\n",
    ".env": "parse_line=1\n",
    ".gitignore": "build/\n",
    "build/c.py": "parse_line('c')\n",
}
EDITS = {
    "signature": [{"old_string": "def parse_line(text):", "new_string": "def parse_line(text, strict):"}],
    "body": [{"old_string": "    return text", "new_string": "    return text.strip()"}],
}


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        (
            call("update_file", path="app/parse.py", edits=EDITS["signature"]),
            "parse_line is used in 3 places in 2 other files",
        ),
        (call("update_file", path="app/parse.py", edits=EDITS["body"]), ""),
        (
            call("delete_file", path="app/parse.py"),
            "parse.py is imported by 2 other files; parse_line is used in 3 places in 2 other files",
        ),
        (
            call("move_file", path="app/parse.py", to="app/reading.py"),
            "parse.py is imported by 2 other files; parse_line is used in 3 places in 2 other files",
        ),
        (call("delete_file", path="app/unused.py"), ""),
        (call("bash", command="sed -i 's/def parse_line/def read_line/' app/parse.py"), None),
    ],
)
async def test_the_question_says_who_is_affected(tmp_path: Path, reply: Answer, line: str | None) -> None:
    async with rig(tmp_path, reply, say("done"), files=FILES, mode="ask") as turn:
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        if line is None and question.preview.tried is None:
            pytest.skip("commands cannot be tried out here")
        expected = "parse_line is used in 3 places in 2 other files" if line is None else line
        assert question.preview.impact == expected


async def test_a_search_that_takes_too_long_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(impact, "SECONDS", 0.0)
    async with rig(tmp_path, call("delete_file", path="app/parse.py"), say("done"), files=FILES, mode="ask") as turn:
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        assert question.preview.impact == ""


SIGNATURE = call("update_file", path="app/parse.py", edits=EDITS["signature"])
ZERO = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}


class AnsweringEditor(FakeEditor):
    """An editor whose language servers answer after some seconds."""

    def __init__(self, seconds: float, uris: list[str]) -> None:
        super().__init__()
        self.seconds = seconds
        self.answers["references"] = {"locations": [{"uri": uri, "range": ZERO} for uri in uris]}

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        if timeout < self.seconds:
            await asyncio.sleep(timeout)
            return None
        return await super().query(method, params, timeout)


@pytest.mark.parametrize(
    ("seconds", "named", "line"),
    [
        (0, ["app/parse.py", "app/a.py", "app/unused.py", "app/a.py"], "used in 3 places in 2 other files"),
        (0, ["app/parse.py", "app/a.py"], "used in 1 place in 1 other file"),
        (0, ["app/parse.py"], None),
        (0, [], "used in 3 places in 2 other files"),
        (60, ["app/parse.py"], "used in 3 places in 2 other files"),
    ],
    ids=["references", "fewer than the words", "no other file", "a symbol that no server knows", "late"],
)
async def test_language_servers_are_believed_and_words_are_searched_without_them(
    tmp_path: Path, seconds: float, named: list[str], line: str | None
) -> None:
    editor = AnsweringEditor(seconds, [(tmp_path / "work" / name).as_uri() for name in named])
    async with rig(tmp_path, SIGNATURE, say("done"), files=FILES, mode="ask", editor=editor) as turn:
        await turn.prompt("go")
        (question,) = turn.frontend.asked
        assert question.preview.impact == ("" if line is None else f"parse_line is {line}")
