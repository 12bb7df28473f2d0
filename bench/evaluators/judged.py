"""Evaluators that call a judge once per answer. An unclear reply gives no score.

Example::

    evaluator = JudgeEvaluator(prompts=JudgePrompts.of())
    (await evaluator.evaluate(item, answer, hits, judge)).reason       # "" or why it is unscored
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.evaluators.judge_parsing import ParsedVerdict, judge_text, parse_object, parse_verdict, read_object, unparsed
from bench.evaluators.judge_prompts import CORRECTNESS_SCHEMA, MAX_TOKENS, JudgePrompt, JudgePrompts
from bench.evaluators.protocol import Judge, JudgeSettings
from bench.evaluators.refusals import is_refusal
from bench.json_reply import ReplySchema, object_schema
from bench.model import Completion, Hit, ScoredItem, Verdict

NO_JUDGE = "no_judge"
NO_RUBRIC = "no_rubric"
NO_STATEMENTS = "no_statements"
SCORES_SCHEMA = object_schema(
    scores={"type": "array", "items": {"type": "number", "enum": [0, 0.5, 1]}}, reasoning={"type": "string"}
)
STATEMENTS_SCHEMA = object_schema(
    statements={
        "type": "array",
        "items": dict(object_schema(statement={"type": "string"}, supported={"type": "boolean"})),
    }
)
_CORRECTNESS = CORRECTNESS_SCHEMA.requiring("correctness")
_SCORES = ReplySchema(
    {**SCORES_SCHEMA, "properties": {"scores": {"type": "array"}, "reasoning": {"type": "string"}}}
).requiring("scores")
"""schema for reading a reply: it accepts every score, so that a score outside the scale gets its own reason"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeEvaluator(JudgeSettings):
    """The evaluator ``llm-judge``: a judge decides whether an answer is right."""

    prompts: JudgePrompts
    name: str = "llm-judge"
    protocol: str = "auto"
    max_tokens: int = MAX_TOKENS

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        prompt = self.prompts.choose(item)
        if judge is None:
            return unjudged_verdict(self.name, prompt)
        if not answer.strip():
            return empty_answer_verdict(self.name, prompt)
        reply = await judge.ask(
            prompt.ask(
                item,
                answer,
                hits,
                schema=CORRECTNESS_SCHEMA,
                temperature=self.temperature,
                max_tokens=self.max_tokens,
            )
        )
        parsed = self._read(reply, answer, by_schema=prompt.asks_for_json)
        return judge_verdict(self.name, prompt, reply, parsed, refused=is_refusal(answer, item.refusals))

    def _read(self, reply: Completion, answer: str, *, by_schema: bool) -> ParsedVerdict:
        """Read the verdict in a judge's reply.

        If the prompt asks for JSON, only a JSON object is read. Otherwise prose is read too.
        """
        if reply.finish == "refusal":
            return unparsed("refusal")
        if by_schema and self.protocol == "auto":
            return parse_object(reply.text, _CORRECTNESS, finish_reason=reply.finish, threshold=self.threshold)
        if not reply.text.strip():  # the paper's rule takes a missing text for a no
            return unparsed(judge_text(reply.text, reply.finish)[1])
        return parse_verdict(
            reply.text,
            protocol=self.protocol,
            finish_reason=reply.finish,
            threshold=self.threshold,
            answer=answer,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricEvaluator(JudgeSettings):
    """The evaluator ``rubric``: a judge scores every rubric point with 0, 0.5 or 1, all in one call.

    The value of the verdict is the mean of these scores, without rounding.
    """

    prompt: JudgePrompt
    name: str = "rubric"

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        if not item.rubric:
            return unjudged_verdict(self.name, self.prompt, reason=NO_RUBRIC)
        if judge is None:
            return unjudged_verdict(self.name, self.prompt)
        if not answer.strip():
            return empty_answer_verdict(self.name, self.prompt)
        reply = await judge.ask(self.prompt.ask(item, answer, hits, schema=SCORES_SCHEMA, temperature=self.temperature))
        value, reason = read_scores(reply.text, len(item.rubric), finish_reason=reply.finish)
        parsed = _parsed_value(value, reason, self.threshold)
        return judge_verdict(self.name, self.prompt, reply, parsed, refused=is_refusal(answer, item.refusals))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaithfulnessEvaluator(JudgeSettings):
    """The evaluator ``faithfulness``: the share of the answer's statements that the retrieved memories support."""

    prompt: JudgePrompt
    name: str = "faithfulness"

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        if judge is None:
            return unjudged_verdict(self.name, self.prompt)
        if not answer.strip():
            return unjudged_verdict(self.name, self.prompt, reason=NO_STATEMENTS)
        reply = await judge.ask(
            self.prompt.ask(item, answer, hits, schema=STATEMENTS_SCHEMA, temperature=self.temperature)
        )
        value, reason = read_statements(reply.text, finish_reason=reply.finish)
        parsed = _parsed_value(value, reason, self.threshold, faithfulness=value)
        return judge_verdict(self.name, self.prompt, reply, parsed, refused=False)


def read_scores(text: str, count: int, *, finish_reason: str | None = None) -> tuple[float | None, str]:
    """Return (mean of the judge's ``scores``, ""), or (None, reason) if the reply cannot be read.

    There must be ``count`` scores. Each score must be 0, 0.5 or 1.
    """
    tree, reason = read_object(text, _SCORES, deciding="scores", finish_reason=finish_reason)
    scores = tree["scores"] if tree is not None else None
    if not isinstance(scores, list) or len(scores) != count:
        return None, reason or "no_verdict"
    if any(isinstance(s, bool) or s not in (0, 0.5, 1) for s in scores):
        return None, "out_of_range"
    return math.fsum(scores) / count, ""


def read_statements(text: str, *, finish_reason: str | None = None) -> tuple[float | None, str]:
    """Return (share of ``statements`` that the judge calls supported, "").

    Return (None, reason) if the reply cannot be read or has no statements.
    """
    tree, reason = read_object(text, STATEMENTS_SCHEMA, deciding="statements", finish_reason=finish_reason)
    listed = tree["statements"] if tree is not None else None
    if not isinstance(listed, list):
        return None, reason
    marks = [entry["supported"] for entry in listed]
    return (marks.count(True) / len(marks), "") if marks else (None, NO_STATEMENTS)


def _parsed_value(
    value: float | None, reason: str, threshold: float, faithfulness: float | None = None
) -> ParsedVerdict:
    if value is None:
        return ParsedVerdict(state="unparsed", reason=reason)
    return ParsedVerdict(state="parsed", correct=value >= threshold, value=value, faithfulness=faithfulness)


def judge_verdict(
    name: str, prompt: JudgePrompt, reply: Completion, parsed: ParsedVerdict, *, refused: bool
) -> Verdict:
    """Create the verdict from a judge's reply, with the prompt and the model that led to it."""
    return Verdict(
        evaluator=name,
        value=parsed.value,
        correct=parsed.correct,
        reason=parsed.reason or "",
        judged=True,
        abstained=refused and not parsed.correct,
        faithfulness=parsed.faithfulness,
        model=reply.model,
        fingerprint=reply.fingerprint,
        prompt_name=prompt.name,
        prompt_sha256=prompt.sha256,
        raw=reply.text if reply.raw is None else reply.raw,
        ignored=reply.ignored,
    )


def unjudged_verdict(name: str, prompt: JudgePrompt, reason: str = NO_JUDGE) -> Verdict:
    """Create a verdict without a value, because no judge was called. ``reason`` says why."""
    return Verdict(
        evaluator=name,
        value=None,
        correct=None,
        reason=reason,
        judged=True,
        prompt_name=prompt.name,
        prompt_sha256=prompt.sha256,
    )


def empty_answer_verdict(name: str, prompt: JudgePrompt) -> Verdict:
    """Create the verdict for an empty answer. The answer is wrong, and the judge is not called."""
    return replace(unjudged_verdict(name, prompt, reason=""), value=0.0, correct=False)
