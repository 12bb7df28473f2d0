"""Invalid metrics in a config: each error has its exact message, place and hint before a run starts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench import metrics
from bench.errors import ConfigError, UnknownMetric
from bench.metrics import MetricSpec, open_metrics
from bench.metrics.protocol import Parameter, canonical, or_list, similar_names, split_cut
from tests.rows import each_row

PLACE = "b.yaml:7:3"


def error_of(entry: object, folder: Path = Path(), **more: object) -> tuple[str, str | None, str]:
    """Return message, place and hint of the error for one entry."""
    with pytest.raises(ConfigError) as caught:
        open_metrics([entry], k=5, folder=folder, places=[PLACE], **more)  # type: ignore[arg-type]
    return caught.value.message, caught.value.where, caught.value.hint


NUMBER = "use a number in 0..1"
VARIANTS = 'use "any", "fraction", "all" or "capped"'
KEYS = "known keys: name, method, config, breakdown, evaluator"


@each_row(
    ("entry", "text", "hint"),
    [
        # names
        (
            "rouge",
            'unknown metric "rouge"; did you mean "rouge_l"?',
            "list the known metrics with: bench list metrics",
        ),
        ("", 'unknown metric ""', "list the known metrics with: bench list metrics"),
        ("zzz", 'unknown metric "zzz"', "list the known metrics with: bench list metrics"),
        ("mrr@0", 'metric "mrr_at_0": K must be 1 or more', 'write "mrr_at_10", or give k'),
        ("rouge_l@5", 'metric "rouge_l" does not accept a cutoff K', 'write "rouge_l" without K'),
        ("hit@9999999999", 'unknown metric "hit_at_9999999999"', "list the known metrics with: bench list metrics"),
        # numbers
        (
            {"name": "accuracy", "config": {"threshold": "high"}},
            "metric \"accuracy\": threshold = 'high' is not allowed",
            NUMBER,
        ),
        (
            {"name": "accuracy", "config": {"threshold": True}},
            'metric "accuracy": threshold = True is not allowed',
            NUMBER,
        ),
        (
            {"name": "accuracy", "config": {"threshold": 1.5}},
            'metric "accuracy": threshold = 1.5 is not allowed',
            NUMBER,
        ),
        (
            {"name": "accuracy", "config": {"threshold": -0.1}},
            'metric "accuracy": threshold = -0.1 is not allowed',
            NUMBER,
        ),
        (
            {"name": "accuracy", "config": {"threshold": math.nan}},
            'metric "accuracy": threshold = nan is not allowed',
            NUMBER,
        ),
        (
            {"name": "accuracy", "config": {"threshold": [1]}},
            'metric "accuracy": threshold = [1] is not allowed',
            NUMBER,
        ),
        (
            {"name": "deletion_check", "config": {"fuzzy_threshold": math.inf}},
            'metric "deletion_check": fuzzy_threshold = inf is not allowed',
            NUMBER,
        ),
        (
            {"name": "deletion_check", "config": {"fuzzy_threshold": None}},
            'metric "deletion_check": fuzzy_threshold = None is not allowed',
            NUMBER,
        ),
        # switches, texts, choices
        (
            {"name": "deletion_check", "config": {"fuzzy_match": 1}},
            'metric "deletion_check": fuzzy_match = 1 is not allowed',
            "use true or false",
        ),
        (
            {"name": "exact_match", "config": {"case_sensitive": "yes"}},
            "metric \"exact_match\": case_sensitive = 'yes' is not allowed",
            "use true or false",
        ),
        ({"name": "accuracy", "config": {"model": 5}}, 'metric "accuracy": model = 5 is not allowed', "use a text"),
        (
            {"name": "recall@5", "config": {"variant": "most"}},
            "metric \"recall_at_5\": variant = 'most' is not allowed",
            VARIANTS,
        ),
        (
            {"name": "recall@5", "config": {"variant": ["any"]}},
            "metric \"recall_at_5\": variant = ['any'] is not allowed",
            VARIANTS,
        ),
        (
            {"name": "recall@5", "config": {"variant": None}},
            'metric "recall_at_5": variant = None is not allowed',
            VARIANTS,
        ),
        (
            {"name": "locomo_qa_score", "config": {"category": 6}},
            'metric "locomo_qa_score": category = 6 is not allowed',
            'use "1", "2", "3", "4" or "5"',
        ),
        (
            {"name": "locomo_qa_score", "config": {"category": True}},
            'metric "locomo_qa_score": category = True is not allowed',
            'use "1", "2", "3", "4" or "5"',
        ),
        (
            {"name": "ndcg@5", "config": {"gain": "cubic"}},
            "metric \"ndcg_at_5\": gain = 'cubic' is not allowed",
            'use "linear" or "exponential"',
        ),
        (
            {"name": "bleu", "config": {"variant": "bleu2"}},
            "metric \"bleu\": variant = 'bleu2' is not allowed",
            'use "multilingual", "bleu1_multilingual", "sacrebleu_sentence", "sacrebleu_corpus", '
            '"bleu1_nltk_method1" or "bleu4_nltk_method1"',
        ),
        # parameters
        (
            {"name": "ndcg@5", "config": {"gian": 1}},
            'metric "ndcg_at_5" has no parameter "gian"',
            'did you mean "gain"?',
        ),
        (
            {"name": "ndcg@5", "config": {"zzz": 1}},
            'metric "ndcg_at_5" has no parameter "zzz"',
            'did you mean "duplicates", "gain" or "variant"?',
        ),
        ({"name": "rouge_l", "config": {"x": 1}}, 'metric "rouge_l" has no parameter "x"', 'did you mean "variant"?'),
        ({"name": "rouge_l", "config": {"k": 1}}, 'metric "rouge_l" has no parameter "k"', 'did you mean "variant"?'),
        (
            {"name": "recall_all@5", "config": {"variant": "any"}},
            "metric \"recall_all_at_5\": variant = 'any', but the name of the metric already sets 'all'",
            'remove "variant", or choose the name of the metric that sets the wanted value',
        ),
        (
            {"name": "hit@5", "config": {"k": 3}},
            'metric "hit_at_5": k = 3, but the name of the metric already sets 5',
            'remove "k", or write the wanted K in the name',
        ),
        (
            {"name": "hit", "config": {"k": "ten"}},
            "metric \"hit\": K must be a whole number of 1 or more, not 'ten'",
            'write "hit_at_10", or give k',
        ),
        (
            {"name": "hit", "config": {"k": True}},
            'metric "hit": K must be a whole number of 1 or more, not True',
            'write "hit_at_10", or give k',
        ),
        (
            {"name": "map", "config": {"k": 0}},
            'metric "map": K must be a whole number of 1 or more, not 0',
            'write "map_at_10", or give k',
        ),
        # the shape of an entry
        (5, "a metric needs a name", "write a name, or {name: ...}"),
        ({"method": "llm_judge"}, "a metric needs a name", "write a name, or {name: ...}"),
        ({"name": 5}, "a metric needs a name", "write a name, or {name: ...}"),
        ({"name": "map", "methdo": "x"}, 'unknown key "methdo" in a metric; did you mean "method"?', KEYS),
        ({"name": "map", 7: "x"}, 'unknown key "7" in a metric', KEYS),
        ({"name": "map", "config": ["any"]}, "metric \"map\": config = ['any'] is not a map", KEYS),
        ({"name": "map", "config": "any"}, "metric \"map\": config = 'any' is not a map", KEYS),
        ({"name": "map", "method": 5}, 'metric "map": method = 5 is not a text', KEYS),
        ({"name": "map", "evaluator": 5}, 'metric "map": evaluator = 5 is not ./file.py:Class', KEYS),
        ({"name": "map", "breakdown": 5}, 'metric "map": breakdown = 5 is not a list of dimensions', KEYS),
        (
            {"name": "map", "breakdown": ["a", 5]},
            "metric \"map\": breakdown = ['a', 5] is not a list of dimensions",
            KEYS,
        ),
        # methods
        (
            {"name": "accuracy", "method": "lm_judge"},
            'metric "accuracy": unknown method "lm_judge"',
            'did you mean "llm_judge" or "llm_as_judge"?',
        ),
        (
            {"name": "map", "method": "llm_judge"},
            'metric "map" cannot have a method',
            'remove "method", or use the metric "accuracy"',
        ),
        (
            {"name": "mine", "method": "custom"},
            'metric "mine": method "custom" needs the key "evaluator"',
            "write evaluator: ./file.py:Class",
        ),
        ({"name": "token_f1", "method": "bert"}, 'unknown metric "token_f1.bert"', None),
    ],
)
def test_an_invalid_metric_entry_gets_the_exact_message_and_hint(entry: object, text: str, hint: str | None) -> None:
    message, where, expected = error_of(entry)
    assert message.startswith(text) if hint is None else message == text
    assert where == PLACE
    assert hint is None or expected == hint


def test_breakdown_must_be_question_type_or_a_dimension_of_the_data() -> None:
    text = 'metric "accuracy": unknown breakdown "speeker"'
    entry = {"name": "accuracy", "breakdown": "speeker"}
    assert error_of(entry, dimensions=["speaker"]) == (text, PLACE, 'did you mean "speaker"?')
    assert error_of(entry, dimensions=[]) == (text, PLACE, 'write "question_type" or a metadata key')
    for always in ("question_type", "questionType", "category", "speaker"):
        assert open_metrics([{"name": "accuracy", "breakdown": always}], k=5, folder=Path(), dimensions=["speaker"])


CLASS = "./m.py:C"


@each_row(
    ("source", "reference", "text", "hint"),
    [
        (None, CLASS, "./m.py:C: no file m.py in FOLDER", "correct the path, which is relative to the config"),
        ("", "./m.ts", "./m.ts: evaluators and metrics are written in Python", "write ./file.py:Class"),
        ("", "./m.js:C", "./m.js:C: evaluators and metrics are written in Python", "write ./file.py:Class"),
        ("", "./m.txt:C", "./m.txt:C: m.txt is not a Python file", "write ./file.py:Class"),
        ("", "./m.py", "./m.py: expected ./file.py:Class", "write ./file.py:Class"),
        ("", "./m.py:not a name", "./m.py:not a name: expected ./file.py:Class", "write ./file.py:Class"),
        ("x = 1", CLASS, "./m.py:C: m.py has no class C", "check the name of the class"),
        ("C = 1", CLASS, "./m.py:C: m.py has no class C", "check the name of the class"),
        (
            "import nothing_like_it",
            CLASS,
            "./m.py:C cannot be imported: ModuleNotFoundError: No module named 'nothing_like_it'",
            "correct the file",
        ),
        ("1 +", CLASS, "./m.py:C cannot be imported: SyntaxError: invalid syntax (m.py, line 1)", "correct the file"),
        ("class C: pass", CLASS, 'metric ./m.py:C has no "name"', "write the class as in docs/add-a-metric.md"),
        (
            "class C: name = 'x'",
            CLASS,
            'metric ./m.py:C has no "definition"',
            "write the class as in docs/add-a-metric.md",
        ),
        (
            "class C: name = definition = 'x'",
            CLASS,
            'metric ./m.py:C has no "score"',
            "write the class as in docs/add-a-metric.md",
        ),
        (
            "class C:\n  name = definition = score = 'x'\n  category = 'speed'",
            CLASS,
            'metric ./m.py:C: unknown category "speed"',
            'use "retrieval", "answer", "performance", "cost" or "custom"',
        ),
        (
            "class C:\n  def __init__(self, x): pass",
            CLASS,
            "metric ./m.py:C does not accept its parameters: C.__init__() missing 1 required positional argument: 'x'",
            "write the parameters that the class needs, and no others",
        ),
    ],
)
def test_an_invalid_metric_class_gets_the_exact_message_and_hint(
    tmp_path: Path, source: str | None, reference: str, text: str, hint: str
) -> None:
    if source is not None:
        for name in ("m.py", "m.txt"):
            (tmp_path / name).write_text(source, encoding="utf-8")
    found = error_of({"name": "mine", "evaluator": reference}, tmp_path)
    assert found == (text.replace("FOLDER", str(tmp_path)), PLACE, hint)


def test_a_config_parameter_that_the_class_does_not_accept_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("class C:\n  name = definition = score = 'x'\n", encoding="utf-8")
    text, where, hint = error_of({"name": "mine", "evaluator": CLASS, "config": {"bonus": 1}}, tmp_path)
    assert (text, where) == ("metric ./m.py:C does not accept its parameters: C() takes no arguments", PLACE)
    assert hint == "write the parameters that the class needs, and no others"


def test_two_configs_for_one_evaluator_class_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("class C:\n  async def evaluate(self): ...\n", encoding="utf-8")
    entries = [{"name": f"m{n}", "evaluator": CLASS, "config": {"n": n}} for n in (1, 2)]
    opened = open_metrics(entries, k=5, folder=tmp_path)
    with pytest.raises(ConfigError) as caught:
        metrics.evaluators_needed(opened)
    assert caught.value.message == "./m.py:C has two different configs: {'n': 1} and {'n': 2}"
    assert caught.value.hint == "give the same config to every metric of this class"
    assert metrics.evaluators_needed(opened[:1]) == {"custom:./m.py:C": {"n": 1}}


def test_one_metric_name_with_two_definitions_is_an_error() -> None:
    with pytest.raises(ConfigError) as caught:
        open_metrics(
            ["ndcg@10", {"name": "ndcg_at_10", "config": {"gain": "exponential"}}],
            k=5,
            folder=Path(),
            places=["a", "b"],
        )
    assert str(caught.value) == (
        'b: metric "ndcg_at_10" is requested twice with different definitions: ndcg@10/1 and '
        "ndcg@10[gain=exponential]/1"
    )
    assert caught.value.hint == (
        "remove one of the two, or write the method or variant in its name, for example accuracy.exact_match"
    )


def test_all_invalid_metrics_of_a_list_are_reported() -> None:
    with pytest.raises(ConfigError) as caught:
        open_metrics(["rouge", "mrr", "hit@0"], k=5, folder=Path(), places=["x:1:1", "x:2:1", "x:3:1"])
    assert [str(problem) for problem in caught.value.problems] == [
        'x:1:1: unknown metric "rouge"; did you mean "rouge_l"?',
        'x:3:1: metric "hit_at_0": K must be 1 or more',
    ]


@each_row(
    ("call", "text", "hint"),
    [
        (
            {"name": "hit@5", "retrieved": []},
            "metric \"hit_at_5\": missing a required argument: 'relevant'",
            "inputs: retrieved, relevant",
        ),
        (
            {"name": "hit@5", "retrieved": [], "relevant": [], "k": 5},
            "metric \"hit_at_5\": got an unexpected keyword argument 'k'",
            "inputs: retrieved, relevant",
        ),
        (
            {"name": "accuracy", "corect": True},
            "metric \"accuracy\": got an unexpected keyword argument 'corect'",
            "inputs: correct, value, answerable, adversarial, abstained, faithfulness",
        ),
        (
            {"name": "faithfulness", "faithful": 1},
            "metric \"faithfulness\": got an unexpected keyword argument 'faithful'",
            "inputs: correct, value, answerable, adversarial, abstained, faithfulness",
        ),
        (
            {"name": "ingest_to_searchable_p50"},
            'metric "ingest_to_searchable_p50" cannot be computed with bench.metrics.score',
            "use bench.metrics.measure with Row values",
        ),
        ({"name": "hit", "retrieved": []}, 'metric "hit" needs a cutoff K', 'write "hit_at_10", or give k'),
        (
            {"name": "recall_at_k", "retrieved": []},
            'metric "recall_at_k" needs a cutoff K',
            'write "recall_at_10", or give k',
        ),
    ],
)
def test_wrong_inputs_of_score_get_the_exact_message_and_hint(call: dict[str, object], text: str, hint: str) -> None:
    name = str(call["name"])
    with pytest.raises(UnknownMetric) as caught:
        metrics.score(name, **{key: value for key, value in call.items() if key != "name"})  # type: ignore[arg-type]
    assert (caught.value.message, caught.value.hint) == (text, hint)


@each_row(
    ("row", "text", "hint"),
    [
        (
            {"retrieved": []},
            "metric \"hit_at_5\": missing a required argument: 'relevant'",
            "inputs: retrieved, relevant",
        ),
        (
            {"retreived": [], "relevant": []},
            'metric "hit_at_5": a row has the unknown key "retreived"',
            'did you mean "retrieved"?',
        ),
        (
            {"retrieved": [], "relevant": [], "zz": 1},
            'metric "hit_at_5": a row has the unknown key "zz"',
            "inputs: retrieved, relevant",
        ),
        (
            {"retrieved": [], "relevant": [], "state": "eror"},
            'metric "hit_at_5": a row has the unknown state "eror"',
            'did you mean "error"?',
        ),
    ],
)
def test_an_invalid_row_of_measure_gets_the_exact_message_and_hint(
    row: dict[str, object], text: str, hint: str
) -> None:
    with pytest.raises(UnknownMetric) as caught:
        metrics.measure("hit@5", [row])
    assert (caught.value.message, caught.value.hint) == (text, hint)


# ------------------------------------------------------------------------------------ names


@each_row(
    ("name", "spelled"),
    [
        (" nDCG@10 ", "ndcg_at_10"),
        ("HIT-RATE@5", "hit_rate_at_5"),
        ("a", "a"),
        ("", ""),
        ("p95-latency-ms", "p95_latency_ms"),
    ],
)
def test_canonical_returns_one_spelling_of_a_name(name: str, spelled: str) -> None:
    assert canonical(name) == spelled == canonical(spelled)


@each_row(
    ("name", "base", "k"),
    [
        ("ndcg_at_10", "ndcg", 10),
        ("ndcg_at_k", "ndcg", "k"),
        ("ndcg", "ndcg", None),
        ("a_at_b_at_7", "a_at_b", 7),
        ("_at_5", "_at_5", None),
        ("hit_at_", "hit_at_", None),
        ("hit_at_-1", "hit_at_-1", None),
        ("hit_at_007", "hit", 7),
        ("hit_at_999999999", "hit", 999_999_999),
        ("hit_at_1000000000", "hit_at_1000000000", None),
        ("hit_at_٣", "hit_at_٣", None),
    ],
)
def test_split_cut_separates_the_cutoff_K_from_a_name(name: str, base: str, k: object) -> None:
    assert split_cut(name) == (base, k)


def test_leading_zeros_of_K_are_ignored() -> None:
    assert [metric.name for metric in open_metrics(["hit@05", "hit@5", "hit_at_5"], k=9, folder=Path())] == ["hit_at_5"]


def test_alternative_method_names_give_one_definition() -> None:
    for spellings in (("llm_judge", "llm_as_judge"), ("contains", "contains_match"), ("locomo_f1", "locomo_qa_score")):
        found = {metrics.resolve(f"accuracy.{one}").definition for one in spellings}
        assert found == {f"accuracy.{spellings[0]}/1"}
    assert metrics.resolve("correctness.llm_as_judge").definition == "correctness.llm_judge/1"


def test_an_int_and_an_equal_float_parameter_give_one_definition() -> None:
    found = {
        open_metrics([{"name": "accuracy", "config": {"threshold": one}}], k=5, folder=Path())[0].definition
        for one in (1, 1.0)
    }
    assert found == {"accuracy[threshold=1.0]/1"}


@each_row(
    ("names", "text"), [([], ""), (["a"], '"a"'), (["a", "b"], '"a" or "b"'), (["a", "b", "c"], '"a", "b" or "c"')]
)
def test_or_list_joins_names_for_a_message(names: list[str], text: str) -> None:
    assert or_list(names) == text


def test_similar_names_returns_at_most_three_names() -> None:
    assert similar_names("latency_p96", ["latency_p95", "latency_p90", "latency_p99", "latency_p50", "mrr"])[
        0
    ].startswith("latency_p9")
    assert len(similar_names("latency_p96", ["latency_p95", "latency_p90", "latency_p99", "latency_p50"])) == 3
    assert similar_names("zzz", ["mrr"]) == []


# ------------------------------------------------------------------------------------ entries that are right


def test_method_custom_without_evaluator_reads_the_verdicts_of_the_benchmark() -> None:
    accuracy, cites = open_metrics(
        [{"name": "accuracy", "method": "custom"}, {"name": "citation_accuracy", "method": "custom"}],
        k=5,
        folder=Path(),
    )
    assert (accuracy.name, accuracy.evaluators) == ("accuracy.custom", ("custom",))
    assert (cites.name, cites.definition) == ("citation_accuracy", "citation_accuracy/1")


def test_method_may_select_a_variant_of_a_metric() -> None:
    found = open_metrics(
        [{"name": "token_f1", "method": "locomo"}, {"name": "accuracy.mcq", "method": "mcq"}], k=5, folder=Path()
    )
    assert [one.definition for one in found] == ["token_f1.locomo/1", "accuracy.mcq/1"]


def test_a_metric_entry_may_be_an_object_with_attributes() -> None:
    spec = MetricSpec(name="accuracy", method="mcq", breakdown=("speaker",), where="here")
    assert MetricSpec.of(spec) is spec

    class Entry:
        name, method, config, breakdown = "accuracy", "mcq", None, ["speaker"]

    assert MetricSpec.of(Entry(), "here") == spec


PARAMETERS: Mapping[str, tuple[Parameter, list[object], list[object]]] = {
    "choice": (Parameter(default="a", choices=("a", "1")), ["a", "1", 1], [None, "b", 2, True, 1.0, ["a"], {}]),
    "choice or none": (Parameter(default=None, choices=("a", None)), ["a", None], ["None", 1, False]),
    "number": (
        Parameter(default=0.5, within=(0, 1)),
        [0, 1, 0.5, 1.0],
        [None, True, "0.5", -0.1, 1.1, math.nan, math.inf],
    ),
    "number or none": (Parameter(default=None, within=(0, 1)), [None, 0, 0.2], ["", False, 2]),
    "switch": (Parameter(default=True), [True, False], [None, 0, 1, "true"]),
    "text": (Parameter(default="x"), ["", "y"], [None, 1, True, ["y"]]),
    "text or none": (Parameter(default=None), [None, "y"], [1, 0.5, False, ()]),
}


@each_row("kind", PARAMETERS)
def test_a_parameter_accepts_only_values_of_its_type(kind: str) -> None:
    parameter, fitting, wrong = PARAMETERS[kind]
    assert [value for value in fitting if not parameter.accepts(value)] == []
    assert [value for value in wrong if parameter.accepts(value)] == []
    assert parameter.accepts(parameter.default)
    assert parameter.read(parameter.default) == parameter.default
