"""One version: the server's, in `server/pilotfish/__init__.py`. The clients and the changelog name the same one."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pilotfish import __version__

ROOT = Path(__file__).parents[1]


def test_the_clients_have_the_version_of_the_server() -> None:
    manifest = json.loads((ROOT / "client-vscode" / "package.json").read_text("utf-8"))
    lock = json.loads((ROOT / "client-vscode" / "package-lock.json").read_text("utf-8"))
    emacs = re.search(r"^;; Version: (.*)$", (ROOT / "client-emacs" / "pilotfish.el").read_text("utf-8"), re.MULTILINE)
    assert emacs is not None
    found = (manifest["version"], lock["version"], lock["packages"][""]["version"], emacs.group(1))
    assert found == (__version__,) * 4


def test_the_changelog_has_the_form_of_keep_a_changelog_and_begins_with_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    assert re.fullmatch(rf"\[{re.escape(__version__)}\] - \d{{4}}-\d\d-\d\d", headings[1])
    kinds = set(re.findall(r"^### (.*)$", text, re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
