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
from bench.receipt.log.entries import RunStarted
from bench.receipt.publish import announce
from bench.receipt.stored import commit_or_none
from bench.receipt.wire import admit, emit, stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """What the log of a workspace will say of a run."""

    workspace: Path
    started: RunStarted


def announcement_of(plan: Plan, meta: RunMeta) -> Announcement:
    """What is to be announced of a planned run; ``meta`` is what its journal will hold."""
    jobs = read(meta.extra)
    started = RunStarted(
        index=0,
        at=stamp(datetime.now(UTC)),
        run_id=meta.run_id,
        plan_digest=plan.digest,
        config_digests=tuple(sorted({digest(Facts(meta=meta, record=job).config_tree()) for job in jobs})),
        items_planned=sum(job.n_repeats for job in jobs),
        seed=plan.request.seed,
        code_commit=commit_or_none(meta.code_state.get("commit")),
    )
    return Announcement(workspace=plan.workspace, started=started)


def announce_in_child(announcement: Announcement) -> int:
    """Append ``run-started`` in a child process; return its log index. Raises UsageError with the child's words."""
    question = {"workspace": str(announcement.workspace.resolve()), "entry": emit(announcement.started)}
    return int(str(ask("bench.receipt.announcing", question)["logIndex"]))


def append_started(told: Words) -> Words:
    """The child's work."""
    ring = Keyring(workspace=Path(str(told["workspace"])), prompt=ask_passphrase)
    return {"logIndex": announce(ring, admit(RunStarted, told["entry"])).index}


if __name__ == "__main__":
    sys.exit(answer_with(append_started))
