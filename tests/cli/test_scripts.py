"""The command line in a script: pipes, exit codes, and the commands for stored sessions."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from tests.support import mcp_server
from tests.support.provider import Refusal, call, fails, said, say, serve
from tests.support.provider_script import Reply
from tests.support.terminal import environment, piped, work_folder

from pilotfish import __version__


async def test_piped_output_is_the_answer_alone(tmp_path: Path) -> None:
    async with serve(say("plain ", "words")) as provider:
        code, out, _ = await piped(tmp_path, "run", "go", "--trust", provider=provider)
        assert (code, out) == (0, "plain words\n")


async def test_json_is_one_update_a_line_with_a_seq_that_counts(tmp_path: Path) -> None:
    async with serve(say("hi")) as provider:
        code, out, err = await piped(tmp_path, "run", "go", "--json", "--trust", provider=provider)
    lines = [json.loads(line) for line in out.splitlines()]
    assert (code, err) == (0, "")
    assert [line["seq"] for line in lines] == list(range(1, len(lines) + 1))
    assert (lines[-1]["update"]["kind"], lines[-1]["update"]["stopReason"]) == ("turn_ended", "end_turn")


async def test_without_a_terminal_a_question_is_refused_with_its_reason(tmp_path: Path) -> None:
    async with serve(call("bash", command="touch made"), say("could not")) as provider:
        code, _, err = await piped(tmp_path, "run", "go", "--trust", provider=provider)
    assert code == 0
    assert "Denied, because nobody can be asked here: Run touch made" in err
    assert not (tmp_path / "work" / "made").exists()


async def test_an_untrusted_folder_is_only_read(tmp_path: Path) -> None:
    async with serve(call("bash", command="touch made"), say("could not")) as provider:
        code, _, err = await piped(tmp_path, "run", "go", "--mode", "auto", provider=provider)
    assert code == 0
    assert "This folder is not trusted: reading only." in err
    assert not (tmp_path / "work" / "made").exists()


@pytest.mark.parametrize(
    ("reply", "settings", "code", "words"),
    [
        (fails("authentication"), "", 1, "key"),
        (call("list_dir"), "maxIterations = 1\n", 3, "iteration limit"),
        (say("half", finish="length"), "", 4, "cut off"),
        (call("list_dir"), "[budget]\ntokens = 10\n", 5, "budget"),
        (Reply(parts=(Refusal("I will not."),)), "", 6, "refused"),
    ],
    ids=["failed", "max_iterations", "max_tokens", "budget", "refusal"],
)
async def test_each_stop_reason_has_an_exit_code_and_a_message(
    tmp_path: Path, reply: Reply, settings: str, code: int, words: str
) -> None:
    (tmp_path / "config.toml").write_text(settings)
    async with serve(reply) as provider:
        ended, _, err = await piped(tmp_path, "run", "go", "--trust", provider=provider)
    assert ended == code
    assert words in err


@pytest.mark.parametrize(
    ("arguments", "sent", "prompt"),
    [
        ((), "from the pipe\n", "from the pipe"),
        (("-",), "from the pipe\n", "from the pipe"),
        (("explain", "this:"), "a log\nof two lines\n", "explain this:\n\na log\nof two lines"),
        (("say it",), "", "say it"),
    ],
)
async def test_what_is_piped_in_is_the_prompt_or_belongs_to_it(
    tmp_path: Path, arguments: tuple[str, ...], sent: str, prompt: str
) -> None:
    async with serve(say("yes")) as provider:
        code, _, _ = await piped(tmp_path, "run", "--trust", *arguments, provider=provider, sent=sent)
        assert code == 0
        assert said(provider.requests[0]) == prompt


async def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path: Path) -> None:
    async with serve(say("yes")) as provider:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-m", "pilotfish", "run", "go", "--trust"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=work_folder(tmp_path),
            env=environment(tmp_path, provider),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        out, err = await asyncio.wait_for(asyncio.gather(process.stdout.read(), process.stderr.read()), 90)
        assert await process.wait() == 0
        assert (out, b"standard input is silent" in err) == (b"yes\n", True)


@pytest.mark.parametrize(
    ("arguments", "redirect", "code", "out"),
    [
        (("run", "go", "--trust"), "<&-", 0, "yes\n"),
        (("run",), "<&-", 2, ""),
        (("chat", "--trust"), "</dev/null", 0, ""),
        (("chat", "--trust"), "<prompts", 0, "yes\n"),
        (("acp",), "<prompts", 1, ""),
        (("acp",), "</dev/null >answers", 1, ""),
        (("sessions", "import", "."), "<&-", 2, ""),
        (("sessions", "import", "/bin/sh"), "<&-", 1, ""),
    ],
)
async def test_input_that_is_a_file_or_closed_is_no_traceback(
    tmp_path: Path, arguments: tuple[str, ...], redirect: str, code: int, out: str
) -> None:
    (work_folder(tmp_path) / "prompts").write_text("go\n")
    async with serve(otherwise=say("yes")) as provider:
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", f'exec "$@" {redirect}', "sh", sys.executable, "-m", "pilotfish", *arguments),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path / "work",
            env=environment(tmp_path, provider),
        )
        said, err = await asyncio.wait_for(process.communicate(), 90)
        assert (process.returncode, said.decode(), b"Traceback" in err) == (code, out, False)


@pytest.mark.parametrize("arguments", [("run",), ("run", "-"), ("run", "go", "--mode", "bold"), ("run", "--nonsense")])
async def test_wrong_use_is_told_apart(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, out, err = await piped(tmp_path, *arguments)
    assert (code, out) == (2, "")
    assert "Usage: pilotfish run" in err


async def test_a_session_is_continued_shown_searched_exported_imported_and_deleted(tmp_path: Path) -> None:
    async with serve(say("hello there"), say("and again"), say("a third")) as provider:

        async def pilotfish(*arguments: str) -> str:
            code, out, err = await piped(tmp_path, *arguments, provider=provider)
            assert code == 0, err
            return out

        await pilotfish("run", "--trust", "find the needle")
        await pilotfish("run", "--trust", "--continue", "second")
        session = (await pilotfish("sessions", "list")).split()[0]
        await pilotfish("run", "--trust", "--session", session[:12], "third")
        said = [message["content"] for message in provider.requests[-1].messages if message["role"] == "assistant"]
        assert said == ["hello there", "and again"]
        (line,) = (await pilotfish("sessions", "list", "--all")).splitlines()
        assert line.split()[0] == session
        assert line.endswith("  3  find the needle")
        assert session in await pilotfish("sessions", "search", "needle")
        assert await pilotfish("sessions", "search", "haystack") == "Nothing matches.\n"
        shown = await pilotfish("sessions", "show", session[:12])
        assert [word in shown for word in ("find the needle", "hello there", "a third")] == [True] * 3
        exported = await pilotfish("sessions", "export", session, "--format", "json")
        (tmp_path / "kept.json").write_text(exported)
        imported = (await pilotfish("sessions", "import", str(tmp_path / "kept.json"))).split()[-1]
        assert (await pilotfish("sessions", "show", imported)).count("hello there") == 1
        code, _, err = await piped(tmp_path, "sessions", "delete", session)
        assert (code, err) == (2, "pilotfish: use --yes to delete without confirmation\n")
        assert await pilotfish("sessions", "delete", session, "--yes") == "Deleted find the needle\n"
        code, _, err = await piped(tmp_path, "sessions", "show", session)
        assert (code, err) == (1, f"pilotfish: No session begins with {session!r}.\n")


async def test_a_store_that_cannot_be_opened_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    code, out, err = await piped(tmp_path, "sessions", "list", env={"PILOTFISH_STORAGE": str(tmp_path / "file" / "x")})
    assert (code, out) == (1, "")
    assert err.startswith("pilotfish: The session database cannot be written")


async def test_decisions_are_printed_and_their_chain_is_checked(tmp_path: Path) -> None:
    async with serve(call("bash", command="touch made"), say("done")) as provider:
        await piped(tmp_path, "run", "go", "--trust", "--mode", "auto", provider=provider)
    _, listed, _ = await piped(tmp_path, "sessions", "list")
    code, out, _ = await piped(tmp_path, "audit", listed.split()[0], "--verify")
    assert code == 0
    assert "  allow  bash  mode: " in out
    assert out.endswith("1 entry: the trail is whole\n")
    await check_the_audit_of_the_store(tmp_path)


async def check_the_audit_of_the_store(tmp_path: Path) -> None:
    code, out, _ = await piped(tmp_path, "audit")
    assert (code, out.count(": the trail is whole\n")) == (0, 1)
    file = tmp_path / "audit.json"
    code, out, _ = await piped(tmp_path, "audit", "--export", str(file))
    digest = out.split()[-1]
    assert (code, out) == (0, f"1 trails in {file}, digest {digest}\n")
    code, out, _ = await piped(tmp_path, "audit", "verify", str(file))
    assert (code, out.splitlines()[-1].partition(":")[0]) == (0, f"digest {digest}")
    written = json.loads(file.read_text())
    written["sessions"][0]["entries"][0]["decision"] = "deny"
    file.write_text(json.dumps(written))
    code, out, _ = await piped(tmp_path, "audit", "verify", str(file))
    assert code == 1
    assert "entry 1: the entry was changed after it was written" in out
    file.write_text("{}")
    code, _, problem = await piped(tmp_path, "audit", "verify", str(file))
    assert code != 0
    assert "This is not an export of `pilotfish audit`" in problem


async def test_the_policy_is_asked_without_running_anything(tmp_path: Path) -> None:
    calls = [{"tool": "bash", "args": {"command": command}} for command in ("ls", "touch made")]
    code, out, _ = await piped(tmp_path, "policy", "check", sent="\n".join(map(json.dumps, calls)))
    assert code == 0
    assert [json.loads(line)["verdict"] for line in out.splitlines()] == ["allow", "ask"]
    assert not (tmp_path / "work" / "made").exists()


async def test_the_doctor_names_what_is_wrong_with_a_remedy(tmp_path: Path) -> None:
    code, out, _ = await piped(tmp_path, "doctor")
    assert code == 0
    assert [line.split()[1] for line in out.splitlines() if line[0] in "✓✗"] == [
        "pilotfish", "python", "settings", "managed", "ripgrep", "bash", "sandbox", "store", "model", "keys",
        "mcp", "telemetry",
    ]  # fmt: skip
    (tmp_path / "config.toml").write_text('mode = "bold"\n')
    sick = {
        "PILOTFISH_MODEL": "openai-chat:nowhere",
        "PILOTFISH_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_API_KEY": "k",
    }
    code, out, _ = await piped(tmp_path, "doctor", env=sick)
    wrong = {line.split()[1] for line in out.splitlines() if line.startswith("✗")}
    assert (code, wrong) == (1, {"settings", "model"})
    assert out.count("→") >= 2
    assert f"→ Fix {tmp_path / 'config.toml'}." in out
    (tmp_path / "config.toml").unlink()
    code, out, _ = await piped(tmp_path, "doctor", env={"PILOTFISH_MODE": "bold"})
    assert "→ Fix PILOTFISH_MODE." in out


async def test_the_doctor_connects_to_the_servers_of_the_mcp_configuration(tmp_path: Path) -> None:
    servers = {
        "good": {"command": sys.executable, "args": [mcp_server.__file__]},
        "dead": {"command": str(tmp_path / "no-such-program")},
    }
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"servers": servers}))
    (tmp_path / "config.toml").write_text(f'mcpConfig = "{file}"\n')
    code, out, _ = await piped(tmp_path, "doctor")
    (line,) = [line for line in out.splitlines() if line.split()[1:2] == ["mcp"]]
    assert (code, line[0]) == (1, "✗")
    assert f"good: {len(mcp_server.TOOLS)} tools; dead: FileNotFoundError" in line
    assert f"→ Correct {file}." in out


async def test_the_doctor_checks_one_provider_with_a_small_request(tmp_path: Path) -> None:
    async with serve(say("OK"), say("OK"), fails("authentication")) as provider:
        (tmp_path / "config.toml").write_text(f'[[endpoints]]\nname = "work"\nurl = "{provider.openai_url}"\n')
        for name in ("work", "work:scripted"):
            code, out, _ = await piped(tmp_path, "doctor", "--provider", name)
            assert [line.split()[:2] for line in out.splitlines()] == [["✓", "key"], ["✓", "address"], ["✓", "request"]]
            assert (code, "work:scripted answered in" in out, ": OK" in out) == (0, True, True)
        code, out, _ = await piped(tmp_path, "doctor", "--provider", "work")
        assert (code, "did not accept the API key" in out) == (1, True)
    code, out, _ = await piped(tmp_path, "doctor", "-p", "groq")
    assert code == 1
    assert "Set GROQ_API_KEY in the environment" in out


async def test_version_help_and_completion(tmp_path: Path) -> None:
    assert await piped(tmp_path, "--version") == (0, f"pilotfish {__version__}\n", "")
    code, out, _ = await piped(tmp_path, "--help")
    assert code == 0
    for command in ("serve", "acp", "run", "chat", "demo", "sample", "doctor", "audit", "sessions", "policy"):
        assert f" {command} " in out
    assert "bool" not in out  # a flag takes no value
    assert "..." not in out.partition("Commands:")[2]  # no description is cut off
    code, out, _ = await piped(tmp_path, "run", "--help")
    assert (code, out.splitlines()[0].lower()) == (0, "usage: pilotfish run [options] [prompt]...")
    code, out, _ = await piped(tmp_path, "policy", "check", "--help")
    assert '{"tool": "bash", "args": {"command": "git status"}}' in out
    asked = {"_PILOTFISH_COMPLETE": "complete_bash", "COMP_WORDS": "pilotfish ses", "COMP_CWORD": "1"}
    code, out, _ = await piped(tmp_path, env=asked)
    assert (code, out.split()) == (0, ["sessions"])
