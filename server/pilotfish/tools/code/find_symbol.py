"""find_symbol: finds the definition or the uses of a symbol through the language server."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool, Touch
from pilotfish.workspace.language_servers import find_places

MAX_SHOWN = 200


class FindSymbol(Args):
    path: str
    line: int = Field(ge=1)
    name: str = Field(min_length=1, description="as written in that line")
    find: Literal["definition", "references"] = "definition"


async def run(context: Context, args: FindSymbol) -> Result:
    spots = await find_places(context.workspace, args.find, context.path(args.path), args.line, args.name)
    if not spots:
        return Result(text=f"The language server found no {args.find} of {args.name}.")
    lines = [f"{context.workspace.relative(spot.path)}:{spot.line}: {spot.text}" for spot in spots[:MAX_SHOWN]]
    if len(spots) > MAX_SHOWN:
        lines.append(f"[{MAX_SHOWN} of {len(spots)}]")
    return Result(text="\n".join(lines))


def locations(context: Context, args: FindSymbol) -> tuple[Location, ...]:
    uri = context.workspace.resolve(args.path).path.as_uri()
    return (Location(uri=uri, range=(args.line - 1, 0, args.line - 1, 0)),)


TOOL = Tool(
    name="find_symbol",
    description="Find where a symbol is defined or used; more exact than grep.",
    args=FindSymbol,
    category=Category.READ_ONLY,
    run=run,
    queries="references",
    title=lambda args: f"Find {'uses' if args.find == 'references' else 'the definition'} of {args.name}",
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="read"),)),
    locations=locations,
    repeatable=True,
)
