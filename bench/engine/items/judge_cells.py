"""Judge all answers of a run or file again, with one judge and one judge prompt.

Example::

    cell = await judge_cell(plan, rows, run=(folder, "demo/bm25|openai/gpt-4o-mini"))
    cell.n_reused, cell.n_to_judge              # 57, 3
    folder = await cell.judged_folder(environment)

The verdicts are kept in ``disputes/``. If the same judge has already judged an answer with the same prompt, its earlier
reply is reused and not paid again. A failed call is repeated by the next ``bench dispute``.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from bench.engine.external_results import score_external
from bench.engine.external_rows import ExternalRow
from bench.engine.items.evaluate import StoredReplies, stored_replies
from bench.errors import JournalError, UsageError
from bench.journal import Key, Reader, RunState
from bench.model import Phase
from bench.plan import Plan
from bench.settings import Environment

FOLDER = "disputes"
"""folder in the workspace with the journals of these verdicts"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCell:
    """One judge with one prompt, the answers to judge, and the earlier replies to reuse."""

    plan: Plan
    rows: Sequence[ExternalRow]
    folder: Path
    replies: Mapping[str, StoredReplies]
    """item -> earlier replies of the judge on its answer"""
    is_complete: bool
    """True if the journal exists already and has a result for every answer"""

    @property
    def judge(self) -> str:
        """Return the name of the judge."""
        return self.plan.lanes[0].jobs[0].judge

    @property
    def n_reused(self) -> int:
        """Return the number of answers for which the judge's earlier reply is reused."""
        if self.is_complete:
            return len(self._answered)
        prompts = {prompt.sha256 for prompt in self.plan.lanes[0].benchmark.prompts.judges.all}
        known = (self.replies.get(row.item, {}) for row in self._answered)
        return sum(any(digest in prompts for _, digest in replies) for replies in known)

    @property
    def n_to_judge(self) -> int:
        """Return the number of answers for which the judge must be called."""
        return len(self._answered) - self.n_reused

    @property
    def _answered(self) -> list[ExternalRow]:
        return [row for row in self.rows if (row.answer or "").strip()]

    async def judged_folder(self, environment: Environment) -> Path:
        """Return the folder of the journal with the verdicts; if it is incomplete, judge the answers first."""
        if not self.is_complete:
            unfinished = self.folder.with_name(f"{self.folder.name}.{secrets.token_hex(4)}")
            await score_external(self.plan, self.rows, unfinished, environment=environment, replies=self.replies)
            for older in self.folder.parent.glob(f"{self.folder.name}*"):
                if older != unfinished:
                    shutil.rmtree(older)
            unfinished.rename(self.folder)
        return self.folder


async def judge_cell(plan: Plan, rows: Sequence[ExternalRow], *, run: tuple[Path, str] | None) -> JudgeCell:
    """Return the judge of a plan, the answers in ``rows``, and the judge's earlier replies on these answers.

    ``run`` is the folder and the job of the run that gave the answers; None if the answers come from a file.
    """
    (lane,) = plan.lanes
    (job,) = lane.jobs
    answers = _digest([lane.benchmark.name, lane.benchmark.dataset.sha256, [[row.item, row.answer] for row in rows]])
    around = plan.workspace / FOLDER / answers
    folder = around / _digest(plan.digest)
    corpora = {row.item: lane.benchmark.dataset.find(row.item).corpus for row in rows}
    sources = [(earlier, job.key) for earlier in sorted(around.glob("*"))]
    if run is not None:
        sources.append((run[0], f"{run[1]}|{job.judge}"))
    complete = await _is_complete(folder)
    replies: dict[str, StoredReplies] = {}
    for source, owner in () if complete else sources:
        for item, found in (await _replies(source, owner, corpora, plan)).items():
            replies[item] = {**found, **replies.get(item, {})}
    return JudgeCell(plan=plan, rows=rows, folder=folder, replies=replies, is_complete=complete)


def _digest(tree: object) -> str:
    return sha256(json.dumps(tree, ensure_ascii=True).encode()).hexdigest()[:20]


async def _is_complete(folder: Path) -> bool:
    """Return True if a journal is complete and no judge call in it has failed.

    An answer without text needs no judge call.
    """
    try:
        async with Reader.open(folder) as reader:
            ended = (await reader.status()).state in (RunState.COMPLETE, RunState.PARTIAL)
            counts = (await reader.counts()).items()
            failed = {
                phase: sum(n for (one, outcome), n in counts if one is phase and outcome != "ok")
                for phase in (Phase.ANSWER, Phase.EVALUATE)
            }
            return ended and failed[Phase.EVALUATE] == failed[Phase.ANSWER]
    except (JournalError, UsageError):  # damaged, or none
        return False


async def _replies(folder: Path, owner: str, corpora: Mapping[str, str], plan: Plan) -> dict[str, StoredReplies]:
    """Return, for each item, the judge's replies in a journal.

    The result is empty if another model had the judge's name when the journal was written.
    """
    judge = plan.lanes[0].jobs[0].judge
    mine = plan.identity["models"][judge]
    try:
        async with Reader.open(folder) as reader:
            if reader.meta.identity["models"].get(judge, mine) != mine:
                return {}
            keys = [
                Key(owner=owner, phase=Phase.EVALUATE, corpus=corpus, unit=item) for item, corpus in corpora.items()
            ]
            found = {key.unit: stored_replies(await reader.verdict_history(key)) for key in keys}
    except (JournalError, UsageError):
        return {}
    return {item: stored for item, stored in found.items() if stored}
