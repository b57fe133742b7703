"""OpenTelemetry traces and metrics of agent runs, without the contents of messages. OTEL's own settings say where."""

from __future__ import annotations

from pilotfish.telemetry.export import start_export


def set_tracing(enabled: bool) -> None:
    """Start or stop tracing every agent run of this process."""
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    if not enabled:
        Agent.instrument_all(False)
        return
    export = start_export()
    Agent.instrument_all(
        InstrumentationSettings(
            tracer_provider=export.tracers,
            meter_provider=export.meters,
            include_content=False,
            include_model_request_parameters=False,
        )
    )
