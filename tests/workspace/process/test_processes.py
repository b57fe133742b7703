from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from pilotfish.conversation.records import KilledProcess
from pilotfish.errors import ToolError
from pilotfish.workspace.process import job as job_module
from pilotfish.workspace.process import processes as module
from pilotfish.workspace.process.process_tree import find
from pilotfish.workspace.process.processes import Finished, Processes
from pilotfish.workspace.sandbox.sandbox import no_sandbox

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="bash and process groups")


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncGenerator[Processes]:
    made = Processes([tmp_path], sandbox=lambda: no_sandbox("a test"))
    yield made
    await made.aclose()
    assert alive(made) == set()


async def run(processes: Processes, command: str, timeout: float = 20) -> Finished:
    return await processes.run(command, timeout=timeout, tell=lambda _: None)


def alive(processes: Processes) -> set[int]:
    """Every process that any command of these has started and that still runs."""
    return set(find(processes._launcher.name).sure)


async def until(condition: object, message: str) -> None:
    """Wait until a callable says yes."""
    assert callable(condition)
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(message)


async def test_output_of_both_streams_comes_in_order_with_the_exit_code(processes: Processes) -> None:
    finished = await run(processes, "echo one; echo two >&2; echo three; exit 3")
    assert (finished.output, finished.code, finished.stopped, finished.left) == ("one\ntwo\nthree\n", 3, "", None)


async def test_the_working_directory_is_kept_after_an_early_exit(processes: Processes, tmp_path: Path) -> None:
    (tmp_path / "in side").mkdir()
    await run(processes, "cd 'in side'; exit 1; echo never")
    assert processes.cwd == tmp_path / "in side"
    assert (await run(processes, "pwd")).output == f"{tmp_path}/in side\n"


async def test_the_working_directory_never_leaves_the_workspace(processes: Processes, tmp_path: Path) -> None:
    finished = await run(processes, "cd /; pwd")
    assert (finished.output, processes.cwd) == ("/\n", tmp_path)
    assert finished.notes == (f"the working directory stays {tmp_path}: / is outside the workspace",)


@pytest.mark.parametrize("place", ["{root}/..", "{root}/link", "{root}/link/../usr", "relative"])
async def test_a_command_that_lies_about_its_directory_does_not_leave_the_workspace(
    processes: Processes, tmp_path: Path, place: str
) -> None:
    (tmp_path / "link").symlink_to("/")
    said = place.format(root=tmp_path)
    await run(processes, f"for fd in /proc/$$/fd/*; do echo '{said}' >&${{fd##*/}}; done 2>/dev/null")
    assert processes.cwd == tmp_path


async def test_a_vanished_working_directory_is_left_for_the_first_root(processes: Processes, tmp_path: Path) -> None:
    await run(processes, "mkdir gone; cd gone")
    (tmp_path / "gone").rmdir()
    finished = await run(processes, "pwd")
    assert finished.output == f"{tmp_path}\n"
    assert finished.notes == (f"the working directory {tmp_path}/gone no longer exists; the command ran in {tmp_path}",)


async def test_a_vanished_root_is_said_so(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    processes = Processes([root], sandbox=lambda: no_sandbox("a test"))
    root.rmdir()
    with pytest.raises(ToolError, match="no longer exists"):
        await run(processes, "true")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [("echo 'open", 2, "unexpected EOF"), ("no_such_program", 127, "not found"), ("cat <<X\nhi", 0, "hi")],
)
async def test_a_broken_command_is_bashs_to_explain(processes: Processes, command: str, code: int, words: str) -> None:
    finished = await run(processes, command)
    assert finished.code == code
    assert words in finished.output


async def test_there_is_no_terminal_and_no_input(processes: Processes) -> None:
    finished = await run(processes, "cat; tty; echo -n $(ps -o tty= -p $$)")
    assert finished.output == "not a tty\n?"


async def test_a_command_is_its_own_session_and_group(processes: Processes) -> None:
    own, group, session = (await run(processes, "echo $$ $(ps -o pgid=,sid= -p $$)")).output.split()
    assert own == group == session
    assert int(session) != os.getsid(0)


async def test_a_timeout_ends_everything_and_keeps_what_was_written(processes: Processes) -> None:
    finished = await run(processes, "echo before; sleep 60 & sleep 60", timeout=0.3)
    assert (finished.output, finished.code, finished.stopped) == ("before\n", None, "it ran longer than 0.3 s")
    assert alive(processes) == set()


async def test_children_that_left_the_session_are_ended_too(processes: Processes) -> None:
    finished = await run(processes, "setsid sleep 60 & (setsid setsid sleep 61 &) ; sleep 60", timeout=0.3)
    assert finished.stopped
    assert alive(processes) == set()


async def test_a_command_that_will_not_end_is_killed(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GRACE", 0.1)
    finished = await run(processes, "trap '' TERM; echo up; while :; do sleep 0.05; done", timeout=0.3)
    assert (finished.output, finished.code) == ("up\n", None)
    assert alive(processes) == set()


async def test_a_stopped_process_is_ended_too(processes: Processes) -> None:
    finished = await run(processes, "sleep 60 & kill -STOP $!; sleep 60", timeout=0.3)
    assert finished.stopped
    assert alive(processes) == set()


async def test_a_cancelled_caller_leaves_nothing_running(processes: Processes, tmp_path: Path) -> None:
    command = "echo $$ > pid; setsid sleep 60 & sleep 60"
    task = asyncio.ensure_future(run(processes, command))
    await until((tmp_path / "pid").exists, "the command never started")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert alive(processes) == set()
    pid = int((tmp_path / "pid").read_text())
    assert processes.take_killed() == (KilledProcess(pid=pid, command=command),)
    assert processes.take_killed() == ()


async def test_a_second_cancel_does_not_save_a_stubborn_command(processes: Processes, tmp_path: Path) -> None:
    task = asyncio.ensure_future(run(processes, "trap '' TERM; touch up; while :; do sleep 0.05; done"))
    await until((tmp_path / "up").exists, "the command never started")
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0.05)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    await processes.aclose()
    assert alive(processes) == set()


async def test_a_child_that_holds_the_pipe_becomes_a_background_job(processes: Processes) -> None:
    finished = await run(processes, "(sleep 0.6; echo late; sleep 60) & echo started")
    assert (finished.output, finished.code) == ("started\n", 0)
    assert finished.left is not None
    await finished.left.watched(10, until="late")
    assert "late" in await finished.left.new_output()
    await processes.stop(finished.left)
    assert alive(processes) == set()


async def test_a_daemon_without_the_pipe_is_not_forgotten(processes: Processes) -> None:
    finished = await run(processes, "setsid sleep 60 >/dev/null 2>&1 & echo started")
    assert finished.left is not None
    assert [process.command for process in await processes.kill_all()] == [finished.left.command]
    assert alive(processes) == set()


async def test_a_short_background_child_is_waited_for(processes: Processes) -> None:
    finished = await run(processes, "(sleep 0.05; echo late) & echo started")
    assert (finished.output, finished.left) == ("started\nlate\n", None)


async def test_output_is_told_while_it_comes(processes: Processes) -> None:
    told: list[str] = []
    task = asyncio.ensure_future(processes.run("echo first; sleep 60", timeout=60, tell=told.append))
    await until(lambda: told, "nothing was told")
    assert told == ["first\n"]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_a_flood_is_told_up_to_a_size_and_kept_at_both_ends(processes: Processes) -> None:
    told: list[str] = []
    command = "echo begin; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo end"
    finished = await processes.run(command, timeout=60, tell=told.append)
    assert finished.output.startswith("begin\nxxx")
    assert finished.output.endswith("xxx\nend\n")
    assert "bytes were not kept" in finished.output
    assert len(finished.output) < 9_000_000
    assert len("".join(told)) < 250_000
    assert told[-1] == "\n[… 20.0 MB so far]\n"


async def test_a_command_that_never_stops_writing_is_stopped(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_module, "MAX_OUTPUT_BYTES", 1 << 20)
    finished = await run(processes, "yes")
    assert (finished.code, finished.stopped) == (None, "it wrote more than 1 MB")
    assert alive(processes) == set()


async def test_the_loop_stays_alive_during_a_flood(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_module, "MAX_OUTPUT_BYTES", 64 << 20)
    task = asyncio.ensure_future(run(processes, "yes"))
    turns = 0
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 64  # at least once for each MB


async def test_output_that_is_not_utf8_is_readable(processes: Processes) -> None:
    finished = await run(processes, r"printf 'caf\xe9 \xff\n'; printf '\xc3\xa9\n'; printf 'a\0b\n'")
    assert finished.output == "café ÿ\né\nab\n"


async def test_progress_bars_and_colours_are_shown_as_they_end(processes: Processes) -> None:
    finished = await run(
        processes, r"printf '10%%\r50%%\r100%%\n\033[31mred\033[0m\033]0;title\007\n'; printf 'ab\bc\r\n'"
    )
    assert finished.output == "100%\nred\nac\n"


async def test_secrets_of_the_environment_are_kept_from_commands(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "OPENAI_API_KEY": "k", "GITHUB_TOKEN": "t", "DB_PASSWORD": "p", "FOO": "bar"}
    processes = Processes([tmp_path], sandbox=lambda: no_sandbox("a test"), environ=environ)
    finished = await run(processes, "env | cut -d= -f1 | sort | tr '\\n' ' '")
    names = set(finished.output.split())
    assert names & {"OPENAI_API_KEY", "GITHUB_TOKEN", "DB_PASSWORD"} == set()
    assert {"FOO", "PATH", "GIT_TERMINAL_PROMPT"} <= names
    await processes.aclose()


@pytest.mark.parametrize(("command", "words"), [("echo \0", "NUL"), ("echo " + "x" * 200_000, "write_file")])
async def test_what_cannot_be_started_says_why(processes: Processes, command: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        await run(processes, command)


async def test_an_unknown_job_is_named_with_the_known_ones(processes: Processes) -> None:
    with pytest.raises(ToolError, match=r"No background command is called 'bg9'\. Known: none"):
        processes.job("bg9")


async def test_a_background_command_is_started_polled_and_stopped(processes: Processes) -> None:
    job, _ = await processes.start("echo up; sleep 60", tell=lambda _: None)
    await job.watched(10, until="up")
    assert (job.id, await job.new_output(), job.code, await job.new_output()) == ("bg1", "up\n", None, "")
    assert processes.jobs == (job,)
    await processes.stop(job)
    assert job.over
    assert job.state == "ended by signal 15"
    assert alive(processes) == set()


async def test_a_background_command_that_ends_is_known_to_have_ended(processes: Processes) -> None:
    job, _ = await processes.start("echo done; exit 4", tell=lambda _: None)
    await job.watched(10)
    assert (job.over, job.state, await job.new_output()) == (True, "exit code 4", "done\n")


async def test_background_commands_are_counted(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_JOBS", 1)
    await processes.start("sleep 60", tell=lambda _: None)
    with pytest.raises(ToolError, match="stop one first"):
        await processes.start("sleep 60", tell=lambda _: None)


async def test_kill_all_ends_commands_in_front_and_behind(processes: Processes, tmp_path: Path) -> None:
    await processes.start("sleep 60", tell=lambda _: None)
    front = asyncio.ensure_future(run(processes, "touch up; sleep 61"))
    await until((tmp_path / "up").exists, "the command never started")
    killed = await processes.kill_all()
    assert sorted(process.command for process in killed) == ["sleep 60", "touch up; sleep 61"]
    assert (await front).code == -15
    assert alive(processes) == set()


async def test_a_stopped_turn_may_leave_its_background_commands_running(processes: Processes, tmp_path: Path) -> None:
    job, _ = await processes.start("sleep 60", tell=lambda _: None)
    front = asyncio.ensure_future(run(processes, "touch up; sleep 61"))
    await until((tmp_path / "up").exists, "the command never started")
    killed = await processes.kill_running()
    await front
    assert ([process.command for process in killed], job.code) == (["touch up; sleep 61"], None)


async def test_a_command_that_is_just_being_started_is_ended_too(
    processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spawn = asyncio.create_subprocess_exec

    async def slowly(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        process = await spawn(*command, **options)
        await asyncio.sleep(0.5)  # it runs, and nobody knows of it yet
        return process

    monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)
    front = asyncio.ensure_future(run(processes, "touch up; sleep 61"))
    await until((tmp_path / "up").exists, "the command never started")
    killed = await processes.kill_running()
    await front
    assert [process.command for process in killed] == ["touch up; sleep 61"]


async def test_words_that_come_in_two_pieces_are_waited_for(processes: Processes) -> None:
    job, _ = await processes.start("printf rea; sleep 0.2; printf dy; sleep 60", tell=lambda _: None)
    await job.watched(20, until="ready")
    assert (await job.new_output(), job.code) == ("ready", None)


async def test_commands_run_side_by_side(processes: Processes) -> None:
    first, second = await asyncio.gather(
        run(processes, "until [ -e b ]; do sleep 0.01; done; touch a"),
        run(processes, "touch b; until [ -e a ]; do sleep 0.01; done"),
    )
    assert (first.code, second.code) == (0, 0)


async def test_no_descriptor_is_left_open(processes: Processes) -> None:
    await run(processes, "true")
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        await run(processes, "echo hi; sleep 60", timeout=0.05)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
