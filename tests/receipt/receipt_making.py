"""Receipts made by hand for tests: rows, the totals that follow from them, keys, folders."""

from __future__ import annotations

import copy
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.canonical import dumps, sha256_hex
from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine import execute
from bench.plan import make_plan
from bench.receipt import merkle
from bench.receipt.base_model import validate
from bench.receipt.digests import config_digest, result_digest
from bench.receipt.schema import Body
from bench.receipt.signing.signature import SigningKey, sign
from bench.receipt.signing.trust_store import DEFAULT_ORIGIN, TrustedKey, TrustStore
from bench.receipt.verification.verify import VerificationOutcome, VerificationRequest, verify_file
from bench.settings import Environment

Json = dict[str, Any]
RECEIPT_ID = "01HZZZZZZZZZZZZZZZZZZZZZZ0"
HEX = "ab" * 32
STATES = ["correct", "incorrect", "partial", "abstained", "error", "not_ready", "unsupported", "unscored", "measured"]


def row(number: int, rank: int | None, state: str = "correct", **changes: Any) -> Json:
    """One item whose evidence is at ``rank`` (None = not found)."""
    retrieved = [[f"m{number}-{place}"] for place in range(1, 11)]
    if rank is not None:
        retrieved[rank - 1] = [f"gold{number}"]
    found = lambda k: float(rank is not None and rank <= k)  # noqa: E731
    made: Json = {
        "itemId": f"item-{number:05}",
        "epoch": 1,
        "corpusId": f"corpus-{number % 3}",
        "state": state,
        "errorKind": None,
        "attempts": 1,
        "labels": {"question_type": "temporal" if number % 2 else "single"},
        "gold": [f"gold{number}"],
        "retrieved": retrieved,
        "returned": 10,
        "metrics": {
            "recall_at_5": found(5),
            "recall_at_10": found(10),
            "ndcg_at_10": 1 / math.log2(rank + 1) if rank else 0.0,
            "mrr": 1 / rank if rank else 0.0,
        },
        "verdicts": [
            {
                "evaluator": "llm-judge",
                "class": "judged",
                "value": float(state == "correct"),
                "correct": state == "correct",
                "model": "acme/judge-1",
                "promptSha256": HEX,
                "rawSha256": HEX,
            }
        ],
        "answerSha256": HEX,
        "tokens": {"context": 700, "prompt": 900, "completion": 12},
        "latencyUs": {"search": 12_000 + number, "answer": 800_000},
        "costUsdMicros": 120,
    }
    return {**made, **changes}


def failed_row(number: int, kind: str = "timeout") -> Json:
    """One item that ended as an error."""
    return row(number, None, "error", errorKind=kind, metrics={}, verdicts=[], retrieved=None, returned=0)


def default_rows() -> list[Json]:
    ranks = [1, 1, 2, 3, 7, None, 1, 10, 4, 1]
    return [row(n, rank, "correct" if rank else "incorrect") for n, rank in enumerate(ranks)]


def _mean(values: list[float], n: int) -> float | None:
    return math.fsum(values) / n if n else None


def score(rows: list[Json], values: Callable[[Json], float | None], definition: str, planned: int) -> Json:
    """A Score of the mean of ``values``; rows that failed are nFailed."""
    alive = [r for r in rows if r["state"] not in ("error", "not_ready")]
    known = [(r, v) for r in alive if (v := values(r)) is not None]
    numbers = [v for _, v in known]
    labels = sorted({r["labels"]["question_type"] for r, _ in known})
    of = {label: [v for r, v in known if r["labels"]["question_type"] == label] for label in labels}
    failed = planned - len(alive)
    return {
        "definition": definition,
        "value": _mean(numbers, len(numbers)),
        "valueFailuresAsZero": _mean(numbers, len(numbers) + failed),
        "n": len(numbers),
        "nExcluded": len(alive) - len(numbers),
        "nFailed": failed,
        "aggregate": "mean",
        "interval": None,
        "breakdown": {
            "question_type": {label: {"value": _mean(of[label], len(of[label])), "n": len(of[label])} for label in of}
        },
    }


DEFINITIONS = {
    "recall_at_5": "recall_any@5/1",
    "recall_at_10": "recall_any@10/1",
    "ndcg_at_10": "ndcg@10/1",
    "mrr": "mrr/1",
}


def body(rows: list[Json], *, pending: int = 0) -> Json:
    """A complete receipt without signature whose totals are those of the rows."""
    planned = len(rows) + pending
    states = Counter(r["state"] for r in rows)
    lines = [dumps(r) for r in rows]
    file = b"".join(line + b"\n" for line in lines)
    fixed = [{k: r[k] for k in ("itemId", "epoch", "gold", "labels", "retrieved", "metrics")} for r in rows]
    times = {"n": 3, "min": 1, "p50": 2, "p95": 3, "p99": 3, "max": 3}
    usage = {"calls": 20, "promptTokens": 900, "completionTokens": 120, "usdMicros": 1200}
    judged = lambda r: float(r["state"] == "correct") if r["verdicts"] else None  # noqa: E731
    return {
        "schema": "bench.receipt/1",
        "receiptId": RECEIPT_ID,
        "kind": "partial" if pending else "run",
        "benchVersion": "0.1.0",
        "ranAt": "2026-11-01T10:00:00Z",
        "finishedAt": "2026-11-01T11:00:00.5Z",
        "issuedAt": "2026-11-01T11:30:00Z",
        "timeSource": "self-asserted",
        "run": {
            "runId": "run-1", "planDigest": HEX, "seed": 0, "epochs": 1, "concurrency": 10, "k": 10,
            "contextBudgetTokens": None, "track": "uniform", "isolation": "probe",
            "isolationProof": {"probed": 3, "passed": 3, "failed": 0},
            "preregistration": None, "log": None, "resumes": [], "shards": [],
        },
        "benchmark": {
            "name": "demo", "version": "1", "split": None, "configSha256": HEX,
            "dataset": {"sha256": HEX, "bytes": 100, "items": planned, "source": "made here", "license": "Apache-2.0"},
            "selection": {"filter": {}, "limit": None, "sample": None, "order": "dataset"},
        },
        "provider": {
            "name": "bm25", "version": "1", "versionSource": "package", "kind": "local", "configSha256": HEX,
            "endpointHost": None, "imageDigest": None,
        },
        "models": [
            {"role": "judge", "provider": "acme", "requested": "judge-1", "reported": None, "params": {}, "seed": None}
        ],
        "prompts": [{"role": "judge", "sha256": HEX, "source": "default"}],
        "metrics": [{"name": n, "definition": d} for n, d in sorted({**DEFINITIONS, "accuracy": "accuracy/1"}.items())],
        "environment": {
            "python": "3.11.7", "implementation": "CPython", "platform": "linux/x86_64", "cpu": "cpu", "cpuCount": 2,
            "memoryBytes": 1, "containerImage": None, "containerDigest": None, "lockSha256": None,
            "packages": {"pydantic": "2"}, "git": {"commit": "0" * 40, "tag": "v1", "dirty": False},
            "codeTreeSha256": HEX, "hostHash": "0" * 16,
        },
        "counts": {
            "planned": planned, "pending": pending,
            "scored": sum(states[s] for s in ("correct", "incorrect", "partial", "abstained")),
            "byState": {state: states[state] for state in STATES},
            "errorKinds": dict(Counter(r["errorKind"] for r in rows if r["errorKind"])),
            "retries": 0,
        },
        "scores": {
            "deterministic": {
                name: score(rows, lambda r, name=name: r["metrics"].get(name), definition, planned)  # type: ignore
                for name, definition in DEFINITIONS.items()
            },
            "judged": {"accuracy": score(rows, judged, "accuracy/1", planned)},
            "measured": {
                "ingest_us": times, "search_us": times, "ingest_to_searchable_us": times,
                "ingest_memories_per_s": {"n": 3, "value": 12.5},
            },
            "cost": {**usage, "priceTable": None, "byRole": {"judge": usage}},
        },
        "perQuery": {
            "format": "jcs-lines/1", "file": f"{RECEIPT_ID}.items.jsonl", "count": len(rows), "bytes": len(file),
            "sha256": sha256_hex(file),
            "merkleRoot": merkle.root(lines).hex(),
            "deterministicRoot": merkle.root([dumps(r) for r in fixed]).hex(),
        },
        "configDigest": HEX, "resultDigest": HEX,
        "reproducibility": {"class": "statistical", "reasons": ["a judge model"]},
        "supersedes": None, "reproduces": None,
    }  # fmt: skip


def with_digests(document: Json) -> Json:
    """Return the document with its two digests; the body must be valid."""
    document = {name: value for name, value in document.items() if name not in ("signature", "signer")}
    made = validate(Body, document)
    document["configDigest"] = config_digest(made)
    document["resultDigest"] = result_digest(made.model_copy(update={"config_digest": document["configDigest"]}))
    return document


def change(document: Json, path: str, value: Any) -> None:
    """Set ``a.b.0.c`` in a document."""
    *parents, last = path.split(".")
    for part in parents:
        document = document[int(part) if isinstance(document, list) else part]
    document[int(last) if isinstance(document, list) else last] = value


@dataclass
class Desk:
    """A folder and a key, with methods that write, sign and verify receipts."""

    folder: Path
    key: SigningKey

    def write(self, document: Json, rows: Iterable[Json] | None, *, signed: bool = True) -> Path:
        """Sign and write a receipt, and its items file unless ``rows`` is None."""
        document = sign(document, self.key) if signed else document
        path = self.folder / f"{RECEIPT_ID}.json"
        path.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
        if rows is not None:
            lines = b"".join(dumps(r) + b"\n" for r in rows)
            (self.folder / f"{RECEIPT_ID}.items.jsonl").write_bytes(lines)
        return path

    def store(self, **entry: Any) -> TrustStore:
        made = TrustedKey.of(self.key.public, "tester", ("receipt", "log")).model_copy(update=entry)
        return TrustStore(origin=DEFAULT_ORIGIN, keys=(made,))

    def verify(self, path: Path, **question: Any) -> VerificationOutcome:
        request = VerificationRequest(**{"trust": self.store(), **question})
        if request.log is not None:
            from bench.receipt.log.public_log import CheckedLog

            return verify_file(path, request, CheckedLog.open(request.log, request.trust))
        return verify_file(path, request)

    def good(self, rows: list[Json] | None = None, *, pending: int = 0, **changes: Any) -> Path:
        """A valid receipt, with some fields changed before digests and signature."""
        rows = default_rows() if rows is None else rows
        document = body(rows, pending=pending)
        for path, value in changes.items():
            change(document, path.replace("__", "."), value)
        return self.write(with_digests(document), rows)


def desk_in(folder: Path) -> Desk:
    """Return a desk in a folder, with a fixed key."""
    return Desk(folder, SigningKey.from_raw(bytes(range(32))))


def codes(outcome: VerificationOutcome, status: str = "fail") -> set[str]:
    return {str(finding.code) for finding in outcome.findings if finding.status == status}


def deep_copy(document: Json) -> Json:
    return copy.deepcopy(document)


async def run_demo(workspace: Path, run_id: str, **flags: Any) -> Path:
    """Run the demo with built-in providers, and return the folder of the run."""
    small = {"benchmarks": ("demo",), "providers": ("bm25",), "limit": 8, "answering_model": ("builtin/extractive",)}
    request = RunRequest(**{**small, "run_id": run_id, **flags})
    environment = Environment.load(workspace)
    plan = make_plan(Catalog.load(workspace), request, environment)
    outcome = await execute(plan, environment=environment)
    return outcome.folder
