"""Announcing a run before its first call, by a child process, so that the runner never reads the log key.

    index = announce_in_child(announcement_of(plan, meta))        # what bench run --publishable does
    python -m bench.receipt.announcing < announcement.json        # the child

The config digests are those that the receipts of the run will carry.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.canonical import digest
from bench.journal import RunMeta
from bench.plan import Plan
from bench.plan.record import read
from bench.receipt.child import Words, answer_with, ask
from bench.receipt.facts import Facts
from bench.receipt.keyring import Keyring, ask_passphrase
from bench.receipt.publish import announce
from bench.receipt.wire import stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What the log will say of a run."""

    workspace: Path
    run_id: str
    plan_digest: str
    config_digests: tuple[str, ...]
    items_planned: int
    seed: int
    code_commit: str | None


def announcement_of(plan: Plan, meta: RunMeta) -> Announcement:
    """What is to be announced of a planned run; ``meta`` is what its journal will hold."""
    jobs = read(meta.extra)
    commit = meta.code_state.get("commit")
    return Announcement(
        workspace=plan.workspace,
        run_id=meta.run_id,
        plan_digest=plan.digest,
        config_digests=tuple(sorted({digest(Facts(meta=meta, record=job).config_tree()) for job in jobs})),
        items_planned=sum(job.n_selected * job.epochs for job in jobs),
        seed=plan.request.seed,
        code_commit=commit if isinstance(commit, str) else None,
    )


def announce_in_child(announcement: Announcement) -> int:
    """Append ``run-started`` in a child process; return its log index. Raises UsageError with the child's words."""
    question = {
        "workspace": str(announcement.workspace.resolve()),
        "runId": announcement.run_id,
        "planDigest": announcement.plan_digest,
        "configDigests": list(announcement.config_digests),
        "itemsPlanned": announcement.items_planned,
        "seed": announcement.seed,
        "codeCommit": announcement.code_commit,
    }
    return int(str(ask("bench.receipt.announcing", question)["logIndex"]))


def append_started(told: Words) -> Words:
    """The child's work."""
    digests = told["configDigests"]
    assert isinstance(digests, list)
    commit = told["codeCommit"]
    published = announce(
        Keyring(workspace=Path(str(told["workspace"])), prompt=ask_passphrase),
        run_id=str(told["runId"]),
        plan_digest=str(told["planDigest"]),
        config_digests=[str(one) for one in digests],
        items_planned=int(str(told["itemsPlanned"])),
        seed=int(str(told["seed"])),
        code_commit=None if commit is None else str(commit),
        at=stamp(datetime.now(UTC)),
    )
    return {"logIndex": published.index}


if __name__ == "__main__":
    sys.exit(answer_with(append_started))
