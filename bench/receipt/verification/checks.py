"""The checks of a receipt: each is a function that returns findings.

``verify`` calls the checks in order and decides the verdict.

``RULES`` are conditions that every honest receipt meets. They can be checked without the items file.

Example::

    findings = [*signature_and_trust(document, receipt, store, log_index), *items_and_scores(receipt, path)]
    for rule in RULES: yield from rule(receipt)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

from bench.canonical import JSON, digest
from bench.errors import VerificationError
from bench.receipt.base_model import parse_time
from bench.receipt.digests import config_digest, result_digest
from bench.receipt.items_file import ItemRow, ReadLine, RunningDigests, rare_garbage_collection, read_items
from bench.receipt.log.log_check import file_sha256
from bench.receipt.schema import Body, PerQuery, Receipt
from bench.receipt.schema_results import Pace, ReceiptScore
from bench.receipt.signing.signature import PublicKey, check_form, is_valid_signature, signed_bytes
from bench.receipt.signing.trust_store import TrustStore
from bench.receipt.verification.findings import Finding, fail, ok, or_ok, skip, warn
from bench.receipt.verification.interval_check import interval_faults
from bench.receipt.verification.recompute import Recomputation, cut_of, read_definition
from bench.visible_text import counted

TOLERANCE = 1e-12
HIT_BASES = ("hit", "recall_any")
MONOTONE_BASES = ("hit", "recall_any", "recall_fraction", "recall_all")


def invariants(body: Body) -> Iterator[Finding]:
    """Check every rule in ``RULES``; yield one failure for each fault."""
    for rule in RULES:
        yield from rule(body)


def _broken(code: str, detail: str) -> Finding:
    return fail("invariants", code, detail)


def counts_add_up(body: Body) -> Iterator[Finding]:
    """Check that the counts of states, scores and rows each add up to the planned items."""
    for detail in _count_faults(body):
        yield _broken("invariant_counts", detail)


def _count_faults(body: Body) -> Iterator[str]:
    counts, states = body.counts, body.counts.by_state
    ended = sum(states.of().values())
    if ended + counts.pending != counts.planned:
        yield f"counts: {ended} ended and {counts.pending} pending do not add up to {counts.planned} planned"
    if states.correct + states.incorrect + states.partial + states.abstained != counts.scored:
        yield f"counts.scored: {counts.scored} is not correct + incorrect + partial + abstained"
    if sum(counts.error_kinds.values()) != states.error:
        yield f"counts.errorKinds: the counts do not add up to {counted(states.error, 'error(|s)')}"
    if body.per_query.count != counts.planned - counts.pending:
        yield (
            f"perQuery.count: {counted(body.per_query.count, 'row(|s)')} for "
            f"{counted(counts.planned - counts.pending, 'ended item(|s)')}"
        )
    if body.kind == "run" and counts.pending:
        yield f'counts.pending: {counts.pending}, but a receipt of kind "run" has no pending items'
    for name, score in _all_scores(body).items():
        yield from _score_count_faults(name, score, counts.planned)


def _score_count_faults(name: str, score: ReceiptScore, planned: int) -> Iterator[str]:
    if score.n + score.n_excluded + score.n_failed != planned:
        yield f"{name}: n + nExcluded + nFailed is not {planned}"
    if score.n == 0 and score.value is not None:
        yield f"{name}: a value, but n is 0"
    if score.n > 0 and score.value is None and score.aggregate != "other":
        yield f"{name}: no value, but n is {score.n}"
    for dimension, labels in score.breakdown.items():
        if sum(label.n for label in labels.values()) != score.n:
            yield f"{name}: the labels of {dimension} do not add up to n"


def _all_scores(body: Body) -> Mapping[str, ReceiptScore]:
    judged = {f"judged.{name}": score for name, score in body.scores.judged.items()}
    return {**{f"deterministic.{name}": score for name, score in body.scores.deterministic.items()}, **judged}


def rates_lie_in_0_to_1(body: Body) -> Iterator[Finding]:
    """Check that every score that is a share is in 0..1."""
    for name, score in _all_scores(body).items():
        if not read_definition(score.definition).is_rate:
            continue
        values = [score.value, score.value_failures_as_zero]
        values += [label.value for labels in score.breakdown.values() for label in labels.values()]
        if any(value is not None and not 0 <= value <= 1 for value in values):
            yield _broken("invariant_rate_range", f"{name}: a share is not in 0..1")


def intervals_are_possible(body: Body) -> Iterator[Finding]:
    """Check that each interval contains its value, and that its bounds are in order and in the range of the metric."""
    for name, score in _all_scores(body).items():
        is_share = read_definition(score.definition).is_rate
        for fault in interval_faults(score, epochs=body.run.epochs, is_share=is_share):
            assert score.interval is not None
            bounds = f"[{score.interval.low}, {score.interval.high}]"
            yield _broken("invariant_interval", f"{name}: the interval {bounds} is impossible: {fault}")


def no_isolation_check_failed(body: Body) -> Iterator[Finding]:
    """Check that all isolation checks passed, because a job with foreign memories in a namespace gets no receipt."""
    proof = body.run.isolation_proof
    if proof.passed + proof.failed != proof.probed:
        detail = f"{proof.passed} passed and {proof.failed} failed do not add up to {proof.probed} probed"
        yield _broken("invariant_isolation", f"run.isolationProof: {detail}")
    elif proof.failed:
        detail = f"{proof.failed} of {counted(proof.probed, 'check(|s)')} failed, but such a job gets no receipt"
        yield _broken("invariant_isolation", f"run.isolationProof: {detail}")


def recall_grows_with_k(body: Body) -> Iterator[Finding]:
    """Check that the hit rate and the recall do not fall when k grows."""
    for base in MONOTONE_BASES:
        best: dict[tuple[str, int, str], tuple[int, ReceiptScore]] = {}
        for (duplicates, k), score in sorted(_by_cut(body, (base,)).items(), key=itemgetter(0)):
            if score.aggregate == "other":
                continue
            alike = (duplicates, score.n, score.aggregate)
            k1, low = best.setdefault(alike, (k, score))
            if _above(low, score):
                yield _broken("invariant_recall_monotone", f"{base}@{k1} {low.value} > {base}@{k} {score.value}")
            elif low.value is None or _above(score, low):
                best[alike] = (k, score)


def ndcg_at_most_hit_rate(body: Body) -> Iterator[Finding]:
    """Check that nDCG is at most the hit rate at the same k.

    An item with a hit has an nDCG of at most 1, and an item without a hit has an nDCG of 0.
    """
    hits = _by_cut(body, HIT_BASES)
    for cut, ndcg in _by_cut(body, ("ndcg",)).items():
        hit = hits.get(cut)
        if hit is not None and _comparable(ndcg, hit) and _above(ndcg, hit):
            yield _broken("invariant_ndcg_le_hit", f"ndcg@{cut[1]} {ndcg.value} > hit rate {hit.value}")


def mrr_at_most_hit_rate(body: Body) -> Iterator[Finding]:
    """Check that MRR is at most the hit rate at the same k. If the name of an MRR has no k, use the k of the run."""
    hits = _by_cut(body, HIT_BASES)
    for cut, mrr in _by_cut(body, ("mrr",), uncut=body.run.k).items():
        hit = hits.get(cut)
        if hit is not None and _comparable(mrr, hit) and _above(mrr, hit):
            yield _broken("invariant_mrr_le_hit", f"mrr {mrr.value} > hit rate at {cut[1]} {hit.value}")


def _by_cut(body: Body, bases: tuple[str, ...], uncut: int | None = None) -> dict[tuple[str, int], ReceiptScore]:
    """Return the scores of the metrics whose base names are in ``bases``.

    The key of a score is (option ``duplicates`` of its metric, k). The option tells how the metric counts duplicate
    hits; "" = not stated. Metrics without a k get the k ``uncut``. If ``uncut`` is None, they are left out.
    """
    found = {}
    for name, score in body.scores.deterministic.items():
        definition = read_definition(score.definition)
        k = cut_of(name, definition) or uncut
        if definition.base in bases and k is not None:
            found[definition.options.get("duplicates", ""), k] = score
    return found


def _comparable(one: ReceiptScore, other: ReceiptScore) -> bool:
    """Return True if both scores have the same number of items and the same aggregate.

    Scores with the aggregate ``other`` are never comparable.
    """
    return one.n == other.n and one.aggregate == other.aggregate != "other"


def _above(one: ReceiptScore, other: ReceiptScore) -> bool:
    return one.value is not None and other.value is not None and one.value > other.value + TOLERANCE


def percentiles_rise(body: Body) -> Iterator[Finding]:
    """Check that min <= p50 <= p95 <= p99 <= max, and that all five exist if there are measured times."""
    for name, times in body.scores.measured.items():
        if isinstance(times, Pace):
            continue
        steps = [step for step in times.ordered() if step is not None]
        if len(steps) != (5 if times.n else 0) or any(low > high for low, high in pairwise(steps)):
            yield _broken("invariant_percentiles", f"{name}: expected min <= p50 <= p95 <= p99 <= max")


def times_rise(body: Body) -> Iterator[Finding]:
    """Check the order of the times: begin of the run, end of the run, creation of the receipt."""
    if not parse_time(body.ran_at) <= parse_time(body.finished_at) <= parse_time(body.issued_at):
        yield _broken("invariant_times", "expected ranAt <= finishedAt <= issuedAt")


Rule = Callable[[Body], Iterator[Finding]]
RULES: tuple[Rule, ...] = (
    counts_add_up,
    rates_lie_in_0_to_1,
    intervals_are_possible,
    no_isolation_check_failed,
    recall_grows_with_k,
    ndcg_at_most_hit_rate,
    mrr_at_most_hit_rate,
    percentiles_rise,
    times_rise,
)


MAX_ERROR_RATE = 0.02
SHOWN = 5

# -------------------------------------------------------------- signature and trust


def signature_and_trust(
    document: Mapping[str, JSON], receipt: Receipt, store: TrustStore, log_index: int | None
) -> Iterator[Finding]:
    """Check the signature of a receipt, its form, and whether its key is trusted.

    If the trust store does not have the key, the signature is not checked. ``log_index`` is the index of the receipt in
    the public log; None = not in the log.
    """
    fingerprint = receipt.signer.public_key_fingerprint
    known = store.find(fingerprint)
    yield _signature(document, known.key if known else None)
    decision = store.decide(fingerprint, "receipt", log_index)
    if not decision.trusted:
        yield fail("trust", str(decision.code), decision.detail)
    elif decision.code is not None:
        yield warn("trust", decision.code, decision.detail)
    else:
        yield ok("trust", decision.detail)


def _signature(document: Mapping[str, JSON], key: PublicKey | None) -> Finding:
    try:
        raw = check_form(document)
    except VerificationError as error:
        return fail("signature", error.code, str(error))
    if key is None:
        return skip("signature", "not checked: the key is not known")
    if not is_valid_signature(key, raw, signed_bytes(document)):
        return fail(
            "signature", "signature_invalid", "the signature does not match the document, so the document was altered"
        )
    return ok("signature", f"by {key.fingerprint}")


# ------------------------------------------------------------------ items and scores


def items_and_scores(receipt: Receipt, path: Path) -> Iterator[Finding]:
    """Check the digests and rows of the items file at ``path``, and recompute the scores from its rows."""
    if not path.is_file():
        message = f"{path.name} is missing: without this file, no score can be checked (--items FILE)"
        yield warn("items", "items_missing", message)
        yield skip("recompute", "the items file is missing, so scores were not recomputed")
        return
    recompute = Recomputation(receipt)
    rows = _RowCheck(receipt.run.epochs)
    running = RunningDigests()
    with path.open("rb") as file, rare_garbage_collection():
        for line in read_items(file, running):
            rows.add(line)
            if line.row is not None:
                recompute.add(line.row)
    yield from or_ok(
        "items", [*rows.findings(), *_compare_digests(receipt, running.per_query(receipt.per_query.file))], path.name
    )
    yield from recompute.findings()
    yield from recompute.hit_findings()


class _RowCheck:
    """Checks the order and the form of the lines of an items file; stores only the first faults."""

    def __init__(self, epochs: int) -> None:
        self._epochs = epochs
        self._last: tuple[bytes, int] | None = None
        self._disorder: list[int] = []
        self._bad: list[str] = []

    def add(self, line: ReadLine) -> None:
        row, problem = line.row, line.problem
        if row is not None:
            self._check_order(line.number, row)
            if row.epoch > self._epochs:
                problem = f"epoch {row.epoch}, but the run has {self._epochs}"
        if problem is not None and len(self._bad) < SHOWN:
            self._bad.append(f"line {line.number}: {problem}")

    def _check_order(self, number: int, row: ItemRow) -> None:
        if self._last is not None and row.order <= self._last and len(self._disorder) < SHOWN:
            self._disorder.append(number)
        self._last = row.order

    def findings(self) -> Iterator[Finding]:
        for detail in self._bad:
            yield fail("items", "items_row", detail)
        if self._disorder:
            numbers = ", ".join(map(str, self._disorder))
            yield fail("items", "items_order", f"lines not sorted by itemId and epoch, or repeated: {numbers}")


def _compare_digests(receipt: Receipt, found: PerQuery) -> Iterator[Finding]:
    stated = receipt.per_query
    if (found.sha256, found.bytes) != (stated.sha256, stated.bytes):
        yield fail("items", "items_sha256", "the items file is not the signed one: its sha256 or size differs")
    if found.count != stated.count:
        yield fail("items", "items_count", f"{counted(found.count, 'row(|s)')}, expected {stated.count}")
    if found.merkle_root != stated.merkle_root:
        yield fail("items", "items_root", "the hash of the rows is not perQuery.merkleRoot")
    if found.deterministic_root != stated.deterministic_root:
        yield fail("items", "deterministic_root", "the hash of the rows is not perQuery.deterministicRoot")


# -------------------------------------------------------------- digests, invariants


def digests(receipt: Receipt, dataset: Path | None) -> list[Finding]:
    """Check that the config digest and the result digest match the fields of the receipt.

    If ``dataset`` is not None, also check the digests of this data file, or of the data files in this folder.
    """
    found, skipped = [], []
    if receipt.config_digest != config_digest(receipt):
        found.append(fail("digest", "config_digest", "configDigest does not match the fields of the receipt"))
    if receipt.result_digest != result_digest(receipt):
        found.append(fail("digest", "result_digest", "resultDigest does not match the fields of the receipt"))
    stated = receipt.benchmark.dataset
    if stated.files is not None and stated.sha256 != digest(stated.files):
        found.append(
            fail("digest", "dataset_files", "benchmark.dataset.sha256 does not match the digests of the files")
        )
    if dataset is not None:
        missing = _missing_files(stated.digests, dataset)
        if missing and (dataset.is_dir() or len(missing) == len(stated.digests)):
            found.append(fail("digest", "dataset_mismatch", _mismatch(stated.digests, missing, dataset)))
        elif missing:
            message = (
                f"only {dataset.name} was checked, not {_names_text(missing)} (--dataset FOLDER checks all data files)"
            )
            skipped.append(skip("digest", message, code="dataset_partial"))
    return [*or_ok("digest", found), *skipped]


def _missing_files(digests: Mapping[str, str], dataset: Path) -> list[str]:
    """Return the names of the data files that were not found by their SHA-256.

    ``digests`` is file name -> SHA-256. ``dataset`` is the file or the folder in which these files are searched for.
    """
    paths = sorted(path for path in dataset.rglob("*") if path.is_file()) if dataset.is_dir() else [dataset]
    missing = set(digests.values())
    for path in paths:
        missing.discard(file_sha256(path))
        if not missing:
            break
    return [name for name, sha256 in digests.items() if sha256 in missing]


def _mismatch(digests: Mapping[str, str], missing: Sequence[str], dataset: Path) -> str:
    if not dataset.is_dir():
        what = "the dataset" if len(digests) == 1 else f"one of the {len(digests)} data files"
        return f"{dataset.name} is not {what} of the receipt: its sha256 differs"
    what = _names_text(missing) if any(missing) else "the dataset"
    return f"no file in {dataset.name or dataset} has the sha256 of {what}"


def _names_text(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def invariants_of(receipt: Receipt) -> list[Finding]:
    """Return a failure for each broken invariant in ``RULES``, or one ``ok`` if there is no failure."""
    return or_ok("invariants", list(invariants(receipt)))


# -------------------------------------------------------------------------- policy


def policy(receipt: Receipt) -> list[Finding]:
    """Return a warning for each property that a published receipt should not have, such as uncommitted changes.

    :func:`strict` turns these warnings into failures.
    """
    return or_ok("policy", [warn("policy", code, detail) for code, detail in _policy_faults(receipt)])


def _policy_faults(receipt: Receipt) -> Iterator[tuple[str, str]]:
    git, counts = receipt.environment.git, receipt.counts
    if git.dirty:
        yield "dirty", "bench had uncommitted changes"
    if git.commit is None:
        yield "commit_unknown", "the commit of bench is not known"
    if receipt.run.preregistration is None:
        yield "not_preregistered", "the run was not announced before it began"
    if receipt.kind == "partial":
        yield "partial", "not every item of the selection has ended"
    failed = counts.by_state.error + counts.by_state.not_ready
    if counts.planned and failed / counts.planned > MAX_ERROR_RATE:
        yield "error_rate", f"{failed} of {counted(counts.planned, 'item(|s)')} failed"
    if receipt.reproducibility.class_ == "none":
        yield "reproducibility_none", "; ".join(receipt.reproducibility.reasons) or "results cannot be reproduced"


def strict(findings: list[Finding]) -> list[Finding]:
    """Return the findings with an additional failure of the check ``policy`` for each warning.

    The failure replaces a warning of ``policy`` itself. The warnings of other checks are kept.
    """
    return [
        *(finding for finding in findings if (finding.check, finding.status) != ("policy", "warn")),
        *(fail("policy", str(finding.code), finding.detail) for finding in findings if finding.status == "warn"),
    ]
