"""A played editor on the client's side: documents with versions, edits as VS Code makes them, saves.

    editor = ScriptedEditor(client, "utf-16")
    editor.open(path); editor.type(path, offset, "text")

Counts positions by hand, so that it shares no mistake with the server.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from tests.support.client import Client

ABILITIES: dict[str, Any] = {
    "approvals": True,
    "approvalEffects": True,
    "save": True,
    "diagnostics": True,
    "codeActions": True,
    "symbols": True,
    "diff": True,
}

CAPABILITIES: dict[str, Any] = {
    "workspace": {"applyEdit": True, "codeLens": {"refreshSupport": True}},
    "textDocument": {"codeAction": {"resolveSupport": {"properties": ["edit", "command"]}}},
}


class ScriptedEditor:
    """Open documents, and what the server asks of them."""

    def __init__(self, client: Client, encoding: str = "utf-16") -> None:
        self.client = client
        self.encoding = encoding
        self.texts: dict[str, str] = {}
        self.versions: dict[str, int] = {}
        self.edits: list[dict[str, Any]] = []
        """every applyEdit, as it came"""
        self.opened: list[str] = []
        self.diffs: list[dict[str, Any]] = []
        self.before_edit: Callable[[], None] = lambda: None
        """called when an edit arrives and before it is made: the user types meanwhile"""
        client.answers.update(
            {
                "workspace/applyEdit": self._apply,
                "workspace/codeLens/refresh": self._nothing,
                "pilotfish/editor/open": self._open,
                "pilotfish/editor/save": self._save,
                "pilotfish/editor/diff": self._diff,
            }
        )

    def open(self, path: Path, text: str | None = None) -> str:
        uri = path.as_uri()
        self.texts[uri] = path.read_text() if text is None else text
        self.versions[uri] = 1
        item = {"uri": uri, "languageId": "plaintext", "version": 1, "text": self.texts[uri]}
        self.client.notify("textDocument/didOpen", {"textDocument": item})
        return uri

    def close(self, path: Path) -> None:
        self.client.notify("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})
        del self.texts[path.as_uri()], self.versions[path.as_uri()]

    def type(self, path: Path, offset: int, text: str) -> None:
        """The user types."""
        self._change(path.as_uri(), [(offset, offset, text)])

    def type_over(self, path: Path, offset: int, size: int, text: str) -> None:
        """The user replaces so many characters."""
        self._change(path.as_uri(), [(offset, offset + size, text)])

    def text(self, path: Path) -> str:
        return self.texts[path.as_uri()]

    def _change(self, uri: str, hunks: list[tuple[int, int, str]]) -> None:
        before, changes = self.texts[uri], list[dict[str, Any]]()
        for start, end, text in sorted(hunks, reverse=True):
            span = {"start": self._place(before, start), "end": self._place(before, end)}
            changes.append({"range": span, "text": text})
            self.texts[uri] = self.texts[uri][:start] + text + self.texts[uri][end:]
        self.versions[uri] += 1
        document = {"uri": uri, "version": self.versions[uri]}
        self.client.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})

    async def _apply(self, params: dict[str, Any]) -> Any:
        self.edits.append(params)
        self.before_edit()
        for change in params["edit"]["documentChanges"]:
            uri, version = change["textDocument"]["uri"], change["textDocument"]["version"]
            if self.versions.get(uri) != version:
                return {"applied": False}
            hunks = [
                (self._offset(uri, edit["range"]["start"]), self._offset(uri, edit["range"]["end"]), edit["newText"])
                for edit in change["edits"]
            ]
            self._change(uri, hunks)
        return {"applied": True}

    async def _open(self, params: dict[str, Any]) -> Any:
        opened, failed = list[dict[str, Any]](), list[dict[str, Any]]()
        for uri in params["uris"]:
            path = path_at(uri)
            if uri not in self.texts:
                if not path.is_file():
                    failed.append({"uri": uri, "reason": "there is no such file"})
                    continue
                self.open(path)
                self.opened.append(uri)
            opened.append({"uri": uri, "version": self.versions[uri], "dirty": self.texts[uri] != path.read_text()})
        return {"opened": opened, "failed": failed}

    async def _save(self, params: dict[str, Any]) -> Any:
        for uri in params["uris"]:
            path_at(uri).write_text(self.texts[uri])
            self.client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        return {"saved": params["uris"], "failed": []}

    async def _diff(self, params: dict[str, Any]) -> Any:
        self.diffs.append(params)
        return {}

    async def _nothing(self, _: Any) -> Any:
        return None

    def _units(self, text: str) -> int:
        return {"utf-8": len(text.encode()), "utf-16": len(text.encode("utf-16-le")) // 2, "utf-32": len(text)}[
            self.encoding
        ]

    def _place(self, text: str, offset: int) -> dict[str, int]:
        before = text[:offset]
        line = before.count("\n")
        return {"line": line, "character": self._units(before[before.rfind("\n") + 1 :])}

    def _offset(self, uri: str, place: dict[str, int]) -> int:
        lines = self.texts[uri].split("\n")
        start = sum(len(line) + 1 for line in lines[: place["line"]])
        for column in range(len(lines[place["line"]]) + 1):
            if self._units(lines[place["line"]][:column]) == place["character"]:
                return start + column
        raise AssertionError(f"there is no place {place} in {uri}")


def path_at(uri: str) -> Path:
    return Path(unquote(urlsplit(uri).path))
