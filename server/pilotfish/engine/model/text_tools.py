"""Lets a model that cannot call tools write its calls as text.

The tools are described in the instructions; earlier calls and their results are sent as text. The loop of a turn finds
the calls in the response (`conversation/answer_text/text_calls.py`), as it does for every model.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.messages import (
    InstructionPart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from pilotfish.tools import BY_NAME

NOT_OFFERED = frozenset({"research_codebase", "task"})  # their subagents call tools themselves
HOW = """# Tools

You have tools. To call one, write a block like this at the end of your answer and stop.
The result comes with the next message. Never write a result yourself.

<tool_call>
{"name": "read_file", "arguments": {"path": "src/main.py"}}
</tool_call>

The tools, each with the JSON schema of its arguments:
"""


class TextToolsModel(WrapperModel):
    """The wrapped model, which is never sent a tool."""

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        sent = [_as_text(message) for message in messages]
        return await self.wrapped.request(sent, model_settings, _described(model_request_parameters))

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        sent, parameters = [_as_text(message) for message in messages], _described(model_request_parameters)
        async with self.wrapped.request_stream(sent, model_settings, parameters, run_context) as stream:
            yield stream


def writes_calls_as_text(model: Model) -> bool:
    """Whether calls in the text of this model's answers are expected."""
    return isinstance(model, TextToolsModel)


def _described(parameters: ModelRequestParameters) -> ModelRequestParameters:
    offered = [tool for tool in parameters.function_tools if tool.name in BY_NAME and tool.name not in NOT_OFFERED]
    instructions = [*(parameters.instruction_parts or [])]
    if offered:
        instructions.append(InstructionPart(content=HOW + "\n".join(map(_description, offered))))
    return replace(parameters, function_tools=[], instruction_parts=instructions or None)


def _description(tool: ToolDefinition) -> str:
    schema = json.dumps(tool.parameters_json_schema, ensure_ascii=False, separators=(",", ":"))
    return f"\n## {tool.name}\n{tool.description}\n{schema}"


def _as_text(message: ModelMessage) -> ModelMessage:
    match message:
        case ModelRequest():
            return replace(message, parts=_request_parts(message.parts))
        case ModelResponse():
            return replace(message, parts=[_response_part(part) for part in message.parts])


def _request_parts(parts: Sequence[ModelRequestPart]) -> list[ModelRequestPart]:
    return [
        UserPromptPart(f'<tool_result name="{part.tool_name}">\n{part.model_response_str()}\n</tool_result>')
        if isinstance(part, ToolReturnPart)
        else part
        for part in parts
    ]


def _response_part(part: ModelResponsePart) -> ModelResponsePart:
    if not isinstance(part, ToolCallPart):
        return part
    call = json.dumps({"name": part.tool_name, "arguments": part.args_as_dict()}, ensure_ascii=False)
    return TextPart(f"<tool_call>\n{call}\n</tool_call>")
