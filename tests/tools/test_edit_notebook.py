"""Notebooks are read as cells with outputs and changed cell by cell; the rest of the file stays as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine import rig
from tests.support.provider import call, say
from tests.support.tools import bench

from pilotfish.errors import StaleEdit, ToolError
from pilotfish.tools.files import edit_notebook, read_file


def code(source: str, *outputs: dict[str, Any], **more: Any) -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    return {"cell_type": "code", **more, "execution_count": 1, "metadata": {}, "outputs": [*outputs], "source": lines}


NOTEBOOK: dict[str, Any] = {
    "cells": [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# Über\n", "text"]},
        code("print(1)\nplot()", {"output_type": "stream", "name": "stdout", "text": ["1\n"]}, id="b"),
        code(
            "1/0", {"output_type": "error", "ename": "E", "evalue": "x", "traceback": ["\x1b[31mE\x1b[0m: x"]}, id="c"
        ),
        code("f", {"output_type": "display_data", "data": {"image/png": "AAAA", "text/plain": ["<Figure>"]}}, id="d"),
    ],
    "metadata": {"kernelspec": {"name": "python3"}},
    "nbformat": 4,
    "nbformat_minor": 5,
}
TEXT = json.dumps(NOTEBOOK, indent=1, ensure_ascii=False) + "\n"


async def test_it_is_read_as_cells_with_outputs(tmp_path: Path) -> None:
    (tmp_path / "n.ipynb").write_text(TEXT)
    (tmp_path / "broken.ipynb").write_text("{}\n")
    async with bench(tmp_path) as it:
        assert await it.text(read_file.TOOL, path="n.ipynb") == (
            "[cell 1, markdown]\n# Über\ntext\n\n"
            "[cell 2, code]\nprint(1)\nplot()\n\n[output of cell 2]\n1\n\n"
            "[cell 3, code]\n1/0\n\n[output of cell 3]\nE: x\n\n"
            "[cell 4, code]\nf\n\n[output of cell 4]\n[image/png]\n<Figure>\n"
            "[a notebook, shown as cells; change it with edit_notebook]"
        )
        assert await it.text(read_file.TOOL, path="n.ipynb", offset=5, limit=1) == (
            "[cell 2, code]\n[a notebook, shown as cells; change it with edit_notebook; "
            "lines 5-5 of 23; continue with offset=6]"
        )
        assert "{}" in await it.text(read_file.TOOL, path="broken.ipynb")


async def test_a_cell_is_replaced_inserted_and_deleted_and_nothing_else_changes(tmp_path: Path) -> None:
    file = tmp_path / "n.ipynb"
    file.write_text(TEXT)
    async with bench(tmp_path) as it:
        await it.run(read_file.TOOL, path="n.ipynb")
        await it.run(edit_notebook.TOOL, path="n.ipynb", cell=2, source="print(2)\n")
        await it.run(edit_notebook.TOOL, path="n.ipynb", cell=5, source="end", action="insert", kind="markdown")
        await it.run(edit_notebook.TOOL, path="n.ipynb", cell=3, action="delete")
    first, second, _, last = NOTEBOOK["cells"]
    changed = second | {"source": ["print(2)\n"], "outputs": [], "execution_count": None}
    new: dict[str, Any] = {"cell_type": "markdown", "id": "cell-5", "metadata": {}, "source": ["end"]}
    expected: dict[str, Any] = NOTEBOOK | {"cells": [first, changed, last, new]}
    assert file.read_text() == json.dumps(expected, indent=1, ensure_ascii=False) + "\n"


async def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    file = tmp_path / "n.ipynb"
    file.write_text(TEXT)
    async with bench(tmp_path) as it:
        with pytest.raises(ToolError, match="has not been read"):
            await it.run(edit_notebook.TOOL, path="n.ipynb", cell=1, source="x")
        await it.run(read_file.TOOL, path="n.ipynb")
        with pytest.raises(ToolError, match="no cell 9; it has 4"):
            await it.run(edit_notebook.TOOL, path="n.ipynb", cell=9, source="x")
        with pytest.raises(ToolError, match="a number up to 5"):
            await it.run(edit_notebook.TOOL, path="n.ipynb", cell=9, source="x", action="insert")
        file.write_text(TEXT.replace("Über", "Unter"))
        with pytest.raises(StaleEdit, match="changed since it was read"):
            await it.run(edit_notebook.TOOL, path="n.ipynb", cell=1, source="x")
        assert "Unter" in file.read_text()


async def test_a_turn_edits_a_cell_with_approval_and_undo(tmp_path: Path) -> None:
    replies = (
        call("read_file", path="n.ipynb"),
        call("NotebookEdit", notebook_path="n.ipynb", cell_number=2, new_source="print(2)"),
        say("ok"),
    )
    async with rig(tmp_path, *replies, files={"n.ipynb": TEXT}) as turn:
        await turn.prompt("go")
        assert [question.call.title for question in turn.frontend.asked] == ["Edit cell 2 of n.ipynb"]
        assert '"print(2)"' in (turn.root / "n.ipynb").read_text()
        await turn.engine.undo(turn.session_id)
        assert (turn.root / "n.ipynb").read_text() == TEXT
