"""“Fix with Pilotfish”: what the language server knows goes into the prompt, and its fix is applied."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
import pytest_asyncio
from tests.support.client import OURS
from tests.support.provider import call, say
from tests.support.scripted_editor import ABILITIES, CAPABILITIES, ScriptedEditor
from tests.support.served import Rig, served

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "import os\nimport re\nprint(1)\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("fixes") / "work"
    folder.mkdir()
    async with served(folder, hello={**OURS, "client": ABILITIES}, capabilities=CAPABILITIES) as rig:
        yield rig


@pytest.fixture
def rig(shared: Rig) -> Rig:
    shared.client.forget()
    return shared


def line(number: int) -> dict[str, Any]:
    return {"start": {"line": number, "character": 0}, "end": {"line": number, "character": 9}}


def problem(number: int, name: str) -> dict[str, Any]:
    return {"range": line(number), "message": f"`{name}` imported but unused", "severity": 2, "code": "F401"}


async def test_the_language_servers_own_fix_is_named_first_and_applied(rig: Rig):
    file = rig.folder / "a.py"
    file.write_text(TEXT)
    editor = ScriptedEditor(rig.client)
    uri = editor.open(file)
    asked: list[Any] = []

    async def code_actions(params: Any) -> Any:
        asked.append(params["only"])
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 1, "character": 0}}
        edit = {"changes": {uri: [{"range": whole, "newText": ""}]}}
        action = {"title": "Remove unused import: `os`", "edit": edit, "diagnostics": [problem(0, "os")]}
        return {"actions": [action]}

    rig.client.answers["pilotfish/editor/codeActions"] = code_actions
    known = {
        **problem(0, "os"),
        "codeDescription": {"href": "https://docs.example/F401"},
        "relatedInformation": [{"location": {"uri": uri, "range": line(2)}, "message": "nothing uses it"}],
    }
    fix = call("quick_fix", path="a.py", line=1, title="Remove unused import: `os`")
    words = rig.script("fix", fix, say("Removed."))
    blocks: list[Any] = [
        {"type": "text", "text": words},
        {"type": "diagnostic", "uri": uri, "diagnostic": known},
        {"type": "diagnostic", "uri": uri, "diagnostic": problem(1, "re")},
    ]
    session = await rig.client.new_session(mode="edit")
    await rig.client.request("pilotfish/session/prompt", {"sessionId": session, "prompt": blocks})
    said = str(rig.provider.requests[0].messages)
    assert "related: a.py:3: nothing uses it" in said
    assert "documentation: https://docs.example/F401" in said
    assert "quick_fix: Remove unused import: `os`" in said
    assert said.count("apply it with quick_fix") == 1
    assert editor.text(file) == "import re\nprint(1)\n"
    assert asked == [["quickfix"]] * 2  # once for the prompt, once for the tool
