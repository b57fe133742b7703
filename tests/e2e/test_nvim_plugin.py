"""The Neovim plugin in a real Neovim on a real screen, against the real server, installed as its README says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.support.editor_world import World as EditorWorld
from tests.support.editor_world import editor_world
from tests.support.nvim import ROOT, Neovim, neovim, program
from tests.support.provider import Reply, call, calls, say
from tests.support.provider_script import Call
from tests.support.waiting import until

pytestmark = pytest.mark.editors

PLUGIN = ROOT / "client-nvim"
README = (PLUGIN / "README.md").read_text("utf-8")
NVIM = os.environ.get("PILOTFISH_TEST_NVIM", "nvim")
EVERY_VERSION = pytest.mark.parametrize("world", ["nvim-0.10", "nvim", "nvim-0.12"], indirect=True)
"""the oldest Neovim that the plugin supports, the one of most users, and the newest"""
STATUSLINE = "vim.o.statusline = \"%f %m %= %{v:lua.require'pilotfish'.statusline()} \"\n"
TRUSTED = "require('pilotfish').setup { trusted = true }\n" + STATUSLINE
IDLE = "local t = require('pilotfish.chat').transcript; return t.session and not t:busy() and #t.items > 0"
TRANSCRIPT = "return table.concat(vim.api.nvim_buf_get_lines(vim.fn.bufnr('pilotfish://chat'), 0, -1, false), '\\n')"
MARKS = """
  local namespace = vim.api.nvim_create_namespace('pilotfish_marks')
  return #vim.api.nvim_buf_get_extmarks(vim.fn.bufnr(...), namespace, 0, -1, {})
"""
FLOATS = """
  local texts = {}
  for _, win in ipairs(vim.api.nvim_list_wins()) do
    local config = vim.api.nvim_win_get_config(win)
    if config.relative ~= '' then
      local lines = vim.api.nvim_buf_get_lines(vim.api.nvim_win_get_buf(win), 0, -1, false)
      table.insert(texts, config.focusable and 1 or #texts + 1, table.concat(lines, '\\n'))
    end
  end
  return texts
"""


@dataclass(frozen=True)
class World(EditorWorld):
    """A home with the plugin copied into it."""

    nvim: str
    """the program"""

    @contextlib.asynccontextmanager
    async def editor(self, config: str = TRUSTED, size: tuple[int, int] = (140, 40)) -> AsyncGenerator[Neovim]:
        async with neovim(self.folder, self.environ, config=config, size=size, name=self.nvim) as running:
            yield running


@pytest.fixture
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[World]:
    nvim: str = getattr(request, "param", NVIM)
    async with editor_world(tmp_path) as made:
        editors = Path(program("nvim")).parent
        programs = [str(tmp_path / "bin"), str(editors), str(Path(sys.executable).parent), made.environ["PATH"]]
        environ = {**made.environ, "PATH": ":".join(programs)}
        install = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)[0]
        subprocess.run(["sh", "-ec", install], cwd=ROOT, env=environ, check=True, capture_output=True, timeout=60)
        yield World(made.folder, made.home, environ, made.scripts, made.provider, nvim)


def edit(old: str, new: str, path: str = "greet.py") -> list[Reply]:
    edits = [{"old_string": old, "new_string": new}]
    return [call("read_file", path=path), call("update_file", path=path, edits=edits), say("It is ", "**done**.")]


async def question(editor: Neovim) -> str:
    """Waits for a question and returns its text."""
    texts: list[str] = await editor.until(f"local found = (function() {FLOATS} end)(); return #found == 2 and found")
    return texts[0]


async def answer(editor: Neovim, key: str) -> None:
    """Goes to the question that waits and presses a key."""
    await question(editor)
    await asyncio.sleep(0.5)  # a float that took the focus by itself takes no answer at once
    await editor.lua("vim.cmd.PilotfishApprove()")
    await editor.keys(key)


async def buffer(editor: Neovim, path: Path) -> str:
    lines: list[str] = await editor.lua("return vim.api.nvim_buf_get_lines(vim.fn.bufnr(...), 0, -1, false)", str(path))
    return "\n".join(lines)


def picture(world: World, name: str, shown: str) -> None:
    """Keeps a screen, for a person who wants to look at it, where `PILOTFISH_TEST_PICTURES` says."""
    if folder := os.environ.get("PILOTFISH_TEST_PICTURES"):
        Path(folder, f"{world.nvim}-{name}.txt").write_text(shown, "utf-8")


def sent(world: World, which: int = -1) -> str:
    """What the model was sent, as JSON."""
    return json.dumps(world.provider.requests[which].messages, ensure_ascii=False)


async def test_install_trust_prompt_edit_of_unsaved_text_test_run_and_undo(world: World):
    path = world.folder / "greet.py"
    check = [call("bash", command="touch seen; cat greet.py; exit 3"), say("It says what it should.")]
    world.script("play", *edit("Helo", "Hello")[:2], *check)
    async with world.editor(STATUSLINE) as editor:
        await editor.keys(":edit greet.py", "Enter", ":Pilotfish #play# please", "Enter")
        await editor.shows("Do you trust this folder?", "t  Trust this folder", "r  Read only")
        await answer(editor, "t")
        shown = await editor.shows("Edit greet.py", '-    return "Helo"', '+    return "Hello"', "a  Allow once")
        assert "A  Always allow: Allow changing greet.py, in this workspace" in shown
        assert "pilotfish ask 1 question" in shown
        await answer(editor, "a")
        asked = await question(editor)
        assert "touch seen; cat greet.py; exit 3\n\nin " in asked
        assert '"Allow once" applies exactly this:\n\n--- /dev/null\n+++ seen' in asked
        assert path.read_text() == 'def greet():\n    return "Hello"\n'  # saved before the command is even asked about
        await answer(editor, "a")
        await editor.until(IDLE)
        shown = await editor.shows(
            "It says what it should.", "✓ Edit greet.py", "✗ Run touch seen; cat greet.py; exit 3"
        )
        assert '+    return "Hello"' in shown
        assert "Hello" in json.dumps(world.provider.requests[-1].messages[-1])  # the command saw the new text
        await editor.until(f"return (function(...) {MARKS} end)(...) > 0", str(path))
        await editor.lua("vim.cmd('wincmd t | undo')")
        assert await buffer(editor, path) == 'def greet():\n    return "Helo"'
        await editor.lua("vim.cmd.redo()")
        await editor.lua("vim.cmd.PilotfishUndo()")
        await editor.shows("info: Undone: seen, greet.py")
        await editor.until("return vim.fn.readfile(...)[2] == '    return \"Helo\"'", str(path))
        await editor.until(f"return (function(...) {MARKS} end)(...) == 0", str(path))


@EVERY_VERSION
async def test_the_whole_journey_in_every_version(world: World):
    path = world.folder / "greet.py"
    tests = "python3 -B -c \"import greet; print('the test saw', greet.greet())\"; touch seen"
    world.script("play", *edit("Helo", "Hello")[:2], say("It is ", "**done**."))
    world.script("check", call("bash", command=tests), say("The test ", "**passes**."))
    world.script("slow", say("one ", "two ", end="stall"))
    world.script("next", say("The next answer."))
    async with world.editor(STATUSLINE) as editor:
        await editor.lua("vim.cmd.edit('greet.py')")
        await editor.lua("vim.api.nvim_buf_set_lines(0, 0, 0, false, { '# typed, not saved' })")
        await editor.keys(":Pilotfish #play# please", "Enter")
        await editor.shows("Do you trust this folder?", "t  Trust this folder", "r  Read only")
        await answer(editor, "t")
        shown = await editor.shows("Edit greet.py", '-    return "Helo"', '+    return "Hello"', "a  Allow once")
        picture(world, "question", shown)
        await answer(editor, "a")
        await editor.until(IDLE)
        picture(world, "edited", await editor.shows("It is", "✓ Edit greet.py", '+    return "Hello"'))
        assert path.read_text() == 'def greet():\n    return "Helo"\n'  # what the user has not saved stays so
        await editor.lua("vim.cmd('wincmd t | write')")
        await editor.lua("vim.cmd.Pilotfish('#check# please')")
        picture(world, "command", await question(editor))
        await answer(editor, "a")
        await editor.until(IDLE)
        picture(world, "answer", await editor.shows("✓ Run python3", "the test saw Hello"))
        assert "the test saw Hello" in sent(world)
        await editor.lua("vim.cmd.PilotfishUndo()")
        await editor.shows("info: Undone: seen")
        await editor.lua("vim.cmd.PilotfishUndo()")
        await editor.shows("info: Undone: greet.py")
        await editor.until(f"return (function(...) {MARKS} end)(...) == 0", str(path))
        assert await buffer(editor, path) == '# typed, not saved\ndef greet():\n    return "Helo"'
        await editor.lua("vim.cmd.Pilotfish('#slow# please')")
        await editor.shows("one two")
        await editor.lua("vim.cmd.PilotfishStop()")
        picture(world, "stopped", await editor.shows("Stopped."))
    async with world.editor(STATUSLINE) as editor:
        await editor.keys(":PilotfishSessions", "Enter")
        await editor.shows("Go on with", "3 turns")
        await editor.keys("1", "Enter")
        await editor.shows("one two", "Stopped.")
        await editor.lua("vim.cmd.Pilotfish('#next# please')")
        picture(world, "next", await editor.shows("The next answer."))
        assert "the test saw Hello" in sent(world)


async def test_text_that_is_not_saved_is_read_edited_and_left_to_the_user(world: World):
    path = world.folder / "greet.py"
    world.script("play", *edit("Helo wörld 😀", "Hello wörld 😀"))
    async with world.editor() as editor:
        await editor.lua(
            "vim.cmd.edit('greet.py'); vim.api.nvim_buf_set_lines(0, 1, 2, false, { '    return \"Helo wörld 😀\"' })"
        )
        await editor.lua("vim.cmd.Pilotfish('#play# please')")
        assert '+    return "Hello wörld 😀"' in await question(editor)
        await answer(editor, "a")
        await editor.until(IDLE)
        assert await buffer(editor, path) == 'def greet():\n    return "Hello wörld 😀"'
        assert path.read_text() == 'def greet():\n    return "Helo"\n'
        await editor.until(TRANSCRIPT + ":match('It is %*%*done%*%*%.')")  # drawn a moment after the turn has ended


async def test_a_prompt_carries_what_the_user_looks_at_unless_it_is_switched_off(world: World):
    world.script("play", say("Seen."), say("Not seen."), say("Not said."))
    async with world.editor() as editor:
        await editor.lua("vim.cmd.edit('greet.py'); vim.api.nvim_win_set_cursor(0, { 2, 4 })")
        for prompt in ("#play# from the file", "#play# from the chat", "#play# without"):
            if prompt.endswith("without"):
                await editor.lua("vim.cmd.PilotfishContext()")
            count = len(world.provider.requests)
            await editor.lua("vim.cmd.Pilotfish(...)", prompt)
            await until(lambda count=count: len(world.provider.requests) > count)
            await editor.until(IDLE)
            place = '<active_file path=\\"greet.py\\" cursor=\\"2:5\\" visible=\\"1-2\\">'
            last = json.dumps(world.provider.requests[-1].messages[-1])
            assert (place in last) is not prompt.endswith("without")
            await editor.lua("require('pilotfish.chat').focus_prompt(false)")


async def test_a_question_takes_no_key_that_is_typed_in_a_file(world: World):
    world.script("play", *edit("Helo", "Hello"))
    async with world.editor() as editor:
        await editor.keys(":edit greet.py", "Enter", ":Pilotfish #play# please", "Enter", "G", "o")
        await question(editor)
        await editor.keys("add a dash, said", " the user")
        assert await editor.until("return vim.api.nvim_get_current_line():match('user$')")
        assert await editor.lua("return vim.api.nvim_get_current_line()") == "add a dash, said the user"
        await editor.shows("a  Allow once")  # it still waits
        assert await editor.lua("return require('pilotfish.question').count()") == 1
        await editor.keys("Escape")
        await answer(editor, "d")
        await editor.shows("⊘ Edit greet.py", "It is done.")
        text = await buffer(editor, world.folder / "greet.py")
        assert text == 'def greet():\n    return "Helo"\nadd a dash, said the user'


async def test_a_long_command_is_shown_whole_and_the_reason_of_a_refusal_reaches_the_model(world: World):
    command = "\n".join(f"echo step {n} {'x' * 150}" for n in range(120)) + "\nrm -rf everything"
    world.script("play", call("bash", command=command), say("Then not."))
    async with world.editor(size=(90, 24)) as editor:
        await editor.lua("vim.cmd.Pilotfish('#play# please')")
        assert command in await question(editor)
        await editor.shows("scroll for more", "f  Deny and say why", "q  decide later")
        await editor.lua("vim.cmd.PilotfishApprove()")
        await editor.keys("G")
        await editor.shows("rm -rf everything")
        await editor.keys("f")
        await editor.shows("Tell the agent why:")
        await editor.keys("never remove everything", "Enter")
        await editor.until(IDLE)
        assert "never remove everything" in sent(world)
        await editor.shows("denied: never remove everything", "Then not.")


async def test_a_question_can_be_put_off_shown_again_and_amended(world: World):
    world.script("play", call("write_file", path="new.txt", content="old"), say("Written."))
    async with world.editor() as editor:
        await editor.lua("vim.cmd.Pilotfish('#play# please')")
        await answer(editor, "q")
        await editor.until(f"return #(function() {FLOATS} end)() == 0")
        assert "1 question" in await editor.lua("return require('pilotfish').statusline()")
        await editor.lua("vim.cmd.PilotfishApprove()")
        await answer(editor, "e")
        await editor.until("return vim.api.nvim_buf_get_name(0):match('^pilotfish://arguments/')")
        await editor.lua("vim.cmd('%s/old/amended/'); vim.cmd.write()")
        await editor.until(IDLE)
        assert (world.folder / "new.txt").read_text() == "amended"
        assert await editor.lua(f"return #(function() {FLOATS} end)()") == 0


async def test_the_agent_asks_the_user(world: World):
    ask = call("ask_user", question="Which greeting?", options=["Hello", "Hi"])
    world.script("play", ask, call("ask_user", question="Why?"), say("I see."))
    async with world.editor() as editor:
        await editor.lua("vim.cmd.Pilotfish('#play# please')")
        assert "Which greeting?" in await question(editor)
        await answer(editor, "2")
        await editor.until(f"return ((function() {FLOATS} end)()[1] or ''):match('Why?')")
        await answer(editor, "i")
        await editor.keys("it is shorter", "Enter")
        await editor.until(IDLE)
        assert "Hi" in json.dumps(world.provider.requests[-2].messages[-1])
        assert "it is shorter" in sent(world)


async def test_a_selection_goes_with_the_prompt(world: World):
    world.script("play", say("A greeting."))
    async with world.editor() as editor:
        await editor.keys(":edit greet.py", "Enter", "2G", "fH", "v", "e", ":")
        await editor.shows(":'<,'>")
        await editor.keys("Pilotfish explain #play#", "Enter")
        await editor.until(IDLE)
        block = "local items = require('pilotfish.chat').transcript.items; return items[1].prompt[2].range"
        assert await editor.lua(block) == {
            "start": {"line": 1, "character": 12},
            "end": {"line": 1, "character": 16},
        }
        await editor.shows("@greet.py:2-2")
        assert "Helo" in sent(world)


async def test_prompts_wait_or_steer_while_a_turn_runs_and_stop_stops(world: World):
    world.script("slow", say("one ", "two ", end="stall"))
    world.script("next", say("The next."))
    async with world.editor() as editor:
        await editor.lua("vim.cmd.Pilotfish('#slow# please')")
        await editor.shows("one two", "<CR> queue  gs steer  <C-c> stop")
        await editor.lua("vim.cmd.Pilotfish('#next# then')")
        await editor.shows("1 waiting (:PilotfishQueue)")
        await editor.lua("vim.cmd.PilotfishStop()")
        await editor.shows("Stopped.", "1 waiting (:PilotfishQueue)")
        world.script("last", say("The last."))
        await editor.lua("vim.cmd.Pilotfish('#last# of all')")
        await editor.shows("The next.", "The last.")
        await editor.until(IDLE)
        assert await editor.lua("return #require('pilotfish.chat').transcript.queue") == 0

        world.script("steered", call("bash", command="ls"), call("bash", command="ls -a"), say("Steered it is."))
        await editor.lua("vim.cmd.PilotfishMode('auto')")
        await editor.until("return require('pilotfish.chat').transcript.session.mode == 'auto'")
        await editor.lua("vim.cmd.Pilotfish('#steered# please'); vim.cmd.PilotfishSteer('and mind the gap')")
        await editor.shows("Steered it is.")
        await editor.until(IDLE)
        assert "and mind the gap" in sent(world)


async def test_a_gap_in_the_updates_loads_the_session(world: World):
    world.script("play", say("All of ", "the answer."))
    async with world.editor() as editor:
        await editor.lua("vim.cmd.Pilotfish('#play# please')")
        await editor.until(IDLE)
        await editor.lua("""
          local transcript = require('pilotfish.chat').transcript
          _G.known = transcript
          transcript:put({ id = 'wrong', kind = 'message', text = 'never said' })
          local client = require('pilotfish.connection').client()
          client.handlers['pilotfish/session/update'](nil, { sessionId = transcript.session.id, turnId = '',
            seq = transcript.seq + 2, update = { kind = 'notice', level = 'info', message = 'after a gap' } })
        """)
        await editor.until("return require('pilotfish.chat').transcript ~= _G.known")
        kinds = await editor.lua(
            "return vim.tbl_map(function(i) return i.kind end, require('pilotfish.chat').transcript.items)"
        )
        assert kinds == ["prompt", "message", "turn_end"]
        shown: str = await editor.lua(TRANSCRIPT)
        assert "All of the answer." in shown
        assert "never said" not in shown
        assert "after a gap" not in shown


async def test_a_session_goes_on_after_the_server_and_after_neovim_ended(world: World):
    world.script("one", say("The first answer."))
    world.script("two", say("The second answer."))
    world.script("three", say("The third answer."))
    async with world.editor() as editor:
        await editor.lua("vim.cmd.Pilotfish('#one# please')")
        await editor.until(IDLE)
        os.kill(server_of(world), signal.SIGKILL)
        await editor.shows("Press ENTER")  # Neovim's own message about it
        await editor.keys("Enter")
        await editor.shows("The Pilotfish server ended (signal 9)")
        await editor.lua("vim.cmd.Pilotfish('#two# please')")
        await editor.shows("The second answer.", "The first answer.")
        assert "The first answer." in sent(world)
    async with world.editor() as editor:
        await editor.keys(":PilotfishSessions", "Enter")
        await editor.shows("Go on with", "2 turns")
        await editor.keys("1", "Enter")
        await editor.shows("The first answer.", "The second answer.")
        await editor.lua("vim.cmd.Pilotfish('#three# please')")
        await editor.shows("The third answer.")
        assert "The second answer." in sent(world)


def server_of(world: World) -> int:
    """The process of the server that this world's Neovim has started."""
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"serve" in words and (entry / "cwd").resolve() == world.folder:
                return int(entry.name)
    raise AssertionError("no server runs in this folder")


async def test_model_and_mode_are_chosen_and_health_and_help_are_there(world: World):
    world.script("play", say("Yes."))
    async with world.editor() as editor:
        await editor.lua("vim.cmd.Pilotfish('#play# please')")
        await editor.until(IDLE)
        await editor.keys(":PilotfishMode", "Enter")
        await editor.shows("plan: reading only")
        await editor.keys("2", "Enter")
        await editor.shows("scripted · plan")
        await editor.keys(":PilotfishModel", "Enter")
        await editor.shows("Model (now openai-chat:scripted)", "demo")
        await editor.keys("Escape")
        await editor.lua("vim.cmd.PilotfishModel('demo')")
        await editor.shows("demo · plan")
        await editor.lua("vim.cmd.checkhealth('pilotfish')")
        health: str = await editor.lua("return table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), '\\n')")
        assert "ERROR" not in health
        assert "state: ready" in health
        assert "no second Pilotfish server" in health
        await editor.lua("vim.cmd.help('pilotfish-options')")
        assert await editor.lua("return vim.fn.expand('%:t')") == "pilotfish.txt"


async def test_mentions_and_commands_are_completed_in_the_prompt(world: World):
    async with world.editor() as editor:
        await editor.lua("vim.cmd.PilotfishMode('ask')")
        await editor.until("return require('pilotfish.chat').transcript.session ~= nil")
        complete = "return vim.tbl_map(function(w) return w.word end, require('pilotfish.complete').omnifunc(0, ...))"
        assert "@greet.py" in await editor.lua(complete, "@gre")
        assert "/help" in await editor.lua(complete, "/")


LANGUAGE_SERVERS = """
local root = vim.fn.getcwd()
vim.api.nvim_create_autocmd('FileType', { pattern = 'python', callback = function()
  vim.lsp.start({ name = 'ruff', cmd = { 'ruff', 'server' }, root_dir = root })
  vim.lsp.start({ name = 'pyright', cmd = { 'pyright-langserver', '--stdio' }, root_dir = root,
    settings = { python = { analysis = { diagnosticMode = 'openFilesOnly' } } } })
end })
"""
"""started as every supported version can: 0.10 has no `vim.lsp.config`"""


async def test_other_language_servers_answer_for_the_agent(world: World):
    path = world.folder / "greet.py"
    path.write_text('import os\n\n\ndef greet():\n    return 1\n\n\n"😀"; greet()\n')
    async with world.editor(TRUSTED + LANGUAGE_SERVERS) as editor:
        await editor.lua("vim.cmd.edit('greet.py'); vim.cmd.PilotfishMode('ask')")
        await editor.until("return #vim.diagnostic.get(0) > 0 and #vim.lsp.get_clients({ bufnr = 0 }) == 3")

        async def ask(method: str, params: dict[str, Any]) -> Any:
            """What Neovim answers the server."""
            await editor.lua(
                """
              local method, params = ...
              _G.answer = nil
              coroutine.wrap(function()
                local handlers = require('pilotfish.connection').client().handlers
                _G.answer = handlers['pilotfish/editor/' .. method](nil, params)
              end)()
            """,
                method,
                params,
            )
            return await editor.until("return _G.answer")

        uri = path.as_uri()
        (document,) = (await ask("diagnostics", {"uri": uri}))["documents"]
        assert "F401" in [problem["code"] for problem in document["diagnostics"]]
        assert document["version"] == await editor.lua("return vim.lsp.util.buf_versions[vim.fn.bufnr('greet.py')]")
        encoding: str = await editor.lua("return require('pilotfish.connection').encoding()")
        used = {"utf-8": 8, "utf-16": 6, "utf-32": 5}[encoding]  # where `greet` starts in the last line
        definition = {"start": {"line": 3, "character": 4}, "end": {"line": 3, "character": 9}}
        use = {"start": {"line": 7, "character": used}, "end": {"line": 7, "character": used + 5}}
        place = {"uri": uri, "position": use["start"]}
        assert await ask("definition", place) == {"locations": [{"uri": uri, "range": definition}]}
        assert (await ask("references", place))["locations"] == [
            {"uri": uri, "range": definition},
            {"uri": uri, "range": use},
        ]
        assert "greet" in [symbol["name"] for symbol in (await ask("symbols", {"uri": uri}))["symbols"]]
        renamed: str = json.dumps((await ask("rename", {**place, "newName": "salute"}))["edit"])
        assert renamed.count("salute") == 2
        assert f'"character": {used + 5}' in renamed
        start = {"line": 0, "character": 0}
        actions = (await ask("codeActions", {"uri": uri, "range": {"start": start, "end": start}}))["actions"]
        removing = [action for action in actions if "Remove unused import" in action["title"]]
        assert removing
        assert removing[0]["edit"]


async def test_a_file_that_is_not_open_is_edited_through_a_buffer_and_saved(world: World):
    world.script("play", *edit("Helo", "Hello"))
    path = world.folder / "greet.py"
    async with world.editor() as editor:
        await editor.lua("vim.cmd.Pilotfish('#play# please')")
        await answer(editor, "a")
        await editor.until(IDLE)
        assert path.read_text() == 'def greet():\n    return "Hello"\n'
        assert await buffer(editor, path) == 'def greet():\n    return "Hello"'
        assert await editor.lua("return vim.bo[vim.fn.bufnr(...)].modified", str(path)) is False


async def test_an_edit_for_a_version_that_is_gone_changes_nothing(world: World):
    async with world.editor() as editor:
        await editor.lua("vim.cmd.edit('greet.py'); vim.cmd.PilotfishMode('ask')")
        await editor.until("return require('pilotfish.chat').transcript.session ~= nil")
        applied = """
          local buf = vim.fn.bufnr('greet.py')
          local version = vim.lsp.util.buf_versions[buf]
          vim.api.nvim_buf_set_lines(buf, 0, 0, false, { '# typed' })
          local start = { line = 0, character = 0 }
          return require('pilotfish.editor').apply({ edit = { documentChanges = { {
            textDocument = { uri = vim.uri_from_bufnr(buf), version = version + ... },
            edits = { { range = { start = start, ['end'] = start }, newText = 'agent' } } } } } }).applied
        """
        assert await editor.lua(applied, 0) is False
        assert await buffer(editor, world.folder / "greet.py") == '# typed\ndef greet():\n    return "Helo"'
        assert await editor.lua(applied, 1) is True
        assert (await buffer(editor, world.folder / "greet.py")).startswith("agent# typed\n# typed\n")


async def test_a_file_changed_on_disk_and_in_its_buffer_is_not_overwritten(world: World):
    path = world.folder / "greet.py"
    async with world.editor() as editor:
        await editor.lua("vim.cmd.edit('greet.py'); vim.cmd.PilotfishMode('ask')")
        await editor.until("return require('pilotfish.chat').transcript.session ~= nil")
        save = "return require('pilotfish.editor').save({ uris = { ... } })"
        await editor.lua("vim.api.nvim_buf_set_lines(0, 0, 0, false, { '# typed' })")
        assert await editor.lua(save, path.as_uri()) == {"saved": [path.as_uri()], "failed": []}
        assert path.read_text().startswith("# typed\n")
        await editor.lua("vim.api.nvim_buf_set_lines(0, 0, 0, false, { '# typed again' })")
        path.write_text("someone else was here, and wrote more\n")
        failed = await editor.lua(save, path.as_uri())
        assert failed["failed"][0]["reason"] == "the file changed on disk as well as in the editor"
        assert path.read_text() == "someone else was here, and wrote more\n"


async def test_several_calls_ask_one_after_the_other(world: World):
    two = calls(
        Call("write_file", {"path": "a.txt", "content": "a"}), Call("write_file", {"path": "b.txt", "content": "b"})
    )
    world.script("play", two, say("Both."))
    async with world.editor() as editor:
        await editor.lua("vim.cmd.Pilotfish('#play# please')")
        await editor.shows("(2 questions wait)")
        await answer(editor, "a")
        await editor.until("return require('pilotfish.question').count() == 1")
        await answer(editor, "d")
        await editor.until(IDLE)
        assert [(world.folder / name).exists() for name in ("a.txt", "b.txt")] == [True, False]


async def test_changes_are_marked_and_kept_or_undone_one_by_one(world: World):
    path = world.folder / "greet.py"
    path.write_text("".join(f"line {number}\n" for number in range(1, 21)))
    edits = [
        {"old_string": "line 3\n", "new_string": "LINE 3\n"},
        {"old_string": "line 15\n", "new_string": "LINE 15\n"},
    ]
    name = world.script(
        "two", call("read_file", path="greet.py"), call("update_file", path="greet.py", edits=edits), say("Both.")
    )
    async with world.editor() as editor:
        await editor.lua("vim.cmd.edit(...)", str(path))
        await editor.lua(f"vim.cmd.Pilotfish('{name} please')")
        await answer(editor, "a")
        await editor.until(IDLE)
        await editor.lua("vim.cmd('wincmd t')")
        shown = await editor.shows("Pilotfish 1/2", "Pilotfish 2/2", "line 3", "LINE 3")
        left = [line.split("│")[0].strip() for line in shown.split("\n")]
        assert left[1:5] == ["line 2", "line 3", "▎ LINE 3 Pilotfish 1/2  :PilotfishReview keep | undo", "line 4"]
        await editor.lua("vim.api.nvim_win_set_cursor(0, { 1, 0 }); vim.cmd.PilotfishReview('next')")
        await editor.until("return vim.api.nvim_win_get_cursor(0)[1] == 3")
        await editor.lua("vim.cmd.PilotfishReview('keep')")
        await editor.shows("Pilotfish 1/1")
        await editor.lua("vim.cmd.PilotfishReview('next')")
        await editor.until("return vim.api.nvim_win_get_cursor(0)[1] == 15")
        await editor.lua("vim.api.nvim_buf_set_lines(0, 15, 15, false, { 'typed by me' })")
        await editor.lua("vim.cmd.PilotfishReview('undo')")
        await editor.until("return vim.api.nvim_buf_get_lines(0, 14, 15, false)[1] == 'line 15'")
        lines = (await buffer(editor, path)).split("\n")
        assert (lines[2], lines[14], lines[15]) == ("LINE 3", "line 15", "typed by me")
        await editor.until(f"return (function(...) {MARKS} end)(...) == 0", str(path))


async def test_an_inline_edit_is_marked_refined_made_again_undone_and_stopped(world: World):
    path = world.folder / "greet.py"

    def change(old: str, new: str) -> Reply:
        return call("update_file", path="greet.py", edits=[{"old_string": old, "new_string": new}])

    world.script("polite", call("read_file", path="greet.py"), change('"Helo"', '"Hello"'), say("Done."))
    world.script("louder", change('"Hello"', '"HELLO"'), say("Louder."))
    world.script("slow", say("one ", end="stall"))
    async with world.editor() as editor:
        await editor.keys(":edit greet.py", "Enter", ":2PilotfishEdit #polite# please", "Enter")
        await editor.until('return vim.api.nvim_buf_get_lines(0, 1, 2, false)[1] == [[    return "Hello"]]')
        await editor.shows('    return "Helo"', ":PilotfishReview keep | undo")
        assert "At line 2 of greet.py: #polite# please" in sent(world)
        await editor.until(NO_EDITS)
        await editor.keys(":2", "Enter", ":PilotfishEdit #louder# now", "Enter")
        await editor.until('return vim.api.nvim_buf_get_lines(0, 1, 2, false)[1] == [[    return "HELLO"]]')
        assert "Change your last edit of greet.py like this and no more: #louder# now" in sent(world)
        await editor.until(NO_EDITS)
        world.script("louder", change('"Helo"', '"Hi"'), say("Shorter."))
        await editor.keys(":PilotfishEdit!", "Enter")
        await editor.until('return vim.api.nvim_buf_get_lines(0, 1, 2, false)[1] == [[    return "Hi"]]')
        await editor.until(NO_EDITS)
        await editor.keys(":PilotfishReview undo", "Enter")
        await editor.until('return vim.api.nvim_buf_get_lines(0, 1, 2, false)[1] == [[    return "Helo"]]')
        await editor.lua("vim.lsp.commands['pilotfish.edit']({ arguments = { ... } })", place(path))
        await editor.shows("What should change here?")
        await editor.keys("#slow# please", "Enter")
        await editor.shows("Pilotfish is editing…")
        await editor.keys(":PilotfishStop", "Enter")
        await editor.until(NO_EDITS)
        await editor.shows("Pilotfish: stopped")
    assert path.read_text() == 'def greet():\n    return "Helo"\n'


NO_EDITS = """
local namespace = vim.api.nvim_get_namespaces().pilotfish_inline_edit
return namespace and #vim.api.nvim_buf_get_extmarks(0, namespace, 0, -1, {}) == 0
"""


def place(path: Path) -> dict[str, object]:
    here = {"line": 1, "character": 0}
    return {"uri": path.as_uri(), "range": {"start": here, "end": here}}
