"""The Emacs client in a real Emacs on a real screen, against the real server, loaded as its README says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.editor_world import World, editor_world
from tests.support.nvim import ROOT, Screen
from tests.support.provider import Reply, call, say
from tests.support.waiting import until

pytestmark = pytest.mark.editors

README = (ROOT / "client-emacs" / "README.md").read_text("utf-8")
QUIET = (
    "(setq inhibit-startup-screen t make-backup-files nil native-comp-async-report-warnings-errors nil\n"
    "      suggest-key-bindings nil extended-command-suggest-shorter nil)\n"
)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncGenerator[World]:
    """A home with the README's configuration."""
    async with editor_world(tmp_path) as made:
        snippet = re.findall(r"```elisp\n(.*?)```", README, re.DOTALL)[0]
        installed = snippet.replace("~/src/pilotfish/client-emacs", str(ROOT / "client-emacs"))
        (made.home / ".emacs.d").mkdir()
        (made.home / ".emacs.d" / "init.el").write_text(QUIET + installed)
        yield made


async def run(screen: Screen, command: str, *then: str) -> None:
    """`M-x` a command, then more keys."""
    await screen.keys("M-x")
    await screen.shows("M-x")
    await screen.keys(command, "Enter", *then)


async def prompt(screen: Screen, text: str) -> None:
    await run(screen, "pilotfish")
    await screen.shows("Pilotfish (empty: the chat):")
    await screen.keys(text, "Enter")


async def test_the_whole_journey(world: World):
    path = world.folder / "greet.py"
    tests = "python3 -B -c \"import greet; print('the test saw', greet.greet())\"; touch seen"
    edits = [{"old_string": "Helo", "new_string": "Hello"}]
    change = call("update_file", path="greet.py", edits=edits)
    world.script("play", call("read_file", path="greet.py"), change, say("It is ", "**done**."))
    world.script("check", call("bash", command=tests), say("The test ", "**passes**."))
    world.script("slow", say("one ", "two ", end="stall"))
    world.script("next", say("The next answer."))
    async with world.screen("emacs", "-nw", "greet.py") as screen:
        await screen.keys("M->", "# typed, not saved", "Enter")
        await prompt(screen, "#play# please")
        await screen.shows("Trust ", "(y or n)")
        await screen.keys("y")
        shown = await screen.shows("Edit greet.py?", "a  Allow once", '-    return "Helo"', '+    return "Hello"')
        assert " # typed, not saved" in shown  # the preview is of the text that is not saved
        await run(screen, "pilotfish-approve", "a")
        await screen.shows("It is **done**.", "✓ Edit greet.py")
        assert path.read_text() == 'def greet():\n    return "Helo"\n'  # what the user has not saved stays so
        await run(screen, "save-buffer")
        await until(lambda: path.read_text().startswith('def greet():\n    return "Hello"\n# typed, not saved'))
        await prompt(screen, "#check# please")
        await screen.shows("Run python3", "; touch seen", "a  Allow once")
        await run(screen, "pilotfish-approve", "a")
        await screen.shows("✓ Run python3", "The test **passes**.")
        assert "the test saw Hello" in world.sent()
        await run(screen, "pilotfish-undo")
        await screen.shows("Undone: seen")
        await screen.keys("M-<", "C-n", "C-e", "!")
        await screen.shows('return "Hello"!')
        await run(screen, "pilotfish-undo")
        await screen.shows("Not undone: greet.py: ")  # what the user has typed there since is not overwritten
        await screen.keys("BSpace")
        await run(screen, "pilotfish-undo")
        await screen.shows("Undone: greet.py")
        await screen.keys("M-<")
        await screen.shows('def greet():\n    return "Helo"\n# typed, not saved')
        await prompt(screen, "#slow# please")
        await screen.shows("one two")
        await run(screen, "pilotfish-stop")
        await screen.shows("Stopped.")
    async with world.screen("emacs", "-nw", "greet.py") as screen:
        await run(screen, "pilotfish-sessions")
        await screen.shows("Go on with:")
        await screen.keys("Tab", "Enter")
        await screen.shows("one two", "Stopped.")
        await prompt(screen, "#next# please")
        await screen.shows("The next answer.")
        assert "the test saw Hello" in world.sent()


async def test_trust_edit_of_unsaved_text_approved_with_its_preview_and_undone(world: World):
    edits = [{"old_string": "Helo wörld", "new_string": "Hello wörld"}]
    world.script(
        "play",
        call("read_file", path="greet.py"),
        call("update_file", path="greet.py", edits=edits),
        say("It is done."),
    )
    async with world.screen("emacs", "-nw", "greet.py") as screen:
        await screen.keys("M->", '# Helo wörld "is', " not saved")
        await prompt(screen, "#play# please")
        await screen.shows("Trust ", "(y or n)")
        await screen.keys("y")
        await screen.shows(
            "Edit greet.py?", "a  Allow once", '-# Helo wörld "is not saved', '+# Hello wörld "is not saved'
        )
        await run(screen, "pilotfish-approve", "a")
        await screen.shows("It is done.", '# Hello wörld "is not saved', "✓ Edit greet.py")
        assert (world.folder / "greet.py").read_text() == 'def greet():\n    return "Helo"\n'
        await screen.keys("C-_")
        await screen.shows('\n# Helo wörld "is not saved')


async def test_a_saved_buffer_is_saved_again_before_a_command_runs_and_the_region_goes_with_the_prompt(world: World):
    edits = [{"old_string": "Helo", "new_string": "Hello"}]
    change = call("update_file", path="greet.py", edits=edits)
    world.script(
        "play",
        call("read_file", path="greet.py"),
        change,
        call("bash", command="touch seen; cat greet.py; exit 3"),
        say("Seen."),
    )
    async with world.screen("emacs", "-nw", "greet.py") as screen:
        await screen.keys("C-Space", "M->")
        await prompt(screen, "#play# please")
        await screen.shows("(y or n)")
        await screen.keys("y")
        await screen.shows("Edit greet.py?")
        said = str(world.provider.requests[0].messages[-1])
        assert "return" in said
        assert '<active_file path="greet.py" selected="1-2" visible="1-' in said
        await run(screen, "pilotfish-approve", "a")
        await screen.shows("Run touch seen; cat greet.py; exit 3?", "cat greet.py; exit 3\n")
        assert (world.folder / "greet.py").read_text() == 'def greet():\n    return "Hello"\n'
        await run(screen, "pilotfish-approve", "f")
        await screen.shows("Tell the agent why:")
        await screen.keys("not now", "Enter")
        await screen.shows("⊘ Run touch seen; cat greet.py; exit 3", "Seen.")
        assert "not now" in world.sent()


async def test_stop_and_going_on_after_a_restart(world: World):
    world.script("slow", say("one ", "two ", end="stall"))
    world.script("next", say("The next answer."))
    async with world.screen("emacs", "-nw", "greet.py") as screen:
        await prompt(screen, "#slow# please")
        await screen.shows("(y or n)")
        await screen.keys("y")
        await screen.shows("one two")
        await run(screen, "pilotfish-stop")
        await screen.shows("Stopped.")
    async with world.screen("emacs", "-nw", "greet.py") as screen:
        await run(screen, "pilotfish-sessions")
        await screen.shows("Go on with:")
        await screen.keys("Tab", "Enter")
        await screen.shows("one two", "Stopped.")
        await prompt(screen, "#next# please")
        await screen.shows("The next answer.")
        await asyncio.sleep(0)
        assert "one two" in world.sent()


async def test_changes_are_marked_and_kept_or_undone_one_by_one(world: World):
    path = world.folder / "greet.py"
    path.write_text("".join(["def greet():\n", *(f"    line{number}\n" for number in range(2, 16))]))
    edits = [{"old_string": f"line{number}\n", "new_string": f"LINE{number}\n"} for number in (3, 12)]
    world.script(
        "two", call("read_file", path="greet.py"), call("update_file", path="greet.py", edits=edits), say("Both.")
    )
    async with world.screen("emacs", "-nw", "greet.py") as screen:
        await prompt(screen, "#two# please")
        await screen.shows("(y or n)")
        await screen.keys("y")
        await screen.shows("Edit greet.py", "a  Allow once")
        await run(screen, "pilotfish-approve", "a")
        await screen.shows("Both.", "    line3\n    LINE3\n", "    line12\n    LINE12\n")
        await screen.keys("M-<")
        await run(screen, "pilotfish-next-change")
        await run(screen, "pilotfish-keep-change")
        await screen.shows("    line2\n    LINE3\n    line4\n")
        await run(screen, "pilotfish-next-change")
        await run(screen, "pilotfish-undo-change")
        await screen.shows("    LINE3\n", "    line11\n    line12\n    line13\n")


FLYMAKE = """(progn (require 'flymake)
  (add-hook 'python-mode-hook (lambda ()
    (add-hook 'flymake-diagnostic-functions (lambda (report &rest _)
      (funcall report (list (flymake-make-diagnostic (current-buffer) 5 10 :warning "an odd name")))) nil t)
    (flymake-mode 1))))"""


async def test_diagnostics_of_flymake_reach_the_agent(world: World):
    world.script("play", call("diagnostics", path="greet.py"), say("I see."))
    init = Path(world.environ["HOME"]) / ".emacs.d" / "init.el"
    init.write_text(init.read_text() + FLYMAKE)
    async with world.screen("emacs", "-nw", "greet.py") as screen:
        await prompt(screen, "#play# please")
        await screen.shows("(y or n)")
        await screen.keys("y")
        await screen.shows("I see.")
        assert "an odd name" in world.sent()


async def edit_here(screen: Screen, instruction: str) -> None:
    await run(screen, "pilotfish-edit")
    await screen.shows("Edit with Pilotfish (empty:")
    await screen.keys(*([instruction] if instruction else []), "Enter")


async def test_an_inline_edit_is_marked_refined_made_again_undone_and_stopped(world: World):
    def change(old: str, new: str) -> Reply:
        return call("update_file", path="greet.py", edits=[{"old_string": old, "new_string": new}])

    world.script("polite", call("read_file", path="greet.py"), change('"Helo"', '"Hello"'), say("Done."))
    world.script("louder", change('"Hello"', '"HELLO"'), say("Louder."))
    world.script("slow", say("one ", end="stall"))
    async with world.screen("emacs", "-nw", "greet.py") as screen:
        await screen.keys("C-n")
        await edit_here(screen, "#polite# please")
        await screen.shows("(y or n)")
        await screen.keys("y")
        await screen.shows('    return "Helo"\n    return "Hello"\n')
        assert "At line 2 of greet.py: #polite# please" in world.sent()
        await edit_here(screen, "#louder# now")
        await screen.shows('    return "Helo"\n    return "HELLO"\n')
        world.script("louder", change('"Helo"', '"Hi"'), say("Shorter."))
        await edit_here(screen, "")
        await screen.shows('    return "Helo"\n    return "Hi"\n')
        assert "I have undone your edit of greet.py" in world.sent()
        await run(screen, "pilotfish-undo-change")
        await screen.shows('def greet():\n    return "Helo"\n\n')
        await edit_here(screen, "#slow# please")
        await screen.shows("Pilotfish is editing…")
        await run(screen, "pilotfish-stop")
        await screen.shows("Pilotfish: stopped")
