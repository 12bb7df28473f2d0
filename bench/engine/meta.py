"""What a run says of itself in its journal: once at the start, and once more for each process that goes on with it.

Example::

    Journal.create(folder, run_meta(plan, run_id, CodeState.read(environment)))
    check_identity(journal.meta, plan)            # IdentityError with a readable diff
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict

from bench.engine.codestate import CodeState
from bench.engine.machine import describe
from bench.errors import IdentityError
from bench.journal import RunMeta
from bench.journal.merging import PARTS
from bench.plan import Plan
from bench.plan.identity import changes
from bench.plan.making import ranges_of
from bench.plan.record import EXTRA_KEY, dump, records


def run_meta(plan: Plan, run_id: str, code: CodeState) -> RunMeta:
    """Everything that a report, a receipt and a resume need beside the rows."""
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
            EXTRA_KEY: dump(records(plan)),
            "environment": describe(run_id),
            "labels": dict(plan.request.label),
            "note": plan.request.note,
            "operation": plan.request.operation(),
            "notes": list(plan.notes),
            **({} if plan.ranges == ranges_of(plan.request, plan.total) else {PARTS: plan.ranges}),
        },
    )


def resume_data(plan: Plan, code: CodeState) -> Mapping[str, object]:
    """What may have changed since the run was started."""
    return {"versions": dict(plan.versions), "code_state": asdict(code), "operation": plan.request.operation()}


def check_identity(meta: RunMeta, plan: Plan) -> None:
    """Refuse to mix two experiments.

    Raises:
        IdentityError: something that can change a result is not what it was; ``changes`` lists each leaf.
    """
    if meta.plan_digest == plan.digest:
        return
    found = changes(meta.identity, plan.identity)
    text = f"this is not the plan that run {meta.run_id} was started with"
    raise IdentityError(text, changes=found, hint=_put_back(found))


def _put_back(found: Sequence[tuple[str, str, str]]) -> str | None:
    """A service that moved is seldom meant to be another one: its old address lets the run go on."""
    moved = [f"{path} ({old} -> {new})" for path, old, new in found if path.endswith(".base_url")]
    if not moved:
        return None
    return f"put the old address back to go on: {', '.join(moved)}; or {IdentityError.default_hint}"
