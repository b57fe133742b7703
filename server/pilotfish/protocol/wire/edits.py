"""Edits that the user asks for in the editor: `edit/inline`, `edit/retry`, `edit/locate`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pilotfish.protocol.wire.base import Range, Wire
from pilotfish.protocol.wire.session_requests import PromptResult


class InlineEditParams(Wire):
    """An instruction for a place in a file. The request is answered when the turn has ended."""

    uri: str
    range: Range
    """the lines to edit; empty for a place to write at"""
    prompt: str = Field(min_length=1)
    prompt_id: str | None = None
    session_id: str | None = None
    """the session of an earlier inline edit, which this one refines; absent for a new edit"""


class InlineRetryParams(Wire):
    """Undoes the pending changes of an inline edit and runs its last instruction again."""

    session_id: str
    prompt_id: str | None = None


class InlineEditResult(PromptResult):
    """The outcome of the turn, which ran in the session `sessionId`."""

    hunk_ids: tuple[str, ...] = ()
    """the pending changes of the session in this file (`review/list`); none if the model has not edited it"""


class LocateParams(Wire):
    """A code block of an answer, for which a place is wanted."""

    code: str = Field(min_length=1)
    info: str = ""
    """the words behind the fence: the language, and sometimes a path"""
    uri: str | None = None
    """the document that the user works in"""


class LocateResult(Wire):
    """Where a code block belongs. Without `how` it is not certain, and the user chooses."""

    code: str
    """the block without a first line that names its path"""
    how: Literal["same", "whole", "symbol", "lines", "new"] | None = None
    """`same`: it is there already; `new`: the file does not exist yet; otherwise what was recognised"""
    uri: str | None = None
    before: str | None = None
    """the text of the file now, with `\\n` at line ends; absent if it does not exist"""
    after: str | None = None
    """the text of the file with the block in its place"""
