"""Find evaluators by name: built-in evaluators, installed plug-ins, and classes in a file next to a config.

Verdicts of plug-in evaluators are checked.

Example::

    open_evaluator("exact-match", config={"case_sensitive": True})
    open_evaluator("custom:./mine.py:Mine", folder=Path("configs/benchmarks"))
    BUILT_IN["exact-match"].open(EvaluatorOptions(config={"case_sensitive": True}))
    plugin_evaluator(Mine, "custom:./mine.py:Mine", {"threshold": 0.5}, "./mine.py:Mine", where=None)

A new built-in evaluator needs a module, an open function here and an entry in ``BUILT_IN``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import cast

from bench.errors import ConfigError, EvaluatorFailed
from bench.evaluators.deterministic import (
    ChoiceEvaluator,
    CodeEvaluator,
    DeletionEvaluator,
    LocomoEvaluator,
    SimilarityEvaluator,
    TextEvaluator,
)
from bench.evaluators.graded import HALVES, LabelEvaluator, OrderEvaluator, PointsEvaluator
from bench.evaluators.judge_prompts import JudgePrompt, JudgePrompts
from bench.evaluators.judged import FaithfulnessEvaluator, JudgeEvaluator, RubricEvaluator
from bench.evaluators.memory_audit import AuditEvaluator
from bench.evaluators.packs import generic_prompt
from bench.evaluators.protocol import Evaluator, Judge
from bench.evaluators.refusals import REVISION
from bench.metrics import plugins
from bench.metrics.answers.text import F1_VARIANTS, best_score, containment, equality, has_phrases
from bench.metrics.answers.text_normalization import normal_form
from bench.metrics.protocol import or_list, similar_names
from bench.model import Embedder, Hit, ScoredItem, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorOptions:
    """The options for opening an evaluator: its config, judge prompts, embedding model and permissions."""

    config: Mapping[str, object] = field(default_factory=dict)
    prompts: JudgePrompts | None = None
    embedder: Embedder | None = None
    allow_code_execution: bool = False

    def number(self, key: str, default: float) -> float:
        value = self.config.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            hint = f"write a number without quotes, such as {key}: {default:g}"
            raise ConfigError(f'"{key}" must be a number, not {value!r}', hint=hint)
        return float(value)

    def flag(self, key: str, default: bool) -> bool:
        value = self.config.get(key, default)
        if not isinstance(value, bool):
            hint = f"write {key}: true or {key}: false, without quotes"
            raise ConfigError(f'"{key}" must be true or false, not {value!r}', hint=hint)
        return value

    def word(self, key: str, default: str, choices: Sequence[str]) -> str:
        value = self.config.get(key, default)
        if value not in choices:
            raise ConfigError(f"{key} = {value!r} is not allowed", hint=f"use {or_list(choices)}")
        return str(value)

    @property
    def threshold(self) -> float:
        return self.number("threshold", 1.0)

    @property
    def temperature(self) -> float:
        return self.number("temperature", 0.0)

    def rubric_prompt(self, name: str) -> JudgePrompt:
        """Return the benchmark's own judge prompt if that prompt uses the rubric, else the generic prompt ``name``."""
        own = self.prompts.default if self.prompts else None
        return own if own and "rubric" in own.template.names else _generic(name)


def _generic(name: str) -> JudgePrompt:
    return JudgePrompt.of(name, generic_prompt(name))


def _exact(options: EvaluatorOptions) -> Evaluator:
    variant = options.word("variant", "plain", ("plain", "squad"))
    return _text("exact-match", equality(variant, _normal(options)), options)


def _text(name: str, compare: Callable[[str, str], float | None], options: EvaluatorOptions) -> Evaluator:
    return TextEvaluator(
        name=name,
        compare=lambda answer, references: best_score(compare, answer, references),
        threshold=options.threshold,
    )


def _normal(options: EvaluatorOptions) -> Callable[[str], str]:
    white, case = options.flag("normalize_whitespace", True), options.flag("case_sensitive", False)
    form = options.word("unicode", "nfc", ("none", "nfc", "nfkc"))
    return lambda text: normal_form(text, normalize_whitespace=white, case_sensitive=case, unicode=form)


def _judge(options: EvaluatorOptions) -> Evaluator:
    return JudgeEvaluator(
        prompts=options.prompts or JudgePrompts.of(),
        protocol=options.word("protocol", "auto", ("auto", "json", "longmemeval-official")),
        threshold=options.threshold,
        temperature=options.temperature,
        max_tokens=int(options.number("max_tokens", 0)),
    )


def _points(options: EvaluatorOptions) -> Evaluator:
    given = options.config.get("values")
    values = given if isinstance(given, list | tuple) and given else HALVES
    return PointsEvaluator(
        prompt=options.rubric_prompt("point"),
        values=tuple(map(float, values)),
        threshold=options.threshold,
        temperature=options.temperature,
    )


def _labels(options: EvaluatorOptions) -> Evaluator:
    if options.prompts is not None and not options.config.get("labels"):
        raise ConfigError(
            'method "labels" needs the key "labels"',
            hint="write evaluation: {labels: {correct: 1, wrong: 0}, judgePrompts: ...}",
        )
    return LabelEvaluator(
        prompts=options.prompts or JudgePrompts.of(),
        labels=cast("Mapping[str, float]", options.config.get("labels") or {}),
        threshold=options.threshold,
        temperature=options.temperature,
    )


def _similarity(options: EvaluatorOptions) -> Evaluator:
    if options.embedder is None:
        raise ConfigError("needs an embedding model", hint="name an embedding model with --embedding-model")
    return SimilarityEvaluator(embedder=options.embedder, threshold=options.number("threshold", 0.8))


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInEvaluator:
    """One built-in evaluator."""

    description: str
    open: Callable[[EvaluatorOptions], Evaluator]
    keys: tuple[str, ...] = ()
    """keys that the evaluator's config may have"""
    version: int = 1
    """version of the evaluator's own rule, increased when the verdict on any answer changes"""
    refusals: bool = False
    """true: the verdict can depend on whether the answer is a refusal"""


_MATCH = ("threshold", "case_sensitive", "normalize_whitespace", "unicode")
_JUDGED = ("threshold", "temperature", "model")
BUILT_IN: Mapping[str, BuiltInEvaluator] = {
    "exact-match": BuiltInEvaluator(
        description="1 if the answer equals an accepted answer after normalization",
        open=_exact,
        keys=(*_MATCH, "variant"),
        refusals=True,
    ),
    "contains": BuiltInEvaluator(
        description="1 if the answer contains an accepted answer as whole words",
        open=lambda options: _text(
            "contains", containment(_normal(options), whole_words=options.flag("word_boundary", True)), options
        ),
        keys=(*_MATCH, "word_boundary"),
        version=2,  # 2: a part of a longer number is no match
        refusals=True,
    ),
    "token-f1": BuiltInEvaluator(
        description="F1 of the tokens that the answer shares with an accepted answer",
        open=lambda options: _text(
            "token-f1", F1_VARIANTS[options.word("variant", "multilingual", tuple(F1_VARIANTS))], options
        ),
        keys=("threshold", "variant"),
        refusals=True,
    ),
    "locomo-f1": BuiltInEvaluator(
        description="LoCoMo's official score per category",
        open=lambda options: LocomoEvaluator(threshold=options.threshold),
        keys=("threshold",),
        refusals=True,
    ),
    "semantic-similarity": BuiltInEvaluator(
        description="cosine of the embeddings of answer and accepted answer; needs an embedding model",
        open=_similarity,
        keys=("threshold", "model"),
        refusals=True,
    ),
    "mcq": BuiltInEvaluator(
        description="1 if the answer chooses the right option by letter or text; an answer without a choice is wrong",
        open=lambda _: ChoiceEvaluator(),
        refusals=True,
    ),
    "rubric": BuiltInEvaluator(
        description="a judge scores all rubric points in one call, each with 0, 0.5 or 1",
        open=lambda options: RubricEvaluator(
            prompt=options.rubric_prompt("rubric"), threshold=options.threshold, temperature=options.temperature
        ),
        keys=_JUDGED,
    ),
    "rubric-points": BuiltInEvaluator(
        description="a judge scores each rubric point in its own call, with one of evaluation.values; the "
        "verdict is the mean of these values",
        open=_points,
        keys=(*_JUDGED, "values"),
    ),
    "order-agreement": BuiltInEvaluator(
        description="a judge aligns the answer with the events of the rubric; the verdict is (Kendall's tau-b of "
        "the order + 1) / 2 x F1 of the alignment",
        open=lambda options: OrderEvaluator(
            prompt=_generic("order"), threshold=options.threshold, temperature=options.temperature
        ),
        keys=_JUDGED,
    ),
    "labels": BuiltInEvaluator(
        description="a judge chooses one of evaluation.labels; the verdict is the value of this label",
        open=_labels,
        keys=(*_JUDGED, "labels"),
    ),
    "memory-audit": BuiltInEvaluator(
        description="a judge checks whether each rubric point is in the listed memories, and if each memory is right",
        open=lambda options: AuditEvaluator(
            stored=_generic("stored"),
            right=_generic("right"),
            threshold=options.threshold,
            temperature=options.temperature,
        ),
        keys=_JUDGED,
    ),
    "phrases": BuiltInEvaluator(
        description="1 if the answer contains each phrase of the accepted answer (split at ; or ,) as whole words",
        open=lambda options: _text("phrases", has_phrases, options),
        keys=("threshold",),
        refusals=True,
    ),
    "ordered-phrases": BuiltInEvaluator(
        description="like the evaluator phrases; the phrases must also have the order of the accepted answer",
        open=lambda options: _text("ordered-phrases", partial(has_phrases, ordered=True), options),
        keys=("threshold",),
        refusals=True,
    ),
    "llm-judge": BuiltInEvaluator(
        description="a judge decides whether the answer is right",
        open=_judge,
        keys=(*_JUDGED, "protocol", "max_tokens"),
    ),
    "faithfulness": BuiltInEvaluator(
        description="a judge checks each statement of the answer against the retrieved memories",
        open=lambda options: FaithfulnessEvaluator(
            prompt=_generic("faithfulness"), threshold=options.threshold, temperature=options.temperature
        ),
        keys=_JUDGED,
    ),
    "deletion-check": BuiltInEvaluator(
        description="1 if neither hits nor answer contain the deleted text",
        open=lambda options: DeletionEvaluator(
            fuzzy_match=options.flag("fuzzy_match", False), fuzzy_threshold=options.number("fuzzy_threshold", 0.8)
        ),
        keys=("fuzzy_match", "fuzzy_threshold"),
    ),
    "code-correctness": BuiltInEvaluator(
        description="1 if the code in the answer passes the item's tests; needs --allow-code-execution",
        open=lambda options: CodeEvaluator(
            allowed=options.allow_code_execution, time_limit_s=options.number("time_limit_s", 10.0)
        ),
        keys=("time_limit_s",),
    ),
}


def plugin_evaluator(loaded: object, name: str, config: dict[str, object], label: str, where: str | None) -> Evaluator:
    """Return a plug-in's evaluator. If the plug-in is a class, an object is created with ``config`` as its arguments.

    Raises a ConfigError with the place ``where`` if the class takes other arguments or has no method ``evaluate``.
    """
    try:
        evaluator = loaded(**config) if isinstance(loaded, type) else loaded
    except TypeError as error:
        raise ConfigError(
            f"evaluator {label} does not accept its parameters: {error}",
            where=where,
            hint="write the parameters that the class needs, and no others",
        ) from error
    if not callable(getattr(evaluator, "evaluate", None)):
        raise ConfigError(
            f'evaluator {label} has no method "evaluate"',
            where=where,
            hint="write the method with the arguments of bench.evaluators.protocol.Evaluator.evaluate",
        )
    return PluginEvaluator(inner=cast("Evaluator", evaluator), name=name, label=label)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginEvaluator:
    """A plug-in evaluator whose results are checked. Each verdict gets the registered name of the evaluator.

    Raises EvaluatorFailed if a result is not a Verdict or its value is outside 0..1.
    """

    inner: Evaluator
    name: str
    label: str

    @property
    def needs_judge(self) -> bool:
        return bool(getattr(self.inner, "needs_judge", False))

    @property
    def needs_answer(self) -> bool:
        return bool(getattr(self.inner, "needs_answer", True))

    @property
    def threshold(self) -> float:
        return float(getattr(self.inner, "threshold", 1.0))

    async def evaluate(self, item: ScoredItem, answer: str, hits: Sequence[Hit], judge: Judge | None) -> Verdict:
        found: object = await self.inner.evaluate(item, answer, hits, judge)
        if not isinstance(found, Verdict):
            raise EvaluatorFailed(f"evaluator {self.label} returned {type(found).__name__}, not a Verdict")
        if found.value is not None and not 0 <= found.value <= 1:
            raise EvaluatorFailed(f"evaluator {self.label} returned the value {found.value}; expected 0 to 1")
        return replace(found, evaluator=self.name)


GROUP = "bench.evaluators"
ALIASES = {
    "llm-as-judge": "llm-judge",
    "locomo-qa-score": "locomo-f1",
    "contains-match": "contains",
    "f1": "token-f1",
}
NONE = "none"
CUSTOM = "custom"
NOT_BUILT_IN = {
    CUSTOM: "computed by the Python class that the config names",
    NONE: "retrieval only: nothing is evaluated",
}


def canonical_name(name: str) -> str:
    """Return the evaluator name in lower case with ``-`` instead of ``_``.

    An alias is replaced by the evaluator's name.
    """
    spelled = name.strip().lower().replace("_", "-")
    return ALIASES.get(spelled, spelled)


def versioned_name(name: str) -> str:
    """Return an evaluator's name with its version, such as ``contains/4``. Version 1 is omitted.

    A change of the refusal rule also increases the version of each evaluator that uses this rule.
    """
    built_in = BUILT_IN.get(name)
    version = 1 if built_in is None else built_in.version + (REVISION - 1) * built_in.refusals
    return name if version == 1 else f"{name}/{version}"


def open_evaluator(
    method: str,
    *,
    config: Mapping[str, object] | None = None,
    prompts: JudgePrompts | None = None,
    embedder: Embedder | None = None,
    folder: Path | None = None,
    where: str | None = None,
    allow_code_execution: bool = False,
) -> Evaluator | None:
    """Open the evaluator that ``method`` names, or return None for ``none``.

    ``method`` is a built-in name, an installed name or ``custom:./file.py:Class``. The file is relative to ``folder``.
    Raises a ConfigError with the place ``where`` for an unknown name, key or value.
    """
    if method.startswith(f"{CUSTOM}:"):
        return _from_file(method, folder or Path(), dict(config or {}), where)
    name, given = canonical_name(method), dict(config or {})
    if name == NONE:
        return None
    if name == CUSTOM:
        hint = "write evaluation: {method: custom, customEvaluator: ./file.py:Class}"
        raise ConfigError("the config does not name a custom evaluator", where=where, hint=hint)
    if name not in BUILT_IN:
        return _installed(name, given, where)
    built_in = BUILT_IN[name]
    _refuse_unknown_keys(name, given, built_in.keys, where)
    try:
        return built_in.open(
            EvaluatorOptions(
                config=given, prompts=prompts, embedder=embedder, allow_code_execution=allow_code_execution
            )
        )
    except ConfigError as error:
        raise ConfigError(f"evaluator {name}: {error.message}", where=where or error.where, hint=error.hint) from error


def catalog() -> dict[str, str]:
    """Return a map from each evaluator name to one sentence about the evaluator. Plug-ins are not imported.

    If an installed plug-in also uses a built-in name, the sentence says that the name is refused.
    """
    others = {
        name: f"plug-in of {plugin.distribution}"
        for name, plugin in plugins.installed_plugins(GROUP, canonical_name).items()
    }
    built_in = {name: one.description for name, one in BUILT_IN.items()} | NOT_BUILT_IN
    doubled = {
        name: f"{built_in[name]}; refused: it is a {others[name]} too" for name in built_in.keys() & others.keys()
    }
    return dict(sorted((others | built_in | doubled).items()))


def _refuse_unknown_keys(name: str, given: Mapping[str, object], keys: Sequence[str], where: str | None) -> None:
    for key in given:
        if key not in keys:
            close = similar_names(key, keys)
            hint = f"did you mean {or_list(close)}?" if close else f"known keys: {', '.join(keys) or 'none'}"
            raise ConfigError(f'evaluator {name}: unknown key "{key}"', where=where, hint=hint)


def _installed(name: str, config: dict[str, object], where: str | None) -> Evaluator:
    plugin = plugins.installed_plugins(GROUP, canonical_name).get(name)
    if plugin is None:
        close = similar_names(name, [*BUILT_IN, *ALIASES, *NOT_BUILT_IN])
        hint = f"did you mean {or_list(close)}?" if close else "list the known evaluators with: bench list evaluators"
        raise ConfigError(f'unknown evaluator "{name}"', where=where, hint=hint)
    return plugin_evaluator(
        plugins.load_installed(plugin, GROUP), name, config, f"{name} of {plugin.distribution}", where
    )


def _from_file(method: str, folder: Path, config: dict[str, object], where: str | None) -> Evaluator:
    reference = method.removeprefix(f"{CUSTOM}:")
    loaded = plugins.load_file(reference, folder=folder, where=where)
    return plugin_evaluator(loaded, method, config, reference, where)
