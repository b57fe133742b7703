"""Hooks: commands of the user or of a trusted workspace that run before and after calls and turns.

`hooks.json` beside `config.toml`, and `.pilotfish/hooks.json` in a workspace, have the form that other agents use. A
hook reads one JSON object and may answer with one. Promises: a hook can block or ask for approval, never allow; hooks
of a workspace run only when it is trusted, in the workspace sandbox; a hook ends with all its processes when its time
is over or its turn is stopped; one that fails is reported and changes nothing.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from pilotfish.config.settings import config_path
from pilotfish.engine.extensions.guarded_files import GuardedFiles
from pilotfish.errors import ToolError
from pilotfish.policy.secrets import mask
from pilotfish.text.display_safe import one_line
from pilotfish.tools.incoming.aliases import spellings
from pilotfish.workspace.own_programs import search_path
from pilotfish.workspace.process.launcher import WORKSPACE_LEAVE, Redirected
from pilotfish.workspace.process.processes import Finished, Processes
from pilotfish.workspace.sandbox.sandbox import Sandbox, no_sandbox
from pilotfish.workspace.workspace import Workspace

Event = Literal["PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop"]

WORKSPACE_FILE = ".pilotfish/hooks.json"
MAX_FILE = 256 * 1024
MAX_ANSWER = 10_000  # characters of a hook's words that reach the model
DEFAULT_SECONDS = 60.0
MAX_SECONDS = 600.0


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    return pattern


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True, extra="ignore")


class HookCommand(_Shape):
    type: Literal["command"] = "command"
    command: str = Field(min_length=1)
    timeout: float = Field(default=DEFAULT_SECONDS, gt=0, le=MAX_SECONDS)


class HookGroup(_Shape):
    matcher: Annotated[str, AfterValidator(_check_pattern)] = ""
    """a regular expression for the whole name of a tool, ours or another agent's; empty: every tool"""
    hooks: tuple[HookCommand, ...]

    def matches(self, tool: str) -> bool:
        names = (tool, *_other_names().get(tool, ()))
        return self.matcher in ("", "*") or any(re.fullmatch(self.matcher, name) for name in names)


class _HookFile(_Shape):
    hooks: Mapping[Event, tuple[HookGroup, ...]] = Field(default_factory=dict[Event, tuple[HookGroup, ...]])


class _EventAnswer(_Shape):
    permission_decision: Literal["allow", "ask", "deny"] | None = None
    permission_decision_reason: str = ""
    additional_context: str = ""


class _Answer(_Shape):
    """What a hook writes to its output."""

    decision: Literal["block", "approve"] | None = None
    reason: str = ""
    system_message: str = ""
    additional_context: str = ""
    hook_specific_output: _EventAnswer = _EventAnswer()


@dataclass(frozen=True, slots=True)
class Hook:
    """A command with the place that it comes from."""

    command: HookCommand
    own: bool
    """of the user, not of the workspace"""


@dataclass(slots=True)
class HookOutcome:
    """What the hooks of one event have said."""

    block: str | None = None
    """the reason why the call or the prompt may not go on, or why the turn may not end"""
    ask: str | None = None
    """the reason why the user must be asked"""
    context: list[str] = field(default_factory=list[str])
    """for the model"""
    messages: list[str] = field(default_factory=list[str])
    """for the user"""
    problems: list[str] = field(default_factory=list[str])
    """hooks that failed, for the user"""

    @property
    def text(self) -> str:
        """The words for the model."""
        return "\n".join(self.context)


class Hooks:
    """The hooks of one session. `sandbox` is the one of the workspace's commands."""

    def __init__(self, sandbox: Callable[[], Sandbox]) -> None:
        self._sandbox = sandbox
        self._processes: dict[tuple[bool, bool], Processes] = {}

    async def run(
        self, event: Event, tool: str, fields: Mapping[str, Any], workspace: Workspace, *, trusted: bool
    ) -> HookOutcome:
        """Run the hooks of an event one after another, until one blocks. `fields` are their input."""
        outcome = HookOutcome()
        groups = _groups(event, workspace, trusted, outcome.problems)
        hooks = [Hook(command, own) for group, own in groups if group.matches(tool) for command in group.hooks]
        if not hooks:
            return outcome
        cwd = str(workspace.roots[0] if workspace.roots else Path.cwd())
        given = json.dumps({"hook_event_name": event, "cwd": cwd, **fields}, ensure_ascii=False).encode()
        for hook in hooks:
            try:
                finished, errors = await self._run(hook, given, workspace.roots, trusted=trusted)
            except ToolError as error:
                outcome.problems.append(f"The hook `{one_line(hook.command.command)}` did not start: {error}")
                continue
            _add(outcome, event, hook, finished, errors)
            if outcome.block is not None:
                break
        return outcome

    async def _run(self, hook: Hook, given: bytes, roots: Sequence[Path], *, trusted: bool) -> tuple[Finished, str]:
        """Run one hook. Returns how it ended, and what it wrote to stderr."""
        processes = await self._processes_for(hook.own, roots, trusted=trusted)
        with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as errors:
            source.write(given)
            source.seek(0)
            redirected = Redirected(stdin=source.fileno(), stderr=errors.fileno())
            finished = await processes.run(
                hook.command.command,
                timeout=hook.command.timeout,
                tell=lambda _: None,
                leave=WORKSPACE_LEAVE,
                redirected=redirected,
            )
            if finished.left is not None:
                await processes.stop(finished.left)
            errors.seek(0)
            return finished, errors.read(MAX_ANSWER).decode("utf-8", "replace")

    async def _processes_for(self, own: bool, roots: Sequence[Path], *, trusted: bool) -> Processes:
        found = self._processes.get((own, trusted))
        if found is None or found.roots != tuple(roots):
            if found is not None:
                await found.aclose()
            sandbox = (lambda: no_sandbox("a hook of the user")) if own else self._sandbox
            # A hook of the user runs without a sandbox: a folder that is not trusted provides none of its programs.
            environ = None if trusted else {**os.environ, "PATH": search_path()}
            found = self._processes[own, trusted] = Processes(roots, sandbox=sandbox, environ=environ)
        return found

    async def aclose(self) -> None:
        for processes in self._processes.values():
            await processes.aclose()
        self._processes.clear()


def _add(outcome: HookOutcome, event: Event, hook: Hook, finished: Finished, errors: str) -> None:
    """Add what a hook has said to the outcome."""
    name, said = one_line(hook.command.command), finished.output.strip()
    if finished.code == 2:
        outcome.block = _clean(errors) or f"blocked by the hook `{name}`"
        return
    if finished.code != 0:
        why = finished.stopped or f"exit code {finished.code}"
        details = one_line(_clean(errors))[:300]
        outcome.problems.append(f"The hook `{name}` failed ({why}){f': {details}' if details else ''}.")
        return
    if not said.startswith("{"):
        if said and event == "UserPromptSubmit":
            outcome.context.append(_clean(said))
        return
    try:
        answer = _Answer.model_validate_json(said)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "answer"
        outcome.problems.append(f"The hook `{name}` gave no valid answer: {place}: {first['msg']}.")
        return
    special = answer.hook_specific_output
    for context in (answer.additional_context, special.additional_context):
        if context.strip():
            outcome.context.append(_clean(context))
    if answer.system_message.strip():
        outcome.messages.append(_clean(answer.system_message))
    if answer.decision == "block" or special.permission_decision == "deny":
        reason = answer.reason or special.permission_decision_reason
        outcome.block = _clean(reason) or f"blocked by the hook `{name}`"
    elif special.permission_decision == "ask" and event == "PreToolUse":
        outcome.ask = _clean(special.permission_decision_reason) or f"the hook `{name}`"


def _clean(text: str) -> str:
    return mask(text)[0].strip()[:MAX_ANSWER]


def workspace_hooks(workspace: Workspace) -> list[Path]:
    """The files of the workspace that define hooks."""
    files = GuardedFiles(workspace)
    return [path for root in workspace.roots if (path := files.path(root / WORKSPACE_FILE)) is not None]


def _groups(event: Event, workspace: Workspace, trusted: bool, problems: list[str]) -> Iterator[tuple[HookGroup, bool]]:
    """The groups of an event, each with whether it is the user's. The user's come first."""
    files = [(config_path().parent / "hooks.json", True)]
    files += [(path, False) for path in workspace_hooks(workspace)] if trusted else []
    for file, own in files:
        try:
            stat = file.stat()
            read = _read(file, stat.st_mtime_ns, stat.st_size)
        except OSError:
            continue
        if isinstance(read, str):
            problems.append(f"{file.name} was not used: {read}.")
        else:
            yield from ((group, own) for group in read.hooks.get(event, ()))


@lru_cache(maxsize=64)
def _read(file: Path, changed: int, size: int) -> _HookFile | str:
    """The file, or what is wrong with it. `changed` and `size` are a part of the cache's key."""
    del changed
    if size > MAX_FILE:
        return "it is too large"
    try:
        return _HookFile.model_validate_json(file.read_bytes())
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the file'}: {first['msg']}"


@lru_cache(maxsize=1)
def _other_names() -> Mapping[str, tuple[str, ...]]:
    """Our tools with the names that other agents give them, so that matchers can be shared with them."""
    names: dict[str, tuple[str, ...]] = {}
    for name, ours in spellings().items():
        names[ours] = (*names.get(ours, ()), name)
    return names
