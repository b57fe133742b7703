from __future__ import annotations

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from pilotfish.engine.agent import parameters
from pilotfish.engine.schemas import remember_schemas
from pilotfish.tools import TOOLS


def test_remembered_schemas_are_the_librarys_own() -> None:
    def model() -> OpenAIChatModel:
        return OpenAIChatModel("gpt-4o", provider=OpenAIProvider(api_key="x"))

    tools = [ToolDefinition(name=tool.name, parameters_json_schema=parameters(tool)) for tool in TOOLS]
    asked = ModelRequestParameters(function_tools=tools)
    stock, ours = model(), model()
    remember_schemas(ours)
    expected = stock.customize_request_parameters(asked)
    assert ours.customize_request_parameters(asked) == expected
    assert ours.customize_request_parameters(asked) == expected


def test_a_tool_of_the_same_schema_keeps_its_own_name() -> None:
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(api_key="x"))
    remember_schemas(model)
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    for name in ("one", "two"):
        tool = ToolDefinition(name=name, parameters_json_schema=schema)
        made = model.customize_request_parameters(ModelRequestParameters(function_tools=[tool]))
        assert made.function_tools[0].name == name
