"""What is written about a turn for those who have to find out: never what was said in it."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace as otel
from opentelemetry.trace import NonRecordingSpan, SpanContext
from tests.support.engine import rig
from tests.support.provider import call, say

from pilotfish.engine.model.tracing import set_tracing
from pilotfish.telemetry.logs import start_logging

SAID = "a word between us"


class Recording(otel.Tracer, otel.TracerProvider):
    """A tracer that keeps the names and attributes it is given."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []

    def get_tracer(self, *_: Any, **__: Any) -> otel.Tracer:
        return self

    def start_span(self, name: str, *_: Any, attributes: Any = None, **__: Any) -> otel.Span:
        kept = dict(attributes or {})
        self.spans.append((name, kept))
        return Kept(kept)

    def start_as_current_span(self, name: str, *_: Any, **options: Any) -> Any:
        return otel.use_span(self.start_span(name, attributes=options.get("attributes")))


class Kept(NonRecordingSpan):
    def __init__(self, attributes: dict[str, Any]) -> None:
        super().__init__(SpanContext(1, 1, is_remote=False))
        self._kept = attributes

    def is_recording(self) -> bool:
        return True

    def set_attribute(self, key: str, value: Any) -> None:
        self._kept[key] = value

    def set_attributes(self, attributes: Any) -> None:
        self._kept |= attributes


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    recording = Recording()
    monkeypatch.setattr(otel, "_TRACER_PROVIDER", recording)
    yield recording
    set_tracing(False)


async def test_traces_are_made_when_wished_and_hold_nothing_that_was_said(tmp_path: Path, tracer: Recording) -> None:
    replies = (call("bash", command=f"echo '{SAID}'"), say(SAID), say(SAID))
    async with rig(tmp_path, *replies, telemetry=True) as turn:
        await turn.prompt(SAID)
        names = [name for name, _ in tracer.spans]
        assert any(name.startswith("chat") for name in names), names
        assert any("tool" in name for name in names), names
        assert SAID not in repr(tracer.spans)
        turn.live.set_settings(turn.live.settings.model_copy(update={"telemetry": False}))
        tracer.spans.clear()
        await turn.prompt(SAID)
        assert tracer.spans == []


async def test_the_log_names_the_request_and_its_figures_and_nothing_that_was_said(tmp_path: Path) -> None:
    before = logging.getLogger().handlers
    start_logging(tmp_path / "log.jsonl")
    try:
        async with rig(tmp_path, call("bash", command=f"echo '{SAID}'"), say(SAID)) as turn:
            outcome = await turn.prompt(SAID)
    finally:
        for handler in logging.getLogger().handlers:
            handler.close()
        logging.getLogger().handlers = before
    text = (tmp_path / "log.jsonl").read_text("utf-8")
    (ended,) = [line for line in map(json.loads, text.splitlines()) if line["message"].startswith("turn ended")]
    assert ended["request"] == outcome.turn_id[-8:]
    assert (ended["metrics"]["iterations"], ended["metrics"]["calls"]) == (2, 1)
    assert SAID not in text
    assert (tmp_path / "log.jsonl").stat().st_mode & 0o077 == 0
