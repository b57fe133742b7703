"""`/review`: findings as diagnostics, re-anchored while the user types, fixed and dismissed by code actions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.client import RpcError
from tests.support.provider import Call, Reply, call, say
from tests.support.scripted_editor import CAPABILITIES, ScriptedEditor
from tests.support.served import Rig, served

pytestmark = pytest.mark.asyncio(loop_scope="module")

TEXT = "def pay(cart):\n    total = cart.sum\n    send(total)\n\n\ndef sum(cart):\n    return 0\n"
WRONG = "cart.sum is a method and is not called, so the total is a function."


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    """A plain client: findings need no plugin."""
    place = tmp_path_factory.mktemp("findings")
    (place / "home").mkdir()
    (place / "work").mkdir()
    (place / "home" / "config.toml").write_text(f'mode = "edit"\n[workspace."{place / "work"}"]\ntrusted = true\n')
    async with served(place / "work", hello=None, capabilities=CAPABILITIES, home=place / "home") as rig:
        yield rig


@pytest.fixture
def editor(rig: Rig) -> ScriptedEditor:
    return ScriptedEditor(rig.client)


@pytest.fixture
def file(rig: Rig, editor: ScriptedEditor, request: pytest.FixtureRequest) -> Path:
    file = rig.folder / f"{request.node.name[:40]}.py"
    file.write_text(TEXT)
    editor.open(file)
    return file


def finding(file: Path, line: int, message: str = WRONG, **more: Any) -> Call:
    return Call("report_finding", {"path": file.name, "line": line, "message": message, **more})


async def run(rig: Rig, command: str, *arguments: Any) -> Any:
    return await rig.client.request("workspace/executeCommand", {"command": command, "arguments": list(arguments)})


async def review(rig: Rig, file: Path, *findings: Call, **more: Any) -> str:
    """Run a review that reports these findings; the session."""
    name = rig.script(f"review of {file.name}", Reply(parts=findings), say("Done."))
    started = await run(rig, "pilotfish.prompt", {"prompt": f"/review {name}", "own": True, "wait": True, **more})
    return started["sessionId"]


def shown(rig: Rig, file: Path) -> list[Any]:
    """The diagnostics that the editor shows now."""
    published = [
        update for update in rig.client.of("textDocument/publishDiagnostics") if update["uri"] == file.as_uri()
    ]
    return published[-1]["diagnostics"] if published else []


def places(rig: Rig, file: Path) -> list[tuple[int, int, int]]:
    ranges = [one["range"] for one in shown(rig, file)]
    return [(one["start"]["line"], one["start"]["character"], one["end"]["character"]) for one in ranges]


async def until(rig: Rig, file: Path, wanted: list[tuple[int, int, int]]) -> None:
    await rig.client.until(lambda: places(rig, file) == wanted, 20)


async def test_findings_are_diagnostics_with_severity_and_related_places(rig: Rig, file: Path):
    await review(rig, file, finding(file, 2, severity="error", related=[f"{file.name}:6: it is defined here"]))
    await until(rig, file, [(1, 4, 20)])
    (found,) = shown(rig, file)
    assert (found["message"], found["severity"], found["source"]) == (WRONG, 1, "pilotfish")
    (related,) = found["relatedInformation"]
    assert (related["message"], related["location"]["range"]["start"]["line"]) == ("it is defined here", 5)
    assert "report_finding" in str(rig.provider.requests[-2].messages)


async def test_a_finding_moves_with_its_line_and_vanishes_with_it(rig: Rig, editor: ScriptedEditor, file: Path):
    await review(rig, file, finding(file, 2), finding(file, 7, "It returns nothing useful."))
    await until(rig, file, [(1, 4, 20), (6, 4, 12)])
    editor.type(file, 0, "# top\n")
    await until(rig, file, [(2, 4, 20), (7, 4, 12)])
    at = editor.text(file).index("cart.sum") + len("cart.sum")
    editor.type(file, at, "()")
    await until(rig, file, [(7, 4, 12)])
    editor.type_over(file, at, 2, "")
    await until(rig, file, [(2, 4, 20), (7, 4, 12)])


async def test_a_finding_is_dismissed_by_its_code_action(rig: Rig, file: Path):
    await review(rig, file, finding(file, 2), finding(file, 7, "Other."))
    await until(rig, file, [(1, 4, 20), (6, 4, 12)])
    first = shown(rig, file)[0]
    params = {
        "textDocument": {"uri": file.as_uri()},
        "range": first["range"],
        "context": {"diagnostics": [first], "only": ["quickfix"]},
    }
    actions = await rig.client.request("textDocument/codeAction", params)
    assert [action["title"] for action in actions] == ["Fix with Pilotfish", "Dismiss this finding"]
    command = actions[1]["command"]
    assert await run(rig, command["command"], *command["arguments"]) == {"dismissed": 1}
    await until(rig, file, [(6, 4, 12)])
    assert (await run(rig, "pilotfish.findings.dismiss"))["dismissed"] >= 1
    await until(rig, file, [])


async def test_a_fix_that_changes_another_line_removes_the_finding(rig: Rig, editor: ScriptedEditor, file: Path):
    await review(rig, file, finding(file, 3, "total may be none."))
    await until(rig, file, [(2, 4, 15)])
    (found,) = shown(rig, file)
    edits = [{"old_string": "    total = cart.sum\n", "new_string": "    total = cart.sum or 0\n"}]
    words = rig.script("fix it", call("update_file", path=file.name, edits=edits), say("Fixed."))
    blocks: list[Any] = [
        {"type": "text", "text": words},
        {"type": "diagnostic", "uri": file.as_uri(), "diagnostic": found},
    ]
    await run(rig, "pilotfish.prompt", {"prompt": blocks, "own": True, "wait": True})
    assert "or 0" in editor.text(file)
    await until(rig, file, [])


async def test_a_file_that_is_not_open_is_followed_too(rig: Rig):
    file = rig.folder / "closed.py"
    file.write_text(TEXT)
    session = await review(rig, file, finding(file, 2))
    await until(rig, file, [(1, 4, 20)])
    edits = [{"old_string": "def pay", "new_string": "import os\n\n\ndef pay"}]
    name = rig.script("closed", call("read_file", path=file.name), call("update_file", path=file.name, edits=edits))
    await run(rig, "pilotfish.prompt", {"prompt": name, "sessionId": session, "wait": True})
    await until(rig, file, [(4, 4, 20)])


async def test_the_next_review_of_a_session_replaces_the_one_before(rig: Rig, file: Path):
    session = await review(rig, file, finding(file, 2))
    await until(rig, file, [(1, 4, 20)])
    await review(rig, file, finding(file, 7, "Another."), sessionId=session)
    await until(rig, file, [(6, 4, 12)])


async def test_a_finding_needs_a_line_that_exists(rig: Rig, file: Path):
    await review(rig, file, finding(file, 99), finding(file, 4))
    assert shown(rig, file) == []
    assert str(rig.provider.requests[-1].messages).count("name the line of the problem") == 2


async def test_dismiss_wants_an_id_or_nothing(rig: Rig):
    with pytest.raises(RpcError, match="id"):
        await run(rig, "pilotfish.findings.dismiss", "x")
