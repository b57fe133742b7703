"""Very small models: they are given the files that the prompt names, and write files in their answers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.support.engine import rig
from tests.support.frontends import DENY
from tests.support.provider import Reply, call, say

TINY = "openai-chat:qwen2.5-coder-1.5b"
CALC = "def mean(values):\n    return sum(values) / (len(values) - 1)\n\n\ndef first(values):\n    return values[0]\n"
FIXED = CALC.replace("(len(values) - 1)", "len(values)")
FILES = {"calc.py": CALC, "test_calc.py": "import calc\n", "src/app/settings.py": "TIMEOUT = 30\nRETRIES = 3\n"}
DONE = say("Done.")


def shows(code: str, name: str = "calc.py") -> Reply:
    return say(f"Here it is.\n\n{name}\n```python\n{code}```\n")


async def test_the_first_request_is_short_and_has_the_files_that_the_prompt_names(tmp_path: Path) -> None:
    files = FILES | {".env": "KEY=1", "long.py": "x = 1\n" * 3000, "other.py": "SECRET_OF_OTHER = 1\n"}
    async with rig(tmp_path, DONE, files=files, model=TINY, mode="edit") as turn:
        await turn.prompt("test_calc.py fails, fix calc.py and the settings; see long.py and .env")
        body = turn.provider.requests[0].body
        words = json.dumps(body["messages"])
        assert "len(values) - 1" in words
        assert "import calc" in words
        assert "TIMEOUT = 30" in words
        assert "Files of the workspace: .env, calc.py, long.py, other.py, src/app/settings.py, test_calc.py" in words
        assert "x = 1" not in words
        assert "KEY=1" not in words
        assert "SECRET_OF_OTHER" not in words
        assert "tools" not in body
        assert body["temperature"] == 0.2
        assert len(json.dumps(body)) < 3_200


@pytest.mark.parametrize(
    ("prompt", "answer", "file", "expected"),
    [
        ("Fix calc.py", shows(FIXED), "calc.py", FIXED),
        ("Fix calc.py", shows(FIXED, "Here is the corrected `src/calc.py` file:"), "calc.py", FIXED),
        ("Fix calc.py", shows(FIXED.partition("\n\n\n")[0] + "\n"), "calc.py", FIXED),
        ("Fix calc.py", say(f"So:\n```python\n{FIXED}```"), "calc.py", FIXED),
        (
            "In the settings module set the timeout to 60",
            say("```python\nTIMEOUT = 60\nRETRIES = 3\n```"),
            "src/app/settings.py",
            "TIMEOUT = 60\nRETRIES = 3\n",
        ),
        (
            "Add last to calc.py",
            shows("def last(values):\n    return values[-1]\n"),
            "calc.py",
            CALC + "\n\ndef last(values):\n    return values[-1]\n",
        ),
        ("Write hello.py", shows("print('hello')\n", "hello.py"), "hello.py", "print('hello')\n"),
    ],
    ids=["whole", "wrong folder", "one function", "no name", "values", "new function", "new file"],
)
async def test_a_file_that_the_answer_shows_is_written(
    tmp_path: Path, prompt: str, answer: Reply, file: str, expected: str
) -> None:
    async with rig(tmp_path, answer, DONE, files=FILES, model=TINY, mode="edit") as turn:
        outcome = await turn.prompt(prompt)
        assert (turn.root / file).read_text() == expected
        assert (outcome.stop_reason, len(turn.provider.requests)) == ("end_turn", 2)
        assert turn.notices() == []
        assert "```" in turn.text()
        turn.check_laws()
        await turn.engine.undo(turn.session_id)
        assert not (turn.root / file).exists() or (turn.root / file).read_text() == FILES[file]


@pytest.mark.parametrize(
    ("prompt", "answer"),
    [
        ("What does calc.py do?", shows("def mean_of(values):\n    return 1\n")),
        ("What does calc.py do?", shows("import calc\n\nprint(calc.mean([1]))\n", "example.py")),
        ("Fix calc.py", shows("    return values[0] + 1  # here\n")),
        ("Fix calc.py", shows("x = 1\n", "../outside.py")),
        ("Fix calc.py", say("Run:\n```bash\npython calc.py\n```")),
        ("Fix calc.py", shows(CALC)),
    ],
    ids=["example definition", "example file", "a line", "outside", "command", "no change"],
)
async def test_a_block_without_a_certain_place_stays_text(tmp_path: Path, prompt: str, answer: Reply) -> None:
    async with rig(tmp_path, answer, files=FILES, model=TINY, mode="edit") as turn:
        await turn.prompt(prompt)
        assert len(turn.provider.requests) == 1
        assert turn.statuses() == {}
        assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "work"]
        assert {name: (turn.root / name).read_text() for name in FILES} == FILES


async def test_the_user_is_asked_about_it_like_about_any_edit(tmp_path: Path) -> None:
    replies = (shows(FIXED), say("Then not."))
    async with rig(tmp_path, *replies, files=FILES, model=TINY, mode="ask", choose=lambda _: DENY) as turn:
        await turn.prompt("Fix calc.py")
        assert [question.call.name for question in turn.frontend.asked] == ["write_file"]
        assert (turn.root / "calc.py").read_text() == CALC


async def test_plan_mode_writes_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path, shows(FIXED), files=FILES, model=TINY, mode="plan") as turn:
        await turn.prompt("Fix calc.py")
        assert turn.statuses() == {}


async def test_a_larger_model_shows_code_without_writing_it(tmp_path: Path) -> None:
    async with rig(tmp_path, shows(FIXED), files=FILES, mode="edit") as turn:
        await turn.prompt("Fix calc.py")
        assert turn.statuses() == {}
        assert (turn.root / "calc.py").read_text() == CALC
        assert "len(values) - 1" not in json.dumps(turn.provider.requests[0].body["messages"])


async def test_a_model_that_never_stops_rewriting_ends(tmp_path: Path) -> None:
    replies = [shows(FIXED.replace("first", f"first{number}")) for number in range(20)]
    async with rig(tmp_path, *replies, files=FILES, model=TINY, mode="edit") as turn:
        outcome = await turn.prompt("Fix calc.py")
        assert outcome.stop_reason == "end_turn"
        assert len(turn.provider.requests) < 10


async def test_its_calls_run_like_those_of_any_model(tmp_path: Path) -> None:
    async with rig(tmp_path, call("read_file", path="calc.py"), DONE, files=FILES, model=TINY) as turn:
        await turn.prompt("look")
        assert "len(values) - 1" in json.dumps(turn.provider.requests[1].body["messages"])


async def test_its_calls_in_text_run_and_are_no_news(tmp_path: Path) -> None:
    asks = say('<tool_call>{"name": "read_file", "arguments": {"path": "calc.py"}}</tool_call>')
    async with rig(tmp_path, asks, DONE, files=FILES, model=TINY) as turn:
        await turn.prompt("look")
        assert "len(values) - 1" in json.dumps(turn.provider.requests[1].body["messages"])
        assert turn.notices() == []
        assert "tool_call" not in turn.text()


async def test_a_new_function_does_not_replace_the_only_one_of_a_file(tmp_path: Path) -> None:
    one = "def mean(values):\n    return sum(values) / len(values)\n"
    new = (
        "def median(values):\n    values = sorted(values)\n    if values:\n        return values[0]\n    return None\n"
    )
    answer = say(f"```python\n{new}```")
    async with rig(tmp_path, answer, DONE, files={"calc.py": one}, model=TINY, mode="edit") as turn:
        await turn.prompt("Add a function median to calc.py")
        assert (turn.root / "calc.py").read_text() == f"{one}\n\n{new}"
