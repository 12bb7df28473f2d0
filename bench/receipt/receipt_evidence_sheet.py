"""Build the evidence sheet of a receipt: a list of facts that a reviewer needs.

Example::

    receipt_sheet(verify_file(path, request), path).missing
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeGuard

from bench.errors import UsageError
from bench.plan.prompt_leaks import KNOWS_ANSWER, KNOWS_TYPE
from bench.receipt.cost_section import memory_cost_of
from bench.receipt.evidence_sheet import (
    NO_PRICE,
    NO_SIZE,
    EvidenceSheet,
    build_cost_text,
    build_lacks,
    context_text,
    fact,
    prompts_text,
    query_cost_text,
    query_lacks,
    share_fact,
    sheet_of,
)
from bench.receipt.schema import Receipt
from bench.receipt.schema_results import Pace, ReceiptScore, Times
from bench.receipt.schema_run import PromptUse
from bench.receipt.verification.verify import VerificationOutcome
from bench.report.tables import number
from bench.visible_text import counted, money_text

JUDGE_ERROR = ("judge calibration, ", "human review, ")


def receipt_sheet(outcome: VerificationOutcome, path: Path) -> EvidenceSheet:
    """Return the evidence sheet of one receipt, also if the receipt is not VALID.

    The fact "signature" of the sheet names the verdict.

    Raises:
        UsageError: the file is not a receipt of this schema.
    """
    receipt = outcome.receipt
    if receipt is None:
        raise UsageError(
            f"{path}: not a receipt of bench.receipt/1", hint=f"show the failed checks with: bench verify {path}"
        )
    facts = {
        **_plan_facts(receipt),
        **_outcome_facts(receipt),
        **_cost_facts(receipt),
        "context share": _context_fact(receipt, path),
    }
    signer = f"{outcome.fingerprint}, receipt {receipt.receipt_id}, issued {receipt.issued_at}"
    facts["signature"] = (f"{outcome.verdict}: key {signer}", "")
    return sheet_of(f"receipt {receipt.receipt_id}", receipt.benchmark.name, receipt.provider.name, facts)


def _plan_facts(receipt: Receipt) -> dict[str, tuple[str, str]]:
    bench, system = receipt.benchmark, receipt.provider
    named = [why for why in receipt.reproducibility.reasons if why.startswith((KNOWS_ANSWER, KNOWS_TYPE))]
    answering = any(model.role == "answering" for model in receipt.models)
    models = [f"{one.role} {one.requested}" + (f" (returned {one.reported})" if one.reported else "")
              for one in receipt.models]  # fmt: skip
    version = f"{system.name} ({system.kind}) {system.version}, reported by {system.version_source}"
    return {
        "dataset": (f"{bench.name} {bench.version}, sha256 {bench.dataset.sha256}", ""),
        "memory system": fact("" if system.version == "unknown" else version, "no version was reported"),
        "configs": (f"benchmark sha256 {bench.config_sha256}, provider sha256 {system.config_sha256}", ""),
        "answer prompt": fact(_prompts(receipt.prompts, "answer") if answering else "no model answers", "no digest"),
        "judge prompt": fact(
            _prompts(receipt.prompts, "judge") if receipt.scores.judged else "no judge: scored by rule", "no digest"
        ),
        "prompt check": ("; ".join(named) or "the receipt lists no problem of a prompt", ""),
        "k": fact(str(receipt.run.k or ""), "the receipt has none"),
        "models": ("; ".join(models) or "none", ""),
    }


def _prompts(prompts: tuple[PromptUse, ...], role: str) -> str:
    return prompts_text((one.role, one.sha256) for one in prompts if one.role.startswith(role))


def _outcome_facts(receipt: Receipt) -> dict[str, tuple[str, str]]:
    counts, proof = receipt.counts, receipt.run.isolation_proof
    states = ", ".join(f"{count} {state}" for state, count in counts.by_state.of().items() if count)
    kinds = ", ".join(f"{count} {kind}" for kind, count in counts.error_kinds.items()) or "none"
    headline = _headline(receipt)
    judged = "; ".join(why for why in receipt.reproducibility.reasons if why.startswith(JUDGE_ERROR))
    zero = None if headline is None else headline.value_failures_as_zero
    return {
        "items": (f"{counts.planned} planned, {counts.scored} scored, {counts.pending} pending", ""),
        "score": fact(_score(headline), "no metric has a value"),
        "judge error": fact(
            judged if receipt.scores.judged else "no judge: scored by rule",
            "the judge was not measured; use --judge-calibration or bench review RUN --n 50",
        ),
        "isolation": fact(
            f"level {receipt.run.isolation}, {proof.passed} of {counted(proof.probed, 'check(|s)')} passed"
            if proof.probed
            else "",
            "no namespace was probed; use --isolation probe",
        ),
        "failures": (f"{states}; errors: {kinds}; score with failures as 0: {number(zero)}", ""),
        "repeats": fact(
            f"{receipt.run.epochs} per item" if receipt.run.epochs > 1 else "", "each item ran once; use --epochs 3"
        ),
    }


def _headline(receipt: Receipt) -> ReceiptScore | None:
    """Return the score to show on the sheet; None if no metric has a value.

    The score is the first accuracy, or the first metric with a value if there is no accuracy. Judged metrics come
    before deterministic metrics.
    """
    scores: list[ReceiptScore] = [*receipt.scores.judged.values(), *receipt.scores.deterministic.values()]
    valued = [one for one in scores if one.value is not None]
    return next((one for one in valued if one.definition.startswith("accuracy/")), valued[0] if valued else None)


def _score(score: ReceiptScore | None) -> str:
    if score is None:
        return ""
    found = score.interval
    shown = "" if found is None else f" [{number(found.low)}, {number(found.high)}]"
    return f"{score.definition} {number(score.value)}{shown}, n {score.n}"


def _cost_facts(receipt: Receipt) -> dict[str, tuple[str, str]]:
    measured, memory = receipt.scores.measured, memory_cost_of(receipt)
    build, ready, search = (measured.get(f"{name}_us") for name in ("ingest", "ingest_to_searchable", "search"))
    ingested = (
        f"{counted(build.n, 'corp(us|ora)')}, p50 {_ms(build.p50)}, max {_ms(build.max)}" if _has_times(build) else ""
    )
    search_times = f"search p50 {_ms(search.p50)}, p95 {_ms(search.p95)}" if _has_times(search) else ""
    whole = _whole_cost(receipt) if memory is None else ""
    unpriced = NO_PRICE if memory is None and receipt.scores.cost.usd_micros is None else ""
    return {
        "cost of build": fact(
            build_cost_text(memory) or (ingested and ingested + whole),
            "no corpus was ingested",
            build_lacks(memory) or unpriced,
        ),
        "readiness": fact(
            f"{counted(ready.n, '(corpus was|corpora were)')} found searchable, the slowest after {_ms(ready.max)}; "
            f"{counted(receipt.counts.by_state.not_ready, 'item(|s)')} not ready" if _has_times(ready) else "",
            "no time from the last add to searchable was measured",
        ),
        "cost per query": fact(
            search_times and search_times + (whole or f"; {query_cost_text(memory)}{_rounding_note(receipt)}"),
            "no search has ended",
            query_lacks(memory) or unpriced,
        ),
    }  # fmt: skip


def _rounding_note(receipt: Receipt) -> str:
    """Return a note if the cost of the job is so small that the amounts of a receipt, in micro-USD, do not show it."""
    cost = receipt.memory_cost
    each = 0 if cost is None else cost.usd_micros_per_correct or 0
    return "; a receipt rounds amounts to USD 0.000001" if 0 < each * receipt.counts.by_state.correct < 10 else ""


def _has_times(times: Times | Pace | None) -> TypeGuard[Times]:
    return isinstance(times, Times) and times.n > 0


def _whole_cost(receipt: Receipt) -> str:
    """Format the cost of the whole run, for a receipt that has no section ``memoryCost``."""
    cost = receipt.scores.cost
    money = "price unknown" if cost.usd_micros is None else f"USD {money_text(cost.usd_micros / 1e6)}"
    roles = (
        ", ".join(f"{role} {counted(one.calls, 'call(|s)')}" for role, one in sorted(cost.by_role.items()))
        or "no priced call"
    )
    return f"; whole run {money} ({roles})"


def _ms(us: int | None) -> str:
    return "-" if us is None else f"{us / 1000:.2f} ms"


def _context_fact(receipt: Receipt, path: Path) -> tuple[str, str]:
    if not any(model.role == "answering" for model in receipt.models):
        return "no model answers", ""
    cost, budget = memory_cost_of(receipt), receipt.run.context_budget_tokens
    if cost is not None and cost.context is not None:
        return share_fact(cost.context, budget, "")
    text = context_of(receipt, path)
    return fact(
        text + (f", budget {budget} tokens" if text and budget else ""),
        "the items file is not next to the receipt",
        NO_SIZE,
    )


def context_of(receipt: Receipt, path: Path) -> str:
    """Return as text how much of the corpus the answering model read per question.

    The result is "" if neither the receipt nor the rows of its items file contain the number of tokens.
    """
    cost = memory_cost_of(receipt)
    return context_text(None if cost is None else cost.context) or _tokens_of_rows(path.parent / receipt.per_query.file)


def _tokens_of_rows(items: Path) -> str:
    """Return the mean context tokens per question as text; "" if the items file has no token counts."""
    counts = [
        count
        for row in receipt_rows(items)
        if isinstance(used := row.get("tokens"), Mapping) and isinstance(count := used.get("context"), int)
    ]
    return f"{sum(counts) / len(counts):.0f} tokens of context per question" if counts else ""


def receipt_rows(items: Path) -> Iterator[Mapping[str, object]]:
    """Yield the rows of an items file as JSON objects, up to the first line that is not JSON.

    If the file is missing, yield nothing.
    """
    try:
        with items.open("rb") as file:
            for line in file:
                yield json.loads(line)
    except (OSError, ValueError):
        return
