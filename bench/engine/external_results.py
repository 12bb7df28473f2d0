"""Score rankings or answers of another tool, in the same way as the results of a run.

No memory system is called. The metrics are those of any run. Items that are not in the file stay pending.

Example::

    plan, rows = external_plan(catalog, request, rows, label="their-system", environment=environment)
    await score_external(plan, rows, folder, environment=environment)     # a journal like that of any run
    known = CorpusIds.of(dataset, "conv-26")
    search_result_of(row, known, lane)          # a SearchResult: unknown ids keep their rank and match nothing
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from urllib.parse import unquote

import anyio

from bench.config.benchmark.terms import Unit
from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.datasets import Dataset, RenderedMemory, evidence_level, ranked_ids
from bench.datasets.memories import contained_ids, evidence_sentences
from bench.engine.budget import Budget
from bench.engine.corpora.corpus_state import CorpusState
from bench.engine.external_rows import ExternalRow, Hits
from bench.engine.items.evaluate import StoredReplies, evaluate_item
from bench.engine.items.hit_mapping import OVER_RETURNED
from bench.engine.items.item_row import failed_row
from bench.engine.items.phase_results import AnswerResult, SearchResult, flags_of, item_key, phase_row
from bench.engine.lane_setup import open_lanes
from bench.engine.models import open_models
from bench.engine.open_lane import OpenLane, ReadyCorpus
from bench.engine.outcome import Failure
from bench.engine.progress import Progress
from bench.engine.run_context import CallOwner, RunContext, RunScope
from bench.engine.run_metadata import CodeState, run_meta
from bench.engine.stopping import StopControl
from bench.errors import DataError, EvaluatorFailed, NoAnswer
from bench.http import Http
from bench.journal import Event, Journal, RunState
from bench.model import Completion, Hit, Item, Memory, Phase
from bench.models import missing_answer_error, strip_reasoning
from bench.plan import NONE, Job, Lane, Plan, make_plan
from bench.plan.benchmark import at_cutoff
from bench.settings import Environment
from bench.visible_text import counted

NO_RANKING = "no_ranking"


@dataclass(frozen=True, slots=True)
class CorpusIds:
    """The ids of the sessions and turns of one corpus, and their texts."""

    by_id: dict[str, RenderedMemory]
    sessions: frozenset[str]

    @classmethod
    def of(cls, dataset: Dataset, corpus_id: str) -> CorpusIds:
        """Return the ids of a corpus; if a session and a turn have the same id, the id refers to the session."""
        corpus = dataset.corpus(corpus_id)
        found: dict[str, RenderedMemory] = {}
        for session in corpus.sessions:
            for turn in session.turns:
                found[turn.id] = _memory(corpus_id, turn.text, session.id, (turn.id,))
        for session in corpus.sessions:
            text = "\n".join(turn.text for turn in session.turns)
            found[session.id] = _memory(corpus_id, text, session.id, tuple(turn.id for turn in session.turns))
        return cls(found, frozenset(session.id for session in corpus.sessions))

    def slots(self, hits: Hits) -> list[list[RenderedMemory]]:
        """Return the sessions or turns of each hit, in rank order; a hit with only unknown ids has an empty list."""
        return [[self.by_id[name] for name in map(self._named, hit) if name in self.by_id] for hit in hits]

    def unknown_ids(self, row: ExternalRow) -> Iterator[tuple[str, str]]:
        """Yield each id of a ranking that the corpus does not have, with its place in the file."""
        return ((name, where) for name, where in _ids(row) if self._named(name) not in self.by_id)

    def kinds(self, row: ExternalRow) -> Iterator[tuple[str, bool, str]]:
        """Yield each known id of a ranking, as (id, True if it is a session, place in the file)."""
        for name, where in _ids(row):
            known = self._named(name)
            if known in self.by_id:
                yield known, known in self.sessions, where

    def _named(self, name: str) -> str:
        return known_name(name, self.by_id)


def _ids(row: ExternalRow) -> Iterator[tuple[str, str]]:
    """Yield each id of a ranking with its place in the file."""
    return ((name, row.where_of(slot)) for slot, hit in enumerate(row.hits or ()) for name in hit)


def known_name(name: str, known: Container[str]) -> str:
    """Return the form of an id that is in ``known``: unchanged, without its ``#dup`` suffix, or percent-decoded.

    If no form is known, return the id unchanged.
    """
    bare = name.partition("#dup")[0]
    return next((one for one in (name, bare, unquote(name), unquote(bare)) if one in known), name)


def search_result_of(
    row: ExternalRow, known: CorpusIds, lane: Lane, sentences: Mapping[str, str] | None = None
) -> SearchResult:
    """Convert a ranking to a search result; duplicates and unknown ids keep their ranks.

    If ``sentences`` (the evidence sentences of the item) is given, hits are compared by text, not by id.
    """
    k = lane.benchmark.k
    if row.hits is None:
        return SearchResult(hits=(), retrieved=None, requested=k, returned=0, reason=NO_RANKING)
    slots = known.slots(row.hits)
    ranked = ranked_ids(slots, level=lane.level, unit=lane.unit)
    if sentences is not None:
        ranked = [contained_ids(sentences, "\n".join(one.memory.content for one in slot)) for slot in slots]
    hits = tuple(
        Hit(id=names[0] if names else "", content="\n".join(one.memory.content for one in slot))
        for names, slot in zip(row.hits[:k], slots, strict=False)
    )
    return SearchResult(
        hits=hits,
        retrieved=tuple(ranked[:k]),
        beyond=tuple(ranked[k:]),
        requested=k,
        returned=len(row.hits),
        unmapped=sum(not slot for slot in slots[:k]),
        flags=(OVER_RETURNED,) if len(row.hits) > k else (),
    )


def _memory(corpus: str, text: str, session: str, turns: tuple[str, ...]) -> RenderedMemory:
    return RenderedMemory(
        memory=Memory(id=session, content=text), sessions=(session,), turns=turns, corpus=corpus, position=1
    )


GIVEN = "(given)"
"""shown as the answering model, because the real one is unknown"""
STAND_IN = "bm25"
"""the provider with which the plan is made, because every benchmark accepts it; it is never opened"""
SILENT = "oracle"
"""the provider that is opened instead of the planned one, because it needs no settings"""


def external_plan(
    catalog: Catalog, request: RunRequest, rows: Sequence[ExternalRow], *, label: str, environment: Environment
) -> tuple[Plan, list[ExternalRow]]:
    """Plan the scoring of one file; return the plan, and the rows with the item ids of the benchmark.

    ``request`` names the benchmark, judge and metrics. If it has no k, all hits of the file count. ``label`` is the
    name of the other tool in reports.

    Raises:
        DataError: an item is unknown, or a ranking of turns contains a session.
        UsageError, ConfigError: as in `make_plan`.
    """
    answered = any(row.answer is not None for row in rows)
    flags = {"providers": (STAND_IN,), "answering_model": ("builtin/extractive",) if answered else (NONE,)}
    plan = make_plan(catalog, RunRequest.combine(request, flags), environment)
    (lane,) = plan.lanes
    if not request.k:
        deepest = max(len(row.hits or ()) for row in rows)
        lane = replace(lane, benchmark=at_cutoff(lane.benchmark, request, max(lane.benchmark.k, deepest)))
    dataset = lane.benchmark.dataset
    rows = [replace(row, item=_item_id(dataset, row)) for row in rows]
    unit: Unit = "turn" if _ranks_turns(dataset, rows) else "session"
    key = f"{lane.benchmark.name}/{label}"
    theirs = replace(
        lane,
        key=key,
        provider=replace(lane.provider, label=label, built_in=SILENT),
        jobs=tuple(replace(job, lane=key, answering=GIVEN if answered else NONE) for job in lane.jobs),
        unit=unit,
        level=evidence_level(lane.benchmark.config, unit=unit, turn_evidence=dataset.turn_evidence),
    )
    return replace(plan, lanes=(theirs,)), rows


async def score_external(
    plan: Plan,
    rows: Sequence[ExternalRow],
    folder: Path,
    *,
    environment: Environment,
    replies: Mapping[str, StoredReplies] | None = None,
) -> None:
    """Score the rows of another tool, and write the journal of a run with the results into ``folder``.

    ``replies`` has, for each item, the judge's earlier replies on the same answer. They are not requested again.

    Raises:
        ConfigError: a judge cannot be opened.
    """
    meta = run_meta(plan, plan.lanes[0].provider.label, CodeState.read(environment), environment)
    stopping, progress = StopControl(on_stop=lambda reason: None), Progress()
    request = plan.request
    async with (
        Journal.create(folder, meta) as journal,
        Http(concurrency=request.concurrency, attempt_s=request.timeout) as http,
        AsyncExitStack() as stack,
    ):
        run = RunContext(
            run_id=meta.run_id,
            folder=folder,
            plan=plan,
            journal=journal,
            http=http,
            environment=environment,
            progress=progress,
            stopping=stopping,
            budget=Budget(max_usd=None, stopping=stopping, progress=progress),
            scope=RunScope(),
            resumed=False,
        )
        (planned,) = plan.lanes
        # the answers are there already: no model is opened for them
        without_answering = replace(planned, jobs=tuple(replace(job, answering=NONE) for job in planned.jobs))
        models = open_models(replace(run, plan=replace(plan, lanes=(without_answering,))))
        stack.callback(models.close)
        width = request.concurrency if isinstance(request.concurrency, int) else 1
        (lane,) = await open_lanes(stack, run, models, width)
        scoring = ExternalScoring(lane=lane, rows=rows, replies=replies or {})
        await scoring.run()
        if scoring.unknown_places:
            journal.append(Event(kind="unknown_ids", scope=lane.key, message=scoring.unknown_ids_note))
        whole = len(rows) == planned.benchmark.n_selected
        await journal.set_state(RunState.COMPLETE if whole else RunState.PARTIAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalScoring:
    """The scoring of all rows of one file."""

    lane: OpenLane
    rows: Sequence[ExternalRow]
    replies: Mapping[str, StoredReplies] = field(default_factory=dict)
    unknown_places: dict[str, str] = field(default_factory=dict)
    """unknown id -> its first place in the file"""

    @property
    def unknown_ids_note(self) -> str:
        """Return a note with the number of unknown hit ids and the first of them."""
        (name, where), count = next(iter(self.unknown_places.items())), len(self.unknown_places)
        ids = counted(count, "(|different )hit id(|s) (is|are)")
        return f'{ids} unknown in the corpus of their item, first "{name}" ({where}): they count as irrelevant hits'

    async def run(self) -> None:
        """Score every row, several rows at the same time."""
        work = self._by_corpus()
        async with anyio.create_task_group() as workers:
            for _ in range(min(self.lane.width, len(self.rows))):
                workers.start_soon(self._score_rows, work)

    async def _score_rows(self, work: Iterator[tuple[ExternalRow, ReadyCorpus, CorpusIds]]) -> None:
        for row, ready, known in work:
            await self.lane.run.journal.wait_for_room()
            await self._score(row, ready, known)

    def _by_corpus(self) -> Iterator[tuple[ExternalRow, ReadyCorpus, CorpusIds]]:
        """Yield the rows grouped by corpus, so that each corpus is read only once; also collect unknown ids."""
        dataset = self.lane.plan.benchmark.dataset
        groups: dict[str, list[ExternalRow]] = {}
        for row in self.rows:
            groups.setdefault(dataset.find(row.item).corpus, []).append(row)
        for corpus, rows in groups.items():
            ready = ReadyCorpus(lane=self.lane, corpus_id=corpus, space=self.lane.space(corpus, CorpusState()))
            known = CorpusIds.of(dataset, corpus)
            for row in rows:
                for name, where in known.unknown_ids(row):
                    self.unknown_places.setdefault(name, where)
                yield row, ready, known

    async def _score(self, row: ExternalRow, ready: ReadyCorpus, known: CorpusIds) -> None:
        lane, item = self.lane.plan, self.lane.plan.benchmark.dataset.item(row.item)
        sentences = evidence_sentences(item, ready.content.turn_texts) if lane.level == "text" else None
        search, answer, failure = search_result_of(row, known, lane, sentences), None, None
        journal = self.lane.run.journal
        journal.append(phase_row(item_key(lane.key, Phase.SEARCH, item), search, None))
        if row.answer is not None:
            answer = given_answer(row.answer, item, exact=lane.benchmark.scoring.compares_whole)
            failure = answer.failure
            for owner in dict.fromkeys(job.answer_owner for job in lane.jobs):
                journal.append(phase_row(item_key(owner, Phase.ANSWER, item), answer, failure))
        for job in lane.jobs:
            if failure is not None:
                journal.append(failed_row(lane, item_key(job.key, Phase.EVALUATE, item), item, failure))
            else:
                await self._evaluate(job, ready, item, search, answer)

    async def _evaluate(
        self, job: Job, ready: ReadyCorpus, item: Item, search: SearchResult, answer: AnswerResult | None
    ) -> None:
        replies = self.replies.get(item.id)
        done = await self.lane.run.attempt(
            lambda: evaluate_item(self.lane, job, ready, item, 1, search, answer, [], known_replies=replies),
            CallOwner(job.key, item.corpus),
            plugin_fault=EvaluatorFailed,
        )
        key = item_key(job.key, Phase.EVALUATE, item)
        if done.value is not None:
            self.lane.run.journal.append(done.value.journal_row(key, done))
        elif done.failure is not None:
            self.lane.run.journal.append(failed_row(self.lane.plan, key, item, done.failure))


def given_answer(text: str, item: Item, *, exact: bool = False) -> AnswerResult:
    """Convert the answer of another tool to an answer of a run: without reasoning, with unknown prompt and model.

    ``exact`` is True if a scoring rule compares whole texts.
    """
    reply = strip_reasoning(Completion(text=text, model=GIVEN))
    error = missing_answer_error(reply) or (None if reply.text.strip() else NoAnswer("the answer in the file is empty"))
    return AnswerResult(
        reply=replace(
            reply, finish=reply.finish if error is None else "other", flags=flags_of(reply, item, exact=exact)
        ),
        failure=None if error is None else Failure.of(error),
        context_hits=0,
        prompt="",
        prompt_sha256="",
    )


def _item_id(dataset: Dataset, row: ExternalRow) -> str:
    """Return the benchmark's id of the item of a row.

    An unknown id is also tried in its percent-decoded form, because TREC files cannot contain white space in ids.

    Raises:
        DataError: the benchmark has no such item.
    """
    found = next((name for name in (row.item, unquote(row.item)) if dataset.index_of(name) is not None), None)
    if found is None:
        near = get_close_matches(row.item, (ref.id for ref in dataset.items()), n=1)
        hint = f'did you mean "{near[0]}"?' if near else f"list the ids with: bench describe {dataset.name} --items"
        raise DataError(f'{dataset.name} has no item "{row.item}"', where=row.where, hint=hint)
    return found


def _ranks_turns(dataset: Dataset, rows: Sequence[ExternalRow]) -> bool:
    """Return True if the file ranks turns. The first known id in the file decides this.

    Raises:
        DataError: the file ranks turns, but also contains a session, which would count as all its turns.
    """
    turns: bool | None = None
    for row in rows if dataset.turn_evidence else ():
        for name, is_session, where in CorpusIds.of(dataset, dataset.find(row.item).corpus).kinds(row):
            turns = not is_session if turns is None else turns
            if turns and is_session:
                raise DataError(
                    f'hit "{name}" is a session, but the hits before this hit are turns',
                    where=where,
                    hint="rank only sessions or only turns in one file",
                )
    return bool(turns)
