"""Asks the model of a session for one text: the summary of a conversation, or the title of a session.

Promises: each request counts towards the usage of the turn or the session (`usage.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from pydantic_ai import Agent, CancellationToken
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.models import Model
from pydantic_ai.settings import ModelSettings

from pilotfish.conversation.messages import CanonicalMessage
from pilotfish.conversation.records import RequestOrigin
from pilotfish.engine.turn.history.compaction import readable
from pilotfish.engine.turn.usage import Meter
from pilotfish.store.titles import shorten

MAX_SOURCE_CHARS = 120_000  # of a conversation that is summarised
SOURCE_SHARE = 0.6  # of the context window, at most
MAX_TITLE_SOURCE = 1_500  # characters of the prompt, and of the answer

SUMMARY = """Summarise this conversation between a user and a coding agent, so that the agent can go on with it.
Use these headings. What the user wants: every wish, rule and limit, in their words. Done so far: files changed and
how. Known facts: paths, names, errors, decisions. Plan and next step. Leave out politeness and detours."""

TITLE = """Write a title for this conversation between a user and a coding agent: what it is about, in two to six words,
in the user's language. Answer with the title alone, without quotes and without a full stop."""


async def summarise(
    messages: Sequence[CanonicalMessage], model: Model, meter: Meter, token: CancellationToken, window: int | None
) -> str:
    """Summarise a conversation. Raises `UsageLimitExceeded`, `RunCancelled`, and what the provider's library raises."""
    text = "\n\n".join(readable(message) for message in messages)
    limit = min(MAX_SOURCE_CHARS, int(SOURCE_SHARE * window) * 3) if window else MAX_SOURCE_CHARS
    if len(text) > limit:
        half = limit // 2
        text = f"{text[:half]}\n[… cut …]\n{text[-half:]}"
    return (await _ask(_summary_agent(), text, model, meter, "compaction", token)).strip()


async def write_title(prompt: str, answer: str, model: Model, meter: Meter) -> str:
    """A title for a conversation that begins like this; empty if the model wrote none. Raises what the provider's
    library raises."""
    source = f"User: {prompt[:MAX_TITLE_SOURCE]}\n\nAgent: {answer[:MAX_TITLE_SOURCE]}"
    text = await _ask(_title_agent(), source, model, meter, "title")
    line = next((line for line in text.splitlines() if line.strip()), "")
    return shorten(line.strip(" \t#*_`\"'“”„«».:").removeprefix("Title: "))


async def _ask(
    agent: Agent[None, str],
    text: str,
    model: Model,
    meter: Meter,
    origin: RequestOrigin,
    token: CancellationToken | None = None,
) -> str:
    async with agent.iter(
        text, model=model, usage=meter.run, usage_limits=meter.limits, cancellation_token=token
    ) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                meter.request_begins()
                try:
                    async with node.stream(run.ctx) as events:
                        async for _ in events:
                            pass
                finally:
                    meter.report(origin)
    if run.result is None:
        raise UnexpectedModelBehavior("the run ended without an answer")
    return run.result.output


@cache
def _summary_agent() -> Agent[None, str]:
    return Agent(None, name="summary", instructions=SUMMARY)


@cache
def _title_agent() -> Agent[None, str]:
    # A title needs no thoughts; providers that cannot switch them off ignore this.
    return Agent(None, name="title", instructions=TITLE, model_settings=ModelSettings(thinking=False))
