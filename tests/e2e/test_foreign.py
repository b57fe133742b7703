"""Clients that share no code with us: npm's vscode-jsonrpc, and Neovim and Emacs with what docs/install.md says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from tests.support import mcp_server
from tests.support.client import environment
from tests.support.nvim import neovim, program
from tests.support.provider import Reply, Request, call, say, serve
from tests.support.served import Scripts

HERE = Path(__file__).parent
NODE = HERE / "node"
README_PROMPT = "Explain this project"


@contextlib.asynccontextmanager
async def provided(home: Path, **scripts: list[Reply]) -> AsyncGenerator[dict[str, str]]:
    """An environment whose model follows these scripts."""
    script = Scripts()
    for name, replies in scripts.items():
        script.add(name, *replies)

    def answer(request: Request) -> Reply:
        # A turn that is stopped early may leave its script unread: the prompt of that page does not take it over.
        return say("It has one file.") if README_PROMPT in json.dumps(request.messages) else script(request)

    async with serve(otherwise=answer) as provider:
        model = {"PILOTFISH_MODEL": "openai-chat:scripted", "PILOTFISH_BASE_URL": provider.openai_url}
        yield environment(home, OPENAI_API_KEY="sk-scripted", **model)


def edit(path: str, old: str, new: str) -> list[Reply]:
    edits = [{"old_string": old, "new_string": new}]
    return [call("read_file", path=path), call("update_file", path=path, edits=edits), say("It is ", "mended.")]


async def run(command: list[str], environ: dict[str, str], cwd: Path, timeout: float = 90.0) -> str:
    process = await asyncio.create_subprocess_exec(
        *command, env=environ, cwd=cwd, stdout=asyncio.subprocess.PIPE, stdin=asyncio.subprocess.DEVNULL
    )
    try:
        output, _ = await asyncio.wait_for(process.communicate(), timeout)
    finally:
        if process.returncode is None:
            process.kill()
            await asyncio.wait_for(process.wait(), 30.0)
    return output.decode()


@pytest.fixture(scope="session")
def node() -> str:
    missing = pytest.fail if os.environ.get("PILOTFISH_GATE") else pytest.skip
    found = shutil.which("node")
    if found is None:
        missing("node is not installed")
    if not (NODE / "node_modules" / "@agentclientprotocol").is_dir():
        npm = shutil.which("npm")
        done = npm and subprocess.run([npm, "ci", "--silent", "--no-audit", "--no-fund"], cwd=NODE, timeout=200)
        if not done or done.returncode:
            missing("the packages of npm cannot be installed here")
    return found


async def test_vscode_jsonrpc_gets_the_stream_the_question_the_edit_and_the_cancel(tmp_path: Path, node: str):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "greeting.txt").write_text("on disk\n")
    slow = [say("on ", "and ", "on ", end="stall")]
    async with provided(tmp_path / "home", edit=edit("greeting.txt", "Helo", "Hello"), slow=slow) as environ:
        command = [node, str(NODE / "client.mjs"), str(folder), sys.executable, "-m", "pilotfish", "serve", "--stdio"]
        seen: dict[str, Any] = json.loads(await run(command, environ, NODE))
    before = "Helo wörld 😀, said the unsaved buffer\n"
    after = before.replace("Helo", "Hello")
    assert seen == {
        "version": 1,
        "edited": "end_turn",
        "cancelled": "cancelled",
        "text": after,
        "edits": 1,
        "approvals": [["diff", before, after]],
        "resolved": ["allow_once"],
        "inOrder": True,
        "said": "It is mended.",
        "kept": "It is mended.",
        "refused": {"code": -32602, "data": {"field": "sessionId"}},
        "errors": [],
        "code": 0,
    }
    assert (folder / "greeting.txt").read_text() == "on disk\n"


async def test_the_typescript_sdk_of_acp_gets_unsaved_text_forms_servers_options_and_sessions(
    tmp_path: Path, node: str
):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "greeting.txt").write_text("on disk\n")
    slow = [say("on ", "and ", "on ", end="stall")]
    tools = [call("ask_user", question="Which color?"), call("tiny_echo", text="hello"), say("blue, again")]
    scripts = {"edit": edit("greeting.txt", "Helo", "Hello"), "tools": tools, "slow": slow}
    async with provided(tmp_path / "home", **scripts) as environ:
        program = [sys.executable, "-m", "pilotfish", "acp"]
        command = [node, str(NODE / "acp_client.mjs"), str(folder), mcp_server.__file__, *program]
        seen: dict[str, Any] = json.loads(await run(command, environ, NODE))
    assert seen == {
        "version": 1,
        "methods": True,
        "modes": ["ask", "plan", "edit", "auto"],
        "edited": "end_turn",
        "options": [["mode", "auto"], ["model", "openai-chat:scripted"], ["thinking", "default"]],
        "used": "end_turn",
        "said": "It is mended.blue, again",
        "cancelled": "cancelled",
        "resumed": 0,
        "loaded": ["#edit# please", "#tools# please", "#slow# please"],
        "sessions": 0,
        "text": "Hello wörld 😀, said the unsaved buffer\n",
        "permissions": [
            {"title": f"Trust {folder}?", "kinds": ["allow_always", "reject_always"]},
            {"title": "Edit greeting.txt", "kinds": seen["permissions"][1]["kinds"]},
        ],
        "forms": ["Which color?"],
        "code": 0,
    }
    assert (folder / "greeting.txt").read_text() == "on disk\n"


def from_install_page(folder: Path, language: str, which: int) -> Path:
    """A block of code of docs/install.md, as a file."""
    blocks = re.findall(
        rf"```{language}\n(.*?)```", (HERE.parents[1] / "docs" / "install.md").read_text("utf-8"), re.DOTALL
    )
    file = folder / f"readme.{language}"
    file.write_text(blocks[which], "utf-8")
    return file


@pytest.mark.editors
async def test_emacs_runs_a_prompt_with_what_the_install_page_says(tmp_path: Path):
    emacs = program("emacs")
    folder, programs = tmp_path / "work", tmp_path / "bin"
    folder.mkdir()
    (folder / ".git").mkdir()
    (folder / "greeting.py").write_text("on disk\n")
    programs.mkdir()
    (programs / "pilotfish").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pilotfish "$@"\n')
    (programs / "pilotfish").chmod(0o755)
    async with provided(tmp_path / "home", edit=edit("greeting.py", "Helo", "Hello")) as environ:
        environ |= {
            "PATH": f"{programs}:{environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "PILOTFISH_FILE": str(folder / "greeting.py"),
            "PILOTFISH_RESULT": str(tmp_path / "seen.json"),
            "PILOTFISH_README": str(from_install_page(tmp_path, "elisp", 0)),
        }
        await run([emacs, "-q", "--batch", "-l", str(HERE / "emacs.el")], environ, folder)
        seen: dict[str, Any] = json.loads((tmp_path / "seen.json").read_text())
    before = 'def greet():\n    return "Helo wörld 😀"  # not saved\n'
    assert (seen["edited"], seen["undone"]) == (before.replace("Helo", "Hello"), before)
    assert seen["messages"] == ["It is mended."]
    assert ["Do you trust the folder work?" in seen["asked"][0], "Edit greeting.py?" in seen["asked"][1]] == [
        True,
        True,
    ]
    assert (folder / "greeting.py").read_text() == "on disk\n"


@pytest.mark.editors
async def test_neovim_runs_a_prompt_on_a_selection_with_no_plugin(tmp_path: Path):
    nvim = program("nvim")
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "greeting.py").write_text("on disk\n")
    slow = [say("on ", "and ", "on ", end="stall")]
    async with provided(tmp_path / "home", edit=edit("greeting.py", "Helo", "Hello"), slow=slow) as environ:
        environ |= {
            "PILOTFISH_COMMAND": f"{sys.executable} -m pilotfish serve",
            "PILOTFISH_FOLDER": str(folder),
            "PILOTFISH_FILE": str(folder / "greeting.py"),
            "PILOTFISH_RESULT": str(tmp_path / "seen.json"),
            "PILOTFISH_README": str(from_install_page(tmp_path, "lua", 1)),
        }
        await run([nvim, "--headless", "-u", "NONE", "-n", "-S", str(HERE / "nvim.lua")], environ, folder)
        seen: dict[str, Any] = json.loads((tmp_path / "seen.json").read_text())
    before = ["def greet():", '    return "Helo wörld 😀"  # not saved']
    assert seen["errors"] == []
    assert seen["edited"] == [line.replace("Helo", "Hello") for line in before]
    assert seen["undone"] == before
    assert seen["messages"] == ["It is mended.", "Stopped.", "It has one file."]
    assert seen["asked"][0].startswith("Do you trust the folder work?")
    assert seen["asked"][1].startswith("Edit greeting.py?")
    assert seen["progress"].count("begin") == seen["progress"].count("end") >= 2
    assert "Explain with Pilotfish" in seen["actions"]
    assert (folder / "greeting.py").read_text() == "on disk\n"


@pytest.mark.editors
async def test_the_neovim_configuration_of_the_install_page_starts_one_server(tmp_path: Path):
    folder, home, programs = tmp_path / "work", tmp_path / "home", tmp_path / "bin"
    for made in (folder / ".git", home, programs):
        made.mkdir(parents=True)
    (folder / "greeting.py").write_text("x = 1\n")
    (programs / "pilotfish").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pilotfish "$@"\n')
    (programs / "pilotfish").chmod(0o755)
    config = from_install_page(tmp_path, "lua", 0).read_text()
    transcript = "A line of the answer.\n" * 40
    async with provided(home, long=[say(transcript)], again=[say(f"Again. {transcript}")]) as environ:
        environ |= {"PATH": f"{programs}:{environ['PATH']}", "HOME": str(home)}
        async with neovim(folder, environ, config=config) as editor:
            await editor.lua("vim.cmd.edit('greeting.py')")
            await editor.until("return #vim.lsp.get_clients({ bufnr = 0, name = 'pilotfish' }) == 1")
            for name in ("long", "again"):
                await editor.lua(
                    "local client = vim.lsp.get_clients({ name = 'pilotfish' })[1]\n"
                    "client:request('workspace/executeCommand', { command = 'pilotfish.prompt', arguments = { ... } })",
                    f"#{name}#",
                )
                await editor.shows(f"#{name}#", "## Pilotfish")
            await editor.shows("Again. A line of the answer.")
            assert await editor.lua("return #vim.lsp.get_clients()") == 1
