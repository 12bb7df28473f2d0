"""Evaluate the stored memories: are the facts of a conversation stored, and are the stored memories right?

Example::

    evaluator = AuditEvaluator(stored=JudgePrompt.of("stored", ...), right=JudgePrompt.of("right", ...))
    (await evaluator.evaluate(item, "", (), judge)).parts
    # {"points": 4, "found": 3, "partly": 3.5, "stored": 5, "right": 4.5, "target": 4, "target_right": 4}

The rubric of an item lists the facts that should be stored, and ``ScoredItem.stored`` contains the memories that the
system lists. The judge is asked for each fact whether it is stored, and for each memory whether it is right and in the
rubric. If a system cannot list its memories, there is no verdict.

The example has four expected facts (``points``). Three are stored, and one more is stored in part: together 3.5
(``partly``). Five memories are stored, with scores that add up to 4.5 (``right``). Four of these memories are about
expected facts (``target``). The scores of these four add up to 4 (``target_right``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.evaluators.graded import AUDIT, HALVES, complete_all, raw_texts, read_score, score_schema
from bench.evaluators.judge_parsing import parsed, read_object, unparsed
from bench.evaluators.judge_prompts import JudgePrompt
from bench.evaluators.judged import NO_RUBRIC, judge_verdict, unjudged_verdict
from bench.evaluators.protocol import CANNOT_LIST, Judge, JudgeSettings
from bench.metrics.answers.parts import f1_of
from bench.model import Completion, Hit, Prompt, ScoredItem, Verdict

STORED_SCHEMA = score_schema(HALVES)
RIGHT_SCHEMA = score_schema(HALVES, expected={"type": "boolean"})


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvaluator(JudgeSettings):
    """The evaluator ``memory-audit``: a judge checks whether the right memories are stored.

    The value is the F1 of two shares. The first is the share of the expected facts that are stored. The second is the
    share of the memories about these facts that are right.
    """

    stored: JudgePrompt
    right: JudgePrompt
    name: str = AUDIT
    needs_answer: bool = False
    needs_listing: bool = True

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        if item.stored is None:
            return unjudged_verdict(self.name, self.stored, reason=CANNOT_LIST)
        if not item.rubric:
            return unjudged_verdict(self.name, self.stored, reason=NO_RUBRIC)
        if judge is None:
            return unjudged_verdict(self.name, self.stored)
        points = len(item.rubric) if item.stored else 0  # an empty store needs no judge call
        replies = await complete_all(judge, self._prompts(item, item.stored))
        found, reason = _scores(replies[:points])
        right, second = _scores(replies[points:])
        if reason or second:
            outcome = unparsed(reason or second)
            return replace(
                judge_verdict(self.name, self.stored, replies[0], outcome, refused=False), raw=raw_texts(replies)
            )
        expected = [_is_expected(reply) for reply in replies[points:]]
        parts = {
            "points": float(len(item.rubric)),
            "found": float(found.count(1.0)),
            "partly": math.fsum(found),
            "stored": float(len(right)),
            "right": math.fsum(right),
            "target": float(sum(expected)),
            "target_right": math.fsum(score for score, meant in zip(right, expected, strict=True) if meant),
        }
        value = f1_of(parts["found"], parts["points"], parts["target_right"], parts["target"])
        if not replies:
            return replace(unjudged_verdict(self.name, self.stored, reason=""), value=0.0, correct=False, parts=parts)
        verdict = judge_verdict(self.name, self.stored, replies[0], parsed(value or 0.0, self.threshold), refused=False)
        return replace(verdict, raw=raw_texts(replies), parts=parts)

    def _prompts(self, item: ScoredItem, stored: Sequence[str]) -> list[Prompt]:
        """Return one prompt for each rubric point, followed by one prompt for each memory.

        Return an empty list if no memory is stored.

        All prompts get the digest of the judge prompt ``self.stored``, because the verdict names only this digest.
        `complete_all` adds an index to the digest, so that each call has an id of its own.
        """
        if not stored:
            return []
        among = replace(item, evidence_texts=tuple(stored))
        heat, name = self.temperature, self.stored.sha256
        points = [
            self.stored.ask(replace(among, rubric=(point,)), "", schema=STORED_SCHEMA, temperature=heat)
            for point in item.rubric
        ]
        memories = [self.right.ask(item, text, schema=RIGHT_SCHEMA, temperature=heat) for text in stored]
        return [replace(one, template_sha256=name) for one in (*points, *memories)]


def _scores(replies: Sequence[Completion]) -> tuple[list[float], str]:
    """Return the scores in all replies, and the reason why a reply has no score.

    The reason is empty if every reply has a score.
    """
    read = [read_score(reply, RIGHT_SCHEMA) for reply in replies]
    return [score for score, _ in read if score is not None], next((why for score, why in read if score is None), "")


def _is_expected(reply: Completion) -> bool:
    """Return True when the judge's reply says that the memory is one of the expected facts."""
    tree, _ = read_object(reply.text, RIGHT_SCHEMA.requiring("score"), deciding="score", finish_reason=reply.finish)
    return tree is not None and tree.get("expected") is True
