"""Announcing a run before its first call, by a child process, so that the runner never reads the log key.

    published = announce_in_child(plan, run_id, environment)      # what bench run --publishable does
    python -m bench.receipt.announcing < announcement.json        # the child

The config digests are those that the receipts of the run will carry.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.canonical import digest
from bench.errors import BenchError, UsageError
from bench.journal import RunMeta
from bench.plan import Plan
from bench.plan.record import read
from bench.receipt.facts import Facts
from bench.receipt.keyring import Keyring
from bench.receipt.publish import Published, announce
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
    text = json.dumps(
        {
            "workspace": str(announcement.workspace.resolve()),
            "runId": announcement.run_id,
            "planDigest": announcement.plan_digest,
            "configDigests": list(announcement.config_digests),
            "itemsPlanned": announcement.items_planned,
            "seed": announcement.seed,
            "codeCommit": announcement.code_commit,
        }
    )
    command = [sys.executable, "-m", "bench.receipt.announcing"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    if done.returncode != 0:
        words = done.stderr.strip().splitlines()
        raise UsageError(
            "the run could not be announced: " + (words[0] if words else "no reason given"),
            hint=words[1] if len(words) > 1 else "bench keys new NAME --roles log makes a log key",
        )
    return int(json.loads(done.stdout)["logIndex"])


def from_stdin(told: Mapping[str, object], now: datetime) -> Published:
    """The child's work."""
    digests = told["configDigests"]
    assert isinstance(digests, list)
    commit = told["codeCommit"]
    return announce(
        Keyring(workspace=Path(str(told["workspace"]))),
        run_id=str(told["runId"]),
        plan_digest=str(told["planDigest"]),
        config_digests=[str(one) for one in digests],
        items_planned=int(str(told["itemsPlanned"])),
        seed=int(str(told["seed"])),
        code_commit=None if commit is None else str(commit),
        at=stamp(now),
    )


def main() -> int:
    """Read an announcement on stdin, append it, print where it stands."""
    try:
        published = from_stdin(json.load(sys.stdin), datetime.now(UTC))
    except BenchError as error:
        sys.stderr.write(f"{error}\n{error.hint}\n")
        return error.exit_code
    sys.stdout.write(json.dumps({"logIndex": published.index}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
