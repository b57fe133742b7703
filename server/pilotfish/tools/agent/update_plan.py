"""update_plan: replaces the list of steps that the user sees."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.conversation.records import PlanEntry
from pilotfish.tools.tool import Args, Context, Result, Tool


class PlanStep(Args):
    content: str = Field(min_length=1, max_length=500)
    status: Literal["pending", "in_progress", "completed"] = "pending"
    priority: Literal["high", "medium", "low"] = "medium"


class UpdatePlan(Args):
    steps: tuple[PlanStep, ...] = Field(max_length=50, description="all steps; replaces the plan")


async def run(context: Context, args: UpdatePlan) -> Result:
    context.show_plan(
        [PlanEntry(content=step.content, status=step.status, priority=step.priority) for step in args.steps]
    )
    return Result(text=_summary(args))


def _summary(args: UpdatePlan) -> str:
    if not args.steps:
        return "The plan is empty."
    done = sum(step.status == "completed" for step in args.steps)
    now = next((step.content for step in args.steps if step.status == "in_progress"), None)
    return f"{done} of {len(args.steps)} done" + (f"; now: {now}" if now else "")


TOOL = Tool(
    name="update_plan",
    description="Show the user your plan for work of several steps, and keep it current.",
    args=UpdatePlan,
    category=Category.READ_ONLY,
    run=run,
    title=lambda args: f"Plan: {_summary(args)}",
    own_words=True,
)
