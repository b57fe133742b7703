"""OpenTelemetry traces of agent runs, without the contents of messages. OTEL's own settings configure the exporter."""

from __future__ import annotations


def set_tracing(enabled: bool) -> None:
    """Start or stop tracing every agent run of this process."""
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    Agent.instrument_all(InstrumentationSettings(include_content=False) if enabled else False)
