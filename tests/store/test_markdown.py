from __future__ import annotations

from datetime import UTC

from tests.store.makers import TURN, Pen, opened, said, session, start

from pilotfish.conversation.items import (
    CallItem,
    ClaimItem,
    CompactionItem,
    FileChangeItem,
    MessageItem,
    NoticeItem,
    PlanItem,
    PromptItem,
    ThoughtItem,
    TurnEndItem,
)
from pilotfish.conversation.messages import CallApproval, CallResult, CallStatus, CanonicalToolCall
from pilotfish.conversation.records import Failure, PlanEntry, Usage
from pilotfish.store.export.markdown import MAX_OUTPUT_CHARS, to_markdown

ROW = session(
    title="Mend the net",
    created_at=1767607200.0,
    updated_at=1767607500.0,
    turns=1,
    usage=Usage(input_tokens=12_345, output_tokens=678, requests=3, cost=0.125),
)

ITEMS = (
    PromptItem(
        id="1",
        turn_id=TURN,
        timestamp=1767607201.0,
        prompt=(
            {"type": "text", "text": "Mend the net in @net.py\n\nPlease."},
            {
                "type": "resource",
                "uri": "file:///project/src/my%20net.py",
                "range": {"start": {"line": 2, "character": 0}, "end": {"line": 9, "character": 0}},
            },
            {"type": "image", "data": "", "mimeType": "image/png"},
        ),
    ),
    ThoughtItem(id="2", turn_id=TURN, text="Where is the hole?"),
    MessageItem(id="3", turn_id=TURN, text="I look first.\n"),
    CallItem(
        id="c1",
        turn_id=TURN,
        call=CanonicalToolCall(
            id="c1",
            name="grep",
            args={"pattern": "<hole>"},
            title="Search for <hole>",
            status=CallStatus.COMPLETED,
            duration_ms=1234,
            result=CallResult(text="net.py:3: ```hole```\n"),
        ),
    ),
    PlanItem(
        id="p",
        turn_id=TURN,
        entries=(PlanEntry(content="find", status="completed"), PlanEntry(content="mend", status="pending")),
    ),
    CallItem(
        id="c2",
        turn_id=TURN,
        call=CanonicalToolCall(
            id="c2",
            name="bash",
            args={},
            title="Run make",
            status=CallStatus.DENIED,
            error="denied",
            approval=CallApproval(decision="deny", by="user", reason="asked", feedback="not now"),
        ),
    ),
    FileChangeItem(
        id="f", turn_id=TURN, uri="file:///project/net.py", change="edited", added=3, removed=1, via="buffer"
    ),
    NoticeItem(id="n", turn_id=TURN, level="warning", message="The disk is full.", remedy="Free some space."),
    CompactionItem(id="k", turn_id=TURN, before=120_000, after=8_000, summary="We mended."),
    MessageItem(id="4", turn_id=TURN, text="Mended."),
    ClaimItem(id="c", turn_id=TURN, text="All tests pass.", verdict="unsupported", evidence="no command ran"),
    TurnEndItem(
        id="e",
        turn_id=TURN,
        stop_reason="failed",
        usage=Usage(),
        error=Failure(message="The network is down.", remedy="Try again."),
        undone=True,
    ),
)

EXPECTED = """\
# Mend the net

*2026-01-05 10:00 – 2026-01-05 10:05 · demo:fish · `/project` · 1 turn · 12,345 tokens in, 678 out · $0.12*

## You — 2026-01-05 10:00

Mend the net in @net.py

Please.

*Attached: `src/my net.py`, lines 3–10*

*Attached: an image (image/png)*

## Pilotfish

<details>
<summary>Thought</summary>

Where is the hole?

</details>

I look first.

<details>
<summary>✓ Search for &lt;hole&gt; (1.2 s) — grep</summary>

```json
{
  "pattern": "<hole>"
}
```

````text
net.py:3: ```hole```
````

</details>

- [x] find
- [ ] mend

<details>
<summary>⊘ Run make — bash</summary>

*You denied it: “not now”.*

> **Denied:** denied

</details>

- edited `net.py` (+3 −1)

> **Warning:** The disk is full. Free some space.

<details>
<summary>Earlier conversation summarised (120,000 → 8,000 tokens)</summary>

We mended.

</details>

Mended.

> **Not verified:** “All tests pass.” (no command ran)

> *Failed. The network is down. Try again.*

> *The changes of this turn were undone.*
"""


def test_a_transcript_is_exported_as_markdown():
    assert to_markdown(ROW, ITEMS, tz=UTC) == EXPECTED


def test_a_long_output_is_shortened_with_a_remark():
    call = CanonicalToolCall(
        id="c",
        name="bash",
        args={},
        status=CallStatus.COMPLETED,
        result=CallResult(text="x" * (MAX_OUTPUT_CHARS + 1500)),
    )
    text = to_markdown(ROW, (CallItem(id="c", turn_id=TURN, call=call),), tz=UTC)
    assert "x" * MAX_OUTPUT_CHARS + "\n… (1,500 more characters)\n" in text


async def test_an_export_includes_the_unfinished_answer_after_a_crash():
    from tests.store.makers import chunk

    async with opened() as (ledger, catalog):
        await catalog.create(session())
        await ledger.append("s", Pen()(start("Mend the net"), said("Mend the net", by="user"), chunk("Half an ans")))
        text = await catalog.export_markdown("s")
        assert text.startswith("# Mend the net\n")
        assert text.count("Mend the net") == 2
        assert "## Pilotfish\n\nHalf an ans\n" in text
