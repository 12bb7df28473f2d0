"""Evaluators: one answer to one Verdict, by rule or by a judge. An unreadable verdict is unscored, never 0.

Example::

    evaluator = open_evaluator("llm-judge", prompts=JudgePrompts.of({"default": text}))
    verdict = await evaluator.evaluate(item, answer, hits, judge)
    state = state_of(verdict, answerable=not item.abstention, threshold=threshold_of(evaluator))

Where things are: ``protocol`` the face; ``deterministic`` and ``judged`` the implementations, which ``registry``
finds by name; ``prompts`` and ``packs`` what a judge is asked, ``judge_parsing`` and ``judge_prose`` how its text is
read, ``refusals`` when an answer is none; ``calibration`` how good a judge is. May not be added here: anything that
knows a provider, the journal or HTTP.
"""

from __future__ import annotations

from bench.evaluators.judge_parsing import ParsedVerdict, parse_verdict
from bench.evaluators.prompts import JudgePrompt, JudgePrompts
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
