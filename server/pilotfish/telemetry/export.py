"""Exports traces and metrics to an OpenTelemetry collector, in the GenAI semantic conventions.

OTEL's own environment variables say where (`OTEL_EXPORTER_OTLP_ENDPOINT`), how often and with which attributes. The
protocol is OTLP over HTTP. A program that has set up OpenTelemetry around this one keeps its own providers. Nothing is
exported without the packages of `pilotfish[telemetry]`.
"""

from __future__ import annotations

import importlib.util
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pilotfish import __version__

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider as Meters
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.trace import TracerProvider as Tracers

log = logging.getLogger(__name__)

PACKAGES = ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
REMEDY = "Install them: pip install 'pilotfish[telemetry]'."
FLUSH_MS = 1_000  # what is not sent by then is lost when the program ends
DURATION_BOUNDARIES = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""in seconds, as the semantic conventions advise"""
COPIED = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model")
"""attributes of a span of a request that its duration has too"""


@dataclass(frozen=True, slots=True)
class Export:
    """The providers that instrumentation writes to. None: those of the process."""

    tracers: Tracers | None = None
    meters: Meters | None = None


def can_export() -> bool:
    """Whether the packages are installed."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in PACKAGES)
    except ModuleNotFoundError:  # a package above is missing
        return False


_running: tuple[TracerProvider, MeterProvider] | None = None


def start_export() -> Export:
    """Start to export, if this process does not do it already."""
    global _running  # noqa: PLW0603 - one exporter for each process
    from opentelemetry import trace

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return Export()
    if not can_export():
        log.warning("traces and metrics are not exported: packages are missing. %s", REMEDY)
        return Export()
    if _running is None:
        _running = _providers()
    return Export(*_running)


def flush_export() -> None:
    """Send what waits. Blocking, for a second at most for each kind."""
    if _running is not None:
        for provider in _running:
            provider.force_flush(FLUSH_MS)


def _providers() -> tuple[TracerProvider, MeterProvider]:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    resource = Resource.create({"service.name": "pilotfish", "service.version": __version__})
    meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())], resource)
    durations = meters.get_meter("pilotfish", __version__).create_histogram(
        "gen_ai.client.operation.duration",
        unit="s",
        description="GenAI operation duration",
        explicit_bucket_boundaries_advisory=DURATION_BOUNDARIES,
    )

    class Durations(SpanProcessor):
        """Records the duration of each request to a model, which pydantic-ai has in its spans only."""

        def on_end(self, span: ReadableSpan) -> None:
            attributes = span.attributes or {}
            if attributes.get("gen_ai.operation.name") != "chat" or not (span.start_time and span.end_time):
                return
            own = {name: attributes[name] for name in COPIED if name in attributes}
            durations.record((span.end_time - span.start_time) / 1e9, own)

    tracers = TracerProvider(resource=resource)
    tracers.add_span_processor(Durations())
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return tracers, meters
