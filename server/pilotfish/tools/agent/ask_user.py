"""ask_user: asks the user a question."""

from __future__ import annotations

from pydantic import Field

from pilotfish.conversation.messages import Category
from pilotfish.tools.tool import Args, Context, Result, Tool

TITLE_CHARS = 80


class AskUserArgs(Args):
    question: str = Field(min_length=1)
    options: tuple[str, ...] = Field((), max_length=8, description="answers to choose from")


async def run(context: Context, args: AskUserArgs) -> Result:
    answer = await context.ask_user(args.question, args.options)
    if answer is None:
        return Result(text="[The user did not answer. Continue with your best judgement and state what you assumed.]")
    return Result(text=answer)


TOOL = Tool(
    name="ask_user",
    description="Ask the user when only they can decide.",
    args=AskUserArgs,
    category=Category.READ_ONLY,
    run=run,
    title=lambda args: f"Ask: {args.question[:TITLE_CHARS]}",
    own_words=True,
)
