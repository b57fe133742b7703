"""Defines what a tool is.

A tool is a value: a name, an argument model, a function, and what the user and policy need to know about a call before
it runs. A tool never asks for approval and never opens a path itself: it uses `Context.workspace` for all file access.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, cast

from pydantic import BaseModel, ConfigDict

from pilotfish.conversation.messages import Category, Location
from pilotfish.conversation.records import PlanEntry
from pilotfish.errors import Refused
from pilotfish.text.display_safe import one_line
from pilotfish.workspace.edits.changes import FileChange
from pilotfish.workspace.edits.drafts import FilePreview
from pilotfish.workspace.process.launcher import READ_ONLY_LEAVE, Leave

if TYPE_CHECKING:
    from pilotfish.workspace.effects import Effects
    from pilotfish.workspace.workspace import Workspace


class Args(BaseModel):
    """Arguments of a tool. Unknown ones are rejected, so that the model gets an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


A = TypeVar("A", bound=Args)

Network = Literal["none", "public", "local"]
"""none; the internet; also this machine and its private network"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touch:
    """A path a call would touch, as the model wrote it; policy judges the resolved path."""

    path: str
    access: Literal["read", "write", "delete"]
    recursive: bool = False
    """also touches everything below the path"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What policy needs to know about a call: everything it would touch, run or connect to."""

    touches: tuple[Touch, ...] = ()
    command: str | None = None
    for_real: bool = False
    """the command must write or use the network, so it is not tried in the read-only sandbox"""
    background: bool = False
    """the command keeps running after the call"""
    cwd: str | None = None
    url: str | None = None
    search: str | None = None
    """what a search of the web asks for"""
    mcp: str | None = None
    """`server/tool` of an MCP server"""
    mcp_digest: str | None = None
    """hash of the definition of the MCP tool"""
    mcp_reads: bool = False
    """an MCP server that the user marked as trusted says that the tool only reads"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """What an approval shows: the files before and after, the command, or plain text.

    The digest of an approval covers the exact arguments and `files[*].version`.
    """

    kind: Literal["diff", "command", "text"]
    files: tuple[FilePreview, ...] = ()
    command: str = ""
    cwd: str = ""
    background: bool = False
    """the command keeps running after the call"""
    timeout: float | None = None
    """seconds after which the command is stopped"""
    text: str = ""
    impact: str = ""
    """what else depends on the files, in one line"""
    tried: Tried | None = None
    """the command was tried out, and `files` are what it changed: "Allow" applies exactly that"""

    def name_of(self, file: FilePreview) -> str:
        """A file in the diff: its name, and for a command, which may change any file, where it is."""
        return one_line(file.path.name if self.kind == "diff" else os.path.relpath(file.path, self.cwd))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """How a command ended that was tried out."""

    output: str
    exit_code: int | None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """An image for the model."""

    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a call. The model gets `text`, truncated in the middle if it is long; the ledger stores it all."""

    text: str
    diff: str | None = None
    changes: tuple[FileChange, ...] = ()
    images: tuple[Image, ...] = ()
    """sent in the message after the result; a tool of ours returns them only if `Context.takes_images`"""
    failed: bool = False
    """the tool worked, but what it ran failed (for example by its exit code)"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", encodable(self.text))


def encodable(text: str) -> str:
    """The text without lone surrogates, which file names may contain: they are escaped so that the text can be sent."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


SubagentKind = Literal["research", "task"]


class Delegate(Protocol):
    """Runs a subagent on a prompt, reports its steps as the progress of the call, and returns its answer."""

    async def __call__(self, kind: SubagentKind, prompt: str) -> str: ...


class AskUser(Protocol):
    """Asks the user. None if the user dismissed the question or no client is connected."""

    async def __call__(self, question: str, options: Sequence[str]) -> str | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a running call may use."""

    workspace: Workspace
    call_id: str
    progress: Callable[[str], None]
    ask_user: AskUser
    delegate: Delegate
    search_web: Callable[[str], Awaitable[str]]
    """(query) → the answer of the provider's search, with its sources"""
    show_plan: Callable[[Sequence[PlanEntry]], None]
    read_output: Callable[[str, int, int], Awaitable[str]]
    """(call id, first line, line count) → a page of an earlier call's whole output"""
    read_skill: Callable[[str, str], Awaitable[str]]
    """(name, file of its folder or nothing) → the instructions of a skill, or that file"""
    max_output: int
    """maximum bytes of one result that are sent to the model"""
    timeout: float
    """default timeout of a command in seconds"""
    takes_images: bool = False
    """whether the model can be given images"""
    network: Network = "public"
    """what the call may connect to"""
    approved: Mapping[str, str] = field(default_factory=dict[str, str])
    """resolved path → `FilePreview.version`: what the user saw and approved. The call does exactly that or fails"""
    judged: Mapping[str, Path] = field(default_factory=dict[str, Path])
    """path as the model wrote it → the path it resolved to when policy checked it. Empty if policy checked nothing"""

    leave: Leave = READ_ONLY_LEAVE
    """what a command of this call may do; the default is read-only"""

    effects: Effects | None = None
    """the command of this call was tried out: its preview shows these effects, its run applies them"""

    def path(self, text: str) -> Path:
        """The resolved path. Raises Refused if it resolves to another path than when policy checked it."""
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
    """A tool. `description` is for the model, `title` is for the user."""

    name: str
    description: str
    args: type[A]
    category: Category
    run: Callable[[Context, A], Awaitable[Result]]
    title: Callable[[A], str]
    subject: Callable[[A], Subject] = no_subject
    preview: Callable[[Context, A], Awaitable[Preview]] | None = None
    try_out: Callable[[Context, A], Awaitable[Effects]] | None = None
    """runs the call where it changes nothing, so that the question can show its effects; raises NotApplicable"""
    locations: Callable[[Context, A], tuple[Location, ...]] = no_locations
    repeatable: bool = False
    """safe to run again after a temporary error"""
    delegates: bool = False
    """a subagent does the work: the call itself changes nothing and does not count among those that run"""
    queries: str | None = None
    """what it asks language servers (`LanguageQueries.query`); it is not offered where nobody answers that"""
    own_words: bool = False
    """the result is the words of the user or of Pilotfish, so it is not fenced"""


@cache
def parameters(args: type[Args]) -> dict[str, Any]:
    """The JSON schema for the model. It is sent with every request, so it is kept small: no titles, no nulls,
    references are inlined, and bounds that models rarely exceed are left out. Validation still checks all bounds.
    The schema is shared: do not modify it."""
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
            # Here a key is the name of an argument, even if it looks like a keyword of JSON Schema.
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
