"""`pilotfish run` as a person and as a script use it: a real process, a real pseudo-terminal, a scripted provider."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.support.provider import Answer, Gate, Provider, Text, call, say, serve
from tests.support.provider_script import Reply

RUN = ("-m", "pilotfish", "run", "go")


class Terminal:
    """A process on a pseudo-terminal: what it shows, and keys to press."""

    def __init__(self, process: asyncio.subprocess.Process, master: int) -> None:
        self.process = process
        self.shown = ""
        self._master = master
        asyncio.get_running_loop().add_reader(master, self._read)

    async def sees(self, text: str) -> None:
        async with asyncio.timeout(60):
            while text not in self.shown:
                assert self.process.returncode is None or text in self.shown, self.shown
                await asyncio.sleep(0.02)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    async def end(self) -> int:
        async with asyncio.timeout(60):
            return await self.process.wait()

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)

    def _read(self) -> None:
        try:
            self.shown += os.read(self._master, 65_536).decode("utf-8", "replace")
        except OSError:
            asyncio.get_running_loop().remove_reader(self._master)


def environment(tmp_path: Path, provider: Provider) -> dict[str, str]:
    return {
        **os.environ,
        "PILOTFISH_MODEL": "openai-chat:scripted",
        "PILOTFISH_BASE_URL": provider.openai_url,
        "OPENAI_API_KEY": "test-key",
        "PILOTFISH_STORAGE": str(tmp_path / "store"),
        "PILOTFISH_CONFIG": str(tmp_path / "config.toml"),
        "PILOTFISH_LOG": str(tmp_path / "log"),
        "TERM": "xterm",
        "COLUMNS": "200",
    }


@asynccontextmanager
async def terminal(tmp_path: Path, *replies: Answer, trust: bool = True) -> AsyncGenerator[tuple[Terminal, Provider]]:
    folder = tmp_path / "work"
    folder.mkdir()
    async with serve(*replies) as provider:
        master, slave = pty.openpty()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *RUN,
            *(["--trust"] if trust else []),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=folder,
            env=environment(tmp_path, provider),
            start_new_session=True,
        )
        os.close(slave)
        shown = Terminal(process, master)
        try:
            yield shown, provider
        finally:
            shown.close()
            if process.returncode is None:
                process.kill()
                await asyncio.wait_for(process.wait(), 30.0)


async def piped(tmp_path: Path, *replies: Answer, arguments: tuple[str, ...] = ()) -> tuple[int, str, str]:
    folder = tmp_path / "work"
    folder.mkdir()
    async with serve(*replies) as provider:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *RUN,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=folder,
            env=environment(tmp_path, provider),
        )
        out, err = await asyncio.wait_for(process.communicate(), 90)
        return process.returncode or 0, out.decode(), err.decode()


async def test_a_key_allows_a_command(tmp_path: Path) -> None:
    async with terminal(tmp_path, call("bash", command="touch made"), say("it is made")) as (screen, _):
        await screen.sees("Run touch made?")
        await screen.sees("[y]es")
        screen.press("y\n")
        await screen.sees("it is made")
        assert await screen.end() == 0
        assert (tmp_path / "work" / "made").exists()


async def test_words_after_no_reach_the_model(tmp_path: Path) -> None:
    async with terminal(tmp_path, call("bash", command="touch made"), say("as you wish")) as (screen, provider):
        await screen.sees("[n]o")
        screen.press("n use another name\n")
        assert await screen.end() == 0
        assert "use another name" in str(provider.requests[1].body)
        assert not (tmp_path / "work" / "made").exists()


async def test_ctrl_c_stops_the_turn(tmp_path: Path) -> None:
    async with terminal(tmp_path, Reply(parts=(Text("half an answer"), Gate()))) as (screen, _):
        await screen.sees("half an answer")
        screen.process.send_signal(signal.SIGINT)
        await screen.sees("Stopped.")
        assert await screen.end() == 130


async def test_a_new_folder_is_asked_about_once_and_remembered(tmp_path: Path) -> None:
    async with terminal(tmp_path, say("hello"), trust=False) as (screen, _):
        await screen.sees("[t]rust this folder")
        screen.press("t\n")
        await screen.sees("hello")
        assert await screen.end() == 0
    assert "trusted = true" in (tmp_path / "config.toml").read_text("utf-8")


async def test_piped_output_is_the_answer_alone(tmp_path: Path) -> None:
    code, out, _ = await piped(tmp_path, say("plain ", "words"), arguments=("--trust",))
    assert (code, out) == (0, "plain words\n")


async def test_json_is_one_update_a_line_with_a_seq_that_counts(tmp_path: Path) -> None:
    code, out, _ = await piped(tmp_path, say("hi"), arguments=("--json", "--trust"))
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert lines[-1]["update"]["kind"] == "turn_ended"


async def test_with_nobody_there_a_question_is_a_refusal_with_its_reason(tmp_path: Path) -> None:
    code, _, err = await piped(tmp_path, call("bash", command="touch made"), say("could not"), arguments=("--trust",))
    assert code == 0
    assert "Not asked, so not allowed: Run touch made" in err
    assert not (tmp_path / "work" / "made").exists()


async def test_a_failed_turn_has_its_exit_code_and_says_what_to_do(tmp_path: Path) -> None:
    from tests.support.provider import fails

    code, _, err = await piped(tmp_path, fails("authentication"), arguments=("--trust",))
    assert code == 1
    assert "key" in err
