"""Send the status calls of a service once, to find out whether it has finished indexing.

Example::

    poller = StatusPoller.compile(connection, config.wait, "wait", gives_ids=True)
    await poller.poll(values, jobs=("job_1", "job_2"), sent=ids)    # Readiness(state="pending", detail="1 of 2 ready")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from anyio import create_task_group

from bench.config.jsonpath import Path, compile_path
from bench.config.provider.calls import WaitBlock
from bench.model import Readiness
from bench.providers.declarative.ingest import IdMapReader
from bench.providers.declarative.request import CompiledCall, ProviderConnection
from bench.providers.declarative.response import ResponsePath, ServiceResponse, compact, json_type, may_be_a_page
from bench.providers.protocol import Waiting, merge_captures
from bench.untyped_values import whole_number
from bench.visible_text import counted

SHOWN_VALUE = 100
FIRST_PAGE = " (perhaps this counts only the first page of a list)"
CONCURRENT_POLLS = 16
"""maximum number of status calls that run at the same time"""

State = Literal["ready", "pending", "failed"]
Tests = tuple[tuple[ResponsePath, tuple[object, ...]], ...]


@dataclass(slots=True)
class PollResult:
    """The state that one or several status responses show."""

    state: State = "pending"
    detail: str = ""
    captures: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPoller:
    """A compiled ``wait`` section that has a ``request``."""

    request: CompiledCall
    by_id: bool
    until: Tests
    fail_on: tuple[tuple[Path, tuple[object, ...]], ...]
    count: ResponsePath | None
    id_map: IdMapReader | None
    done: set[tuple[str, str]] = field(default_factory=set)
    """(namespace, job id) of each job that is ready and need not be polled again"""

    @classmethod
    def compile(
        cls, connection: ProviderConnection, wait: WaitBlock, key: str, *, gives_ids: bool
    ) -> StatusPoller | None:
        """Compile a ``wait`` section. ``key`` is the path of the section in the config, for error messages.

        Return None if the section has no ``request``; the engine then searches for a known memory until it is found.
        """
        if wait.request is None:
            return None
        return cls(
            request=connection.call(f"{key}.request", wait.request, traffic="status"),
            by_id=(wait.scope or ("id" if gives_ids else "namespace")) == "id",
            until=tuple((ResponsePath.at(f"{key}.until", path), tuple(values)) for path, values in wait.until.items()),
            fail_on=tuple((compile_path(path), tuple(values)) for path, values in wait.fail_on.items()),
            count=ResponsePath.at(f"{key}.count_at_least", wait.count_at_least) if wait.count_at_least else None,
            id_map=IdMapReader.compile(wait.id_map, f"{key}.id_map") if wait.id_map else None,
        )

    async def poll(self, values: Mapping[str, object], *, jobs: Sequence[str], sent: Sequence[str]) -> Readiness:
        """Return whether the service has finished: ready, pending or failed.

        Send the status call once for the whole namespace, or once for each job that is not known to be ready.
        """
        variables = {**values, "sent": len(sent)}
        if not self.by_id:
            seen = await self._poll(variables, sent)
            return Readiness(state=seen.state, detail=seen.detail, captures=seen.captures)
        return await self._poll_jobs(variables, list(dict.fromkeys(jobs)), sent)

    async def _poll_jobs(self, values: Mapping[str, object], jobs: Sequence[str], sent: Sequence[str]) -> Readiness:
        """Poll the jobs in order, up to 16 at a time, and return their common state.

        Polling stops at the first group with an unfinished job, because the service processes the jobs in order.
        """
        namespace = str(values.get("runTag", ""))
        captures: dict[str, object] = {}
        waiting = ""
        for start in range(0, len(jobs), CONCURRENT_POLLS):
            chunk = [job for job in jobs[start : start + CONCURRENT_POLLS] if (namespace, job) not in self.done]
            seen = await self._poll_each(values, chunk, sent)
            for job, one in zip(chunk, seen, strict=True):
                if one.state == "failed":
                    return Readiness(state="failed", detail=f"{job}: {one.detail}")
                captures = merge_captures(captures, one.captures)
                if one.state == "ready":
                    self.done.add((namespace, job))
            pending = (f"; {job}: {one.detail}" for job, one in zip(chunk, seen, strict=True) if one.state == "pending")
            waiting = next(pending, "")
            if waiting:
                break
        ready = sum((namespace, job) in self.done for job in jobs)
        return Readiness(
            state="ready" if ready == len(jobs) else "pending",
            detail=f"{ready} of {counted(len(jobs), 'job(|s)')} ready{waiting}",
            counts={"ready": ready, "jobs": len(jobs)},
            captures=captures,
        )

    async def _poll_each(
        self, values: Mapping[str, object], jobs: Sequence[str], sent: Sequence[str]
    ) -> list[PollResult]:
        found = [PollResult() for _ in jobs]

        async def poll_job(index: int, job: str) -> None:
            found[index] = await self._poll({**values, "jobId": job}, sent)

        if len(jobs) == 1:
            await poll_job(0, jobs[0])
            return found
        try:
            async with create_task_group() as group:
                for index, job in enumerate(jobs):
                    group.start_soon(poll_job, index, job)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return found

    async def _poll(self, values: Mapping[str, object], sent: Sequence[str]) -> PollResult:
        answers = await self.request.each(values)
        captures = self.request.captured(answers)
        for answer in answers:
            state, detail = self._state_of(answer, len(sent))
            if state != "ready":
                return PollResult(state, detail)
        if self.id_map is not None:
            captures = merge_captures(captures, {self.id_map.name: self.id_map.read(answers, sent)})
        return PollResult("ready", "", captures)

    def _state_of(self, answer: ServiceResponse, sent: int) -> tuple[State, str]:
        """Return the state that a response shows, and a detail text.

        A failure is checked first. A status in ``treat_as_ok`` counts as ready.
        """
        if not answer.ok:
            return "ready", ""
        for path, failing in self.fail_on:
            for value in path.all(answer.tree):
                if value in failing:
                    return "failed", f'"{path.text}" is {compact(value)}: {compact(answer.tree)[:300]}'
        for test, wanted in self.until:
            found = answer.values(test) if not test.path.single else [answer.value(test)]
            if (
                lost := next((value for value in found if _is_failure_state(value, wanted)), None)
            ) and not self.fail_on:
                return "failed", f'"{test.path.text}" is {compact(lost)}: {compact(answer.tree)[:300]}'
            if not found or any(value not in wanted for value in found):
                return "pending", f'"{test.path.text}" is {", ".join(map(compact, found))}'
        if self.count is not None:
            count = read_count(answer, self.count)
            return (
                ("ready", "")
                if count >= sent
                else (
                    "pending",
                    f"{count} of {counted(sent, 'memor(y|ies)')} there"
                    + (FIRST_PAGE if may_be_a_page(answer.tree, count) else ""),
                )
            )
        return "ready", ""


FAILED_STATES = frozenset(
    {"failed", "failure", "error", "errored", "cancelled", "canceled", "aborted", "timed_out", "expired"}
)


def _is_failure_state(value: object, wanted: Sequence[object]) -> bool:
    """Return True if a status value usually means a final failure, and the config does not list it as success."""
    return isinstance(value, str) and value not in wanted and value.lower() in FAILED_STATES


def read_count(answer: ServiceResponse, at: ResponsePath) -> int:
    """Return the count that a path finds: a number, or the length of a list or object.

    If the path can match several values, return the number of matches.
    """
    if not at.path.single:
        return len(at.path.all(answer.tree))
    value = answer.value(at)
    if isinstance(value, list | dict):
        return len(value)
    found = whole_number(value)
    if found is None:
        raise answer.error(
            at, f"expected a whole number or a list, found {json_type(value)}: {compact(value)[:SHOWN_VALUE]}"
        )
    return found


def wait_rule(wait: WaitBlock | None) -> Waiting:
    """Convert a ``wait`` section to the engine's waiting rule, with times in seconds.

    Without a section, the engine does not wait.
    """
    if wait is None:
        return Waiting()
    return Waiting(
        by="sentinel" if wait.request is None else "status",
        interval_s=wait.interval_ms / 1000,
        max_interval_s=wait.max_interval_ms / 1000,
        timeout_s=wait.timeout_s,
        settle_s=wait.settle_ms / 1000,
    )
