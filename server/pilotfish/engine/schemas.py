"""Tool schemas in a provider's form, and all that a request says beside its messages, made once.

pydantic-ai walks every tool's JSON schema anew for every request; our tools never change, so the walk is remembered
for each schema object. And it works out anew what a model is asked for, though from step to step that is the very same
object: what it came to is remembered for that. What comes out is the library's own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pydantic_ai.models import Model, ModelRequestParameters, _customize_tool_def
from pydantic_ai.settings import ModelSettings
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


MOST_PREPARED = 8  # one for each of the sessions that speak in turns


def remember_prepared(model: Model[Any]) -> None:
    """Make a model remember what the last request parameters came to, with the settings they came with."""
    prepare = model.prepare_request
    known: dict[int, _Prepared] = {}

    def prepared(
        model_settings: ModelSettings | None, model_request_parameters: ModelRequestParameters
    ) -> tuple[ModelSettings | None, ModelRequestParameters]:
        found = known.get(id(model_request_parameters))
        if found is None or found.asked != model_settings:
            came_to = prepare(model_settings, model_request_parameters)
            if len(known) == MOST_PREPARED:
                known.pop(next(iter(known)))
            found = known[id(model_request_parameters)] = _Prepared(
                model_request_parameters, _copy(model_settings), *came_to
            )
        return _copy(found.settings), found.parameters

    model.prepare_request = prepared


@dataclass(frozen=True, slots=True)
class _Prepared:
    given: ModelRequestParameters
    """kept, so that its id stays its own"""
    asked: ModelSettings | None
    settings: ModelSettings | None
    parameters: ModelRequestParameters


def _copy(settings: ModelSettings | None) -> ModelSettings | None:
    """Settings that whoever gets them may change."""
    return None if settings is None else ModelSettings(**settings)
