"""Compute the cost of a memory system: of the ingest (once per corpus) and of each question.

Example::

    cost = await read_memory_cost(reader, record, totals, reused={}, n_correct=31)
    cost.usd_per_question, cost.context_share, cost.break_even.questions     # Decimal("0.0021"), 0.04, 13

In the formulas, each value is the sum over all items, epochs and attempts of a job. The cost of the ingest is called
``build``:

* cost per question = search calls / successful searches + answer calls / successful answers. Calls of the judge are
  left out, because in production no judge reads the answers.
* cost per correct answer = (build + search + answer calls) / correct answers. If another run paid for the build, its
  price is included.
* context share = context tokens of the answers / tokens of their corpora. Both are estimated by the method ``chars/4``.
* full context per question = answer calls / successful answers + input price x (corpus tokens - context tokens) /
  answers. This is the cost of a question if the prompt contained the whole corpus.
* break-even = the smallest number of questions n on one corpus for which the memory is cheaper: build / corpora + n x
  cost per question < n x full context per question.

If the price of one call is unknown, the whole sum is unknown. A value that the journal does not have is None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from bench.config.builtin_providers import is_control
from bench.journal import Reader
from bench.journal.records import PhaseTotals
from bench.model import Phase
from bench.plan.job_record import JobRecord
from bench.plan.stored_builds import BuildTotals
from bench.visible_text import counted, money_text

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CallTotals:
    """The calls, tokens, money and time of a group of calls."""

    calls: int = 0
    tokens: int = 0
    """input and output tokens of the calls; tokens that the endpoint does not report are counted locally"""
    cost_usd: str = "0"
    """sum of the known costs of calls, in USD as decimal text"""
    cost_unknown_calls: int = 0
    """number of billed calls whose cost is unknown"""
    time_us: int = 0
    """total duration in microseconds, without the time in the queue and in the rate limiter"""

    @property
    def usd(self) -> Decimal | None:
        """The total cost in USD; None if the cost of any call is unknown."""
        return None if self.cost_unknown_calls else Decimal(self.cost_usd)

    @property
    def usd_micros(self) -> int | None:
        """The total cost in whole micro-USD; None if the cost of any call is unknown."""
        return None if self.usd is None else round(self.usd * MILLION)

    @classmethod
    def of(cls, spent: PhaseTotals) -> CallTotals:
        return cls(
            calls=spent.calls,
            tokens=spent.tokens,
            cost_usd=spent.cost_usd,
            cost_unknown_calls=spent.unknown_costs,
            time_us=spent.time_us,
        )

    def __add__(self, other: CallTotals) -> CallTotals:
        return CallTotals(
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost_usd=f"{Decimal(self.cost_usd) + Decimal(other.cost_usd):f}",
            cost_unknown_calls=self.cost_unknown_calls + other.cost_unknown_calls,
            time_us=self.time_us + other.time_us,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildCost:
    """The cost of the ingest of all corpora, which is paid once."""

    fingerprint: str | None
    """digest of the ingested corpora; None if a corpus is not ingested, or if an older version of bench ingested it"""
    paid_by: str
    """id of the run that ingested the corpora and paid for them"""
    lane: str
    """key of the lane that ingested the corpora, in the run ``paid_by``"""
    corpora: int | None
    """number of ingested corpora; a corpus that is ingested twice counts twice; None if an older version did not record
    the number"""
    memories: int
    price: CallTotals
    """cost of the ingest, even if another run paid it"""
    paid: CallTotals
    """cost that this job's lane paid; zero if another run or lane ingested the corpora"""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryCost:
    """The cost of searches and answers, which is paid for every question."""

    questions: int
    """number of searches: number of items, multiplied by the number of epochs"""
    search: CallTotals
    answer: CallTotals
    searches: int
    """number of successful searches, over all attempts"""
    answers: int | None
    """number of successful answers, over all attempts; None if no model answers"""

    @property
    def totals(self) -> CallTotals:
        return self.search + self.answer

    @property
    def parts(self) -> tuple[tuple[CallTotals, int], ...]:
        """The totals of the searches and of the answers, each with the number by which to divide them.

        The result is () if no search or no answer was successful.
        """
        search, answer = (self.search, self.searches), (self.answer, self.answers)
        parts = tuple((totals, n) for totals, n in (search, answer) if n is not None)
        return parts if all(n for _, n in parts) else ()

    @property
    def known_usd_per_question(self) -> Decimal | None:
        """The cost per question in USD, without calls of unknown cost; None if no search or no answer succeeded."""
        parts = self.parts
        return sum((Decimal(totals.cost_usd) / n for totals, n in parts), Decimal(0)) if parts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextSize:
    """The number of tokens in the contexts that the answering model read, and in their whole corpora."""

    answers: int
    tokens: int
    """total tokens of all contexts"""
    corpus_tokens: int | None
    """total tokens of the whole corpora; a corpus counts once per answer; None if the size of a corpus is unknown"""
    corpora: int

    @property
    def share(self) -> float | None:
        """Context tokens divided by corpus tokens; None if the corpus tokens are unknown."""
        return self.tokens / self.corpus_tokens if self.corpus_tokens else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakEven:
    """The number of questions on one corpus after which a memory costs less than full context.

    Full context means that every prompt contains the whole corpus.
    """

    questions: int | None
    """number of questions; None if the memory is never cheaper or the number is unknown (see ``reason``)"""
    never: bool = False
    reason: str = ""
    full_context_usd_per_question: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCost:
    """The build cost and the query cost of one job, with figures that are computed from them."""

    build: BuildCost
    query: QueryCost
    context: ContextSize | None
    """sizes of the contexts; None if no model answered"""
    break_even: BreakEven | None
    """number of questions after which the memory is cheaper; None if no model answered, or if the job is a control"""
    n_correct: int

    @property
    def usd_per_question(self) -> Decimal | None:
        return None if self.query.totals.usd is None else self.query.known_usd_per_question

    @property
    def usd_per_correct_answer(self) -> Decimal | None:
        build, query = self.build.price.usd, self.query.totals.usd
        return None if build is None or query is None or not self.n_correct else (build + query) / self.n_correct

    @property
    def context_share(self) -> float | None:
        return None if self.context is None else self.context.share

    @property
    def has_money(self) -> bool:
        """True if a build, search or answer call has a known cost above zero."""
        return any(Decimal(one.cost_usd) for one in (self.build.price, self.query.search, self.query.answer))


async def read_memory_cost(
    reader: Reader, record: JobRecord, totals: BuildTotals, *, reused: Mapping[str, object], n_correct: int
) -> MemoryCost | None:
    """Compute the cost of a job from its journal.

    The result is None if the job searched nothing, as with answers that were imported from a file.
    """
    search = await reader.phase_spent(record.lane, Phase.SEARCH)
    if not search.units:
        return None
    answer = await reader.phase_spent(record.answer_owner, Phase.ANSWER)
    query = QueryCost(
        questions=search.units,
        search=CallTotals.of(search),
        answer=CallTotals.of(answer),
        searches=search.succeeded,
        answers=None if record.models.answering in (None, "none") else answer.succeeded,
    )
    own = own_build(reader.meta.run_id, record, totals)
    build = reused_build(own, reused) if reused else own
    context = _context(await reader.contexts(record.answer_owner), totals.sizes)
    is_compared = context is not None and not is_control(record.provider)
    even = break_even(build, query, context, record.input_usd) if is_compared and context is not None else None
    return MemoryCost(build=build, query=query, context=context, break_even=even, n_correct=n_correct)


async def read_context(reader: Reader, record: JobRecord) -> ContextSize | None:
    """Return the sizes of the contexts of a job's answers; None if no model answered."""
    totals = BuildTotals({})
    async for corpus in reader.corpora(record.build):
        totals.add(corpus)
    return _context(await reader.contexts(record.answer_owner), totals.sizes)


def own_build(run_id: str, record: JobRecord, totals: BuildTotals) -> BuildCost:
    """Return the build cost that this run paid.

    The cost is zero for a lane that searches the corpora of another lane.
    """
    price = CallTotals(
        calls=totals.calls,
        tokens=totals.tokens,
        cost_usd=f"{totals.cost:f}",
        cost_unknown_calls=totals.unknown_costs,
        time_us=totals.ingest_us,
    )
    return BuildCost(
        fingerprint=totals.fingerprint,
        paid_by=run_id,
        lane=record.build,
        corpora=totals.n_ingests,
        memories=totals.n_memories,
        price=price,
        paid=CallTotals() if record.shares else price,
    )


def reused_build(own: BuildCost, reused: Mapping[str, object]) -> BuildCost:
    """Return the cost of a build that another run paid, plus the cost of corpora that this run added.

    ``own`` is the cost of the added corpora. ``reused`` is the data of the journal event that records the reuse.
    """

    def count(name: str) -> int:
        value = reused.get(name)
        return value if isinstance(value, int) else 0

    price = CallTotals(
        calls=count("calls"),
        tokens=count("tokens"),
        cost_usd=str(reused.get("cost_usd") or "0"),
        cost_unknown_calls=count("cost_unknown_calls"),
        time_us=count("ingest_us"),
    )
    fingerprint, corpora = reused.get("fingerprint"), count("n_corpora")
    return BuildCost(
        fingerprint=fingerprint if isinstance(fingerprint, str) and not own.corpora else None,
        paid_by=str(reused.get("run")),
        lane=str(reused.get("build")),
        corpora=corpora + (own.corpora or 0) if corpora else None,
        memories=count("n_memories") + own.memories,
        price=price + own.price,
        paid=own.paid,
    )


def _context(contexts: Mapping[str, tuple[int, int]], sizes: Mapping[str, int | None]) -> ContextSize | None:
    """Sum the tokens of the contexts and of their whole corpora; None without answers."""
    answers = sum(n for n, _ in contexts.values())
    if not answers:
        return None
    known = [sizes.get(name) for name in contexts]
    whole = [n * (size or 0) for (n, _), size in zip(contexts.values(), known, strict=True)]
    return ContextSize(
        answers=answers,
        tokens=sum(tokens for _, tokens in contexts.values()),
        corpus_tokens=None if None in known else sum(whole),
        corpora=len(contexts),
    )


def break_even(build: BuildCost, query: QueryCost, context: ContextSize, input_usd: str | None) -> BreakEven:
    """Compute after how many questions on one corpus a memory is cheaper than a prompt with the whole corpus.

    If there is no such number, or if a cost is unknown, the result contains the reason.
    """
    if input_usd is None:
        return _unknown_break_even("the input price of the answering model is not known")
    if context.corpus_tokens is None:
        return _unknown_break_even("the journal does not state how large the corpora are")
    build_usd, search_usd, answer_usd = build.price.usd, query.search.usd, query.answer.usd
    if search_usd is None or answer_usd is None:
        return _unknown_break_even(
            counted(query.totals.cost_unknown_calls, "call(|s) of the questions (has|have) no price")
        )
    if not query.searches or not query.answers:
        return _unknown_break_even("no search or no answer was successful")
    unread = Fraction(context.corpus_tokens - context.tokens, context.answers)
    answered = Fraction(answer_usd) / query.answers
    full = answered + Fraction(Decimal(input_usd)) / MILLION * unread
    per_question = Fraction(search_usd) / query.searches + answered
    found = BreakEven(questions=None, full_context_usd_per_question=_decimal(full))
    if not per_question and not full:
        return _unknown_break_even("neither searches nor answers cost money")
    if not Decimal(input_usd):
        return _unknown_break_even("the input of the answering model is free")
    if per_question >= full:
        costs = [money_text(_decimal(cost)) for cost in (per_question, full)]
        reason = f"a question costs USD {costs[0]}; with the whole corpus in the prompt, it costs USD {costs[1]}"
        return replace(found, never=True, reason=reason)
    if build_usd is None:
        return replace(
            found, reason=counted(build.price.cost_unknown_calls, "call(|s) of the build (has|have) no price")
        )
    if not build.corpora:
        return replace(found, reason="the journal does not state how many corpora the build has")
    return replace(found, questions=int(Fraction(build_usd) / build.corpora / (full - per_question)) + 1)


def _unknown_break_even(reason: str) -> BreakEven:
    return BreakEven(questions=None, reason=reason)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)
