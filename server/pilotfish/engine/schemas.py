"""Tool schemas in a provider's form, made once.

pydantic-ai walks every tool's JSON schema anew for every request; our tools never change, so the walk is remembered
for each schema object. What comes out is the library's own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pydantic_ai.models import Model, ModelRequestParameters, _customize_tool_def
from pydantic_ai.tools import ToolDefinition


def remember_schemas(model: Model[Any]) -> None:
    """Make a model remember the tool schemas it has made."""
    known: dict[int, tuple[ToolDefinition, ToolDefinition]] = {}
    customize = model.customize_request_parameters

    def remembered(tool: ToolDefinition) -> ToolDefinition:
        transformer = model.profile.get("json_schema_transformer")
        before, after = known.get(id(tool.parameters_json_schema), (None, None))
        if before is None or after is None or before.strict != tool.strict:
            after = tool if transformer is None else _customize_tool_def(transformer, tool)
            known[id(tool.parameters_json_schema)] = (tool, after)  # keeps the schema, so its id stays its own
            return after
        return replace(tool, parameters_json_schema=after.parameters_json_schema, strict=after.strict)

    def customized(model_request_parameters: ModelRequestParameters) -> ModelRequestParameters:
        parameters = model_request_parameters
        if parameters.output_tools or parameters.output_object:
            return customize(parameters)
        return replace(parameters, function_tools=[remembered(tool) for tool in parameters.function_tools])

    model.customize_request_parameters = customized
