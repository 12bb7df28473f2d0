"""Evaluators give one verdict per answer, by a rule or by a judge.

If a judge's reply is unreadable, no score is given.

Example::

    evaluator = open_evaluator("llm-judge", prompts=JudgePrompts.of({"default": text}))
    verdict = await evaluator.evaluate(item, answer, hits, judge)
    state = state_of(verdict, answerable=not item.abstention, threshold=threshold_of(evaluator))

Modules: ``protocol`` defines the interface. ``deterministic``, ``judged``, ``graded`` and ``memory_audit`` contain the
evaluators, and ``registry`` finds them by name. ``judge_prompts`` and ``packs`` provide the judge prompts.
``judge_parsing`` and ``judge_prose`` read a judge's reply. ``refusals`` detects refusals, and ``calibration`` measures
the errors of a judge. This package must not depend on providers, the journal or HTTP.
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
