"""`pilotfish run` and `pilotfish chat` at a real pseudo-terminal, with a scripted provider."""

from __future__ import annotations

import asyncio
import re
import stat
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.support.provider import Answer, Gate, Provider, Text, call, said, say, serve
from tests.support.provider_script import Reply
from tests.support.terminal import Terminal, terminal, work_folder
from tests.support.waiting import until

KEYS = "[y]es · [s]ession · [a]lways · [n]o · [d]eny always · [e]dit › "
CTRL_C = "\x03"
CTRL_D = "\x04"
UP = "\x1b[A"


@asynccontextmanager
async def running(tmp_path: Path, *replies: Answer, **env: str) -> AsyncGenerator[tuple[Terminal, Provider]]:
    async with (
        serve(*replies) as provider,
        terminal(tmp_path, "run", "go", "--trust", provider=provider, env=env) as screen,
    ):
        yield screen, provider


@asynccontextmanager
async def chatting(tmp_path: Path, *replies: Answer) -> AsyncGenerator[tuple[Terminal, Provider]]:
    async with serve(*replies) as provider, terminal(tmp_path, "chat", "--trust", provider=provider) as screen:
        await screen.sees("› ")
        yield screen, provider


def sent(provider: Provider) -> str:
    """The user's words in the last request."""
    return said(provider.requests[-1])


async def test_a_key_allows_a_command(tmp_path: Path) -> None:
    async with running(tmp_path, call("bash", command="touch made"), say("it is made")) as (screen, _):
        await screen.sees("Run this command?")
        await screen.sees(KEYS)
        screen.press("y\n")
        await screen.sees("✓")
        await screen.sees("it is made")
        assert await screen.end() == 0
        assert (tmp_path / "work" / "made").exists()


async def test_only_the_answer_and_the_token_count_are_printed(tmp_path: Path) -> None:
    async with running(tmp_path, say("hello")) as (screen, _):
        assert await screen.end() == 0
        plain = re.sub(r"\x1b\[[0-9;]*[A-Za-z]|\r", "", screen.shown)
        assert re.fullmatch(r"(?:. Thinking…(?: \d+ s)?)*(?:hello\n?)+\n[\d,]+ tokens\n", plain), screen.shown


async def test_text_after_no_is_sent_to_the_model(tmp_path: Path) -> None:
    async with running(tmp_path, call("bash", command="touch made"), say("as you wish")) as (screen, provider):
        await screen.sees(KEYS)
        screen.press("n use another name\n")
        assert await screen.end() == 0
        assert "use another name" in str(provider.requests[1].body)
        assert not (tmp_path / "work" / "made").exists()


async def test_always_shows_its_rule_first_and_is_not_asked_again(tmp_path: Path) -> None:
    command = call("bash", command="touch made")
    async with running(tmp_path, command, command, say("twice")) as (screen, _):
        await screen.sees("a: Allow running exactly `touch made`, in this workspace")
        await screen.sees(KEYS)
        screen.press("a\n")
        await screen.sees("twice")
        assert await screen.end() == 0
        assert screen.shown.count("Run this command?") == 1
    assert "touch made" in (tmp_path / "config.toml").read_text("utf-8")


async def test_a_command_is_amended_on_the_line(tmp_path: Path) -> None:
    async with running(tmp_path, call("bash", command="touch made"), say("done")) as (screen, provider):
        await screen.sees(KEYS)
        screen.press("e touch other\n")
        assert await screen.end() == 0
        assert "amended" in str(provider.requests[1].body)
    assert [path.name for path in (tmp_path / "work").iterdir()] == ["other"]


async def test_arguments_are_edited_in_the_users_own_editor(tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text(
        '#!/bin/sh\nif [ -e "$0.used" ]; then sed -i s/made/better/ "$1"; else echo no > "$1"; fi\n: > "$0.used"\n'
    )
    editor.chmod(0o755)
    replies = (call("write_file", path="made", content="text\n"), say("done"))
    async with running(tmp_path, *replies, EDITOR=str(editor)) as (screen, _):
        await screen.sees("[e]dit › ")
        screen.press("e\n")
        await screen.sees("not a JSON object of arguments; nothing has run")
        await screen.sees("[e]dit › ")
        screen.press("e\n")
        assert await screen.end() == 0
    assert (tmp_path / "work" / "better").read_text() == "text\n"


async def test_text_typed_before_a_question_does_not_answer_it(tmp_path: Path) -> None:
    command = call("bash", command="touch made")
    async with running(tmp_path, Reply(parts=(Text("wait"), Gate(), *command.parts)), say("fine")) as (
        screen,
        provider,
    ):
        await screen.sees("wait")
        screen.press("y\ny\n")
        await asyncio.sleep(0.2)
        provider.release()
        await screen.sees(KEYS)
        await asyncio.sleep(0.5)
        assert not (tmp_path / "work" / "made").exists()
        screen.press("n\n")
        assert await screen.end() == 0
        assert not (tmp_path / "work" / "made").exists()


async def test_an_end_of_input_is_not_a_yes(tmp_path: Path) -> None:
    async with running(tmp_path, call("bash", command="touch made"), say("fine")) as (screen, _):
        await screen.sees(KEYS)
        screen.press(CTRL_D)
        await screen.sees("fine")
        assert await screen.end() == 0
        assert not (tmp_path / "work" / "made").exists()


async def test_ctrl_c_stops_the_turn(tmp_path: Path) -> None:
    async with running(tmp_path, Reply(parts=(Text("half an answer"), Gate()))) as (screen, _):
        await screen.sees("half an answer")
        screen.press(CTRL_C)
        await screen.sees("Stopped.")
        assert await screen.end() == 130


async def test_ctrl_c_at_a_question_stops_the_turn(tmp_path: Path) -> None:
    async with running(tmp_path, call("bash", command="touch made")) as (screen, _):
        await screen.sees(KEYS)
        screen.press(CTRL_C)
        assert await screen.end() == 130
        assert not (tmp_path / "work" / "made").exists()


async def test_ctrl_c_twice_leaves_at_once_and_leaves_nothing_running(tmp_path: Path) -> None:
    stubborn = "trap '' TERM INT; echo $$ > pid; echo started; while :; do sleep 0.1; done"
    (tmp_path / "config.toml").write_text('mode = "auto"\nsandbox = "off"\n')
    async with running(tmp_path, call("bash", command=stubborn)) as (screen, _):
        await screen.sees("started")
        screen.press(CTRL_C)
        await screen.sees("Ctrl+C again to leave")
        screen.press(CTRL_C)
        assert await screen.end() == 130
    pid = (tmp_path / "work" / "pid").read_text().strip()
    async with asyncio.timeout(20):
        await until(lambda: not (Path(f"/proc/{pid}/environ").exists() and Path(f"/proc/{pid}/cmdline").read_bytes()))


async def test_trust_is_asked_once_per_folder_and_saved(tmp_path: Path) -> None:
    async with serve(say("hello"), say("again")) as provider:
        async with terminal(tmp_path, "run", "go", provider=provider) as screen:
            await screen.sees("[r]ead only › ")
            screen.press("what?\n")
            await screen.sees("Type t or r.")
            await screen.sees("[r]ead only › ")
            screen.press("t\n")
            await screen.sees("hello")
            assert await screen.end() == 0
        async with terminal(tmp_path, "run", "go", provider=provider) as screen:
            await screen.sees("again")
            assert await screen.end() == 0
            assert "Trust" not in screen.shown
    assert "trusted = true" in (tmp_path / "config.toml").read_text("utf-8")


async def test_a_question_of_the_agent_is_answered_by_number(tmp_path: Path) -> None:
    question = call("ask_user", question="Which one?", options=["the red", "the blue"])
    async with running(tmp_path, question, say("good")) as (screen, provider):
        await screen.sees("2. the blue")
        await screen.sees("› ")
        screen.press("2\n")
        assert await screen.end() == 0
        assert "the blue" in str(provider.requests[1].messages[-1])


async def test_a_conversation_goes_on_with_its_commands(tmp_path: Path) -> None:
    (work_folder(tmp_path) / "a.txt").write_text("old\n")
    edit = call("update_file", path="a.txt", edits=[{"old_string": "old", "new_string": "new"}])
    async with chatting(tmp_path, edit, say("edited"), say("hello again")) as (screen, provider):
        for keys, answer in (
            ("/help\n", "Put back the files the last turn changed"),
            ("/nonsense\n", "There is no command /nonsense"),
            ("/mode bold\n", "is not one of ask, plan, edit, auto"),
            ("/mode edit\n", "in mode `edit`"),
            ("change it\n", "edited"),
            ("/undo\n", "1 file put back."),
            ("/redo\n", "1 file changed again."),
            ("/new\n", "A new session has started."),
        ):
            screen.press(keys)
            await screen.sees(answer)
            await screen.sees("› ")
        assert (tmp_path / "work" / "a.txt").read_text() == "new\n"
        screen.press("\x1b[200~line one\rline two\r\rline four\x1b[201~\r")  # a paste is one prompt
        await screen.sees("hello again")
        assert sent(provider) == "line one\nline two\n\nline four"
        assert "change it" not in str(provider.requests[-1].messages)
        await screen.sees("› ")
        screen.press(CTRL_D)
        assert await screen.end() == 0


async def test_ctrl_c_in_a_conversation_stops_the_turn_and_not_the_conversation(tmp_path: Path) -> None:
    async with chatting(tmp_path, Reply(parts=(Text("half"), Gate())), say("whole")) as (screen, _):
        screen.press("go\n")
        await screen.sees("half")
        screen.press(CTRL_C)
        await screen.sees("Stopped.")
        await screen.sees("› ")
        screen.press("again\n")
        await screen.sees("whole")
        await screen.sees("› ")
        screen.press(CTRL_C)
        await screen.sees("Press Ctrl+C again to leave.")
        screen.press(CTRL_C)
        assert await screen.end() == 130
        assert "Traceback" not in screen.shown


async def test_ctrl_c_clears_the_prompt_before_it_leaves(tmp_path: Path) -> None:
    async with chatting(tmp_path, say("hello")) as (screen, provider):
        screen.press("not this")
        await screen.sees("not this")
        screen.press(CTRL_C)
        screen.press("but this\r")
        await screen.sees("hello")
        assert sent(provider) == "but this"


async def test_alt_enter_adds_a_line_to_the_prompt(tmp_path: Path) -> None:
    async with chatting(tmp_path, say("hello")) as (screen, provider):
        screen.press("line one\x1b\rline two\r")
        await screen.sees("hello")
        assert sent(provider) == "line one\nline two"


async def test_the_history_outlives_the_chat_and_is_private(tmp_path: Path) -> None:
    async with chatting(tmp_path, say("hello")) as (screen, _):
        screen.press("the first prompt\r")
        await screen.sees("hello")
        await screen.sees("› ")
        screen.press(CTRL_D)
        assert await screen.end() == 0
    assert stat.S_IMODE((tmp_path / "store" / "prompt_history").stat().st_mode) == 0o600
    async with chatting(tmp_path, say("again")) as (screen, provider):
        screen.press(UP)
        await screen.sees("the first prompt")
        screen.press("\r")
        await screen.sees("again")
        assert sent(provider) == "the first prompt"


async def test_tab_completes_commands_and_files(tmp_path: Path) -> None:
    (work_folder(tmp_path) / "src").mkdir()
    (tmp_path / "work" / "src" / "beta.py").write_text("x = 1\n")
    async with chatting(tmp_path, say("hello")) as (screen, provider):
        screen.press("/com")
        await screen.sees("Replace the older part of the conversation by a summary")
        screen.press("\t\r\r")
        await screen.sees("The conversation is too short to summarise.")
        await screen.sees("› ")
        screen.press("look at @bet")
        await screen.sees("src/beta.py")
        screen.press("\t\r now\r")
        await screen.sees("hello")
        assert sent(provider).startswith("look at @src/beta.py now\n\n<attached")


async def test_a_command_of_the_users_own_is_expanded(tmp_path: Path) -> None:
    (tmp_path / "commands").mkdir()
    (tmp_path / "commands" / "review.md").write_text("Review $1 with care.\n")
    async with chatting(tmp_path, say("hello")) as (screen, provider):
        screen.press("/review a.txt\r")
        await screen.sees("hello")
        assert sent(provider) == "Review a.txt with care."


async def test_pilotfish_alone_opens_the_chat(tmp_path: Path) -> None:
    async with serve(say("hello")) as provider, terminal(tmp_path, provider=provider) as screen:
        await screen.sees("[r]ead only › ")
        screen.press("r\r")
        await screen.sees("pilotfish · openai-chat:scripted")
        await screen.sees("› ")
        screen.press(CTRL_D)
        assert await screen.end() == 0


async def test_a_model_that_fails_does_not_end_the_conversation(tmp_path: Path) -> None:
    from tests.support.provider import fails

    async with chatting(tmp_path, fails("authentication"), say("better now")) as (screen, _):
        screen.press("go\n")
        await screen.sees("key")
        await screen.sees("› ")
        screen.press("again\n")
        await screen.sees("better now")
        await screen.sees("› ")
        screen.press("/exit\n")
        assert await screen.end() == 0


@pytest.mark.parametrize("command", ["serve", "acp"])
async def test_a_server_started_by_hand_prints_what_it_waits_for(tmp_path: Path, command: str) -> None:
    async with terminal(tmp_path, command) as shown:
        await shown.sees("waits for an editor")
        await shown.sees("pilotfish chat")


async def test_ctrl_c_ends_a_server_started_by_hand(tmp_path: Path) -> None:
    async with terminal(tmp_path, "serve") as shown:
        await shown.sees("pilotfish chat")
        shown.press("\x03")
        assert await shown.end() == 130
    assert "Traceback" not in shown.shown
