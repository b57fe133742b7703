"""Logs and traces describe a turn, without the contents of its messages."""

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

SECRET_TEXT = "a word between us"


class Recording(otel.Tracer, otel.TracerProvider):
    """A tracer that records the names and attributes of spans."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, dict[str, Any]]] = []

    def get_tracer(self, *_: Any, **__: Any) -> otel.Tracer:
        return self

    def start_span(self, name: str, *_: Any, attributes: Any = None, **__: Any) -> otel.Span:
        recorded = dict(attributes or {})
        self.spans.append((name, recorded))
        return RecordingSpan(recorded)

    def start_as_current_span(self, name: str, *_: Any, **options: Any) -> Any:
        return otel.use_span(self.start_span(name, attributes=options.get("attributes")))


class RecordingSpan(NonRecordingSpan):
    def __init__(self, attributes: dict[str, Any]) -> None:
        super().__init__(SpanContext(1, 1, is_remote=False))
        self._recorded = attributes

    def is_recording(self) -> bool:
        return True

    def set_attribute(self, key: str, value: Any) -> None:
        self._recorded[key] = value

    def set_attributes(self, attributes: Any) -> None:
        self._recorded |= attributes


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    recording = Recording()
    monkeypatch.setattr(otel, "_TRACER_PROVIDER", recording)
    yield recording
    set_tracing(False)


async def test_traces_are_made_when_wished_and_hold_nothing_that_was_said(tmp_path: Path, tracer: Recording) -> None:
    replies = (call("bash", command=f"echo '{SECRET_TEXT}'"), say(SECRET_TEXT), say(SECRET_TEXT))
    async with rig(tmp_path, *replies, telemetry=True) as turn:
        await turn.prompt(SECRET_TEXT)
        names = [name for name, _ in tracer.spans]
        assert any(name.startswith("chat") for name in names), names
        assert any("tool" in name for name in names), names
        assert SECRET_TEXT not in repr(tracer.spans)
        turn.engine.set_settings(turn.engine.settings.model_copy(update={"telemetry": False}))
        tracer.spans.clear()
        await turn.prompt(SECRET_TEXT)
        assert tracer.spans == []


async def test_the_log_has_the_request_and_its_metrics_and_no_contents(tmp_path: Path) -> None:
    before = logging.getLogger().handlers
    start_logging(tmp_path / "log.jsonl")
    try:
        async with rig(tmp_path, call("bash", command=f"echo '{SECRET_TEXT}'"), say(SECRET_TEXT)) as turn:
            outcome = await turn.prompt(SECRET_TEXT)
    finally:
        for handler in logging.getLogger().handlers:
            handler.close()
        logging.getLogger().handlers = before
    text = (tmp_path / "log.jsonl").read_text("utf-8")
    (ended,) = [line for line in map(json.loads, text.splitlines()) if line["message"].startswith("turn ended")]
    assert ended["request"] == outcome.turn_id[-8:]
    assert (ended["metrics"]["iterations"], ended["metrics"]["calls"]) == (2, 1)
    assert SECRET_TEXT not in text
    assert (tmp_path / "log.jsonl").stat().st_mode & 0o077 == 0
