"""Evaluators: each gives one verdict for an answer, by a rule or by a judge.

If the reply of a judge is unreadable, the answer gets no score.

Example::

    evaluator = open_evaluator("llm-judge", prompts=JudgePrompts.of({"default": text}))
    verdict = await evaluator.evaluate(item, answer, hits, judge)
    state = state_of(verdict, answerable=not item.abstention, threshold=threshold_of(evaluator))

``protocol`` defines the interface of an evaluator, and ``registry`` finds an evaluator by its name. This package must
not depend on providers, the journal or HTTP.
"""

from __future__ import annotations

from bench.evaluators.judge_parsing import ParsedVerdict, parse_verdict
from bench.evaluators.judge_prompts import JudgePrompt, JudgePrompts
from bench.evaluators.protocol import Evaluator, Judge, needs_answer, state_of, threshold_of
from bench.evaluators.refusals import is_refusal
from bench.evaluators.registry import catalog, open_evaluator

__all__ = [
    "Evaluator",
    "Judge",
    "JudgePrompt",
    "JudgePrompts",
    "ParsedVerdict",
    "catalog",
    "is_refusal",
    "needs_answer",
    "open_evaluator",
    "parse_verdict",
    "state_of",
    "threshold_of",
]
