"""Words of scripts with and without spaces, and the metrics that count them."""

from __future__ import annotations

import re
import unicodedata

import pytest

from bench.metrics import resolve, score
from bench.metrics.answers.text_normalization import comparable_form, index_terms, indexed, search_words, spaced
from tests.rows import each_row

LATIN = ["The quick-brown café's 7:40 don’t — 👍 ☎️", "naïve Straße x_y ½", "“Paris”", "a\tb\nc", ""]
RIGHT = [
    ("钥匙放在蓝色花盆下面。", "在蓝色花盆下面"),
    ("彼女は東京に住んでいます", "東京"), ("그녀는 서울에 삽니다", "서울"),
    ("เธอมีแมวสองตัว", "แมวสองตัว"), ("ນາງຢູ່ວຽງຈັນ", "ວຽງຈັນ"), ("នាងរស់នៅភ្នំពេញ", "ភ្នំពេញ"), ("သူမ ရန်ကုန်မှာနေတယ်", "ရန်ကုန်"),
    ("她在OpenAI工作", "OpenAI"), ("«Москва»!", "Москва"), ("وُلِدَتْ في القاهرةِ،", "القاهرة"), ("दिल्ली।", "दिल्ली"),
]  # fmt: skip
METRICS = ["token_f1", "rouge_l.multilingual", "bleu_1", "contains_match"]


def compares_letters_as_written(metric: str, answer: str) -> bool:
    return metric == "contains_match" and "وُ" in answer


@each_row("text", LATIN)
def test_Latin_text_is_not_changed_by_word_splitting(text: str) -> None:
    assert spaced(text) == text
    assert indexed(text) == text
    assert comparable_form(text) == text.lower()
    assert search_words(text) == re.findall(r"\w+", text.lower())


@each_row(
    "metric, answer, gold",
    [
        (metric, answer, gold)
        for metric in METRICS
        for answer, gold in RIGHT
        if not compares_letters_as_written(metric, answer)
    ],
)
def test_a_right_answer_scores_above_0_in_every_script(metric: str, answer: str, gold: str) -> None:
    value = score(metric, prediction=answer, reference=gold)
    assert value is not None and value > 0
    assert score(metric, prediction=gold, reference=gold) == pytest.approx(1)
    assert score("bleu", prediction=gold, reference=gold) == pytest.approx(1)


@each_row("metric", METRICS)
def test_an_answer_without_common_words_scores_0(metric: str) -> None:
    assert score(metric, prediction="她搬到了杭州", reference="豆豆") == 0


def test_squad_and_rouge_l_values_are_unchanged_for_other_scripts() -> None:
    pair = {"prediction": "東京タワー", "reference": "東京"}
    assert score("token_f1", params={"variant": "squad"}, **pair) == 0
    assert score("rouge_l", **pair) == 0
    assert resolve("token_f1.squad").definition == "token_f1.squad/1"
    assert resolve("token_f1").definition == "token_f1.multilingual/1"
    assert resolve("rouge_l").definition == "rouge_l/1"


@each_row(
    ("prediction", "reference"),
    [
        ("The Cat, a dog", "cat dog"),
        ("don’t stop", "do not stop"),
        ("Café au lait", "café"),
        ("“Paris”", "Paris"),
        ("👍 great", "great"),
    ],
)
def test_Latin_text_scores_as_in_SQuAD(prediction: str, reference: str) -> None:
    pair = {"prediction": prediction, "reference": reference}
    assert score("token_f1", **pair) == score("token_f1.squad", **pair)
    assert score("rouge_l.multilingual", **pair) == score("rouge_l", **pair)
    assert score("bleu", **pair) == score("bleu.sacrebleu_sentence", **pair)


def test_equivalent_Unicode_forms_are_equal() -> None:
    decomposed = unicodedata.normalize("NFD", "Café in Hà Nội")
    assert score("token_f1", prediction=decomposed, reference="café in hà nội") == 1
    assert score("token_f1", prediction="ＴＯＫＹＯ　タワー，２０２３", reference="tokyoタワー2023") == pytest.approx(1)
    for name in ("rouge_l.multilingual", "rouge_l.recall", "bleu", "bleu_1"):
        assert score(name, prediction=decomposed, reference="Café in Hà Nội") == 1, name
        assert resolve(name).definition.endswith("/2")
    assert score("token_f1", prediction="İSTANBUL", reference="istanbul") == 1
    assert score("token_f1", prediction="שָׁלוֹם", reference="שלום") == 1


@each_row(
    ("answer", "gold", "found"),
    [("เธอมีแมวสองตัว", "แมว", 1), ("នាងរស់នៅភ្នំពេញ", "ភ្នំពេញ", 1), ("किताबें", "किताब", 0), ("Parisian", "Paris", 0)],
)
def test_contains_match_uses_word_boundaries_only_in_scripts_that_have_them(answer: str, gold: str, found: int) -> None:
    assert score("contains_match", prediction=answer, reference=gold) == found


def test_deletion_check_finds_text_in_a_script_without_spaces() -> None:
    leak = {"deleted": "备用钥匙放在蓝色花盆下面", "texts": ["她说备用钥匙放在蓝色花盆下面了"]}
    assert score("deletion_check", params={"fuzzy_match": True}, **leak) == 0
    assert score("deletion_check", params={"fuzzy_match": True}, deleted=leak["deleted"], texts=["她喜欢喝茶"]) == 1


def test_words_with_combining_marks_stay_whole_in_an_index() -> None:
    assert len(index_terms("किताब")) == 1
    assert index_terms("किताब")[0] in indexed("वह किताब पढ़ती है").split()
    assert index_terms(unicodedata.normalize("NFD", "résumé")) == ["résumé"]
