"""glob: finds files by name."""

from __future__ import annotations

import asyncio
import heapq
import os
from pathlib import Path

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.errors import ToolError
from pilotfish.tools.tool import Args, Context, Result, Subject, Tool, Touch
from pilotfish.workspace.search.file_index import walk
from pilotfish.workspace.search.globs import compile_glob
from pilotfish.workspace.search.ignore import IgnoreRules
from pilotfish.workspace.search.search import unsaved_texts

MAX_FOUND = 50_000
"""maximum number of paths collected before sorting"""


NAME_CHARS = 400


class Glob(Args):
    pattern: str = Field(min_length=1, description="e.g. **/*.ts, src/{a,b}/*")
    path: str | None = Field(None, description="folder to look in")
    include_ignored: bool = False
    limit: int = Field(200, ge=1, le=2000)


async def run(context: Context, args: Glob) -> Result:
    compile_glob(args.pattern.removeprefix("!"))
    folders = context.workspace.roots if args.path is None else (context.path(args.path),)
    if not folders:
        raise ToolError("No folder is open; give an absolute path")
    shown: list[str] = []
    count = 0
    for folder in folders:
        if not await asyncio.to_thread(os.path.isdir, folder):  # False if the name is too long
            raise ToolError(f"{context.workspace.relative(folder)[:NAME_CHARS]} is not a folder")
        names = await _names(context, args, folder)
        count += len(names)
        best = heapq.nsmallest(args.limit - len(shown), names)
        shown += [context.workspace.relative(folder / name) for name in best]
    if not count:
        left_out = "" if args.include_ignored else " (ignored files are left out)"
        return Result(text=f"No file matches {args.pattern}{left_out}")
    if count > len(shown):
        total = f"{MAX_FOUND:,} or more" if count >= MAX_FOUND else f"{count:,}"
        shown.append(f"[{len(shown)} of {total} files; narrow the pattern or raise limit]")
    return Result(text="\n".join(shown))


async def _names(context: Context, args: Glob, folder: Path) -> list[str]:
    """Files below the folder, relative to it, in no order."""
    root = next((root for root in context.workspace.roots if folder.is_relative_to(root)), folder)
    rules = None if args.include_ignored else IgnoreRules(root)
    found = await walk(folder, rules=rules, glob=args.pattern, limit=MAX_FOUND)
    # A new file that exists only in the editor counts as a file.
    for path in await unsaved_texts(context.workspace, (folder,)):
        name = path.relative_to(folder).as_posix()
        ignored = rules is not None and rules.ignored(path, is_dir=False)
        if not ignored and _wanted(args.pattern, name) and not await asyncio.to_thread(path.exists):
            found.append(name)
    return found


def _wanted(pattern: str, name: str) -> bool:
    if pattern.startswith("!"):
        return compile_glob(pattern[1:]).fullmatch(name) is None
    return compile_glob(pattern).fullmatch(name) is not None


def subject(args: Glob) -> Subject:
    return Subject(touches=(Touch(path=args.path or ".", access="read"),))


TOOL = Tool(
    name="glob",
    description="Find files by name, sorted by path.",
    args=Glob,
    category=Category.READ_ONLY,
    run=run,
    title=lambda args: f"Find {args.pattern}" + (f" in {args.path}" if args.path else ""),
    subject=subject,
    repeatable=True,
)
