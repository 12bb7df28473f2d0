"""Text comparisons: expected values, and agreement with NLTK and sacreBLEU."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from bench import metrics
from bench.metrics.answers.citation import citations
from bench.metrics.answers.overlap import signature
from bench.metrics.answers.text import LOCOMO_TYPES, locomo_category, locomo_qa, occurs
from bench.metrics.answers.text_normalization import (
    as_iterable,
    as_text,
    locomo_tokens,
    mem0_tokens,
    normal_form,
    squad_tokens,
    stem,
)
from bench.model import Row, Verdict
from tests.rows import each_row


def score(name: str, prediction: object, reference: object, **params: object) -> float | None:
    return metrics.score(name, params=params, prediction=prediction, reference=reference)


# ------------------------------------------------------------------------------------ values to texts


@each_row(
    ("value", "text"),
    [
        (2022, "2022"),
        (2.5, "2.5"),
        (True, "true"),
        (False, "false"),
        ("", ""),
        ("É", "É"),
        (-0.0, "-0.0"),
        (10**20, "1" + "0" * 20),
    ],
)
def test_as_text_gives_the_text_of_a_JSON_value(value: object, text: str) -> None:
    assert as_text(value) == text


def test_as_iterable_treats_a_string_as_one_element() -> None:
    assert list(as_iterable("ab")) == ["ab"]
    assert list(as_iterable(["a", 2])) == ["a", 2]
    assert list(as_iterable(())) == []


@each_row(
    ("text", "options", "expected"),
    [
        (" A \t\nB ", {}, "a b"),
        ("\ufeffA\ufeffB", {}, "a b"),
        ("\u00a0a\u3000b\u2028c\u00a0", {}, "a b c"),
        (" A  B ", {"normalize_whitespace": False}, " a  b "),
        (" A  B ", {"case_sensitive": True}, "A B"),
        ("e\u0301", {}, "e\u0301"),
        ("e\u0301", {"unicode": "nfc"}, "\u00e9"),
        ("\ufb01ne \u2460", {"unicode": "nfkc"}, "fine 1"),
        ("\ufb01ne", {"unicode": "nfc"}, "\ufb01ne"),
        ("ΣΑΣ", {}, "σας"),
        ("", {}, ""),
    ],
)
def test_normal_form_applies_its_options(text: str, options: dict[str, object], expected: str) -> None:
    assert normal_form(text, **options) == expected  # type: ignore[arg-type]


@given(text=st.text(max_size=30))
def test_normal_form_is_idempotent(text: str) -> None:
    once = normal_form(text, case_sensitive=True)
    assert normal_form(once, case_sensitive=True) == once
    assert once == once.strip()


@each_row(
    ("text", "squad", "locomo", "mem0"),
    [
        ("The cat, a dog", ["cat", "dog"], ["cat", "dog"], ["the", "cat", "a", "dog"]),
        ("An apple and THE pear!", ["apple", "and", "pear"], ["apple", "pear"], ["an", "apple", "and", "the", "pear"]),
        ("1,000 (ten-fold)", ["1000", "tenfold"], ["1000", "tenfold"], ["1", "000", "(ten-fold)"]),
        (
            "theory another band",
            ["theory", "another", "band"],
            ["theory", "another", "band"],
            ["theory", "another", "band"],
        ),
        ("a an the", [], [], ["a", "an", "the"]),
        ("", [], [], []),
        ("¿Qué?", ["¿qué"], ["¿qué"], ["¿qué"]),
    ],
)
def test_the_three_tokenizers_give_their_expected_tokens(
    text: str, squad: list[str], locomo: list[str], mem0: list[str]
) -> None:
    assert (squad_tokens(text), locomo_tokens(text), mem0_tokens(text)) == (squad, locomo, mem0)


@each_row(
    ("word", "root"),
    [("running", "run"), ("ponies", "poni"), ("relational", "relat"), ("sky", "sky"), ("a", "a"), ("2022", "2022")],
)
def test_stem_follows_Porter(word: str, root: str) -> None:
    assert stem(word) == root


# ------------------------------------------------------------------------------------ exact and contained


@each_row(
    ("prediction", "reference", "plain", "squad", "locomo"),
    [
        ("Paris", "paris", 1, 1, 1),
        ("Paris.", "paris", 0, 1, 1),
        ("the Paris", "Paris", 0, 1, 1),
        ("red and blue", "blue, red", 0, 0, 1),
        ("red red", "red", 0, 0, 1),
        ("blue red", "red blue", 0, 0, 1),
        ("Paris, France", "Paris", 0, 0, 0),
        ("", "", 1, 1, 1),
        ("a the", "", 0, 1, 1),
        (2022, "2022", 1, 1, 1),
        (True, "TRUE", 1, 1, 1),
    ],
)
def test_exact_match_variants_have_their_expected_values(
    prediction: object, reference: object, plain: int, squad: int, locomo: int
) -> None:
    found = [score(name, prediction, reference) for name in ("exact_match", "exact_match.squad", "exact_match.locomo")]
    assert found == [plain, squad, locomo]


@each_row(
    ("params", "expected"),
    [({}, 1.0), ({"case_sensitive": True}, 0.0), ({"normalize_whitespace": False}, 0.0), ({"unicode": "nfkc"}, 1.0)],
)
def test_exact_match_applies_its_options(params: dict[str, object], expected: float) -> None:
    assert score("exact_match", "New  York", "new york", **params) == expected


@each_row(
    ("prediction", "reference", "whole", "anywhere"),
    [
        ("It was Paris.", "paris", 1, 1),
        ("comparison", "paris", 0, 1),
        ("13 apples", "3", 0, 1),
        ("3, 13 or 33", "13", 1, 1),
        ("x3 13 3", "3", 1, 1),
        ("costs $50", "$5", 0, 1),
        ("costs $5 now", "$5", 1, 1),
        ("C++ is old", "c++", 1, 1),
        ("naïveté", "naïve", 0, 1),
        ("私は東京に住む", "東京", 1, 1),
        ("東京タワー", "東京", 1, 1),
        ("abc東京", "abc", 1, 1),
        ("", "a", 0, 0),
        ("new\tyork city", "New  York", 1, 1),
    ],
)
def test_contains_match_with_and_without_word_boundary_has_its_expected_values(
    prediction: str, reference: str, whole: int, anywhere: int
) -> None:
    assert score("contains_match", prediction, reference) == whole
    assert score("contains_match", prediction, reference, word_boundary=False) == anywhere


def test_contains_match_ignores_empty_references() -> None:
    assert score("contains_match", "anything", " \ufeff") is None
    assert metrics.score("contains_match", prediction="x", references=["", "x"]) == 1


@given(text=st.text(alphabet="ab 1", max_size=12), wanted=st.text(alphabet="ab 1", min_size=1, max_size=4))
def test_occurs_with_whole_words_needs_word_boundaries(text: str, wanted: str) -> None:
    assert occurs(wanted, text, whole_words=False) == (wanted in text)
    if wanted.strip() == wanted and " " not in wanted:
        assert occurs(wanted, text, whole_words=True) == (wanted in text.split())


# ------------------------------------------------------------------------------------ token F1


@each_row(
    ("prediction", "reference", "squad", "locomo", "mem0"),
    [
        ("red car", "the red car", 1.0, 1.0, 0.8),
        ("a red car", "red", 2 / 3, 2 / 3, 1 / 2),
        ("red red car", "red car car", 2 / 3, 2 / 3, 1.0),
        ("running", "runs", 0.0, 1.0, 0.0),
        ("", "", 1.0, 0.0, 0.0),
        ("", "red", 0.0, 0.0, 0.0),
        ("the", "a", 1.0, 0.0, 0.0),
        ("cats and dogs", "dogs, cats", 0.8, 1.0, 0.8),
        ("blue", "red", 0.0, 0.0, 0.0),
    ],
)
def test_token_f1_variants_have_their_expected_values(
    prediction: str, reference: str, squad: float, locomo: float, mem0: float
) -> None:
    found = [score(f"token_f1.{dialect}", prediction, reference) for dialect in ("squad", "locomo", "mem0")]
    assert found == [pytest.approx(squad), pytest.approx(locomo), pytest.approx(mem0)]


@each_row(
    ("prediction", "reference", "expected"),
    [
        ("cats, dogs", "dogs, cats", 1.0),
        ("cats", "dogs, cats", 0.5),
        ("big cats, dogs", "cats", 2 / 3),
        ("cats dogs", "cats, dogs", 2 / 3),
        ("cats", "", 0.0),
        ("cats,,", "cats", 1.0),
    ],
)
def test_token_f1_locomo_multi_matches_each_part_of_the_reference(
    prediction: str, reference: str, expected: float
) -> None:
    assert score("token_f1.locomo_multi", prediction, reference) == pytest.approx(expected)


WORDS = st.lists(st.sampled_from(["red", "car", "the", "Run", "running", "2022", "a"]), max_size=8)


@given(a=WORDS, b=WORDS, seed=st.randoms(use_true_random=False))
def test_token_f1_is_symmetric_and_ignores_word_order(a: list[str], b: list[str], seed: object) -> None:
    mixed = list(a)
    seed.shuffle(mixed)  # type: ignore[attr-defined]
    for dialect in ("squad", "locomo", "mem0"):
        name = f"token_f1.{dialect}"
        found = score(name, " ".join(a), " ".join(b))
        assert found == pytest.approx(score(name, " ".join(b), " ".join(a)))
        assert found == score(name, " ".join(mixed), " ".join(b))


# ------------------------------------------------------------------------------------ LoCoMo


@each_row(
    ("category", "prediction", "reference", "expected"),
    [
        ("1", "cats", "cats, dogs", 0.5),
        ("2", "in May 2022", "May 2022", 0.8),
        ("3", "yes", "yes; she likes it", 1.0),
        ("3", "yes she likes it", "yes; she likes it", 0.4),
        ("4", "running", "runs", 1.0),
        ("5", "This is NOT MENTIONED here", "whatever", 1.0),
        ("5", "No information available.", "", 1.0),
        ("5", "a red car", "a red car", 0.0),
        ("6", "x", "x", None),
        ("", "x", "x", None),
    ],
)
def test_locomo_qa_score_has_its_expected_value_per_category(
    category: str, prediction: str, reference: str, expected: float | None
) -> None:
    wanted = None if expected is None else pytest.approx(expected)
    assert locomo_qa(category, prediction, reference) == wanted
    assert metrics.score("locomo_qa_score", prediction=prediction, reference=reference, category=category) == wanted


@each_row(
    ("category", "question_type", "expected"),
    [
        (1, None, "1"),
        ("3", "adversarial", "3"),
        (None, "multi-hop", "1"),
        (None, "Open_Domain", "3"),
        ("", "temporal", "2"),
        ("12", "single-hop", "4"),
        ("other", "adversarial", "5"),
        (7, "adversarial", "5"),
        (None, None, None),
        (None, "preference", None),
        ("45", None, None),
    ],
)
def test_an_invalid_LoCoMo_category_falls_to_the_question_type(
    category: object, question_type: str | None, expected: str | None
) -> None:
    assert locomo_category(category, question_type) == expected


def test_LOCOMO_TYPES_numbers_every_question_type() -> None:
    assert sorted(LOCOMO_TYPES.values()) == ["1", "2", "3", "4", "5"]


def test_only_adversarial_LoCoMo_items_need_no_reference() -> None:
    row = Row(benchmark="b", corpus="c", item_id="i", prediction="not mentioned", category="5")
    measure = metrics.registry().measure("locomo_qa_score")
    assert measure.score(row) == 1
    for category in "1234":
        fixed = metrics.registry().measure("locomo_qa_score", {"category": category})
        assert fixed.score(row) is None
        assert metrics.score("locomo_qa_score", prediction="x", category=category) is None


def test_category_may_be_a_number_or_a_text() -> None:
    as_number, as_word = (metrics.registry().measure("locomo_qa_score", {"category": c}) for c in (2, "2"))
    assert as_number.definition == as_word.definition == "locomo_qa_score[category=2]/2"
    assert as_number.params == as_word.params == {"category": "2"}


# ------------------------------------------------------------------------------------ no text

TEXTS = (
    "exact_match",
    "contains_match",
    "token_f1",
    "token_f1.locomo",
    "rouge_l",
    "bleu",
    "bleu_1",
    "citation_accuracy",
)


@each_row("name", TEXTS)
def test_None_is_not_compared_as_text(name: str) -> None:
    assert metrics.score(name, prediction=None, reference="None s. 1") is None
    assert metrics.score(name, prediction="None s. 1", reference=None) is None
    assert metrics.score(name, prediction="None s. 1") is None
    assert metrics.score(name, prediction="s. 1", references=[]) is None
    assert metrics.score(name, prediction="s. 1", references=[None, "s. 1"]) is not None


@each_row("name", TEXTS)
def test_references_may_be_a_single_text(name: str) -> None:
    text = "see section 12 of it"
    assert metrics.score(name, prediction=text, references=text) == metrics.score(name, prediction=text, reference=text)


def test_answer_length_counts_characters_and_is_None_without_an_answer() -> None:
    assert metrics.score("answer_length", prediction=None) is None
    assert metrics.score("answer_length", prediction="") == 0
    assert metrics.score("answer_length", prediction=2022) == 4
    assert metrics.score("answer_length", prediction="é\U0001f600") == 2


def test_items_without_an_answer_are_excluded() -> None:
    rows = [{"prediction": None, "reference": "x"}, {"prediction": "x", "reference": "x"}, {"prediction": "x"}]
    found = metrics.measure("exact_match", rows)
    assert (found.value, found.n, found.n_excluded, found.n_failed) == (1.0, 1, 2, 0)


# ------------------------------------------------------------------------------------ ROUGE and BLEU


@each_row(
    ("prediction", "reference", "expected"),
    [
        ("the red car", "a red car", 2 / 3),
        ("a b c d", "a x c y d", 2 * (3 / 4) * (3 / 5) / (3 / 4 + 3 / 5)),
        ("d c b a", "a b c d", 1 / 4),
        ("Red-Car!", "red car", 1.0),
        ("", "a", 0.0),
        ("a", "", 0.0),
        ("é", "é", 0.0),
        ("a a a", "a", 0.5),
    ],
)
def test_rouge_l_has_its_expected_values(prediction: str, reference: str, expected: float) -> None:
    assert score("rouge_l", prediction, reference) == pytest.approx(expected)


@given(a=WORDS, b=WORDS)
def test_rouge_l_is_symmetric_and_1_for_equal_texts(a: list[str], b: list[str]) -> None:
    left, right = " ".join(a), " ".join(b)
    assert score("rouge_l", left, right) == pytest.approx(score("rouge_l", right, left))
    assert score("rouge_l", left, left) == float(bool(a))


PLAIN = st.lists(st.sampled_from(["red", "blue", "car", "house", "stands", "there", "tall"]), min_size=1, max_size=9)


@given(a=PLAIN, b=PLAIN)
def test_BLEU_agrees_with_NLTK_and_sacreBLEU(a: list[str], b: list[str]) -> None:
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu  # takes seconds

    left, right = " ".join(a), " ".join(b)
    smooth = SmoothingFunction().method1
    assert score("bleu_1", left, right) == pytest.approx(sentence_bleu([b], a, (1, 0, 0, 0), smooth))
    assert score("bleu4_nltk_method1", left, right) == pytest.approx(sentence_bleu([b], a, (0.25,) * 4, smooth))
    assert score("bleu", left, right) == pytest.approx(sacrebleu.sentence_bleu(left, [right]).score / 100)


@each_row("name", ["bleu", "bleu_1", "bleu.sacrebleu_sentence", "bleu4_nltk_method1", "rouge_l", "token_f1"])
def test_equal_texts_have_exactly_1(name: str) -> None:
    text = "the cat sat on the mat today."
    rows = [{"prediction": text, "reference": text}] * 5
    found = metrics.measure(name, rows)
    assert (score(name, text, text), found.value) == (1.0, 1.0)
    assert found.interval is not None and found.interval.method == "wilson"
    assert metrics.measure("sacrebleu_corpus", rows).value == 1.0


def test_bleu_1_has_its_expected_value() -> None:
    """Two of three words match; the answer is one word shorter, so the brevity penalty is exp(1 - 4/3)."""
    assert score("bleu_1", "a red car", "one red car there") == pytest.approx(2 / 3 * math.exp(1 - 4 / 3))
    assert score("bleu_1", "", "red") == score("bleu_1", "red", "") == 0


PAIRS = st.lists(st.tuples(PLAIN, st.lists(PLAIN, min_size=2, max_size=2)), min_size=1, max_size=5)


@given(pairs=PAIRS)
def test_corpus_BLEU_agrees_with_sacreBLEU_for_several_references(
    pairs: list[tuple[list[str], list[list[str]]]],
) -> None:
    answers = [" ".join(answer) for answer, _ in pairs]
    golds = [[" ".join(gold) for gold in several_golds] for _, several_golds in pairs]
    rows = [{"prediction": p, "references": refs} for p, refs in zip(answers, golds, strict=True)]
    expected = sacrebleu.corpus_bleu(answers, [list(column) for column in zip(*golds, strict=True)]).score / 100
    assert metrics.measure("sacrebleu_corpus", rows).value == pytest.approx(expected, abs=1e-12)


def test_corpus_BLEU_excludes_items_without_answer_or_reference() -> None:
    full = {"prediction": "a red car stands there", "reference": "the red car stands there"}
    rows = [full, {"prediction": None, "reference": "x"}, {"prediction": "x"}, {"prediction": "x", "references": []}]
    found, alone = metrics.measure("sacrebleu_corpus", rows), metrics.measure("sacrebleu_corpus", [full])
    assert (found.value, found.n, found.n_excluded) == (alone.value, 1, 3)
    assert metrics.measure("sacrebleu_corpus", rows[1:]).value is None


def test_corpus_BLEU_is_not_the_mean_of_sentence_BLEU() -> None:
    rows = [
        {"prediction": "a red car stands there now", "reference": "a red car stands there now"},
        {"prediction": "x", "reference": "a b c d e f g h"},
    ]
    whole, mean = metrics.measure("sacrebleu_corpus", rows), metrics.measure("bleu", rows)
    assert whole.value is not None and mean.value is not None and abs(whole.value - mean.value) > 0.05
    assert (whole.interval, whole.value_failures_as_zero) == (None, None)


def test_BLEU_metrics_report_their_signature() -> None:
    metric = sacrebleu.BLEU()
    metric.corpus_score(["a"], [["a"]])
    assert signature("sacrebleu_corpus") == str(metric.get_signature()).replace("nrefs:1", "nrefs:var")
    single = sacrebleu.BLEU(effective_order=True)
    single.sentence_score("a", ["a"])
    assert signature("sacrebleu_sentence") == str(single.get_signature()).replace("nrefs:1", "nrefs:var")
    rows = [{"prediction": "a", "reference": "a"}]
    for name in ("sacrebleu_sentence", "sacrebleu_corpus", "bleu1_nltk_method1", "bleu4_nltk_method1"):
        assert metrics.measure(name, rows).method == signature(name)
    assert signature("bleu1_nltk_method1").startswith("nltk:")
    assert metrics.measure("rouge_l", rows).method is None


# ------------------------------------------------------------------------------------ vectors and deletions


@each_row(
    ("a", "b", "expected"),
    [
        ([1, 0], [1, 0], 1.0),
        ([1, 0], [0, 1], 0.0),
        ([1, 0], [-2, 0], -1.0),
        ([3, 4], [4, 3], 24 / 25),
        ([0, 0], [1, 1], 0.0),
        ([], [], 0.0),
        ([1e200, 1e200], [1e200, 1e200], 1.0),
        ([1e200, 1e200], [1e200, -1e200], 0.0),
        ([1e-200, 0], [1e-200, 1e-200], math.sqrt(0.5)),
        ([5e-324], [5e-324], 1.0),
    ],
)
def test_semantic_similarity_is_the_cosine_of_two_vectors(a: list[float], b: list[float], expected: float) -> None:
    assert metrics.score("semantic_similarity", a=a, b=b) == pytest.approx(expected, abs=1e-15)


VECTORS = st.lists(st.tuples(st.floats(-10, 10), st.floats(-10, 10)), min_size=1, max_size=12)


@given(pairs=VECTORS, power=st.sampled_from([-600, -3, 1, 600]))
def test_semantic_similarity_is_symmetric_and_does_not_depend_on_vector_length(
    pairs: list[tuple[float, float]], power: int
) -> None:
    a, b = [x for x, _ in pairs], [y for _, y in pairs]
    plain = metrics.score("semantic_similarity", a=a, b=b)
    assert plain is not None and -1 <= plain <= 1
    assert plain == metrics.score("semantic_similarity", a=b, b=a)
    if all(x == 0 or abs(x) > 1e-100 for x in a):
        scaled = metrics.score("semantic_similarity", a=[math.ldexp(x, power) for x in a], b=b)
        assert scaled == pytest.approx(plain, abs=1e-12)


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ([math.nan, 1.0], [1.0, 1.0], "a vector contains a number that is not finite"),
        ([1.0, 1.0], [1.0, math.inf], "a vector contains a number that is not finite"),
        ([1.0], [1.0, 2.0], "the two vectors have 1 and 2 dimensions; expected the same number"),
    ],
)
def test_semantic_similarity_refuses_invalid_vectors(a: list[float], b: list[float], text: str) -> None:
    with pytest.raises(ValueError) as caught:
        metrics.score("semantic_similarity", a=a, b=b)
    assert str(caught.value) == text


@each_row(
    ("deleted", "texts", "exact", "fuzzy"),
    [
        ("the code is 4411", ["nothing here"], 1, 1),
        ("the code is 4411", ["well, The  Code is 4411."], 0, 0),
        ("the code is 4411", ["4411 is the code"], 1, 0),
        ("the code is 4411 ok", ["the code is 4411"], 1, 0),
        ("one two three four five", ["one two three", "four five"], 1, 1),
        ("one two three four five", ["five four one two"], 1, 0),
        ("ha ha ha ha ha", ["ha"], 1, 1),
        ("x", [], 1, 1),
        ("", ["x"], None, None),
        ("  ", ["x"], None, None),
        ("!!", ["hey!!"], 0, None),
        (None, ["None"], None, None),
        (4411, ["code 4411"], 0, 0),
    ],
)
def test_deletion_check_finds_deleted_text_exactly_or_by_words(
    deleted: object, texts: list[object], exact: float | None, fuzzy: float | None
) -> None:
    assert metrics.score("deletion_check", deleted=deleted, texts=texts) == exact
    assert metrics.score("deletion_check", params={"fuzzy_match": True}, deleted=deleted, texts=texts) == fuzzy


def test_deletion_check_accepts_one_text_and_ignores_None() -> None:
    assert metrics.score("deletion_check", deleted="secret", texts="the secret") == 0
    assert metrics.score("deletion_check", deleted="none", texts=[None]) == 1


@each_row(("threshold", "expected"), [(0.2, 0), (0.4, 0), (0.41, 1), (1, 1)])
def test_fuzzy_threshold_is_a_share_of_the_deleted_words(threshold: float, expected: float) -> None:
    params = {"fuzzy_match": True, "fuzzy_threshold": threshold}
    found = metrics.score("deletion_check", params=params, deleted="one two three four five", texts=["one two"])
    assert found == expected


# ------------------------------------------------------------------------------------ citations


@each_row(
    ("text", "expected"),
    [
        ("Act 12, s. 4(2)", ["act12:4(2)"]),
        ("ACT  12 Section 4 ( 2 )", ["act12:4(2)"]),
        ("ss 4 and § 5a, art. 9", [":4", ":5a", ":9"]),
        ("Law 7/2019 article 3(1)(b)", ["law7/2019:3(1)(b)"]),
        ("see Act 12, s. 4(2) and s. 7", ["act12:4(2)", ":7"]),
        ("under § 19a", [":19a"]),
        ("pages 4 and 5", []),
        ("", []),
    ],
)
def test_citations_returns_normalized_citations(text: str, expected: list[str]) -> None:
    assert citations(text) == expected


@each_row(
    ("prediction", "reference", "expected"),
    [
        ("Act 12, s. 4(2)", "Act 12 section 4 (2)", 1),
        ("see Act 12 s. 4(2)", "s. 4(2)", 1),
        ("see s. 4(2)", "Act 12 s. 4(2)", 0),
        ("By section 4(2) of it: Act 12 s.4(2)", "Act 12, s. 4(2)", 1),
        ("Act 12, s. 4(3)", "Act 12, s. 4(2)", 0),
        ("s. 4 and s. 5", "s. 5; s. 4", 1),
        ("s. 4", "s. 5; s. 4", 0),
        ("no place", "s. 4", 0),
        ("s. 4", "no place", None),
    ],
)
def test_citation_accuracy_needs_every_citation_of_the_reference(
    prediction: str, reference: str, expected: float | None
) -> None:
    assert score("citation_accuracy", prediction, reference) == expected


def test_a_citation_verdict_of_an_evaluator_overrides_the_texts() -> None:
    measure = metrics.registry().measure("citation_accuracy")
    row = Row(benchmark="b", corpus="c", item_id="i", prediction="s. 4", references=("s. 5", "s. 4"))
    assert measure.score(row) == 1
    assert measure.score(replace(row, prediction=None)) is None
    for value in (0.25, None):
        message = Verdict(evaluator="custom:./cites.py:Cites", value=value, correct=None)
        assert measure.score(replace(row, verdicts=(message,))) == value
