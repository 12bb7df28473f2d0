"""The built-in evaluators: how each is opened from its config, its keys, and one sentence for the list.

A new one is a function here and a line in ``BUILT_IN``; how an answer is evaluated stands in a module of its own.

Example::

    BUILT_IN["exact-match"].open(Opening(config={"case_sensitive": True}))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.errors import ConfigError
from bench.evaluators.byrule import ChoiceEvaluator, DeletionEvaluator, LocomoEvaluator, TextEvaluator
from bench.evaluators.code import CodeEvaluator
from bench.evaluators.judged import FaithfulnessEvaluator, JudgeEvaluator, RubricEvaluator
from bench.evaluators.packs import generic
from bench.evaluators.prompts import JudgePrompt, JudgePrompts
from bench.evaluators.protocol import Evaluator
from bench.evaluators.similar import SimilarityEvaluator
from bench.metrics.names import or_list
from bench.metrics.normal import normal_form, squad_tokens
from bench.metrics.text import F1_VARIANTS, best, occurs
from bench.model import Embedder


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """What an evaluator may need to be opened."""

    config: Mapping[str, object] = field(default_factory=dict)
    prompts: JudgePrompts | None = None
    embedder: Embedder | None = None
    allow_code_execution: bool = False

    def number(self, key: str, default: float) -> float:
        value = self.config.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ConfigError(f"{key} must be a number, not {value!r}")
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.config.get(key, default)
        if not isinstance(value, bool):
            raise ConfigError(f"{key} must be true or false, not {value!r}")
        return value

    def word(self, key: str, default: str, choices: Sequence[str]) -> str:
        value = self.config.get(key, default)
        if value not in choices:
            raise ConfigError(f"{key} = {value!r} is not allowed", hint=f"use {or_list(choices)}")
        return str(value)


def _exact(opening: Opening) -> Evaluator:
    normal = _normal(opening)
    variant = opening.word("variant", "plain", ("plain", "squad"))

    def compare(prediction: str, reference: str) -> float:
        if variant == "squad":
            return float(squad_tokens(prediction) == squad_tokens(reference))
        return float(normal(prediction) == normal(reference))

    return _text("exact-match", compare, opening)


def _contains(opening: Opening) -> Evaluator:
    normal, whole = _normal(opening), opening.flag("word_boundary", True)

    def compare(prediction: str, reference: str) -> float | None:
        wanted = normal(reference)
        return float(occurs(wanted, normal(prediction), whole_words=whole)) if wanted else None

    return _text("contains", compare, opening)


def _token_f1(opening: Opening) -> Evaluator:
    return _text("token-f1", F1_VARIANTS[opening.word("variant", "multilingual", tuple(F1_VARIANTS))], opening)


def _text(name: str, compare: Callable[[str, str], float | None], opening: Opening) -> Evaluator:
    return TextEvaluator(
        name=name,
        compare=lambda answer, references: best(compare, answer, references),
        threshold=opening.number("threshold", 1.0),
    )


def _normal(opening: Opening) -> Callable[[str], str]:
    white, case = opening.flag("normalize_whitespace", True), opening.flag("case_sensitive", False)
    form = opening.word("unicode", "nfc", ("none", "nfc", "nfkc"))
    return lambda text: normal_form(text, normalize_whitespace=white, case_sensitive=case, unicode=form)


def _judge(opening: Opening) -> Evaluator:
    return JudgeEvaluator(
        prompts=opening.prompts or JudgePrompts.of(),
        protocol=opening.word("protocol", "auto", ("auto", "json", "longmemeval-official")),
        threshold=opening.number("threshold", 1.0),
        temperature=opening.number("temperature", 0.0),
        max_tokens=int(opening.number("max_tokens", 0)),
    )


def _rubric(opening: Opening) -> Evaluator:
    own = opening.prompts.default if opening.prompts else None
    prompt = own if own and "rubric" in own.template.names else JudgePrompt.of("rubric", generic("rubric"))
    return RubricEvaluator(
        prompt=prompt,
        threshold=opening.number("threshold", 1.0),
        temperature=opening.number("temperature", 0.0),
    )


def _faithfulness(opening: Opening) -> Evaluator:
    return FaithfulnessEvaluator(
        prompt=JudgePrompt.of("faithfulness", generic("faithfulness")),
        threshold=opening.number("threshold", 1.0),
        temperature=opening.number("temperature", 0.0),
    )


def _similarity(opening: Opening) -> Evaluator:
    if opening.embedder is None:
        raise ConfigError("needs an embedding model", hint="name one with --embedding-model")
    return SimilarityEvaluator(embedder=opening.embedder, threshold=opening.number("threshold", 0.8))


def _locomo(opening: Opening) -> Evaluator:
    return LocomoEvaluator(threshold=opening.number("threshold", 1.0))


def _choice(_opening: Opening) -> Evaluator:
    return ChoiceEvaluator()


def _deletion(opening: Opening) -> Evaluator:
    return DeletionEvaluator(
        fuzzy_match=opening.flag("fuzzy_match", False), fuzzy_threshold=opening.number("fuzzy_threshold", 0.8)
    )


def _code(opening: Opening) -> Evaluator:
    return CodeEvaluator(allowed=opening.allow_code_execution, time_limit_s=opening.number("time_limit_s", 10.0))


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltIn:
    """One evaluator that needs no plug-in."""

    says: str
    open: Callable[[Opening], Evaluator]
    keys: tuple[str, ...] = ()
    """the keys of its config"""


_MATCH = ("threshold", "case_sensitive", "normalize_whitespace", "unicode")
_JUDGED = ("threshold", "temperature", "model")
BUILT_IN: Mapping[str, BuiltIn] = {
    "exact-match": BuiltIn(
        says="1 if the answer equals an accepted one after normalisation", open=_exact, keys=(*_MATCH, "variant")
    ),
    "contains": BuiltIn(
        says="1 if an accepted answer stands in the answer as whole words",
        open=_contains,
        keys=(*_MATCH, "word_boundary"),
    ),
    "token-f1": BuiltIn(says="F1 of shared tokens as value", open=_token_f1, keys=("threshold", "variant")),
    "locomo-f1": BuiltIn(says="LoCoMo's official score by category", open=_locomo, keys=("threshold",)),
    "semantic-similarity": BuiltIn(
        says="cosine of embeddings as value; needs an embedding model", open=_similarity, keys=("threshold", "model")
    ),
    "mcq": BuiltIn(
        says="the option that the answer states, else names, is the right one; none is wrong",
        open=_choice,
    ),
    "rubric": BuiltIn(says="a judge scores each rubric line 0, 0.5 or 1", open=_rubric, keys=_JUDGED),
    "llm-judge": BuiltIn(
        says="a judge says whether the answer is right", open=_judge, keys=(*_JUDGED, "protocol", "max_tokens")
    ),
    "faithfulness": BuiltIn(
        says="a judge checks each statement of the answer against the retrieved memories",
        open=_faithfulness,
        keys=_JUDGED,
    ),
    "deletion-check": BuiltIn(
        says="nothing of a deleted text is left in hits or answer",
        open=_deletion,
        keys=("fuzzy_match", "fuzzy_threshold"),
    ),
    "code-correctness": BuiltIn(
        says="the item's tests run on the answer; needs --allow-code-execution", open=_code, keys=("time_limit_s",)
    ),
}
