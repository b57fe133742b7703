"""Making room: what is old is summarised, so that the conversation can go on.

The summary keeps what compaction usually forgets: the user's rules and wishes, the plan, the files being worked on.
The ledger loses nothing; only what is sent changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai import Agent, CancellationToken
from pydantic_ai.models import Model

from pilotfish.core.messages import CanonicalMessage

FULL = 0.85  # of the context window: above it the next prompt begins with a summary
KEEP_MESSAGES = 6  # the newest messages stay as they are
MAX_SOURCE_CHARS = 120_000  # of the old conversation, given to be summarised
CHARS_PER_TOKEN = 4

INSTRUCTIONS = """Summarise this conversation between a user and a coding agent, so that the agent can go on with it.
Use these headings. What the user wants: every wish, rule and limit, in their words. Done so far: files changed and
how. Known facts: paths, names, errors, decisions. Plan and next step. Leave out politeness and detours."""


def split(can_begin: Sequence[bool]) -> int:
    """Where the kept tail begins: at the user's own words, if possible KEEP_MESSAGES from the end. 0: nowhere."""
    places = [index for index, fits in enumerate(can_begin) if fits and index > 0]
    early = [index for index in places if index <= len(can_begin) - KEEP_MESSAGES]
    return early[-1] if early else (places[0] if places else 0)


def tokens(messages: Sequence[CanonicalMessage]) -> int:
    """A rough count, good enough to say how much was saved."""
    return sum(len(readable(message)) for message in messages) // CHARS_PER_TOKEN


async def summarise(messages: Sequence[CanonicalMessage], model: Model, token: CancellationToken) -> str:
    text = "\n\n".join(readable(message) for message in messages)
    if len(text) > MAX_SOURCE_CHARS:
        half = MAX_SOURCE_CHARS // 2
        text = f"{text[:half]}\n[… cut …]\n{text[-half:]}"
    run = await Agent(model, instructions=INSTRUCTIONS).run(text, cancellation_token=token)
    return run.output.strip()


def readable(message: CanonicalMessage) -> str:
    """A message as a reader of the conversation would see it."""
    lines = [f"{'Agent' if message.is_response else 'User'}: {message.get_text_content()}"]
    lines += [f"[call {call.tool_name} {dict(call.args)}]" for call in message.calls]
    lines += [f"[result of {part.tool_name}] {part.text[:2000]}" for part in message.returns]
    return "\n".join(lines)
