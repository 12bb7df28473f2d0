"""Check that the section ``memoryCost`` of a receipt agrees with the rows of the items file.

Example::

    check = CostCheck(body)
    for row in rows: check.add(row)
    findings = [*check.faults(), *check.unchecked()]

Other values of this section, such as money, time and the cost of the ingest, are not in these rows. These values are
only stated by the signer.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isclose

from bench.receipt.items_file import ItemRow
from bench.receipt.schema import Body
from bench.receipt.schema_results import ReceiptContext, ReceiptMemoryCost, ReceiptTotals
from bench.receipt.verification.findings import Finding, fail, skip

NOT_IN_ROWS = "build, calls, tokens, money and time of the questions, corpusTokens, breakEven.questions"
ROUNDED = 1.0
"""largest difference in micro-USD that is accepted as rounding"""


class CostCheck:
    """Counts the rows of an items file and compares the counts with the memory cost of the receipt."""

    def __init__(self, body: Body) -> None:
        self._body = body
        self._searched = 0
        self._answers = 0
        self._tokens = 0
        self._corpora: set[str] = set()

    def add(self, row: ItemRow) -> None:
        """Count the search, the answer, the context tokens and the corpus of one row."""
        self._searched += row.retrieved is not None
        if row.tokens is not None and row.tokens.context is not None:
            self._answers += 1
            self._tokens += row.tokens.context
            self._corpora.add(row.corpus_id)

    def faults(self) -> Iterator[Finding]:
        """Yield a failure for each value of the memory cost that contradicts the rows."""
        cost = self._body.memory_cost
        if cost is None:
            return
        for name, detail in (
            *self._questions(cost),
            *self._context(cost.context),
            *self._paid(cost),
            *_break_even(cost),
        ):
            yield fail("recompute", "cost_mismatch", f"memoryCost.{name}: {detail}")

    def unchecked(self) -> Iterator[Finding]:
        """Yield one finding with the fields of the memory cost that cannot be recomputed from rows."""
        if self._body.memory_cost is not None:
            yield skip(
                "recompute", f"memoryCost fields that the rows do not contain were not recomputed: {NOT_IN_ROWS}"
            )

    def _questions(self, cost: ReceiptMemoryCost) -> Iterator[tuple[str, str]]:
        """Check the stated number of questions against the rows.

        A failed search is also a question, but its row has no hits. So the stated number may be larger than the number
        of rows with hits.
        """
        most = self._body.counts.planned
        if not self._searched <= cost.questions <= most:
            yield "questions", f"{cost.questions}, but the rows give {self._searched} to {most}"

    def _context(self, stated: ReceiptContext | None) -> Iterator[tuple[str, str]]:
        pending = self._body.counts.pending > 0  # of those that have not ended an answer may be in
        counted = {"answers": self._answers, "tokens": self._tokens, "corpora": len(self._corpora)}
        if stated is None:
            if self._tokens:
                yield "context", f"null, but the rows give {counted}"
            return
        for name, rows in counted.items():
            value = getattr(stated, name)
            if value < rows or (value > rows and not pending):
                yield f"context.{name}", f"{value}, but the rows give {rows}"
        share = stated.tokens / stated.corpus_tokens if stated.corpus_tokens else None
        if stated.share != share:
            yield "context.share", f"{stated.share}, but tokens / corpusTokens is {share}"

    def _paid(self, cost: ReceiptMemoryCost) -> Iterator[tuple[str, str]]:
        """Check what the run paid for the build, and the cost per correct answer.

        If the run ingested the memories itself, the paid amount must be the whole price or 0. If the run reused the
        build of another run, the paid amount must be at most the whole price.
        """
        build, correct = cost.build, self._body.counts.by_state.correct
        nothing = ReceiptTotals(calls=0, tokens=0, usd_micros=0, time_us=0)
        is_own = build.paid_by == self._body.run.run_id
        if build.paid not in (build.price, nothing) if is_own else not _is_part(build.paid, build.price):
            yield "build.paid", "must be build.price or 0" if is_own else "must not be more than build.price"
        sides = (build.price.usd_micros, cost.query.usd_micros)
        known = correct > 0 and None not in sides
        each, stated = sum(side or 0 for side in sides) / correct if known else None, cost.usd_micros_per_correct
        if (each is None) != (stated is None) or (
            each is not None and stated is not None and not isclose(each, stated, rel_tol=1e-9, abs_tol=ROUNDED)
        ):
            yield (
                "usdMicrosPerCorrect",
                (f"{stated}, but the cost of build and queries divided by {correct} correct items is {each}"),
            )


def _is_part(paid: ReceiptTotals, price: ReceiptTotals) -> bool:
    """Return True if each total in ``paid`` is at most the same total in ``price``."""
    pairs = [(paid.calls, price.calls), (paid.tokens, price.tokens), (paid.time_us, price.time_us)]
    known = price.usd_micros is None or (paid.usd_micros is not None and paid.usd_micros <= price.usd_micros)
    return known and all(part <= whole for part, whole in pairs)


def _break_even(cost: ReceiptMemoryCost) -> Iterator[tuple[str, str]]:
    even = cost.break_even
    if even is not None and ((even.questions is None) is (even.reason == "") or (even.never and even.questions)):
        yield "breakEven", f"contradictory: questions {even.questions}, never {even.never}, reason {even.reason!r}"
