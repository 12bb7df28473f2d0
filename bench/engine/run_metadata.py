"""The metadata that the journal of a run stores: the plan, the state of the code and the environment.

``CodeState.dirty`` is True if files were changed since the commit, and None if the code is not a git checkout. A
container image has its commit in ``MEMORYBENCH_GIT_COMMIT``, and a wheel has its commit in its metadata.

Example::

    Journal.create(folder, run_meta(plan, run_id, CodeState.read(environment), environment))
    check_identity(journal.meta, plan)            # IdentityError with a readable diff
    CodeState.read(environment)    # CodeState(commit="3f2a...", tag=None, dirty=False, source="git")
    describe("20261127-4f9c0a1b", environment)["cpuCount"]          # 16

The host name is stored only as a hash salted with the run id.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Literal

from bench.errors import IdentityError
from bench.journal import RunMeta
from bench.journal.merger import PARTS
from bench.plan import Plan
from bench.plan.identity import changes
from bench.plan.job_record import EXTRA_KEY, dump_jobs, records
from bench.plan.ranges import ranges_of
from bench.settings import Environment
from bench.version import built_commit

OWN_OUTPUT = ("results", "checkpoints", "datasets")
PATIENCE_S = 10.0
COMMIT_AND_NAMES = ("-c", "log.showSignature=false", "log", "-1", "--format=%H %D")
TAG = "tag: "
SHOWN_COMMIT = 12
_RULE = re.compile(r"/[0-9]+\Z")
"""version of the rule of an evaluator, as in ``contains/4``, or of the definition of a metric"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeState:
    """The version of the code; unknown fields are None."""

    commit: str | None = None
    tag: str | None = None
    dirty: bool | None = None
    source: Literal["git", "declared", "unknown"] = "unknown"

    @classmethod
    def read(cls, environment: Environment) -> CodeState:
        """Read the version from the git checkout of this package; without a checkout, from the image or wheel."""
        root = Path(__file__).resolve().parents[2]
        git = shutil.which("git")
        if git is not None and (root / ".git").exists():
            head, _, names = (_git_output(git, root, *COMMIT_AND_NAMES) or "").partition(" ")
            if head:
                changed = _git_output(
                    git, root, "status", "--porcelain", "--", ".", *(f":!{name}" for name in OWN_OUTPUT)
                )
                tag = next((name[len(TAG) :] for name in names.split(", ") if name.startswith(TAG)), None)
                return cls(commit=head, tag=tag, dirty=None if changed is None else bool(changed), source="git")
        commit = environment.get("MEMORYBENCH_GIT_COMMIT") or built_commit()
        if commit is None:
            return cls()
        return cls(commit=commit, tag=environment.get("MEMORYBENCH_GIT_TAG"), source="declared")


def _git_output(git: str, root: Path, *arguments: str) -> str | None:
    """Return the output of a git command; None if it fails or takes too long."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program with fixed arguments
            [git, "--no-optional-locks", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


PACKAGE = Path(__file__).resolve().parents[1]
LOCK = "requirements.lock"


def describe(run_id: str, environment: Environment) -> dict[str, object]:
    """Return a description of this machine and installation; ``run_id`` is the salt of the hash of the host name."""
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": f"{sys.platform}/{platform.machine()}",
        "cpu": cpu_name(),
        "cpuCount": os.cpu_count() or 0,
        "memoryBytes": memory_bytes(),
        "containerImage": environment.get("MEMORYBENCH_IMAGE"),
        "containerDigest": environment.get("MEMORYBENCH_IMAGE_DIGEST"),
        "lockSha256": lock_sha256(),
        "packages": packages(),
        "codeTreeSha256": code_tree_sha256(),
        "hostHash": sha256((platform.node() + run_id).encode()).hexdigest()[:16],
    }


def cpu_name() -> str:
    """Return the name of the processor; if it is unknown, its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def memory_bytes() -> int:
    """Return the size of the physical memory in bytes; 0 if it is unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0


@lru_cache(maxsize=1)
def packages() -> dict[str, str]:
    """Return the version of every installed package and of SQLite. SQLite computes the scores of ``bm25``.

    The versions of packages are read from the names of the ``.dist-info`` folders. This is 50 times as fast as reading
    the files in these folders.
    """
    found = {"sqlite": sqlite3.sqlite_version}
    for folder in map(Path, sys.path):
        for entry in folder.glob("*.dist-info"):
            name, _, version = entry.name.removesuffix(entry.suffix).partition("-")
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), version)
    return dict(sorted(found.items()))


def lock_sha256() -> str | None:
    """Return the SHA-256 of ``requirements.lock``; None if the installation does not contain this file."""
    path = PACKAGE.parent / LOCK
    return sha256(path.read_bytes()).hexdigest() if path.is_file() else None


@lru_cache(maxsize=1)
def code_tree_sha256() -> str:
    """Return one SHA-256 for all files of this package: the hash of the sorted lines ``path NUL sha256 LF``."""
    tree = sha256()
    for name, path in sorted(_files()):
        tree.update(f"{name}\0{sha256(path.read_bytes()).hexdigest()}\n".encode())
    return tree.hexdigest()


def _files() -> Iterator[tuple[str, Path]]:
    for path in PACKAGE.rglob("*"):
        inside = path.relative_to(PACKAGE)
        if path.is_file() and "__pycache__" not in inside.parts and path.suffix != ".pyc":
            yield inside.as_posix(), path


def run_meta(plan: Plan, run_id: str, code: CodeState, environment: Environment) -> RunMeta:
    """Return the metadata of a new run. Reports, receipts and a resume read it from the journal."""
    return RunMeta(
        run_id=run_id,
        plan_digest=plan.digest,
        identity=plan.identity,
        request=plan.request.model_dump(mode="json", exclude_unset=True),
        ranges=plan.ranges,
        total=plan.total,
        versions=plan.versions,
        code_state=asdict(code),
        extra={
            EXTRA_KEY: dump_jobs(records(plan)),
            "environment": describe(run_id, environment),
            "labels": dict(plan.request.label),
            "note": plan.request.note,
            "operation": plan.request.operation(),
            "notes": list(plan.notes),
            **({} if plan.ranges == ranges_of(plan.request, plan.total) else {PARTS: plan.ranges}),
        },
    )


def resume_data(plan: Plan, code: CodeState) -> Mapping[str, object]:
    """Return the metadata that can differ between the processes of a run: versions, code state, run-time settings."""
    return {"versions": dict(plan.versions), "code_state": asdict(code), "operation": plan.request.operation()}


def check_identity(meta: RunMeta, plan: Plan) -> None:
    """Check that a plan is equal to the plan with which a run was started.

    Raises:
        IdentityError: something that can change a result differs; ``changes`` lists each difference.
    """
    if meta.plan_digest == plan.digest:
        return
    found = changes(meta.identity, plan.identity)
    text = f"the plan differs from the one that run {meta.run_id} was started with"
    raise IdentityError(text, changes=found, hint=_difference_hint(meta, found))


def _difference_hint(meta: RunMeta, found: Sequence[tuple[str, str, str]]) -> str | None:
    """Return a hint if the differences between two plans have a known cause; otherwise None.

    Known causes: this version shares builds between jobs, and the version that started the run did not; the rule of an
    evaluator or the definition of a metric has a new version; the address of a service has changed.
    """
    commit = str(meta.code_state.get("commit") or "")[:SHOWN_COMMIT]
    starter = "resume the run with the version of bench that started it" + (f" (commit {commit})" if commit else "")
    if found and all(path.startswith("jobs.") and path.endswith(".build") for path, _, _ in found):
        return f"{starter}: in this version, these jobs share one ingest"
    if found and all(old != new and _RULE.sub("", old) == _RULE.sub("", new) for _, old, new in found):
        return f"{starter}: no setting was changed, but this version scores by other rules"
    moved = [f"{path} ({old} -> {new})" for path, old, new in found if path.endswith(".base_url")]
    if not moved:
        return None
    return f"restore the old address, then resume: {', '.join(moved)}; or {IdentityError.default_hint}"
