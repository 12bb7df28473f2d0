"""Send live updates of a run as server-sent events: first the current state, then every change in the journal.

A browser that was disconnected continues with ``Last-Event-ID``. When the run has ended, the stream sends ``end`` and
closes::

    event: state
    data: {"run_id": "r1", "state": "running", "progress": {...}}
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import anyio
from aiohttp import web

from bench.errors import BenchError
from bench.events import redact
from bench.journal import Reader, RunState
from bench.plan.job_record import read_jobs
from bench.untyped_values import Json
from bench.web.app_state import Site
from bench.web.documents.run_documents import event_json, folder_of, progress_of

POLL_S = 1.0
REST_FACTOR = 5
"""the pause between two readings of the journal is at least this many times the duration of a reading"""
KEEP_ALIVE_S = 15.0
"""seconds without an update after which a comment is sent, so that the connection stays open"""
LIVE_STATES = frozenset({str(RunState.RUNNING)})


async def stream(request: web.Request, site: Site, run_id: str) -> web.StreamResponse:
    """Send the event stream of a run."""
    folder = folder_of(site, run_id)
    last = request.headers.get("Last-Event-ID", "")
    seen = int(last) if last.isascii() and last.isdigit() and len(last) < 18 else 0
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
    await response.prepare(request)
    if request.method == "HEAD":
        return response
    with suppress(ConnectionResetError):  # the visitor has gone
        try:
            await _follow(response, site, folder, seen)
        except BenchError as error:  # the answer has begun: what is wrong can only be reported in it
            await _send(response, "problem", {"run_id": run_id, "message": str(error)}, seen)
    return response


async def _follow(response: web.StreamResponse, site: Site, folder: Path, seen: int) -> None:
    """Send each change of the run's state and each new journal event, until the run has ended."""
    known: Json = {}
    quiet_s = 0.0
    while True:
        began = time.monotonic()
        async with Reader.open(folder) as reader:
            events = await reader.numbered_events(after=seen)
            now = await _state(site, reader, folder.name)
        if now != known:
            await _send(response, "state", now, seen)
            known = now
        for number, event in events:
            seen = number
            await _send(response, "event", event_json(event), number)
        if now["state"] not in LIVE_STATES and not now["service"]:
            await _send(response, "end", {"run_id": folder.name, "state": now["state"]}, seen)
            return
        pause_s = max(POLL_S, REST_FACTOR * (time.monotonic() - began))
        await anyio.sleep(pause_s)
        quiet_s += pause_s
        if quiet_s > KEEP_ALIVE_S:
            quiet_s = 0.0
            await response.write(b": still here\n\n")  # detects a closed connection, and keeps proxies from closing it


async def _state(site: Site, reader: Reader, run_id: str) -> Json:
    status = await reader.status()
    service = site.service.states().get(run_id) if site.service else None
    return {
        "run_id": run_id,
        "state": str(status.state),
        "reason": status.reason,
        "service": None if service is None or service.startswith("failed") else service,
        "progress": (await progress_of(site, run_id, read_jobs(reader.meta.extra)))[0],
    }


async def _send(response: web.StreamResponse, kind: str, data: Mapping[str, object], number: int) -> None:
    text = redact(json.dumps(data, ensure_ascii=True))
    await response.write(f"id: {number}\nevent: {kind}\ndata: {text}\n\n".encode())
