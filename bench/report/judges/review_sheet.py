"""List the sampled answers of a run in random order, and record the labels that people give.

Example::

    sheet = await read_sheet(reader)
    entry = sheet.pending(after=None)                # the first entry without a label
    row = await texts_to_label(reader, entry)        # question, expected, answer; no provider, no verdict

The TSV file of ``bench review`` and the web page have the same order and ids, and write the same labels to the journal.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from bench.errors import UsageError
from bench.journal import Event, Journal, Reader
from bench.plan.job_record import JobRecord, read_jobs
from bench.report.judges.panel import by_answers, item_texts
from bench.report.judges.review import LABEL, SampledAnswer, labels_in, sample_of
from bench.report.judges.review_sampling import draw_sample


class SheetEntry(NamedTuple):
    """One sampled answer that a person labels."""

    id: str
    jobs: tuple[JobRecord, ...]
    """the jobs with this answer, one per judge"""
    drawn: SampledAnswer


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewSheet:
    """The sampled answers of a run in random order, and their labels."""

    entries: Mapping[str, SheetEntry]
    labels: Mapping[str, bool]

    @property
    def labelled(self) -> int:
        """The number of answers that have a label."""
        return sum(name in self.labels for name in self.entries)

    def changed_by(self, given: Mapping[str, bool]) -> list[str]:
        """Return the ids of answers whose label differs from their label in ``given``."""
        return [name for name, right in given.items() if self.labels.get(name, right) is not right]

    def pending(self, after: str | None = None) -> SheetEntry | None:
        """Return the next entry without a label; None if every entry has a label.

        The search starts after the entry with the id ``after``, and continues at the first entry. If ``after`` is None,
        the search starts at the first entry.
        """
        names = list(self.entries)
        start = names.index(after) + 1 if after is not None and after in self.entries else 0
        return next((self.entries[name] for name in names[start:] + names[:start] if name not in self.labels), None)


async def judged_jobs(reader: Reader, provider: str | None) -> list[JobRecord]:
    """Return the jobs that have a judge. If ``provider`` is given, return only jobs of this provider.

    Raises:
        UsageError: no job has a judge.
    """
    jobs = [one for one in read_jobs(reader.meta.extra) if one.models.judge is not None]
    found = [one for one in jobs if provider in (None, one.provider)]
    if not found:
        whose = "" if provider is None else f" of {provider}"
        run = reader.meta.run_id
        hint = f"add a judge with: bench rescore {run} --evaluators llm-judge --judge-model MODEL"
        raise UsageError(f"run {run} has no job with a judge{whose}", hint=hint)
    return found


async def draw_sheet(folder: Path, *, n: int, seed: int, provider: str | None = None) -> None:
    """Draw n answers of each memory system and answering model, and write new samples to the journal.

    A sample that equals the existing sample is not written again.

    Raises:
        UsageError: the run has no verdict of a judge.
        Locked: another process writes to the run.
    """
    async with Reader.open(folder) as reader:
        await reader.refuse_held()
        events = await reader.events()
        groups = by_answers(await judged_jobs(reader, provider))
        samples = [await draw_sample(reader, jobs, n=n, seed=seed) for jobs in groups]
        fresh = [one for one, jobs in zip(samples, groups, strict=True) if sample_of(events, jobs[0]) != one]
    if not any(one.drawn for one in samples):
        raise UsageError(
            f"run {folder.name} has no verdict of a judge",
            hint=f"judge the answers with: bench rescore {folder.name} --judge-model MODEL",
        )
    await _record(folder, [one.to_event() for one in fresh])


async def read_sheet(reader: Reader, provider: str | None = None) -> ReviewSheet:
    """Read the sampled answers of a run and their labels. If no sample was drawn, the result is empty."""
    events = await reader.events()
    groups = by_answers(await judged_jobs(reader, provider))
    samples = [(jobs, sample) for jobs in groups if (sample := sample_of(events, jobs[0])) is not None]
    found: dict[str, SheetEntry] = {}
    for jobs, sample in samples:
        for one in sample.drawn:
            found[sample.id_of(one.key)] = SheetEntry(sample.id_of(one.key), jobs, one)
    order = list(found)
    if samples:
        random.Random(samples[0][1].seed).shuffle(order)
    return ReviewSheet(entries={name: found[name] for name in order}, labels=labels_in(events))


async def texts_to_label(reader: Reader, entry: SheetEntry) -> dict[str, str]:
    """Return the texts that a person sees to label an answer: the columns of the TSV file."""
    key = entry.drawn.key
    words: dict[str, str] = {}
    for record in entry.jobs:
        every = await reader.item(record.chain, key.item, corpus=key.corpus)
        words = await item_texts(reader, next(one for one in every if one.epoch == key.epoch))
        if words["question"]:  # a judge that failed leaves the item's texts to the others
            break
    return {"id": entry.id, "question_type": entry.drawn.question_type, **words}


async def record_labels(folder: Path, labels: Iterable[tuple[str, bool]]) -> None:
    """Write labels to the journal; each label is (id of an answer, True if it is right).

    If an answer has several labels, the newest label counts.
    """
    await _record(folder, [Event(kind=LABEL, data={"id": name, "right": right}) for name, right in labels])


async def _record(folder: Path, events: Sequence[Event]) -> None:
    if events:
        async with Journal.append_to(folder) as journal:
            for event in events:
                await journal.append_durable(event)
