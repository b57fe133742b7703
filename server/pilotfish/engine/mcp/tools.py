"""The tools of MCP servers. They run like any other call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from pydantic import ConfigDict

from pilotfish.conversation.messages import Category
from pilotfish.tools.tool import Args, Context, Image, Result, Subject, Tool

if TYPE_CHECKING:
    from pydantic_ai.capabilities import WrapToolExecuteHandler
    from pydantic_ai.tools import ToolDefinition


class AnyArgs(Args):
    """Arguments that the MCP server validates."""

    model_config = ConfigDict(extra="allow", frozen=True)


def foreign_tool(definition: ToolDefinition, handler: WrapToolExecuteHandler) -> Tool[AnyArgs]:
    """Wrap an MCP tool. Policy judges it as an execution, under the name `server/tool`."""
    from pydantic_ai.exceptions import ModelRetry, ToolRetryError

    from pilotfish.engine.mcp.connection import RUNNING

    async def run(context: Context, args: AnyArgs) -> Result:
        running = RUNNING.set(context)
        try:
            return _result(await handler(args.model_dump()))
        except (ModelRetry, ToolRetryError) as error:  # the server's own report of an error
            return Result(text=str(error), failed=True)
        finally:
            RUNNING.reset(running)

    return Tool(
        name=definition.name,
        description=definition.description or "",
        args=AnyArgs,
        category=Category.EXECUTE,
        run=run,
        title=lambda _: definition.name,
        subject=lambda _: Subject(
            mcp=_qualified(definition), mcp_digest=_digest(definition), mcp_reads=_only_reads(definition)
        ),
    )


def _digest(definition: ToolDefinition) -> str:
    """The hash of what the server says about a tool. A rule that allows the tool holds for this definition."""
    said = [definition.name, definition.description, definition.parameters_json_schema, _annotations(definition)]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()[:12]


def _only_reads(definition: ToolDefinition) -> bool:
    """Whether the server says so. It is believed only if the user has marked the server as trusted."""
    metadata: Mapping[str, Any] = definition.metadata or {}
    return metadata.get("trusted") is True and _annotations(definition).get("readOnlyHint") is True


def _annotations(definition: ToolDefinition) -> Mapping[str, Any]:
    metadata: Mapping[str, Any] = definition.metadata or {}
    found = metadata.get("annotations")
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def _qualified(definition: ToolDefinition) -> str:
    metadata: Mapping[str, Any] = definition.metadata or {}
    server = metadata.get("server") or definition.toolset_id or "mcp"
    prefix = metadata.get("prefix", server)
    return f"{server}/{definition.name.removeprefix(f'{prefix}_')}"


def _result(returned: object) -> Result:
    """Text as text, images as images, everything else as JSON."""
    from pydantic_ai.messages import BinaryContent
    from pydantic_core import to_json

    parts = cast("list[object]", returned) if isinstance(returned, list) else [returned]
    images = [part for part in parts if isinstance(part, BinaryContent) and part.is_image]
    rest: list[object] = [part for part in parts if part not in images]
    if all(isinstance(part, str) for part in rest):
        text = "\n".join(str(part) for part in rest)
    else:
        text = to_json(rest if len(rest) > 1 else rest[0], fallback=str).decode("utf-8")
    if images:
        text = f"{text}\n[{len(images)} image{'' if len(images) == 1 else 's'}]".lstrip()
    return Result(text=text, images=tuple(Image(data=image.data, media_type=image.media_type) for image in images))
