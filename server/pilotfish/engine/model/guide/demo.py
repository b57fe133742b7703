"""The default model: a scripted guide that answers through the same code as a real model, in any folder.

The model has no state. Its next response depends only on the conversation: the prompt, the calls that have results,
and their outcomes. The script therefore covers a denial, a failed tool, a cancelled turn and a second prompt, and the
same conversation always gets the same response.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Sequence

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

from pilotfish.engine.model.guide import sample_turn, tour
from pilotfish.engine.model.guide.answers import HOW_TO, answer
from pilotfish.engine.model.guide.script import DemoResult, DemoStep, Play

PACE = 0.014  # seconds per word: fast, but still readable
CONTEXT_WINDOW = 128_000
ARGUMENT_PIECE = 12  # characters of tool arguments per delta
_WORK = re.compile(
    r"\b(?:fix|bugs?|tests?|failing|fails|demo|show|play|repair|calc|mean|go|start|continue|tour|try|add|change|write"
    r"|make|create|implement|refactor|rename|remove|delete|update|explain|review|document|describe|outline|summari[sz]e"
    r"|clean|improve|file|code|function|class|project|folder|repo(?:sitory)?)\b",
    re.IGNORECASE,
)
_BLOCK = re.compile(r"<([\w-]+)[^>]*>.*?</\1>", re.DOTALL)  # attachments in the prompt, and what is said around it
_ACTIVE = re.compile(r'<active_file path="([^"\n]+)"')
_OPEN = re.compile(r"^Open in the editor: ([^,\n]+)", re.MULTILINE)
_MODE = re.compile(r"^Mode: (\w+)\.", re.MULTILINE)
_FENCE = re.compile(r"^</?untrusted-[^>]*>$")


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
    if not play.returned and (said := answer(play.asked)) is not None:
        return DemoStep(said)
    if not play.returned and not _WORK.search(play.asked):
        return DemoStep(_free_text(play))
    if "read_file" not in play.tools:
        return DemoStep(f"I cannot read files here, so I cannot show you a turn. {HOW_TO}")
    step = _turn(play)
    return DemoStep(step.text, step.thought, tuple(call for call in step.calls if call[0] in play.tools))


def _turn(play: Play) -> DemoStep:
    if play.last("glob") is None and "glob" in play.tools:
        return tour.find_files()
    in_sample = set(tour.found_files(play)) >= sample_turn.FILES
    return (sample_turn.next_step(play) if in_sample else None) or tour.next_step(play)


def _free_text(play: Play) -> str:
    prompt = " ".join(play.asked.split())[:80]
    echo = f"You wrote: “{prompt}”. " if prompt else ""
    return (
        f"{echo}No model is connected: I am a scripted guide, so I cannot answer that. Say **tour** and I show you a"
        " complete turn on your own files, or ask me about **modes**, **models**, **undo**, **stop**, **sessions** or"
        f" **approvals**.\n\n{HOW_TO}"
    )


def play_of(messages: Sequence[ModelMessage], info: AgentInfo) -> Play:
    """The state of the current turn, derived from the conversation."""
    turn = messages[_start(messages) :]
    asked = "\n".join(
        _text_of(part)
        for message in turn
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, UserPromptPart)
    )
    calls = {
        part.tool_call_id: part
        for message in turn
        if isinstance(message, ModelResponse)
        for part in message.parts
        if isinstance(part, ToolCallPart)
    }
    returned = [
        DemoResult(call.tool_name, call.args_as_dict(), part.outcome, _unfenced(part))
        for message in turn
        if isinstance(message, ModelRequest)
        for part in message.parts
        if isinstance(part, ToolReturnPart) and (call := calls.get(part.tool_call_id)) is not None
    ]
    active = _ACTIVE.search(asked) or _OPEN.search(asked)
    mode = _MODE.findall(asked)
    return Play(
        _BLOCK.sub("", asked).strip(),
        tuple(returned),
        frozenset(tool.name for tool in info.function_tools),
        active=active[1].removesuffix(" (active)") if active else None,
        mode=mode[-1] if mode else "ask",
        trusted="The workspace is not trusted" not in asked,
    )


def _unfenced(part: ToolReturnPart) -> str:
    """The text of a result without the tags around text that others wrote."""
    text = part.model_response_str(wrap_if_error=False)
    return "\n".join(line for line in text.split("\n") if not _FENCE.match(line))


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


def _words(text: str) -> list[str]:
    """The words of the text with the white space after them; joined, they give the text."""
    return re.findall(r"\S+\s*|\s+", text)


def _pace() -> float:
    try:
        return max(float(os.environ.get("PILOTFISH_DEMO_PACE", PACE)), 0.0)
    except ValueError:
        return PACE
