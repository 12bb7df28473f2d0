"""Evaluators whose judge returns more than right or wrong: one score per rubric point, an order, or a label.

Example::

    PointsEvaluator(prompt=JudgePrompt.of("point", generic_prompt("point")), values=(0, 0.5, 1))    # one call per point
    (await evaluator.evaluate(item, answer, hits, judge)).parts     # {"floored": 0.5}
    LabelEvaluator(prompts=prompts, labels={"correct": 1, "hallucination": 0, "omission": 0})

If one reply for an item cannot be read, the item gets no score.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import anyio

from bench.errors import BenchError
from bench.evaluators.judge_parsing import judge_text, parsed, read_object, unparsed
from bench.evaluators.judge_prompts import JudgePrompt, JudgePrompts
from bench.evaluators.judged import NO_RUBRIC, empty_answer_verdict, judge_verdict, unjudged_verdict
from bench.evaluators.protocol import Judge, JudgeSettings
from bench.evaluators.refusals import is_refusal
from bench.json_reply import ReplySchema, object_schema
from bench.metrics.answers.ordering import order_agreement
from bench.model import Completion, Hit, Prompt, ScoredItem, Verdict

HALVES = (0.0, 0.5, 1.0)


REASONING = {"type": "string"}
LABEL_SCHEMA = object_schema(label={"type": "string"}, reasoning=REASONING)
ORDER_SCHEMA = object_schema(order={"type": "array", "items": {"type": "integer", "minimum": 0}}, reasoning=REASONING)


def score_schema(values: Sequence[float], **more: Mapping[str, object]) -> ReplySchema:
    """Return the JSON schema of a judge's reply with a score that must be one of ``values``."""
    score = {"type": "number", "enum": [int(v) if v == int(v) else v for v in values]}
    return object_schema(score=score, **more, reasoning=REASONING)


def read_score(reply: Completion, schema: ReplySchema) -> tuple[float | None, str]:
    """Return (score, "") for a readable reply of a judge, or (None, reason) for an unreadable reply."""
    properties = cast("Mapping[str, Mapping[str, Sequence[float]]]", schema["properties"])
    loose = ReplySchema({**schema, "properties": {**properties, "score": {"type": "number"}}}).requiring("score")
    tree, reason = read_object(reply.text, loose, deciding="score", finish_reason=reply.finish)
    score = tree["score"] if tree is not None else None
    if not isinstance(score, int | float):
        return None, reason
    return (float(score), "") if score in properties["score"]["enum"] else (None, "out_of_range")


async def complete_all(judge: Judge, prompts: Sequence[Prompt]) -> list[Completion]:
    """Send all prompts to the judge at the same time, and return the replies in the order of the prompts."""
    found: dict[int, Completion | BenchError] = {}

    async def ask(at: int, prompt: Prompt) -> None:
        try:
            found[at] = await judge.ask(replace(prompt, template_sha256=call_digest(prompt.template_sha256, at)))
        except BenchError as error:
            found[at] = error

    async with anyio.create_task_group() as tasks:
        for at, prompt in enumerate(prompts):
            tasks.start_soon(ask, at, prompt)
    replies = []
    for at in range(len(prompts)):
        reply = found[at]
        if isinstance(reply, BenchError):
            raise reply
        replies.append(reply)
    return replies


def call_digest(sha256: str, at: int) -> str:
    """Return the id of a judge call: the digest of its prompt, and its index among the calls for one answer."""
    return f"{sha256}:{at}"


def texts_by_call(verdict: Verdict) -> Mapping[str, str]:
    """Return a map from the id of each judge call to the text of the judge's reply.

    If the evaluator makes one call per answer, the id is the digest of the prompt. Otherwise, the id is a
    `call_digest`.
    """
    raw, sha256 = verdict.raw, verdict.prompt_sha256
    if not raw or not sha256:
        return {}
    if verdict.evaluator not in SEVERAL_CALLS:
        return {sha256: raw}
    return {call_digest(sha256, at): text for at, text in enumerate(json.loads(raw))}


def raw_texts(replies: Sequence[Completion]) -> str:
    """Return the texts of several judge replies as one JSON list."""
    return json.dumps([reply.text if reply.raw is None else reply.raw for reply in replies], ensure_ascii=False)


POINTS, AUDIT = "rubric-points", "memory-audit"
SEVERAL_CALLS = (POINTS, AUDIT)
"""evaluators that call their judge several times per answer"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointsEvaluator(JudgeSettings):
    """The evaluator ``rubric-points``: a judge scores each rubric point in a call of its own.

    The score of a point is one of ``values``. The value of the verdict is the mean score.
    """

    prompt: JudgePrompt
    values: tuple[float, ...] = HALVES
    name: str = POINTS

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        if not item.rubric:
            return unjudged_verdict(self.name, self.prompt, reason=NO_RUBRIC)
        if judge is None:
            return unjudged_verdict(self.name, self.prompt)
        if not answer.strip():
            return replace(empty_answer_verdict(self.name, self.prompt), parts={"floored": 0.0})
        schema = score_schema(self.values)
        each = [replace(item, rubric=(point,)) for point in item.rubric]
        prompts = [self.prompt.ask(one, answer, hits, schema=schema, temperature=self.temperature) for one in each]
        replies = await complete_all(judge, prompts)
        scores = [read_score(reply, schema) for reply in replies]
        reason = next((why for score, why in scores if score is None), "")
        known = [score for score, _ in scores if score is not None]
        mean = math.fsum(known) / len(scores)
        outcome = unparsed(reason) if len(known) < len(scores) else parsed(mean, self.threshold)
        verdict = judge_verdict(self.name, self.prompt, replies[0], outcome, refused=is_refusal(answer, item.refusals))
        floored = {} if outcome.value is None else {"floored": math.fsum(map(math.floor, known)) / len(known)}
        return replace(verdict, raw=raw_texts(replies), parts=floored)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderEvaluator(JudgeSettings):
    """The evaluator ``order-agreement``: a judge finds the rubric's events in the answer.

    The value is (tau_b + 1) / 2 * F1. Here tau_b is Kendall's tau-b of the order of the events. F1 is the F1 of the
    events that the judge found.
    """

    prompt: JudgePrompt
    name: str = "order-agreement"

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        if not item.rubric:
            return unjudged_verdict(self.name, self.prompt, reason=NO_RUBRIC)
        if judge is None:
            return unjudged_verdict(self.name, self.prompt)
        if not answer.strip():
            return empty_answer_verdict(self.name, self.prompt)
        reply = await judge.ask(self.prompt.ask(item, answer, hits, schema=ORDER_SCHEMA, temperature=self.temperature))
        tree, reason = read_object(
            reply.text, ORDER_SCHEMA.requiring("order"), deciding="order", finish_reason=reply.finish
        )
        order = tree["order"] if tree is not None else None
        if not isinstance(order, list):
            outcome = unparsed(reason)
        elif any(place > len(item.rubric) for place in order):
            outcome = unparsed("out_of_range")
        else:
            outcome = parsed(order_agreement(order, len(item.rubric)), self.threshold)
        return judge_verdict(self.name, self.prompt, reply, outcome, refused=is_refusal(answer, item.refusals))


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelEvaluator(JudgeSettings):
    """The evaluator ``labels``: a judge chooses one of the config's labels, each of which has a value.

    If the prompt does not contain ``${response}``, the hits are judged (``${evidence}``) and no answer is needed.
    """

    prompts: JudgePrompts
    labels: Mapping[str, float]
    name: str = "labels"

    @property
    def needs_answer(self) -> bool:
        return "response" in self.prompts.default.template.names

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        prompt = self.prompts.by_type.get(item.question_type or "", self.prompts.default)
        if judge is None:
            return unjudged_verdict(self.name, prompt)
        if self.needs_answer and not answer.strip():
            return empty_answer_verdict(self.name, prompt)
        reply = await judge.ask(prompt.ask(item, answer, hits, schema=LABEL_SCHEMA, temperature=self.temperature))
        label, reason = self._label(reply)
        outcome = unparsed(reason) if label is None else parsed(self.labels[label], self.threshold)
        verdict = judge_verdict(self.name, prompt, reply, outcome, refused=is_refusal(answer, item.refusals))
        return replace(verdict, parts={} if label is None else {one: float(one == label) for one in self.labels})

    def _label(self, reply: Completion) -> tuple[str | None, str]:
        """Return (label, "") for a readable reply of a judge, or (None, reason) for an unreadable reply.

        The reply must be a JSON object with a label, or only the label.
        """
        tree, reason = read_object(
            reply.text, LABEL_SCHEMA.requiring("label"), deciding="label", finish_reason=reply.finish
        )
        text = str(tree["label"]) if tree is not None else judge_text(reply.text, reply.finish)[0]
        word = text.strip(" \n\t.\"'*`").casefold()
        return next(((one, "") for one in self.labels if one.casefold() == word), (None, reason or "no_verdict"))
