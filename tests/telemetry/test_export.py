"""Traces and metrics reach an OTLP collector, in the GenAI conventions and without contents."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from tests.support.provider import call, say
from tests.support.served import served
from tests.support.waiting import until

SECRET_TEXT = "a word between us"


class Collector:
    """An OTLP receiver over HTTP."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                plain = gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
                collector.bodies.append((self.path, plain))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_request(self, code: object = "-", size: object = "-") -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> dict[str, dict[str, object]]:
        """name → attributes"""
        found: dict[str, dict[str, object]] = {}
        for path, body in self.bodies:
            if path == "/v1/traces":
                request = ExportTraceServiceRequest.FromString(body)
                for resource in request.resource_spans:
                    service = _values(resource.resource.attributes)["service.name"]
                    for scope in resource.scope_spans:
                        for span in scope.spans:
                            found[span.name] = {"service": service, **_values(span.attributes)}
        return found

    def points(self, name: str) -> list[tuple[dict[str, object], float]]:
        """Attributes and sum of each point of a histogram, of the last export."""
        found: list[tuple[dict[str, object], float]] = []
        for path, body in self.bodies:
            if path == "/v1/metrics":
                request = ExportMetricsServiceRequest.FromString(body)
                metrics = [
                    metric
                    for resource in request.resource_metrics
                    for scope in resource.scope_metrics
                    for metric in scope.metrics
                    if metric.name == name
                ]
                if metrics:
                    points = (point for metric in metrics for point in metric.histogram.data_points)
                    found = [(_values(point.attributes), point.sum) for point in points]
        return found


def _values(attributes: object) -> dict[str, object]:
    pairs: list[KeyValue] = list(attributes)  # type: ignore[call-overload]
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value") or "string_value") for pair in pairs}


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


async def test_a_collector_gets_traces_and_metrics_of_a_turn_and_nothing_that_was_said(
    tmp_path: Path, collector: Collector
):
    folder = tmp_path / "work"
    folder.mkdir()
    quick: dict[str, Any] = {"OTEL_BSP_SCHEDULE_DELAY": "100", "OTEL_METRIC_EXPORT_INTERVAL": "200"}
    async with served(
        folder, settings={"telemetry": True}, home=tmp_path / "home", OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **quick
    ) as rig:
        session = await rig.client.new_session()
        name = rig.script("traced", call("bash", command=f"echo '{SECRET_TEXT}'"), say(SECRET_TEXT))
        await rig.client.prompt(session, f"{name} {SECRET_TEXT}")
        await until(lambda: collector.points("gen_ai.client.operation.duration"))
        await until(lambda: collector.points("gen_ai.client.token.usage"))
        await until(lambda: "chat scripted" in collector.spans())
    span = collector.spans()["chat scripted"]
    assert (span["service"], span["gen_ai.operation.name"], span["gen_ai.request.model"]) == (
        "pilotfish",
        "chat",
        "scripted",
    )
    tokens = {own["gen_ai.token.type"] for own, _ in collector.points("gen_ai.client.token.usage")}
    assert tokens == {"input", "output"}
    durations = collector.points("gen_ai.client.operation.duration")
    assert all(own["gen_ai.operation.name"] == "chat" and seconds > 0 for own, seconds in durations)
    assert SECRET_TEXT.encode() not in b"".join(body for _, body in collector.bodies)
