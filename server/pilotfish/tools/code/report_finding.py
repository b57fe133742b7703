"""report_finding: shows a problem that a review found, as a diagnostic in the editor."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from pydantic import Field

from pilotfish.conversation.messages import Category, Location
from pilotfish.errors import ToolError
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool, Touch

Severity = Literal["error", "warning", "info"]
_PLACE = re.compile(r"(?P<path>.+?):(?P<line>\d+)(?::\d+)?(?::\s*|\s+|$)(?P<message>.*)", re.DOTALL)


class ReportFinding(Args):
    path: str
    line: int = Field(ge=1)
    severity: Severity = "warning"
    message: str = Field(min_length=1, max_length=2000)
    related: tuple[str, ...] = Field((), max_length=10, description="path:line: why")


class RelatedPlace(NamedTuple):
    path: str
    line: int
    message: str


def related_place(text: str) -> RelatedPlace | None:
    """A related place as the model writes it."""
    found = _PLACE.fullmatch(text.strip())
    return found and RelatedPlace(found["path"], int(found["line"]), found["message"].strip())


async def run(context: Context, args: ReportFinding) -> Result:
    path = context.path(args.path)
    lines = (await context.workspace.look(path)).text.split("\n")
    if args.line > len(lines) or not lines[args.line - 1].strip():
        raise ToolError(f"line {args.line} of {args.path} is empty or does not exist; name the line of the problem")
    return Result(text=f"Shown at {args.path}:{args.line}: {lines[args.line - 1].strip()[:200]}")


def locations(context: Context, args: ReportFinding) -> tuple[Location, ...]:
    uri = context.workspace.resolve(args.path).path.as_uri()
    return (Location(uri=uri, range=(args.line - 1, 0, args.line - 1, 0)),)


TOOL = Tool(
    name="report_finding",
    description="Show the user a problem that a review found, at its line in the editor.",
    args=ReportFinding,
    category=Category.READ_ONLY,
    run=run,
    title=lambda args: f"{args.severity.capitalize()} in {args.path}:{args.line}: {args.message.splitlines()[0][:120]}",
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="read"),)),
    locations=locations,
    repeatable=True,
)
