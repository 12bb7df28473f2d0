"""Traces sent to a collector: the spans of ``otlp-json``, also while the run continues."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.cli.live_traces import send_traces
from bench.journal import Journal, RunState
from tests.cli.conftest import Bench
from tests.full_journal import ItemData, rows_of, write_run
from tests.small_journal import record

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
Sent = list[tuple[dict[str, Any], Any]]


@contextmanager
def collecting(status: int = 200) -> Iterator[tuple[str, Sent]]:
    """Serve a collector on the loopback interface; yield its address and the received (resource, span) pairs."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    found: Sent = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = ExportTraceServiceRequest.FromString(
                gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            )
            for one in request.resource_spans:
                about = {each.key: each.value.string_value for each in one.resource.attributes}
                found.extend((about, span) for scope in one.scope_spans for span in scope.spans)
            self.send_response(status)
            self.end_headers()

        def log_message(self, *arguments: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_collector_receives_the_spans_that_otlp_json_writes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    anyio.run(write_run, Path(), "r1", [(record("x"), [ItemData(item="q1"), ItemData(item="q2")])])
    with collecting() as (url, sent):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        assert "2 traces sent" in bench("export", "r1", "--format", "otlp").stderr
    written = [json.loads(line) for line in bench("export", "r1", "--format", "otlp-json").stdout.splitlines()]
    spans = [span for line in written for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]]
    assert len(sent) == len(spans) == 8
    for (about, got), wrote in zip(sent, spans, strict=True):
        assert about["memorybench.run.id"] == "r1" and about["memorybench.provider"] == "x"
        assert (got.name, got.kind, got.span_id.hex(), got.trace_id.hex()) == (
            wrote["name"], wrote["kind"], wrote["spanId"], wrote["traceId"],
        )  # fmt: skip
        assert got.parent_span_id.hex() == wrote.get("parentSpanId", "")
        assert str(got.end_time_unix_nano) == wrote["endTimeUnixNano"] and got.status.code == wrote["status"]["code"]
        assert [one.key for one in got.attributes] == [one["key"] for one in wrote["attributes"]]
        assert [one.name for one in got.events] == [one["name"] for one in wrote.get("events", ())]


async def test_export_follow_sends_the_spans_of_items_that_end_later_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = record("x")
    folder = await write_run(tmp_path, "r1", [(one, [ItemData(item="q1")])], state=RunState.PAUSED, planned=3)
    monkeypatch.setattr("bench.cli.live_traces.EVERY_S", 0.01)
    with collecting() as (url, sent):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)

        def items() -> list[str]:
            return [span.name for _, span in list(sent) if span.name.startswith("item")]

        async with Journal.resume(folder) as journal, anyio.create_task_group() as tasks:
            await journal.set_state(RunState.RUNNING)
            tasks.start_soon(_follow, folder)
            for name in ("q2", "q3"):
                for row in rows_of(one, ItemData(item=name)):
                    await journal.append_durable(row)
                with anyio.fail_after(60):
                    while f"item {name}" not in items():
                        await anyio.sleep(0.01)
            await journal.set_state(RunState.COMPLETE)
        assert items() == ["item q1", "item q2", "item q3"], "each once"


async def _follow(folder: Path) -> None:
    assert await send_traces(folder, follow=True) == 3


def test_a_rejecting_collector_and_follow_without_otlp_are_errors(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    anyio.run(write_run, Path(), "r1", [(record("x"), [ItemData(item="q1")])])
    with collecting(400) as (url, _):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        assert "did not accept the spans of 1 item" in bench("export", "r1", "--format", "otlp", check=2).stderr
    assert "--follow works only with --format otlp, not with jsonl" in bench("export", "r1", "--follow", check=2).stderr
