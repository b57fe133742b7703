"""What a tool is.

A tool is a value: a name, an argument model, a function, and what people and policy need to know of a call before
it runs. It never asks for permission and never opens a path itself: `Context.workspace` is its only door.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from pilotfish.conversation.messages import Category, Location
from pilotfish.conversation.records import PlanEntry
from pilotfish.errors import Refused
from pilotfish.workspace.files.changes import FileChange
from pilotfish.workspace.process.processes import READ_ONLY_LEAVE, Leave

if TYPE_CHECKING:
    from pilotfish.workspace.workspace import Workspace


class Args(BaseModel):
    """Arguments of a tool. Unknown ones are refused, so that a model hears of its mistake."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


A = TypeVar("A", bound=Args)

Network = Literal["none", "public", "local"]
"""nothing; the internet; this machine and its private network too"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A path a call would touch, as the model wrote it; policy judges the resolved path."""

    path: str
    access: Literal["read", "write", "delete"]
    recursive: bool = False
    """everything below it is touched too"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What policy needs to know of a call: everything it would touch, run or reach."""

    touches: tuple[Touch, ...] = ()
    command: str | None = None
    for_real: bool = False
    """the command must write or reach the network: not to be tried in the read-only sandbox"""
    cwd: str | None = None
    url: str | None = None
    mcp: str | None = None
    """`server/tool` of an MCP server"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePreview:
    """A file before and after, with the document version that `before` was read at."""

    path: Path
    before: str | None
    after: str | None
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What a question shows: the files as they would become, or the command, or plain text.

    The digest of an approval covers the exact arguments and `files[*].version`.
    """

    kind: Literal["diff", "command", "text"]
    files: tuple[FilePreview, ...] = ()
    command: str = ""
    cwd: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a call gave. `text` goes to the model, cut in the middle when it is long; the whole goes to the ledger."""

    text: str
    diff: str | None = None
    changes: tuple[FileChange, ...] = ()
    failed: bool = False
    """the tool worked, and what it ran did not (a command's exit code)"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", encodable(self.text))


def encodable(text: str) -> str:
    """The text, fit to be sent: file names may hold bytes that are no text, which are then spelled out."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


class Research(Protocol):
    """Run a read-only subagent on a question; its steps come back as progress."""

    async def __call__(self, question: str, progress: Callable[[str], None]) -> str: ...


class AskUser(Protocol):
    """Ask the person. None when dismissed or nobody is there."""

    async def __call__(self, question: str, options: Sequence[str]) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a running call may use."""

    workspace: Workspace
    call_id: str
    progress: Callable[[str], None]
    ask_user: AskUser
    research: Research
    show_plan: Callable[[Sequence[PlanEntry]], None]
    read_output: Callable[[str, int, int], Awaitable[str]]
    """(call id, first line, line count) → a page of an earlier call's whole output"""
    max_output: int
    """bytes of one result the model is given"""
    timeout: float
    """seconds a command may take unless the call says otherwise"""
    network: Network = "public"
    """what the call may reach by itself"""
    approved: Mapping[str, str] = field(default_factory=dict[str, str])
    """resolved path → `FilePreview.version`: what a person saw and allowed. The call does exactly that or fails"""
    judged: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """path as the model wrote it → where it led when policy judged it. Empty: nothing was judged"""

    leave: Leave = READ_ONLY_LEAVE
    """what a command of this call may do; nothing, unless the verdict says more"""

    def path(self, text: str) -> Path:
        """Where a path leads; refused when it leads elsewhere than it did when it was judged."""
        path = self.workspace.resolve(text).path
        if self.judged and self.judged.get(text, path) != path:
            raise Refused(f"{text} now resolves to a different file than the one that was allowed")
        return path


def no_subject(_: Any) -> Subject:
    return Subject()


def no_locations(_context: Context, _args: Any) -> tuple[Location, ...]:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool(Generic[A]):
    """One ability of the agent. `description` is for the model, `title` for people."""

    name: str
    description: str
    args: type[A]
    category: Category
    run: Callable[[Context, A], Awaitable[Result]]
    title: Callable[[A], str]
    subject: Callable[[A], Subject] = no_subject
    preview: Callable[[Context, A], Awaitable[Preview]] | None = None
    locations: Callable[[Context, A], tuple[Location, ...]] = no_locations
    repeatable: bool = False
    """safe to run again after a passing error"""


def parameters(args: type[Args]) -> dict[str, Any]:
    """The JSON schema a model is given. Every byte is sent with every request: no titles, no nulls, references put in
    place, and no bounds that a model meets anyway; what breaks them is refused all the same, with the reason."""
    schema = args.model_json_schema()
    shared = schema.pop("$defs", {})
    plain = _plain(schema, shared)
    return {"type": "object", "properties": {}, **plain}


def _plain(schema: Any, shared: Mapping[str, Any]) -> Any:
    match schema:
        case {"$ref": str(name), **rest}:
            return _plain({**shared[name.rpartition("/")[2]], **rest}, shared)
        case {"anyOf": [one, {"type": "null"}], **rest}:
            return _plain({**one, **{key: value for key, value in rest.items() if key != "default"}}, shared)
        case {"properties": _, **rest}:
            # Here a key is an argument's name, whatever it is spelled like.
            named = cast("dict[str, Any]", schema["properties"])
            kept = {name: _plain(value, shared) for name, value in named.items()}
            return {**_plain(rest, shared), "properties": kept}
        case dict():
            items = cast("dict[str, Any]", schema)
            return {key: _plain(value, shared) for key, value in items.items() if not _is_noise(key, value)}
        case _:
            return schema


def _is_noise(key: str, value: Any) -> bool:
    return key in _NOISE or (key == "default" and value in (False, [], ""))


_NOISE = frozenset(
    {"title", "additionalProperties", "minLength", "maxLength", "minimum", "exclusiveMinimum", "minItems", "maxItems"}
)
