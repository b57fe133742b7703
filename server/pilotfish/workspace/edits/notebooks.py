"""Jupyter notebooks as numbered cells: what the model reads of them, and how it changes one cell.

Pure. Promises: what is not changed stays as it is; a changed code cell loses its outputs, as it has not run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, cast

from pilotfish.errors import ToolError

MAX_OUTPUT = 2_000  # characters of one output that are shown
CellKind = Literal["code", "markdown", "raw"]
_TERMINAL = re.compile(r"\x1b\[[0-9;]*m")


def is_notebook(name: str) -> bool:
    return name.lower().endswith(".ipynb")


def cells_text(text: str) -> str | None:
    """The cells with their outputs. None if the text is no notebook."""
    try:
        notebook = _parsed(text)
    except ToolError:
        return None
    rows: list[str] = []
    for number, cell in enumerate(_cells(notebook), 1):
        rows.append(f"[cell {number}, {cell.get('cell_type', 'raw')}]\n{_joined(cell.get('source'))}")
        for output in cast("Sequence[Mapping[str, Any]]", cell.get("outputs") or ()):
            if said := _output(output):
                shown = said if len(said) <= MAX_OUTPUT else f"{said[:MAX_OUTPUT]}\n… [{len(said):,} characters]"
                rows.append(f"[output of cell {number}]\n{shown}")
    return "\n\n".join(rows) or "[the notebook has no cells]"


def replaced(text: str, number: int, source: str) -> str:
    """The notebook with another source of a cell."""

    def change(cells: list[dict[str, Any]]) -> None:
        cell = cells[_index(cells, number)]
        cell["source"] = source.splitlines(keepends=True)
        if cell.get("cell_type") == "code":
            cell |= {"outputs": [], "execution_count": None}

    return _changed(text, change)


def inserted(text: str, number: int, source: str, kind: CellKind) -> str:
    """The notebook with a new cell that has this number."""

    def change(cells: list[dict[str, Any]]) -> None:
        if not 1 <= number <= len(cells) + 1:
            raise ToolError(f"The notebook has {len(cells)} cells; a new one can have a number up to {len(cells) + 1}")
        cell: dict[str, Any] = {"cell_type": kind}
        if any("id" in other for other in cells):
            taken = {str(other.get("id")) for other in cells}
            cell["id"] = next(name for step in range(len(cells) + 1) if (name := f"cell-{number + step}") not in taken)
        cell |= {"metadata": {}, "source": source.splitlines(keepends=True)}
        cells.insert(number - 1, cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))

    return _changed(text, change)


def removed(text: str, number: int) -> str:
    """The notebook without a cell."""

    def change(cells: list[dict[str, Any]]) -> None:
        del cells[_index(cells, number)]

    return _changed(text, change)


def _changed(text: str, change: Callable[[list[dict[str, Any]]], None]) -> str:
    notebook = _parsed(text)
    change(_cells(notebook))
    indent = re.search(r'^\{\n([ \t]+)"', text)
    space: str | int = 1 if indent is None else indent.group(1)
    return json.dumps(notebook, indent=space, ensure_ascii=False) + ("\n" if text.endswith("\n") else "")


def _parsed(text: str) -> dict[str, Any]:
    try:
        notebook: object = json.loads(text)
    except ValueError as error:
        raise ToolError(f"This is no notebook: {error}") from error
    if isinstance(notebook, dict):
        found = cast("dict[str, Any]", notebook)
        cells: object = found.get("cells")
        if isinstance(cells, list) and all(isinstance(cell, dict) for cell in cast("list[object]", cells)):
            return found
    raise ToolError("This is no notebook with a list of cells")


def _cells(notebook: Mapping[str, Any]) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", notebook["cells"])


def _index(cells: Sequence[object], number: int) -> int:
    if not 1 <= number <= len(cells):
        raise ToolError(f"The notebook has no cell {number}; it has {len(cells)}")
    return number - 1


def _output(output: Mapping[str, Any]) -> str:
    if output.get("output_type") == "error":
        trace = "\n".join(map(str, cast("Sequence[object]", output.get("traceback") or ())))
        return _TERMINAL.sub("", trace) or f"{output.get('ename')}: {output.get('evalue')}"
    if "text" in output:
        return _TERMINAL.sub("", _joined(output["text"])).strip()
    data: object = output.get("data")
    return "\n".join(_shown(cast("Mapping[str, Any]", data))) if isinstance(data, dict) else ""


def _shown(data: Mapping[str, Any]) -> Iterator[str]:
    for kind, value in data.items():
        if kind == "text/plain":
            yield _joined(value).strip()
        elif kind.startswith("image/"):
            yield f"[{kind}]"


def _joined(text: object) -> str:
    """Text in a notebook is a string or a list of lines."""
    return "".join(map(str, cast("list[object]", text))) if isinstance(text, list) else str(text or "")
