"""Running a tool as a call would: real workspace, real files; what it tells is kept."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pilotfish.conversation.records import PlanEntry
from pilotfish.tools.tool import A, Context, Network, Result, SubagentKind, Tool
from pilotfish.workspace.editor import Buffer, Hunk, NoEditor, Saved
from pilotfish.workspace.process.launcher import WORKSPACE_LEAVE, Leave
from pilotfish.workspace.workspace import Workspace


def plant(root: Path, files: Mapping[str, str | bytes]) -> None:
    """Make files, and the folders they are in."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(text if isinstance(text, bytes) else text.encode())


def plant_empty(root: Path, *names: str) -> None:
    plant(root, dict.fromkeys(names, ""))


class FakeEditor(NoEditor):
    """Documents that are only open: nothing can be edited through it. Answers queries from a table."""

    def __init__(self) -> None:
        self.open: dict[Path, Buffer] = {}
        self.answers: dict[str, Any] = {}
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def type_in(self, path: Path, text: str, version: int = 2) -> None:
        self.open[path] = Buffer(path=path, text=text, version=version, dirty=True)

    def buffer(self, path: Path) -> Buffer | None:
        return self.open.get(path)

    def buffers(self) -> Sequence[Buffer]:
        return tuple(self.open.values())

    async def apply(self, path: Path, version: int, hunks: Sequence[Hunk]) -> bool:
        del path, version, hunks
        return False

    async def save(self, path: Path) -> Saved:
        del path
        return Saved(saved=False, reason="a fake editor saves nothing")

    def can_answer(self, method: str) -> bool:
        return method in self.answers

    async def query(self, method: str, params: Mapping[str, Any], timeout: float) -> Any:
        del timeout
        self.asked.append((method, params))
        answer = self.answers.get(method)
        return answer(params) if callable(answer) else answer


@dataclass
class Bench:
    """A workspace and what its tools told."""

    workspace: Workspace
    editor: FakeEditor
    updates: list[str] = field(default_factory=list[str])
    plan: list[PlanEntry] = field(default_factory=list[PlanEntry])
    answer: str | None = None
    pages: dict[str, str] = field(default_factory=dict[str, str])
    network: Network = "public"
    leave: Leave = WORKSPACE_LEAVE

    def context(self, timeout: float = 30) -> Context:
        return Context(
            workspace=self.workspace,
            call_id="call",
            progress=self.updates.append,
            ask_user=self._ask,
            delegate=self._delegate,
            search_web=self._search_web,
            show_plan=self._show_plan,
            read_output=self._read_output,
            read_skill=self._read_skill,
            max_output=20_000,
            timeout=timeout,
            network=self.network,
            leave=self.leave,
        )

    async def run(self, tool: Tool[Any], **args: Any) -> Result:
        return await tool.run(self.context(), parse(tool, args))

    async def text(self, tool: Tool[Any], **args: Any) -> str:
        return (await self.run(tool, **args)).text

    async def _ask(self, question: str, options: Sequence[str]) -> str | None:
        self.updates.append(f"{question} {list(options)}")
        return self.answer

    async def _delegate(self, kind: SubagentKind, prompt: str) -> str:
        return f"{kind} about {prompt}"

    async def _search_web(self, query: str) -> str:
        return f"found {query}"

    def _show_plan(self, entries: Sequence[PlanEntry]) -> None:
        self.plan = list(entries)

    async def _read_skill(self, name: str, file: str) -> str:
        return f"the skill {name} {file}".rstrip()

    async def _read_output(self, call_id: str, line: int, count: int) -> str:
        return "\n".join(self.pages[call_id].splitlines()[line - 1 : line - 1 + count])


def parse(tool: Tool[A], args: Mapping[str, Any]) -> A:
    return tool.args.model_validate(dict(args))


@asynccontextmanager
async def bench(*roots: Path) -> AsyncGenerator[Bench]:
    editor = FakeEditor()
    workspace = Workspace(roots, editor)
    try:
        yield Bench(workspace, editor)
    finally:
        await workspace.aclose()
