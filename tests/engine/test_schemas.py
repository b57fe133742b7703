from __future__ import annotations

from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from pilotfish.engine.parameters import parameters
from pilotfish.engine.schemas import remember_prepared, remember_schemas
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


def test_remembered_requests_are_the_librarys_own_whatever_is_asked_in_which_order() -> None:
    def model() -> OpenAIChatModel:
        made = OpenAIChatModel("gpt-5", provider=OpenAIProvider(api_key="x"))
        made._settings = ModelSettings(temperature=0.5, thinking="low")
        return made

    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    one = ModelRequestParameters(function_tools=[ToolDefinition(name="one", parameters_json_schema=schema)])
    two = ModelRequestParameters(function_tools=[ToolDefinition(name="two", parameters_json_schema=schema)])
    low, high = ModelSettings(max_tokens=3), ModelSettings(max_tokens=9)
    stock, ours = model(), model()
    remember_prepared(ours)
    for settings in (low, None, high, high, low):
        for asked in (one, two, two, one):
            found, parameters = ours.prepare_request(settings, asked)
            assert (found, parameters) == stock.prepare_request(settings, asked)
            assert found is not None
            found["max_tokens"] = 1000  # what one caller changes is nobody else's


def test_the_same_request_is_worked_out_once() -> None:
    model = OpenAIChatModel("gpt-4o", provider=OpenAIProvider(api_key="x"))
    remember_prepared(model)
    asked = ModelRequestParameters()
    assert model.prepare_request(None, asked)[1] is model.prepare_request(None, asked)[1]
