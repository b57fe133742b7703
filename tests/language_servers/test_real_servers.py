"""Real language servers, started by the server of a plain LSP client, of the terminal and of an ACP client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.acp_client import connected, prompt
from tests.support.client import OURS
from tests.support.language_servers import alive, inside, last_result, plain_client, real, search_path
from tests.support.provider import call, say, serve
from tests.support.terminal import piped, work_folder
from tests.support.tools import plant

AUTO = {"PILOTFISH_LANGUAGE_SERVERS": "auto"}
BOTH = real("pyright-langserver", "ruff")
FILES = {
    "shop.py": "def price(count: int) -> int:\n    return count * 2\n",
    "till.py": "from shop import price\n\nprint(price(3))\n",
}
CODE_TOOLS = {"diagnostics", "find_symbol", "symbols", "rename_symbol", "quick_fix"}


async def test_definitions_references_and_symbols_come_from_pyright(tmp_path: Path) -> None:
    async with plain_client(tmp_path, FILES, BOTH) as asked:
        uses = await asked.run("find_symbol", path="shop.py", line=1, name="price", find="references")
        assert inside(uses) == [
            "shop.py:1: def price(count: int) -> int:",
            "till.py:1: from shop import price",
            "till.py:3: print(price(3))",
        ]
        found = await asked.run("find_symbol", path="till.py", line=3, name="price")
        assert inside(found) == ["shop.py:1: def price(count: int) -> int:"]
        assert inside(await asked.run("symbols", path="shop.py")) == ["function price :1", "  variable count :1"]
        assert inside(await asked.run("symbols", query="price")) == ["function price shop.py:1"]
        assert asked.offered() >= CODE_TOOLS
        # What a command or another program writes is seen, too.
        (tmp_path / "work" / "desk.py").write_text("import shop\n\nshop.price(1)\n")
        uses = await asked.run("find_symbol", path="shop.py", line=1, name="price", find="references")
        assert inside(uses)[0] == "desk.py:3: shop.price(1)"


async def test_unsaved_text_is_what_the_server_looks_at(tmp_path: Path) -> None:
    async with plain_client(tmp_path, FILES, BOTH) as asked:
        uri = (tmp_path / "work" / "shop.py").as_uri()
        document = {"uri": uri, "languageId": "python", "version": 1, "text": "\n\n" + FILES["shop.py"]}
        asked.rig.client.notify("textDocument/didOpen", {"textDocument": document})
        found = await asked.run("find_symbol", path="till.py", line=3, name="price")
        assert inside(found) == ["shop.py:3: def price(count: int) -> int:"]
        change = {"textDocument": {"uri": uri, "version": 2}, "contentChanges": [{"text": FILES["shop.py"]}]}
        asked.rig.client.notify("textDocument/didChange", change)
        found = await asked.run("find_symbol", path="till.py", line=3, name="price")
        assert inside(found) == ["shop.py:1: def price(count: int) -> int:"]


async def test_an_edit_is_answered_with_the_errors_it_made_and_ruffs_fix_is_applied(tmp_path: Path) -> None:
    async with plain_client(tmp_path, FILES, BOTH) as asked:
        assert inside(await asked.run("diagnostics", path="shop.py")) == ["No problems found."]
        edited = await asked.run("update_file", path="shop.py", edits=[{"old": "count * 2", "new": "'x' + count"}])
        assert "the language server now reports: line 2: Operator" in edited
        edited = await asked.run("update_file", path="till.py", edits=[{"old": "from", "new": "import os\nfrom"}])
        assert "now reports" not in edited  # a warning of ruff's, and no error
        assert "  quick_fix: Ruff (F401): Remove unused import: `os`" in inside(
            await asked.run("diagnostics", path="till.py")
        )
        await asked.run("quick_fix", path="till.py", line=1, title="Ruff (F401): Remove unused import: `os`")
        assert (tmp_path / "work" / "till.py").read_text() == FILES["till.py"]


async def test_a_rename_changes_every_file(tmp_path: Path) -> None:
    async with plain_client(tmp_path, FILES, BOTH) as asked:
        await asked.run("rename_symbol", path="shop.py", line=1, name="price", new_name="cost")
        changed = {name: (tmp_path / "work" / name).read_text() for name in FILES}
        assert changed == {name: text.replace("price", "cost") for name, text in FILES.items()}


async def test_the_project_s_own_program_comes_before_the_machine_s(tmp_path: Path) -> None:
    async with plain_client(tmp_path, FILES | {".venv/bin/.keep": ""}, real()) as asked:
        real("ruff")(tmp_path / "work" / ".venv" / "bin")
        await asked.run("update_file", path="till.py", edits=[{"old": "from", "new": "import os\nfrom"}])
        assert any("F401" in line for line in inside(await asked.run("diagnostics", path="till.py")))
        assert asked.offered() & CODE_TOOLS == {"diagnostics", "quick_fix"}  # ruff answers nothing else


async def test_a_question_counts_the_uses_that_pyright_knows(tmp_path: Path) -> None:
    files = FILES | {"notes.py": "# the price of fish\nprice = 'a price'\n"}  # words that are other things
    async with plain_client(tmp_path, files, BOTH, hello=OURS, mode="ask") as asked:
        await asked.run("diagnostics", path="shop.py")
        await asked.run("update_file", path="shop.py", edits=[{"old": "(count: int)", "new": "(count: float)"}])
        (question,) = asked.rig.client.of("pilotfish/approval/request")
        assert question["preview"]["impact"] == "price is used in 2 places in 1 other file"


async def test_the_terminal_has_them_too(tmp_path: Path) -> None:
    work = work_folder(tmp_path)
    plant(work, FILES)
    question = call("find_symbol", path="shop.py", line=1, name="price", find="references")
    environ = {"PATH": search_path(tmp_path, BOTH), **AUTO}
    async with serve(question, say("done")) as provider:
        code, _, _ = await piped(tmp_path, "run", "go", "--trust", provider=provider, env=environ)
    assert code == 0
    assert inside(last_result(provider))[-1] == "till.py:3: print(price(3))"
    assert alive(tmp_path) == []


async def test_an_acp_client_s_unsaved_text_is_looked_at(tmp_path: Path) -> None:
    work = work_folder(tmp_path)
    plant(work, FILES)
    (tmp_path / "config.toml").write_text(f'[workspace."{work}"]\ntrusted = true\n')
    replies = (
        call("read_file", path="shop.py"),
        call("find_symbol", path="till.py", line=3, name="price"),
        say("done"),
    )
    environ: dict[str, Any] = {"PATH": search_path(tmp_path, BOTH), **AUTO}
    async with connected(tmp_path, *replies, offers={"fs": {"readTextFile": True}}, **environ) as (
        client,
        provider,
        session,
    ):
        unsaved = {str(work / name): "\n\n" + text for name, text in FILES.items() if name == "shop.py"}
        client.answers["fs/read_text_file"] = lambda asked: {
            "content": unsaved.get(asked["path"]) or Path(asked["path"]).read_text()
        }
        await client.result("session/prompt", sessionId=session, prompt=prompt("go"))
        assert inside(last_result(provider)) == ["shop.py:3: def price(count: int) -> int:"]
    assert alive(tmp_path) == []
