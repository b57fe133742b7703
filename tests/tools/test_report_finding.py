"""report_finding: the line must exist; related places are read as models write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.tools import bench, parse

from pilotfish.errors import ToolError
from pilotfish.tools.code.report_finding import TOOL, RelatedPlace, related_place


async def test_the_line_is_quoted_so_that_the_model_sees_a_wrong_number(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n\ny = 2\n")
    async with bench(tmp_path) as made:
        assert await made.text(TOOL, path="a.py", line=3, message="unused") == "Shown at a.py:3: y = 2"
        for line in (2, 9):
            with pytest.raises(ToolError, match="name the line"):
                await made.text(TOOL, path="a.py", line=line, message="unused")
        with pytest.raises(ToolError):
            await made.text(TOOL, path="missing.py", line=1, message="unused")
    args = parse(TOOL, {"path": "a.py", "line": 3, "severity": "error", "message": "unused\nmore"})
    assert TOOL.title(args) == "Error in a.py:3: unused"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("src/a.py:12: the caller", RelatedPlace("src/a.py", 12, "the caller")),
        ("src/a.py:12:5: the caller", RelatedPlace("src/a.py", 12, "the caller")),
        ("src/a.py:12", RelatedPlace("src/a.py", 12, "")),
        ("somewhere else", None),
    ],
)
def test_a_related_place(text: str, place: RelatedPlace | None) -> None:
    assert related_place(text) == place
