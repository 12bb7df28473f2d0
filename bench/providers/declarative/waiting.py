"""When is what was added searchable? One round of the service's own status calls.

Example::

    watch = Watch.of(wire, config.wait, "wait", gives_ids=True)
    await watch.look(values, jobs=("job_1", "job_2"), sent=2)       # Readiness(state="pending", detail="1 of 2 ready")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from anyio import create_task_group

from bench.config.jsonpath import Path, compile_path
from bench.config.provider.calls import WaitBlock
from bench.model import Readiness
from bench.providers.declarative.answer import Answer, Field, compact, kind_of
from bench.providers.declarative.ingesting import IdMapping
from bench.providers.declarative.request import Wire, Wired
from bench.providers.protocol import Waiting, merge_captures
from bench.scalars import whole

SHOWN_VALUE = 100
ABREAST = 16
"""jobs that are asked for at once"""

State = Literal["ready", "pending", "failed"]
Tests = tuple[tuple[Field, tuple[object, ...]], ...]


@dataclass(slots=True)
class Seen:
    """One status answer, judged."""

    state: State = "pending"
    detail: str = ""
    captures: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A compiled ``wait`` block with a request."""

    request: Wired
    by_id: bool
    until: Tests
    fail_on: tuple[tuple[Path, tuple[object, ...]], ...]
    count: Field | None
    id_map: IdMapping | None
    done: set[tuple[str, str]] = field(default_factory=set)
    """jobs that are known to be ready, by namespace; they are not asked for again"""

    @classmethod
    def of(cls, wire: Wire, wait: WaitBlock, key: str, *, gives_ids: bool) -> Watch | None:
        """Compile a block that stands under ``key``; None when only a sentinel can tell."""
        if wait.request is None:
            return None
        return cls(
            request=wire.call(f"{key}.request", wait.request, traffic="status"),
            by_id=(wait.scope or ("id" if gives_ids else "namespace")) == "id",
            until=tuple((Field.at(f"{key}.until", path), tuple(values)) for path, values in wait.until.items()),
            fail_on=tuple((compile_path(path), tuple(values)) for path, values in wait.fail_on.items()),
            count=Field.at(f"{key}.count_at_least", wait.count_at_least) if wait.count_at_least else None,
            id_map=IdMapping.of(wait.id_map, f"{key}.id_map") if wait.id_map else None,
        )

    async def look(self, values: Mapping[str, object], *, jobs: Sequence[str], sent: Sequence[str]) -> Readiness:
        """Ask once for the namespace, or once for each job that is not known to be ready."""
        variables = {**values, "sent": len(sent)}
        if not self.by_id:
            seen = await self._ask(variables, sent)
            return Readiness(state=seen.state, detail=seen.detail, captures=seen.captures)
        return await self._look_at_jobs(variables, list(dict.fromkeys(jobs)), sent)

    async def _look_at_jobs(self, values: Mapping[str, object], jobs: Sequence[str], sent: Sequence[str]) -> Readiness:
        """In order, a few abreast; the first few that are not ready end the round, for later ones are later."""
        namespace = str(values.get("runTag", ""))
        captures: dict[str, object] = {}
        for start in range(0, len(jobs), ABREAST):
            chunk = [job for job in jobs[start : start + ABREAST] if (namespace, job) not in self.done]
            seen = await self._ask_all(values, chunk, sent)
            for job, one in zip(chunk, seen, strict=True):
                if one.state == "failed":
                    return Readiness(state="failed", detail=f"{job}: {one.detail}")
                captures = merge_captures(captures, one.captures)
                if one.state == "ready":
                    self.done.add((namespace, job))
            if any(one.state == "pending" for one in seen):
                break
        ready = sum((namespace, job) in self.done for job in jobs)
        return Readiness(
            state="ready" if ready == len(jobs) else "pending",
            detail=f"{ready} of {len(jobs)} ready",
            counts={"ready": ready, "jobs": len(jobs)},
            captures=captures,
        )

    async def _ask_all(self, values: Mapping[str, object], jobs: Sequence[str], sent: Sequence[str]) -> list[Seen]:
        found = [Seen() for _ in jobs]

        async def ask(index: int, job: str) -> None:
            found[index] = await self._ask({**values, "jobId": job}, sent)

        if len(jobs) == 1:
            await ask(0, jobs[0])
            return found
        try:
            async with create_task_group() as group:
                for index, job in enumerate(jobs):
                    group.start_soon(ask, index, job)
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        return found

    async def _ask(self, values: Mapping[str, object], sent: Sequence[str]) -> Seen:
        answers = await self.request.each(values)
        captures = self.request.captured(answers)
        for answer in answers:
            state, detail = self._judge(answer, len(sent))
            if state != "ready":
                return Seen(state, detail)
        if self.id_map is not None:
            captures = merge_captures(captures, {self.id_map.name: self.id_map.read(answers, sent)})
        return Seen("ready", "", captures)

    def _judge(self, answer: Answer, sent: int) -> tuple[State, str]:
        """Failure is looked at first; a status in ``treat_as_ok`` (a 404 of what is gone) counts as ready."""
        if not answer.ok:
            return "ready", ""
        for path, failing in self.fail_on:
            for value in path.all(answer.tree):
                if value in failing:
                    return "failed", f'"{path.text}" is {compact(value)}: {compact(answer.tree)[:300]}'
        for test, wanted in self.until:
            found = answer.values(test) if not test.path.single else [answer.one(test)]
            if not found or any(value not in wanted for value in found):
                return "pending", f'"{test.path.text}" is {", ".join(map(compact, found))}'
        if self.count is not None:
            count = counted(answer, self.count)
            return ("ready", "") if count >= sent else ("pending", f"{count} of {sent} there")
        return "ready", ""


def counted(answer: Answer, at: Field) -> int:
    """A number, or the length of a list, object or several matches."""
    if not at.path.single:
        return len(at.path.all(answer.tree))
    value = answer.one(at)
    if isinstance(value, list | dict):
        return len(value)
    found = whole(value)
    if found is None:
        raise answer.error(at, f"expected a count, found {kind_of(value)}: {compact(value)[:SHOWN_VALUE]}")
    return found


def waiting_of(wait: WaitBlock | None) -> Waiting:
    """What the engine must know to wait."""
    if wait is None:
        return Waiting()
    return Waiting(
        by="sentinel" if wait.request is None else "status",
        interval_s=wait.interval_ms / 1000,
        max_interval_s=wait.max_interval_ms / 1000,
        timeout_s=wait.timeout_s,
        settle_s=wait.settle_ms / 1000,
    )
