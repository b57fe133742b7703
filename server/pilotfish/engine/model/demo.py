"""The default model: a scripted model that runs a sample turn through the same code as a real model.

The model has no state. Its next response depends only on the conversation: the prompt, the calls that have results,
and their outcomes. The script therefore covers a denial, a failed tool, a cancelled turn and a second prompt, and the
same conversation always gets the same response.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.profiles import ModelProfile

from pilotfish.engine.model.demo_sample import BUG, COMMAND, FIX, sample_workspace

__all__ = ["DemoModel", "sample_workspace"]

PACE = 0.014  # seconds per word: fast, but still readable
CONTEXT_WINDOW = 128_000
ARGUMENT_PIECE = 12  # characters of tool arguments per delta
_PLAY = re.compile(
    r"\b(fix|bugs?|tests?|failing|fails|demo|show|play|repair|calc|mean|go|start|continue)\b", re.IGNORECASE
)
_BLOCK = re.compile(r"<([\w-]+)[^>]*>.*?</\1>", re.DOTALL)  # attachments in the prompt
_FAILED = re.compile(r"exit code (?!0\b)")

HOW_TO = """To work with a real model:

- **Hosted**: set `pilotfish.model`, for example to `anthropic:claude-sonnet-5-5` or `openai:gpt-6.1-sol`, and give \
its key with the command *Pilotfish: Set Key of a Provider* or in the environment (`ANTHROPIC_API_KEY` and so on).
- **On this machine**: start Ollama, LM Studio, llama.cpp or vLLM; it is found and offered in the list of models.
- **Any OpenAI-compatible server**: set `pilotfish.baseUrl` to its address and `pilotfish.model` to the model's name."""


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One response of the model. `next_step` removes calls of tools that are not available."""

    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class DemoResult:
    """A finished tool call of this turn."""

    tool: str
    args: Mapping[str, Any]
    outcome: str
    text: str


@dataclass(frozen=True, slots=True)
class Play:
    """The turn so far: the prompt, the finished calls and the available tools."""

    asked: str
    returned: tuple[DemoResult, ...] = ()
    tools: frozenset[str] = field(default_factory=frozenset[str])

    def last(self, tool: str, path: str | None = None) -> DemoResult | None:
        found = [each for each in self.returned if each.tool == tool and path in (None, each.args.get("path"))]
        return found[-1] if found else None


class DemoModel(FunctionModel):
    """`pace` is the number of seconds per word; tests use 0. `PILOTFISH_DEMO_PACE` overrides the default."""

    def __init__(self, pace: float | None = None) -> None:
        self._pace = _pace() if pace is None else pace
        super().__init__(
            self._whole,
            stream_function=self._pieces,
            model_name="demo",
            profile=ModelProfile(context_window=CONTEXT_WINDOW),
        )

    async def _whole(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        step = next_step(play_of(messages, info))
        parts: list[ThinkingPart | TextPart | ToolCallPart] = []
        if step.thought:
            parts.append(ThinkingPart(step.thought))
        if step.text:
            parts.append(TextPart(step.text))
        parts.extend(ToolCallPart(name, dict(args)) for name, args in step.calls)
        return ModelResponse(parts=parts, finish_reason="tool_call" if step.calls else "stop")

    async def _pieces(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaThinkingPart] | dict[int, DeltaToolCall]]:
        step = next_step(play_of(messages, info))
        for word in _words(step.thought):
            yield {0: DeltaThinkingPart(content=word)}
            await asyncio.sleep(self._pace)
        for word in _words(step.text):
            yield word
            await asyncio.sleep(self._pace)
        for index, (name, args) in enumerate(step.calls, start=2):
            yield {index: DeltaToolCall(name=name, json_args="")}
            text = json.dumps(args, ensure_ascii=False)
            for at in range(0, len(text), ARGUMENT_PIECE):
                yield {index: DeltaToolCall(json_args=text[at : at + ARGUMENT_PIECE])}
                await asyncio.sleep(self._pace / 3)


def next_step(play: Play) -> DemoStep:
    """The next response. It is defined for every possible turn."""
    if not play.returned and not _PLAY.search(play.asked):
        return DemoStep(_free_text(play))
    if "read_file" not in play.tools:
        return DemoStep(f"I cannot read files here, so I cannot run the demo. {HOW_TO}")
    step = _look(play) or _edit(play) or _check(play) or _summarize(play)
    return DemoStep(step.text, step.thought, tuple(call for call in step.calls if call[0] in play.tools))


def _free_text(play: Play) -> str:
    prompt = " ".join(play.asked.split())[:80]
    echo = f"You wrote: “{prompt}”. " if prompt else ""
    return (
        f"{echo}I am the demo model. I follow a script, so I cannot answer that, but I can show you a complete turn."
        f" In the sample workspace (`pilotfish demo`), say **fix the failing test**.\n\n{HOW_TO}"
    )


def _look(play: Play) -> DemoStep | None:
    """Read the code and its test in parallel."""
    if play.last("read_file", "calc.py") is not None:
        return None
    return DemoStep(
        "I'll look at the code and its test first.",
        "The user wants the failing test to pass. I should see what the test expects and what the code does before"
        " I change anything; reading needs no permission.",
        (
            ("update_plan", {"steps": _plan(0)}),
            ("read_file", {"path": "calc.py"}),
            ("read_file", {"path": "test_calc.py"}),
        ),
    )


def _edit(play: Play) -> DemoStep | None:
    """Fix the faulty line. The edit needs approval."""
    read, edited = play.last("read_file", "calc.py"), play.last("update_file")
    if read is None or read.outcome != "success":
        why = read.text if read is not None else "the file does not exist"
        return DemoStep(
            f"I could not read `calc.py`: {_short(why)}\n\nMy script knows one project only, the sample workspace. Run"
            f" `pilotfish demo` to get it, and ask me there.\n\n{HOW_TO}"
        )
    if edited is not None or BUG not in read.text:
        return None
    if "update_file" not in play.tools:
        return DemoStep(f"I see the bug, but I cannot edit files here. This is the change I would make:\n\n{_diff()}")
    return DemoStep(
        "Found it: `mean` divides by one less than the number of values, so `mean([2, 4, 6])` gives 6 instead of 4. "
        "I'll fix that line. You'll be asked first, and you can change the edit before you allow it.",
        "`mean` divides by len(values) - 1. That is the sample variance's denominator, not the mean's. The test expects"
        " 4 for [2, 4, 6]. One line to change.",
        (("update_file", {"path": "calc.py", "edits": [{"old_string": BUG, "new_string": FIX}]}),),
    )


def _check(play: Play) -> DemoStep | None:
    """Run the tests, which needs approval, or explain why there is nothing to run."""
    edited, ran = play.last("update_file"), play.last("bash")
    if edited is not None and edited.outcome == "denied":
        return DemoStep(
            f"I leave the file as it is{_reason(edited)}. This is the change I had in mind:\n\n{_diff()}"
            "\n\nYou can make it yourself, ask again and amend the edit in the question, or tell me what you"
            " prefer. A real model would use your feedback; I only follow a script."
        )
    if edited is not None and edited.outcome != "success":
        return DemoStep(f"The edit did not work: {_short(edited.text)}\n\nThis is what I tried:\n\n{_diff()}")
    if ran is not None:
        return None
    if "bash" not in play.tools:
        return DemoStep(
            f"The line is fixed. I cannot run commands here. Run `{COMMAND}` to see whether the tests pass."
        )
    begin = "Now the tests." if edited is not None else "The line is already correct. I'll run the tests to be sure."
    return DemoStep(begin, "", (("update_plan", {"steps": _plan(2)}), ("bash", {"command": COMMAND})))


def _summarize(play: Play) -> DemoStep:
    """Report the result of the tests."""
    ran = play.last("bash")
    assert ran is not None, "_summarize runs after _check"  # noqa: S101  # a broken script is a bug
    if ran.outcome == "denied":
        return DemoStep(
            f"I did not run the tests{_reason(ran)}. The fix is in place but not tested: run `{COMMAND}`"
            " yourself to see it pass. *Undo* reverts the edit."
        )
    if ran.outcome != "success" or _FAILED.search(ran.text):
        return DemoStep(f"The tests do not pass yet:\n\n```\n{_short(ran.text, 600)}\n```\n\n*Undo* reverts the edit.")
    if sum(each.tool == "update_plan" for each in play.returned) < 3 and "update_plan" in play.tools:
        return DemoStep(calls=(("update_plan", {"steps": _plan(3)}),))
    return DemoStep(
        "Done. `mean` now divides by the number of values, and both tests pass.\n\n"
        "That was a complete turn: thinking, reading two files at once, an edit and a command that you were asked"
        f" about, and a plan. *Undo* restores the file.\n\n{HOW_TO}"
    )


def play_of(messages: Sequence[ModelMessage], info: AgentInfo) -> Play:
    """The state of the current turn, derived from the conversation."""
    start = _start(messages)
    turn = messages[start:]
    asked = [
        _text_of(part)
        for message in turn
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    ]
    calls = {
        part.tool_call_id: part
        for message in turn
        if isinstance(message, ModelResponse)
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }
    returned = [
        DemoResult(call.tool_name, call.args_as_dict(), part.outcome, part.model_response_str(wrap_if_error=False))
        for message in turn
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart) and (call := calls.get(part.tool_call_id)) is not None
    ]
    return Play(
        _BLOCK.sub("", "\n".join(asked)).strip(), tuple(returned), frozenset(tool.name for tool in info.function_tools)
    )


def _text_of(part: UserPromptPart) -> str:
    if isinstance(part.content, str):
        return part.content
    return " ".join(each for each in part.content if isinstance(each, str))


def _start(messages: Sequence[ModelMessage]) -> int:
    """The index of the last prompt that follows a response without calls or a cancelled turn."""
    for index in range(len(messages) - 1, 0, -1):
        message, before = messages[index], messages[index - 1]
        if not isinstance(message, ModelRequest) or not isinstance(before, ModelResponse):
            continue
        stopped = any(isinstance(part, ToolReturnPart) and part.outcome == "interrupted" for part in message.parts)
        prompted = any(isinstance(part, UserPromptPart) for part in message.parts)
        if prompted and (stopped or before.state == "interrupted" or not before.tool_calls):
            return index
    return 0


def _plan(done: int) -> list[dict[str, str]]:
    steps = ("Read the code and its test", "Fix the bug", "Run the tests")
    return [
        {"content": text, "status": "completed" if place < done else "in_progress" if place == done else "pending"}
        for place, text in enumerate(steps)
    ]


def _diff() -> str:
    return f"```diff\n-{BUG}\n+{FIX}\n```"


def _reason(returned: DemoResult) -> str:
    feedback = _short(returned.text)
    return f"; the answer was “{feedback}”" if feedback else ", as you asked"


def _short(text: str, limit: int = 200) -> str:
    line = text.strip().rstrip(".")
    return line if len(line) <= limit else f"{line[:limit]}…"


def _words(text: str) -> list[str]:
    """The words of the text with the white space after them; joined, they give the text."""
    return re.findall(r"\S+\s*|\s+", text)


def _pace() -> float:
    try:
        return max(float(os.environ.get("PILOTFISH_DEMO_PACE", PACE)), 0.0)
    except ValueError:
        return PACE
