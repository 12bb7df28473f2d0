"""Collect the calls of a model into batches. Each caller waits for its own reply.

Example::

    sender = BatchSender(endpoint, api, http, log)
    sender.start(tasks, earlier)                     # batches of earlier processes of the run, from its journal
    response = await sender.call(endpoint, request)  # as `Http.call`; may take a day

A batch is written to the run's journal (its file of events) before it is sent, with an id for each request. So after a
restart, its requests are looked up by these ids and not sent again. A request that the vendor did not process goes into
the next batch.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol, TypeVar

import anyio
from anyio.abc import TaskGroup

from bench.errors import CallError, MappingError, RateLimited, Rejected, Unavailable
from bench.http import Endpoint, Http, Request, Response, Timings, record
from bench.http.errors import AttemptFailed, failure_of_body, failure_of_status
from bench.http.message import ReportedUsage
from bench.model import Call
from bench.models.batch_api import EXPIRED, BatchApi, BatchNotEnded, BatchOutcome
from bench.visible_text import counted

QUIET_S = 0.5
"""a batch is sent when no new call has arrived for this many seconds and no other request is in flight"""
LONGEST_GATHER_S = 60.0
MAX_CALLS = 10_000
MAX_BYTES = 90 * 2**20
FIRST_POLL_S, LONGEST_POLL_S = 0.2, 30.0
MAX_TRIES = 4
MAX_UNREADABLE = 10

T = TypeVar("T")


@dataclass(slots=True, kw_only=True)
class BatchRecord:
    """A batch of calls, as written to the journal of the run."""

    key: str
    """id of the batch that bench made"""
    endpoint: str
    calls: tuple[str, ...]
    """ids of the calls that bench made"""
    at: datetime
    remote: str | None = None
    """id of the batch that the vendor made; None = it is not known whether the batch was created"""


class BatchLog(Protocol):
    """The records of the batches in the run's journal. When a write returns, the record is on disk."""

    @property
    def senders(self) -> list[BatchSender]: ...

    @property
    def stopped(self) -> bool:
        """Return True if no further request may be sent."""
        ...

    async def intend(self, record: BatchRecord) -> None: ...

    async def sent(self, record: BatchRecord) -> None: ...

    def tell(self, text: str) -> None: ...


@dataclass(slots=True, eq=False)
class _Batch:
    """A batch whose results have not been read yet."""

    record: BatchRecord
    bodies: Mapping[str, object] = field(default_factory=dict)
    """request body of each call by call id; empty if an earlier process sent the batch"""
    outcomes: Mapping[str, BatchOutcome] = field(default_factory=dict)
    error: CallError | None = None
    begun: bool = False
    done: anyio.Event = field(default_factory=anyio.Event)

    async def outcome(self, call: str) -> BatchOutcome:
        """Wait for the results of the batch; return the outcome of one call.

        The status of the outcome is EXPIRED if the vendor did not process the call. If the whole batch failed, its
        error is raised.
        """
        await self.done.wait()
        if self.error is not None:
            raise self.error.with_traceback(None)
        return self.outcomes.get(call, BatchOutcome(status=EXPIRED))


@dataclass(slots=True, eq=False)
class _QueuedCall:
    """A call that waits to be put into a batch."""

    call: str
    body: object
    size: int
    taken: anyio.Event = field(default_factory=anyio.Event)
    batch: _Batch | None = None


class BatchSender:
    """A sender of the calls of one model in one role, such as judge. It sends them in batches, in place of `Http`."""

    def __init__(self, endpoint: Endpoint, api: BatchApi, http: Http, log: BatchLog) -> None:
        self.endpoint = endpoint
        self._api = api
        self._http = http
        self._log = log
        self._call_counts: Counter[str] = Counter()
        self._queue: list[_QueuedCall] = []
        self._earlier: dict[str, _Batch] = {}
        self._claimed: list[_Batch] = []
        self._arrivals = 0
        self._wake = anyio.Event()

    def start(self, tasks: TaskGroup, earlier: Iterable[BatchRecord]) -> None:
        """Start sending in the background.

        ``earlier`` are the batches that an earlier process sent and whose results were not read.
        """
        for one in earlier:
            batch = _Batch(one)
            self._earlier.update(dict.fromkeys(one.calls, batch))
        tasks.start_soon(self._send_batches, tasks)

    async def call(self, endpoint: Endpoint, request: Request) -> Response:
        """Put the request into a batch, wait for its reply, and return it.

        Raises:
            CallError: for the same reasons as in :meth:`bench.http.Http.call`.
        """
        digest = hashlib.sha256(json.dumps([request.key, request.json], sort_keys=True).encode()).hexdigest()[:24]
        self._call_counts[digest] += 1
        call, attempt = f"{digest}-{self._call_counts[digest]}", 1
        while True:
            outcome = await self._outcome(call, request)
            try:
                return _answer(endpoint, request, outcome, attempt)
            except AttemptFailed as failed:
                if not failed.repeat or attempt == MAX_TRIES:
                    raise failed.error from failed.__cause__
            attempt += 1

    async def _outcome(self, call: str, request: Request) -> BatchOutcome:
        batch = self._earlier.pop(call, None)
        if batch is None:
            queued = _QueuedCall(call, request.json, len(json.dumps(request.json)))
            self._queue.append(queued)
            self._arrivals += 1
            self._wake.set()
            try:
                await queued.taken.wait()
            finally:
                if queued.batch is None:
                    self._queue.remove(queued)
            batch = queued.batch
            assert batch is not None, "taken into a batch"
        elif not batch.begun:
            batch.begun = True
            self._claimed.append(batch)
            self._wake.set()
        return await batch.outcome(call)

    # ---- sending

    async def _send_batches(self, tasks: TaskGroup) -> None:
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            while self._claimed:
                tasks.start_soon(self._process_batch, self._claimed.pop())
            if self._queue:
                await self._wait_until_quiet()
                if self._log.stopped:
                    return  # what waits stays pending
                while self._queue:
                    tasks.start_soon(self._process_batch, self._next_batch())

    async def _wait_until_quiet(self) -> None:
        """Wait until no call has arrived for a short time.

        While a request is in flight, wait longer, but at most 60 seconds. Return earlier if the queue is full.
        """
        until = anyio.current_time() + LONGEST_GATHER_S
        came = -1
        while came != self._arrivals or (self._http.in_flight and anyio.current_time() < until):
            if len(self._queue) >= MAX_CALLS or self._claimed:
                return
            came = self._arrivals
            await anyio.sleep(QUIET_S)

    def _next_batch(self) -> _Batch:
        key, size = secrets.token_hex(5), 0
        taken: list[_QueuedCall] = []
        names: set[str] = set()
        for one in self._queue[:MAX_CALLS]:
            size += one.size
            if (taken and size > MAX_BYTES) or one.call in names:
                break
            taken.append(one)
            names.add(one.call)
        self._queue = self._queue[len(taken) :]
        calls = tuple(one.call for one in taken)
        entry = BatchRecord(key=key, endpoint=self.endpoint.name, calls=calls, at=datetime.now(UTC))
        batch = _Batch(entry, bodies={f"{key}-{one.call}": one.body for one in taken}, begun=True)
        for one in taken:
            one.batch = batch
            one.taken.set()
        return batch

    async def _process_batch(self, batch: _Batch) -> None:
        """Send a batch if it was not sent yet, wait for its end, and read its outcomes.

        An outage of the vendor only delays the batch. Any other error is stored in the batch.
        """
        entry = batch.record
        try:
            if entry.remote is None:
                entry.remote = await self._create(batch)
                if entry.remote is not None:
                    await self._log.sent(entry)
                    self._log.tell(
                        f"sent a batch of {counted(len(entry.calls), 'call(|s)')} to {entry.endpoint}: {entry.remote}"
                    )
            if entry.remote is not None:
                outcomes = await self._results(entry.remote)
                batch.outcomes = {name.removeprefix(f"{entry.key}-"): one for name, one in outcomes.items()}
        except CallError as error:
            if isinstance(error, Rejected | MappingError):
                error.hint = error.hint or "remove --batch if the endpoint has no batch API"
            batch.error = error
        batch.done.set()

    async def _create(self, batch: _Batch) -> str | None:
        """Create a batch, or find the batch of an earlier process; return the vendor's id of the batch.

        Return None if the earlier process did not create the batch. Its calls must then be sent again.
        """
        entry, doubt = batch.record, not batch.bodies
        if not doubt:
            await self._log.intend(entry)
        while True:
            if doubt:
                found = await self._retry_outages(lambda: self._find(entry))
                if found is not None or not batch.bodies:
                    return found
            try:
                return await self._api.create(entry.key, batch.bodies)
            except (Unavailable, RateLimited) as error:
                self._log.tell(f"{entry.endpoint}: {error.message}; bench tries again")
                doubt = True
                await anyio.sleep(FIRST_POLL_S)

    async def _find(self, entry: BatchRecord) -> str | None:
        pause_s = FIRST_POLL_S
        while True:
            try:
                return await self._api.find(entry.key, count=len(entry.calls), since=entry.at)
            except BatchNotEnded:
                await anyio.sleep(pause_s)
                pause_s = min(LONGEST_POLL_S, 1.5 * pause_s)

    async def _results(self, remote: str) -> dict[str, BatchOutcome]:
        pause_s = FIRST_POLL_S
        while (ended := await self._retry_outages(lambda: self._api.ended(remote))) is None:
            await anyio.sleep(pause_s)
            pause_s = min(LONGEST_POLL_S, 1.5 * pause_s)
        batch = ended
        return await self._retry_outages(lambda: self._api.results(batch))

    async def _retry_outages(self, request: Callable[[], Awaitable[T]]) -> T:
        """Repeat a request until the vendor responds.

        Raises:
            MappingError: the response was unreadable 10 times.
        """
        pause_s, unreadable, logged = FIRST_POLL_S, 0, False
        while True:
            try:
                return await request()
            except (Unavailable, RateLimited, MappingError) as error:
                unreadable += isinstance(error, MappingError)
                if unreadable == MAX_UNREADABLE:
                    raise
                if not logged:
                    self._log.tell(f"{self.endpoint.name}: {error.message}; bench tries again")
                logged = True
            await anyio.sleep(pause_s)
            pause_s = min(LONGEST_POLL_S, 2 * pause_s)


def _answer(endpoint: Endpoint, request: Request, outcome: BatchOutcome, attempt: int) -> Response:
    """Write a call of a batch to the call log, and return the response that its outcome contains.

    Raises:
        AttemptFailed: the call failed or was not processed.
    """
    body = json.dumps(outcome.body).encode()
    response = Response(
        status=outcome.status, headers={}, body=body, timings=Timings(), attempts=attempt, request="call of a batch"
    )
    reported: ReportedUsage | None = None
    failed: AttemptFailed | None = None
    if outcome.status == EXPIRED:
        failed = AttemptFailed(Unavailable(f"{endpoint.name}: the batch ended before this call was made"), repeat=True)
    elif not 200 <= outcome.status < 300:
        failed = failure_of_status(endpoint, response, repeatable=True, wait_s=None)
        reported = request.read_failed(response) if request.read_failed is not None else None
    else:
        try:
            reported = request.read(response) if request.read is not None else None
            if reported is not None and reported.error is not None:
                failed = failure_of_body(reported.error, response, repeatable=True)
        except CallError as error:
            failed = failure_of_body(error, response, repeatable=True)
    record(
        Call(
            endpoint=endpoint.name,
            role=endpoint.role,
            attempt=attempt,
            status=outcome.status or None,
            outcome="ok" if failed is None else failed.error.kind,
            started_at=datetime.now(UTC),
            request_bytes=len(json.dumps(request.json)),
            response_bytes=len(body),
            model=reported.model if reported else None,
            usage=reported.usage if reported else None,
            cost_usd=reported.cost_usd if reported else None,
        )
    )
    if failed is not None:
        raise failed
    return response
