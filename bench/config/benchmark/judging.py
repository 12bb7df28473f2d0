"""Who answers and who judges: the section ``evaluation`` of a benchmark file, and its metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, PositiveInt, field_validator

from bench.config.benchmark.terms import Granularity, Method, PythonClass, Temperature
from bench.config.source import ConfigModel

_METHOD_ALIASES = {"llm-as-judge": "llm-judge", "locomo_qa_score": "locomo-f1", "code_correctness": "code-correctness"}


class ModelChoice(ConfigModel):
    model: str | None = None
    """provider/model; the flag wins, neither means none"""
    temperature: Temperature = 0
    """0 = as deterministic as the model can be"""
    max_tokens: PositiveInt | None = None
    """tokens of a reply, reasoning included; the flag wins, neither means 1024"""


class AnswerPrompt(ConfigModel):
    default: str | None = None
    """text, or @file"""
    by_question_type: Mapping[str, str] = Field(default_factory=dict)
    """question type -> text, or @file"""
    user_override: bool = True
    """false: --answer-prompt is refused"""
    prompt_fields: tuple[str, ...] = ()
    """metadata names that the prompt may use"""


class JudgePrompts(ConfigModel):
    source: Literal["custom", "paper"] = "custom"
    """custom, or paper: the prompts of the benchmark's paper"""
    paper_reference: str | None = None
    """where in the paper"""
    default: str | None = None
    """text, or @file"""
    by_question_type: Mapping[str, str] = Field(default_factory=dict)
    """name -> text, or @file"""
    abstention: str | None = None
    """for items that must not be answered; wins over the type's"""
    user_override: bool = True
    """false: --judge-prompt is refused"""


class Evaluation(ConfigModel):
    method: Method
    """the evaluator that decides right or wrong"""
    answering_model: ModelChoice = ModelChoice()
    """who answers"""
    answer_prompt: AnswerPrompt = AnswerPrompt()
    """what it is asked"""
    judge: ModelChoice = ModelChoice()
    """who judges, for methods that need a judge"""
    judge_prompts: JudgePrompts = JudgePrompts()
    """what the judge is asked"""
    pack: str | None = None
    """NAME@VERSION"""
    granularity: Granularity = "auto"
    """level of evidence: turn, session, or auto"""
    custom_evaluator: PythonClass | None = None
    """./file.py:Class beside this file, for method custom"""

    @field_validator("method", mode="before")
    @classmethod
    def _aliases(cls, value: object) -> object:
        """Some names have a second spelling."""
        return _METHOD_ALIASES.get(value, value) if isinstance(value, str) else value


class MetricEntry(ConfigModel):
    """A metric with parameters."""

    name: str
    """a name or alias of bench list metrics"""
    method: str | None = None
    """which evaluator's verdicts it reads"""
    config: Mapping[str, object] = Field(default_factory=dict)
    """parameters of the metric"""
    breakdown: tuple[str, ...] = ()
    """dimensions: question_type, or a metadata key"""
    evaluator: PythonClass | None = None
    """./file.py:Class of a metric or evaluator of your own"""
