"""diagnostics: lists the errors and warnings of language servers."""

from __future__ import annotations

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool, Touch
from pilotfish.workspace.language_servers import find_problems, offered_fixes

MAX_SHOWN = 100


class Diagnostics(Args):
    path: str | None = Field(None, description="a file; omit for all open files")


async def run(context: Context, args: Diagnostics) -> Result:
    path = None if args.path is None else context.path(args.path)
    problems = await find_problems(context.workspace, path)
    if not problems:
        return Result(text="No problems found.")
    fixes = {} if path is None else await offered_fixes(context.workspace, path)
    lines: list[str] = []
    for problem in problems[:MAX_SHOWN]:
        source = f" [{problem.source}]" if problem.source else ""
        lines.append(
            f"{context.workspace.relative(problem.path)}:{problem.line}: {problem.severity}: {problem.message}{source}"
        )
        lines += [f"  quick_fix: {title}" for title in fixes.pop(problem.line, ())]
    if len(problems) > MAX_SHOWN:
        lines.append(f"[{MAX_SHOWN} of {len(problems)}, most severe first]")
    return Result(text="\n".join(lines))


TOOL = Tool(
    name="diagnostics",
    description="Errors and warnings from language servers.",
    args=Diagnostics,
    category=Category.READ_ONLY,
    run=run,
    queries="diagnostics",
    title=lambda args: f"Check {args.path or 'open files'}",
    subject=lambda args: Subject(touches=(Touch(path=args.path, access="read"),) if args.path else ()),
    repeatable=True,
)
