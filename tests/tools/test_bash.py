from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.tools import Bench, parse
from tests.support.tools import bench as plain_bench
from tests.support.waiting import until

from pilotfish.errors import ToolError
from pilotfish.tools.commands import bash_output
from pilotfish.tools.commands.bash import TOOL
from pilotfish.workspace.process.process_tree import find
from pilotfish.workspace.sandbox.sandbox import Sandbox, no_sandbox


@asynccontextmanager
async def bench(*roots: Path) -> AsyncGenerator[Bench]:
    """A workspace without a sandbox, in which no process may be left at the end."""
    async with plain_bench(*roots) as made:
        made.workspace.processes.confine(no_sandbox("a test"))
        yield made
        name = made.workspace.processes._launcher.name
        await made.workspace.processes.aclose()
        assert find(name).sure == set()


async def test_output_and_exit_code_come_back(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        good = await made.run(TOOL, command="echo hi")
        bad = await made.run(TOOL, command="echo oh; exit 3")
        assert (good.text, good.failed) == ("hi\n[exit code 0]", False)
        assert (bad.text, bad.failed) == ("oh\n[exit code 3]", True)
        assert made.updates == ["hi\n", "oh\n"]


async def test_a_signal_is_named(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        assert await made.text(TOOL, command="kill -9 $$") == "[ended by signal 9]"


async def test_the_working_directory_is_told_when_it_is_not_the_root(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    async with bench(tmp_path) as made:
        assert await made.text(TOOL, command="cd sub") == "[exit code 0]\n[working directory: sub]"
        assert await made.text(TOOL, command="cd ..") == "[exit code 0]"


async def test_a_timeout_says_what_to_do(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        result = await made.run(TOOL, command="echo up; sleep 60", timeout=0.3)
        assert result.failed
        assert result.text == (
            "up\n[stopped, with every process it started: it ran longer than 0.3 s. For a server, set background]"
        )


async def test_the_usual_timeout_is_the_settings(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        result = await TOOL.run(made.context(timeout=0.2), parse(TOOL, {"command": "sleep 60"}))
        assert "longer than 0.2 s" in result.text


async def test_files_the_model_knows_are_named_when_a_command_changed_them(tmp_path: Path) -> None:
    for name in ("a.py", "b.py", "c.py"):
        (tmp_path / name).write_text("one\n")
    async with bench(tmp_path) as made:
        await made.workspace.read(tmp_path / "a.py")
        await made.workspace.read(tmp_path / "b.py")
        text = await made.text(TOOL, command="echo two > a.py; echo two > c.py")
        assert text == "[exit code 0]\n[changed since you read them: a.py]"


async def test_a_command_that_leaves_a_server_behind_does_not_hang(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        text = await made.text(TOOL, command="sleep 60 & echo started")
        assert text == (
            "started\n[exit code 0]\n[processes are still running as bg1; bash_output reads their output or stops them]"
        )
        assert await made.text(bash_output.TOOL, id="bg1", action="stop") == "[no new output]\n[bg1: exit code 0]"


async def test_a_background_command_is_started_polled_and_stopped(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        command = "echo listening; until [ -e go ]; do sleep 0.02; done; echo request; sleep 60"
        started = await made.text(TOOL, command=command, background=True)
        assert started.startswith("listening\n[bg1: running for ")
        assert (await made.text(bash_output.TOOL)).endswith(f": {command}")
        (tmp_path / "go").touch()
        polled = await made.text(bash_output.TOOL, id="bg1", wait=20, until="request")
        assert polled.startswith("request\n[bg1: running for ")
        stopped = await made.text(bash_output.TOOL, id="bg1", action="stop")
        assert stopped == "[no new output]\n[bg1: ended by signal 15]"


async def test_a_background_command_that_fails_at_once_is_seen_to_fail(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        result = await made.run(TOOL, command="echo no such port; exit 1", background=True)
        assert (result.text, result.failed) == ("no such port\n[bg1: exit code 1]", True)


async def test_waiting_for_the_end_of_a_background_command(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        await made.run(TOOL, command="until [ -e go ]; do sleep 0.02; done; echo bye", background=True)
        waiting = asyncio.ensure_future(made.text(bash_output.TOOL, id="bg1", wait=20))
        await asyncio.sleep(0)
        (tmp_path / "go").touch()
        assert await waiting == "bye\n[bg1: exit code 0]"


async def test_an_interrupt_ends_the_command_and_everything_it_started(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        call = asyncio.ensure_future(made.run(TOOL, command="setsid sleep 60 & touch up; sleep 60"))
        await until((tmp_path / "up").exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert [process.command for process in await made.workspace.processes.kill_all()] == [
            "setsid sleep 60 & touch up; sleep 60"
        ]


async def test_giant_and_broken_output_is_text_in_the_end(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        result = await made.run(TOOL, command=r"head -c 9000000 /dev/urandom; printf '\xff\xfe\n'; echo end")
        assert result.text.endswith("ÿþ\nend\n[exit code 0]")
        assert "bytes were not kept" in result.text
        result.text.encode()


async def test_unknown_jobs_and_a_vanished_workspace_are_said_so(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    async with bench(root) as made:
        with pytest.raises(ToolError, match="No background command is called 'bg7'"):
            await made.run(bash_output.TOOL, id="bg7")
        assert await made.text(bash_output.TOOL) == "No background commands."
        root.rmdir()
        with pytest.raises(ToolError, match="no longer exists"):
            await made.run(TOOL, command="true")


async def test_permission_denied_is_bashs_answer(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("echo hi")
    async with bench(tmp_path) as made:
        result = await made.run(TOOL, command="./script")
        assert result.failed
        assert "Permission denied" in result.text
        assert result.text.endswith("[exit code 126]")


async def test_a_question_shows_the_command_and_where_it_would_run(tmp_path: Path) -> None:
    async with bench(tmp_path) as made:
        assert TOOL.preview is not None
        shown = await TOOL.preview(made.context(), parse(TOOL, {"command": "rm -r x"}))
        assert (shown.command, shown.cwd, shown.background) == ("rm -r x", str(tmp_path), False)
        assert TOOL.subject(parse(TOOL, {"command": "rm -r x"})).command == "rm -r x"
        assert TOOL.title(parse(TOOL, {"command": "rm -r x"})) == "Run rm -r x"


@pytest.mark.parametrize("args", [{}, {"command": ""}, {"command": "x", "timeout": 0}, {"command": "x", "cwd": "/"}])
def test_bad_arguments_are_refused(args: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        parse(TOOL, args)


async def test_what_the_sandbox_refused_a_failed_command_is_told(tmp_path: Path) -> None:
    wrapper = tmp_path / "bwrap"
    wrapper.write_text('#!/usr/bin/env bash\nwhile [ "$1" != -- ]; do shift; done\nshift 6\nexec "$@"\n')
    wrapper.chmod(0o755)
    network = "[the sandbox refused the network; set for_real to ask the user for the network]"
    async with bench(tmp_path) as made:
        made.workspace.processes.confine(Sandbox(bwrap=str(wrapper)))
        for words, told in (
            ("touch: cannot touch '/x/y': Read-only file system", "[the sandbox refused writing /x/y]"),
            ("curl: (6) Could not resolve host: x", network),
        ):
            assert await made.text(TOOL, command=f'echo "{words}"; exit 1') == f"{words}\n[exit code 1]\n{told}"
        assert await made.text(TOOL, command="echo 'no such test'; exit 1") == "no such test\n[exit code 1]"
        assert await made.text(TOOL, command="echo 'Read-only file system'") == "Read-only file system\n[exit code 0]"
