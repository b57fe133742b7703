"""The values of a scripted turn: its state, which is read from the conversation, and the model's next response."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class DemoStep:
    """One response of the model. `demo.next_step` removes calls of tools that are not available."""

    text: str = ""
    thought: str = ""
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()


@dataclass(frozen=True, slots=True)
class DemoResult:
    """A finished tool call of this turn."""

    tool: str
    args: Mapping[str, Any]
    outcome: str
    text: str


@dataclass(frozen=True, slots=True)
class Play:
    """The turn so far: the prompt, the finished calls, the available tools, and what the prompt says around it."""

    asked: str
    returned: tuple[DemoResult, ...] = ()
    tools: frozenset[str] = field(default_factory=frozenset[str])
    active: str | None = None
    """the file that the user looks at"""
    mode: str = "ask"
    trusted: bool = True

    def last(self, tool: str, path: str | None = None) -> DemoResult | None:
        found = [each for each in self.returned if each.tool == tool and path in (None, each.args.get("path"))]
        return found[-1] if found else None

    def ended(self, steps: Sequence[str], text: str) -> DemoStep:
        """The last response. A plan that still shows open steps is completed first, with `steps`: what was done."""
        shown = self.last("update_plan")
        if shown is None or shown.outcome != "success" or "update_plan" not in self.tools:
            return DemoStep(text)
        done = plan(steps, len(steps))
        return (
            DemoStep(text) if shown.args.get("steps") == done else DemoStep(calls=(("update_plan", {"steps": done}),))
        )


def plan(steps: Sequence[str], done: int) -> list[dict[str, str]]:
    """The steps as arguments of `update_plan`, the first `done` of them completed."""
    return [
        {"content": text, "status": "completed" if place < done else "in_progress" if place == done else "pending"}
        for place, text in enumerate(steps)
    ]


def reason(returned: DemoResult) -> str:
    """Why the user denied a call, as the end of a sentence."""
    feedback = short(returned.text)
    return f"; the answer was “{feedback}”" if feedback else ", as you asked"


def short(text: str, limit: int = 200) -> str:
    line = text.strip().rstrip(".")
    return line if len(line) <= limit else f"{line[:limit]}…"
