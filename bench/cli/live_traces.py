"""``bench export RUN --format otlp``: send traces to a collector, even while the run continues.

Example::

    sent = await send_traces(folder, follow=True)      # OTEL_EXPORTER_OTLP_ENDPOINT names the collector

The spans and span ids are equal to those of ``--format otlp-json``. OpenTelemetry's exporter sends the spans. It reads
its own environment variables and repeats failed requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import anyio
import anyio.to_thread

from bench.errors import ConfigError, UsageError
from bench.journal import Reader, RunState
from bench.plan.job_record import JobRecord, read_jobs
from bench.report.exports.trace import ERROR, resource_of, spans_of
from bench.visible_text import counted

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

EVERY_S = 1.0
BATCH = 100
"""maximum number of items in one request"""


async def send_traces(folder: Path, *, follow: bool) -> int:
    """Send the traces of all ended items, and return the number of these items.

    With ``follow``, wait for more items until the run ends.

    Raises:
        ConfigError: the extra [otel] is not installed.
        UsageError: the collector does not accept the spans.
    """
    exporter = _exporter()
    sent: dict[str, int] = {}
    count = 0
    try:
        async with Reader.open(folder) as reader:
            while True:
                going = follow and (await reader.status()).state is RunState.RUNNING
                for record in read_jobs(reader.meta.extra):
                    count += await _send_job(reader, record, exporter, sent)
                if not going:
                    return count
                await anyio.sleep(EVERY_S)
    finally:
        exporter.shutdown()


def _exporter() -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ConfigError("--format otlp needs the extra [otel]", hint="pip install 'memorybench[otel]'") from error
    return OTLPSpanExporter()


async def _send_job(reader: Reader, record: JobRecord, exporter: Any, sent: dict[str, int]) -> int:
    """Send the traces of a job's items that have ended since the last call; return the number of these items.

    ``sent`` maps each job to the journal position of the last item that was sent. The function updates ``sent``.
    """
    count = 0
    while ended := await reader.ended_since(record.key, sent.get(record.key, 0), BATCH):
        spans: list[ReadableSpan] = []
        for corpus, unit, epoch, _ in ended:
            for item in await reader.item(record.chain, unit, corpus=corpus):
                if item.epoch == epoch:
                    spans += _readable(resource_of(reader, record), await spans_of(reader, record, item))
        done = await anyio.to_thread.run_sync(exporter.export, spans)
        if done.value != 0:
            raise UsageError(
                f"the trace collector did not accept the spans of {counted(len(ended), 'item(|s)')}",
                hint="start the collector, or set its address with OTEL_EXPORTER_OTLP_ENDPOINT; default: "
                "http://localhost:4318",
            )
        sent[record.key] = ended[-1][3]
        count += len(ended)
    return count


def _readable(resource: Mapping[str, object], spans: Sequence[Mapping[str, object]]) -> Iterator[ReadableSpan]:
    """Convert spans in the format of ``otlp-json`` to spans that OpenTelemetry's exporter accepts."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import Event, ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    def context(trace: object, span: object) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(int(str(trace), 16), int(str(span), 16), is_remote=False, trace_flags=flags)

    about, scope = (
        Resource(cast("Any", resource)),
        InstrumentationScope("memorybench", str(resource["service.version"])),
    )
    for span in cast("Any", spans):
        parent, status = span.get("parentSpanId"), span["status"]
        yield ReadableSpan(
            name=span["name"],
            context=context(span["traceId"], span["spanId"]),
            parent=context(span["traceId"], parent) if parent else None,
            resource=about,
            attributes=_values(span["attributes"]),
            events=[
                Event(one["name"], attributes=_values(one["attributes"]), timestamp=int(one["timeUnixNano"]))
                for one in span.get("events", ())
            ],
            kind=SpanKind(span["kind"] - 1),  # OTLP counts from 1
            status=Status(StatusCode.ERROR, status["message"]) if status["code"] == ERROR else Status(StatusCode.OK),
            start_time=int(span["startTimeUnixNano"]),
            end_time=int(span["endTimeUnixNano"]),
            instrumentation_scope=scope,
        )


def _values(attributes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {one["key"]: _value(one["value"]) for one in attributes}


def _value(value: Mapping[str, Any]) -> Any:
    ((kind, inner),) = value.items()
    if kind == "arrayValue":
        return [_value(one) for one in inner["values"]]
    return int(inner) if kind == "intValue" else inner
