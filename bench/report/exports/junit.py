"""Export a run as JUnit XML for CI systems: one test suite per job, one test case per item.

Example::

    await export_junit(reader, sink)

A wrong answer is a failure, a failed item is an error, and an item without a score is skipped. Pending items are not
exported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import aclosing
from io import StringIO
from typing import TextIO
from xml.sax.saxutils import quoteattr

from bench.journal import Reader
from bench.journal.records import ItemRecord
from bench.model import State
from bench.plan.job_record import JobRecord, read_jobs
from bench.visible_text import visible

FAILED = {
    State.INCORRECT: "failure",
    State.PARTIAL: "failure",
    State.ABSTAINED: "failure",
    State.ERROR: "error",
    State.NOT_READY: "error",
}
SKIPPED = frozenset({State.UNSCORED, State.UNSUPPORTED})
MICROS = 1_000_000


async def export_junit(reader: Reader, sink: TextIO) -> int:
    """Write the run as one JUnit XML document; return the number of test cases."""
    total = 0
    sink.write('<?xml version="1.0" encoding="utf-8"?>\n')
    sink.write("<testsuites>\n")
    for record in read_jobs(reader.meta.extra):
        total += await _write_suite(reader, record, sink)
    sink.write("</testsuites>\n")
    return total


async def _write_suite(reader: Reader, record: JobRecord, sink: TextIO) -> int:
    counts = {"tests": 0, "failure": 0, "error": 0, "skipped": 0}
    cases = StringIO()
    async with aclosing(reader.items(record.chain)) as items:
        async for item in items:
            if item.state is None:
                continue
            counts["tests"] += 1
            for kind in _write_case(record, item, cases):
                counts[kind] += 1
    attributes = {
        "name": record.key,
        "tests": counts["tests"],
        "failures": counts["failure"],
        "errors": counts["error"],
        "skipped": counts["skipped"],
    }
    sink.write(f"<testsuite{_attributes_text(attributes)}>\n{cases.getvalue()}</testsuite>\n")
    return counts["tests"]


def _write_case(record: JobRecord, item: ItemRecord, sink: TextIO) -> Iterator[str]:
    """Write the test case of one item.

    Yield the kind of the result (failure, error or skipped); yield nothing for a success.
    """
    took = sum(entry.times_us.get("total", 0) for entry in item.phases.values()) / MICROS
    name = item.item if record.epochs == 1 else f"{item.item}#{item.epoch}"
    sink.write(f"<testcase{_attributes_text({'classname': record.key, 'name': name, 'time': f'{took:.6f}'})}>")
    right = bool(item.verdicts and item.verdicts[0].correct)
    kind = None if item.state is None or right else FAILED.get(item.state)
    reason = item.message or next((one.reason for one in item.verdicts if one.reason), None) or str(item.state)
    if kind is not None:
        known = {"type": item.outcome if kind == "error" else item.state, "message": reason}
        sink.write(f"<{kind}{_attributes_text(known)}/>")
        yield kind
    elif item.state in SKIPPED:
        sink.write(f"<skipped{_attributes_text({'message': reason})}/>")
        yield "skipped"
    sink.write("</testcase>\n")


def _attributes_text(attributes: Mapping[str, object]) -> str:
    return "".join(f" {name}={quoteattr(visible(str(value)))}" for name, value in attributes.items())
