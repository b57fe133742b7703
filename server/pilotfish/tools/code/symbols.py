"""symbols: lists the outline of a file, or finds symbols of the workspace by name."""

from __future__ import annotations

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.errors import ToolError
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool, Touch
from pilotfish.workspace.language_servers import find_symbols

MAX_SHOWN = 300


class Symbols(Args):
    path: str | None = Field(None, description="outline of this file")
    query: str | None = Field(None, description="or search the workspace by name")


async def run(context: Context, args: Symbols) -> Result:
    if (args.path is None) == (args.query is None):
        raise ToolError("Give either path or query")
    path = None if args.path is None else context.path(args.path)
    symbols = await find_symbols(context.workspace, path, args.query)
    if not symbols:
        return Result(text="No symbols found.")
    lines = [
        f"{'  ' * symbol.depth}{symbol.kind} {symbol.name}"
        + (f" :{symbol.line}" if path else f" {context.workspace.relative(symbol.path)}:{symbol.line}")
        for symbol in symbols[:MAX_SHOWN]
    ]
    if len(symbols) > MAX_SHOWN:
        lines.append(f"[{MAX_SHOWN} of {len(symbols)}]")
    return Result(text="\n".join(lines))


TOOL = Tool(
    name="symbols",
    description="List classes, functions and other symbols with their lines.",
    args=Symbols,
    category=Category.READ_ONLY,
    run=run,
    queries="symbols",
    title=lambda args: f"Outline of {args.path}" if args.path else f"Find symbol {args.query}",
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="read"),) if args.path else ()),
    repeatable=True,
)
