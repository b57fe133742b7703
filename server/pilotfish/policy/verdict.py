"""Defines the modes of a session and the verdict on a call."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pilotfish.policy.rules import Decision, Rule

Wall = Literal["read_only", "workspace"]
"""The read-only sandbox, or the sandbox for approved commands."""


class Mode(StrEnum):
    """Which calls run without a question."""

    ASK = "ask"
    """Calls that only read run; edits and commands ask."""
    PLAN = "plan"
    """Only calls that read run."""
    EDIT = "edit"
    """Edits inside the workspace run too, and commands that stay inside it."""
    AUTO = "auto"
    """Every call runs that no rule forbids, that touches nothing sensitive and that can be taken back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The decision on a call, and its reason."""

    decision: Decision
    reason: str
    rule: Rule | None = None
    """The most specific rule that decided. None if the mode decided."""
    commands: tuple[str, ...] = ()
    """For a command: what would run, as display-safe lines."""
    wall: Wall = "read_only"
    """The sandbox in which the call must run."""
    once: bool = False
    """The user may allow it this time only: no rule may be made from the answer."""
    offline: bool = False
    """A command must run without network."""
    network: bool = False
    """Once approved, a command may use the network."""
    can_be_tried: bool = False
    """A command may be run in a throwaway view of the workspace before the question, which then shows its effects."""

    @property
    def by(self) -> Literal["mode", "rule"]:
        return "mode" if self.rule is None else "rule"
