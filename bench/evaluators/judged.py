"""Evaluators that ask a model: one request an answer, its text kept whole, read without guessing.

Example::

    evaluator = JudgeEvaluator(prompts=JudgePrompts.of())
    (await evaluator.evaluate(item, answer, hits, judge)).reason       # "" or why it is unscored
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from bench.evaluators.jsonverdict import objects
from bench.evaluators.parsing import ParsedVerdict, parse_verdict
from bench.evaluators.prompts import CORRECTNESS_SCHEMA, MAX_TOKENS, JudgePrompt, JudgePrompts
from bench.evaluators.protocol import Judge
from bench.evaluators.refusals import is_refusal
from bench.model import Completion, Hit, ScoredItem, Verdict

NO_JUDGE = "no_judge"
SCORES_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "scores": {"type": "array", "items": {"type": "number", "enum": [0, 0.5, 1]}},
        "reasoning": {"type": "string"},
    },
    "required": ["scores", "reasoning"],
    "additionalProperties": False,
}
STATEMENTS_SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {
        "statements": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"statement": {"type": "string"}, "supported": {"type": "boolean"}},
                "required": ["statement", "supported"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["statements"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeEvaluator:
    """``llm-judge``: the judge says whether an answer is right; empty retrieval does not skip it."""

    prompts: JudgePrompts
    name: str = "llm-judge"
    protocol: str = "auto"
    threshold: float = 1.0
    temperature: float = 0.0
    max_tokens: int = MAX_TOKENS
    needs_judge: bool = True

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        prompt = self.prompts.choose(item)
        if judge is None:
            return unasked(self.name, prompt)
        if not answer.strip():
            return silent(self.name, prompt)
        said = await judge.ask(
            prompt.ask(
                item,
                answer,
                hits,
                schema=CORRECTNESS_SCHEMA,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
            )
        )
        parsed = parse_verdict(said.text, protocol=self.protocol, finish_reason=said.finish, threshold=self.threshold)
        return judged(self.name, prompt, said, parsed, refused=is_refusal(answer, item.refusals))


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricEvaluator:
    """``rubric``: each line is met (1), partly met (0.5) or not (0); the value is their mean, never rounded."""

    prompt: JudgePrompt
    name: str = "rubric"
    threshold: float = 1.0
    temperature: float = 0.0
    needs_judge: bool = True

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        if not item.rubric:
            return unasked(self.name, self.prompt, reason="no_rubric")
        if judge is None:
            return unasked(self.name, self.prompt)
        if not answer.strip():
            return silent(self.name, self.prompt)
        said = await judge.ask(self.prompt.ask(item, answer, hits, schema=SCORES_SCHEMA, temperature=self.temperature))
        value, reason = read_scores(said.text, len(item.rubric))
        parsed = _value(value, reason, self.threshold)
        return judged(self.name, self.prompt, said, parsed, refused=is_refusal(answer, item.refusals))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaithfulnessEvaluator:
    """``faithfulness``: supported statements / all statements of the answer; none at all: unscored."""

    prompt: JudgePrompt
    name: str = "faithfulness"
    threshold: float = 1.0
    temperature: float = 0.0
    needs_judge: bool = True

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        if judge is None:
            return unasked(self.name, self.prompt)
        if not answer.strip():
            return unasked(self.name, self.prompt, reason="no_statements")
        said = await judge.ask(
            self.prompt.ask(item, answer, hits, schema=STATEMENTS_SCHEMA, temperature=self.temperature)
        )
        value, reason = read_statements(said.text)
        parsed = _value(value, reason, self.threshold, faithfulness=value)
        return judged(self.name, self.prompt, said, parsed, refused=False)


def read_scores(text: str, count: int) -> tuple[float | None, str]:
    """The mean of ``scores``, which must be ``count`` numbers out of 0, 0.5 and 1."""

    def read(tree: Mapping[str, object]) -> tuple[float | None, str]:
        scores = tree.get("scores")
        if not isinstance(scores, list) or len(scores) != count:
            return None, "no_verdict"
        if any(isinstance(s, bool) or s not in (0, 0.5, 1) for s in scores):
            return None, "out_of_range"
        return math.fsum(scores) / count, ""

    return _read_one(text, read)


def read_statements(text: str) -> tuple[float | None, str]:
    """Supported / all of ``statements``; None with reason ``no_statements`` when the list is empty."""

    def read(tree: Mapping[str, object]) -> tuple[float | None, str]:
        listed = tree.get("statements")
        if not isinstance(listed, list):
            return None, "no_verdict"
        marks = [entry.get("supported") if isinstance(entry, dict) else None for entry in listed]
        if not all(isinstance(mark, bool) for mark in marks):
            return None, "no_verdict"
        return (marks.count(True) / len(marks), "") if marks else (None, "no_statements")

    return _read_one(text, read)


def _read_one(text: str, read: Callable[[Mapping[str, object]], tuple[float | None, str]]) -> tuple[float | None, str]:
    if not text.strip():
        return None, "empty"
    found = {read(tree) for tree in objects(text)}
    if not found:
        return None, "no_verdict"
    return next(iter(found)) if len(found) == 1 else (None, "conflict")


def _value(value: float | None, reason: str, threshold: float, faithfulness: float | None = None) -> ParsedVerdict:
    if value is None:
        return ParsedVerdict(state="unparsed", reason=reason)
    return ParsedVerdict(state="parsed", correct=value >= threshold, value=value, faithfulness=faithfulness)


def judged(name: str, prompt: JudgePrompt, said: Completion, parsed: ParsedVerdict, *, refused: bool) -> Verdict:
    """The verdict of a judge, with everything that says where it came from."""
    return Verdict(
        evaluator=name,
        value=parsed.value,
        correct=parsed.correct,
        reason=parsed.reason or "",
        judged=True,
        abstained=refused and not parsed.correct,
        faithfulness=parsed.faithfulness,
        model=said.model,
        fingerprint=said.fingerprint,
        prompt_name=prompt.name,
        prompt_sha256=prompt.sha256,
        raw=said.text if said.raw is None else said.raw,
        ignored=said.ignored,
    )


def unasked(name: str, prompt: JudgePrompt, reason: str = NO_JUDGE) -> Verdict:
    """No verdict, because nobody could be asked."""
    return Verdict(
        evaluator=name,
        value=None,
        correct=None,
        reason=reason,
        judged=True,
        prompt_name=prompt.name,
        prompt_sha256=prompt.sha256,
    )


def silent(name: str, prompt: JudgePrompt) -> Verdict:
    """The verdict on an answer without text: wrong, and no judge is asked."""
    return replace(unasked(name, prompt, reason=""), value=0.0, correct=False)
