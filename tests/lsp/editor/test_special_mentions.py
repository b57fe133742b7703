"""`@problems`, `@changes`, `@branch` and folders: completed, and attached to the prompt."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.support.client import OURS
from tests.support.provider import say
from tests.support.scripted_editor import ABILITIES
from tests.support.served import Rig, served

pytestmark = pytest.mark.asyncio(loop_scope="module")


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=me", "-c", "user.email=me@example.com", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Rig]:
    folder = tmp_path_factory.mktemp("mentions") / "work"
    (folder / "src" / "deep").mkdir(parents=True)
    (folder / "src" / "a.py").write_text("one = 1\n")
    (folder / "src" / "deep" / "b.py").write_text("")
    (folder / ".env").write_text("WORD=before\n")
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "Begin")
    git(folder, "checkout", "-b", "feature")
    (folder / "src" / "a.py").write_text("one = 1\ntwo = 2\n")
    git(folder, "commit", "-am", "Count further")
    (folder / "src" / "a.py").write_text("one = 1\ntwo = 2\nthree = 3\n")
    (folder / "new.txt").write_text("new\n")
    (folder / ".env").write_text("WORD=after\n")
    async with served(folder, hello={**OURS, "client": ABILITIES}) as rig:
        yield rig


async def asked(rig: Rig, words: str) -> str:
    """What the model is sent with a prompt."""
    session = await rig.client.new_session()
    await rig.client.prompt(session, f"{rig.script('asked', say('ok'))} {words}")
    return str(rig.provider.requests[-1].messages[-1])


async def test_changes_are_the_uncommitted_ones(rig: Rig):
    sent = await asked(rig, "Explain @changes, please.")
    assert '<attached name="changes">' in sent
    assert "+three = 3" in sent
    assert "?? new.txt" in sent
    assert "+two = 2" not in sent
    assert "[.env is left out: it may hold a secret]" in sent
    assert "WORD" not in sent


async def test_branch_is_what_it_adds_to_the_main_one(rig: Rig):
    sent = await asked(rig, "Describe @branch")
    assert "Branch feature, compared with main." in sent
    assert "Count further" in sent
    assert "+two = 2" in sent
    assert "three = 3" not in sent.partition('<attached name="branch">')[2]


async def test_problems_are_those_of_all_files(rig: Rig):
    async def diagnostics(_: Any) -> Any:
        where = {"start": {"line": 1, "character": 0}, "end": {"line": 1, "character": 3}}
        problem = {"range": where, "message": "unused", "severity": 2, "source": "lint"}
        return {"documents": [{"uri": (rig.folder / "src" / "a.py").as_uri(), "diagnostics": [problem]}]}

    rig.client.answers["pilotfish/editor/diagnostics"] = diagnostics
    assert "src/a.py:2: warning: unused [lint]" in await asked(rig, "Mend @problems")


async def test_a_folder_is_listed(rig: Rig):
    sent = await asked(rig, "What is in @src?")
    listing = sent.partition('<attached name="src">')[2].partition("</attached>")[0]
    assert "a.py" in listing
    assert "b.py" in listing


async def test_a_word_that_is_none_of_them_is_text(rig: Rig):
    assert "<attached" not in await asked(rig, "Write to me@changes.example and @nobody")


async def test_in_a_folder_that_is_not_trusted_git_is_not_asked(tmp_path: Path):
    (tmp_path / "work").mkdir()
    git(tmp_path / "work", "init")
    async with served(tmp_path / "work", hello={**OURS, "client": ABILITIES, "trusted": False}) as rig:
        sent = await asked(rig, "Explain @changes")
        assert "[changes could not be attached: the folder is not trusted, so git is not asked]" in sent


async def test_they_are_completed_by_their_beginning(rig: Rig):
    async def complete(query: str) -> list[tuple[str, str]]:
        found = await rig.client.request("pilotfish/mention/complete", {"query": query, "limit": 50})
        return [(one["kind"], one["insert"]) for one in found["mentions"] if one["kind"] == "context"]

    assert await complete("pro") == [("context", "problems")]
    assert await complete("") == [("context", "problems"), ("context", "changes"), ("context", "branch")]
    assert await complete("zzz") == []


# -- pages, sessions, the terminal -------------------------------------------------------------------------------------


async def offered(rig: Rig, query: str, **more: Any) -> list[tuple[str, str, str]]:
    found = (await rig.client.request("pilotfish/mention/complete", {"query": query, **more}))["mentions"]
    return [(one["kind"], one["label"], one["insert"]) for one in found]


async def test_another_session_is_completed_and_its_end_is_attached(rig: Rig):
    earlier = await rig.client.new_session()
    await rig.client.prompt(earlier, f"{rig.script('earlier', say('The port is 4711.'))} which port?")
    title = "Which port"
    await rig.client.request("pilotfish/session/rename", {"sessionId": earlier, "title": title})
    assert ("session", title, earlier) in await offered(rig, "session")
    assert ("session", title, earlier) in await offered(rig, "session:port")
    assert ("session", title, earlier) not in await offered(rig, "session:other words")
    assert ("session", title, earlier) not in await offered(rig, "session", sessionId=earlier)
    sent = await asked(rig, f"Use the port of @{earlier}.")
    assert f'<attached name="{earlier}">' in sent
    assert "The port is 4711." in sent


async def test_this_session_cannot_be_mentioned_and_an_unknown_one_is_only_text(rig: Rig):
    session = await rig.client.new_session()
    await rig.client.prompt(session, f"{rig.script('mine', say('ok'))} as in @{session} and @ses_nothing")
    sent = str(rig.provider.requests[-1].messages[-1])
    assert f"[{session} could not be attached: it is this session]" in sent
    assert "ses_nothing could not" not in sent


async def test_a_page_is_completed_as_it_is_typed(rig: Rig):
    assert await offered(rig, "https://example.org/a") == [("url", "https://example.org/a", "https://example.org/a")]


async def test_a_page_of_this_machine_is_not_fetched_without_a_rule(rig: Rig):
    url = f"{rig.provider.url}/v1/models"
    assert "could not be attached" in await asked(rig, f"@{url}")
    rule = {"decision": "allow", "tool": "web_fetch", "pattern": "127.0.0.1", "scope": "user"}
    added = (await rig.client.request("pilotfish/rule/add", rule))["rule"]
    sent = await asked(rig, f"read @{url}, please")
    await rig.client.request("pilotfish/rule/remove", {"id": added["id"]})
    assert f'<attached name="{url}" from="web {url}">' in sent
    assert "owned_by" in sent


async def test_an_editor_that_does_not_tell_its_terminal_says_so(rig: Rig):
    assert ("context", "terminal", "terminal") not in await offered(rig, "term")
    sent = await asked(rig, "Why does @terminal fail?")
    assert "[terminal could not be attached: this editor does not say what its terminals show]" in sent


async def test_the_terminal_is_asked_of_the_editor(tmp_path: Path):
    shown = {"text": "1 failed\nTOKEN=ghp_" + "A1b2C3d4" * 4 + "A1b2\n", "command": "make test"}

    async def terminal(_: Any) -> Any:
        return shown

    async with served(tmp_path, hello={**OURS, "client": {**ABILITIES, "terminal": True}}) as rig:
        rig.client.answers["pilotfish/editor/terminal"] = terminal
        assert ("context", "terminal", "terminal") in await offered(rig, "term")
        sent = await asked(rig, "Why does @terminal fail?")
        assert '<attached name="terminal">' in sent
        assert "$ make test\\n1 failed" in sent
        assert "ghp_" not in sent
        shown.update(text="<html>", command="curl https://example.org")
        assert 'from="command curl https://example.org"' in await asked(rig, "What says @terminal?")


# -- mentions in a draft -----------------------------------------------------------------------------------------------


async def found(rig: Rig, text: str) -> list[dict[str, Any]]:
    return (await rig.client.request("pilotfish/mention/find", {"text": text}))["mentions"]


async def test_mentions_of_a_draft_are_found_with_their_cost(rig: Rig):
    (rig.folder / "long.txt").write_text("x" * 4000)
    (rig.folder / "huge.txt").write_text("x" * 400_000)
    text = "🐟 @long.txt, @huge.txt @nothing @problems me@long.txt @long.txt#1-1."
    sizes = [(one["kind"], text.encode("utf-16-le")[2 * one["start"] : 2 * one["end"]].decode("utf-16-le"),
              one.get("tokens")) for one in await found(rig, text)]  # fmt: skip
    assert sizes == [
        ("file", "@long.txt", 1000),
        ("file", "@huge.txt", 10_000),
        ("context", "@problems", None),
        ("file", "@long.txt#1-1", 1000),
    ]


async def test_a_mention_that_is_not_attached_says_why(rig: Rig):
    (secret, outside) = await found(rig, "@.env @/etc/hostname")
    assert (secret["problem"], outside["problem"]) == (
        "environment file, often with secrets",
        "it is outside the workspace",
    )


async def test_pages_and_sessions_of_a_draft_are_found_without_reading_them(rig: Rig):
    session = await rig.client.new_session()
    kinds = [(one["kind"], one["name"]) for one in await found(rig, f"@https://a.example/b. @{session} @ses_nothing")]
    assert kinds == [("url", "https://a.example/b"), ("session", session)]
