"""Metrics that compare the words of an answer and its reference.

BLEU counts shared n-grams, as in NLTK or as in sacreBLEU. ROUGE-L uses the longest common subsequence of words.

Example::

    bench.metrics.score("rouge_l", prediction="the red car", reference="a red car")      # 0.667
"""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import replace

from bench.metrics.answers.text import Compare, text_comparison
from bench.metrics.answers.text_normalization import OPTIONAL_MARKS, as_text, is_beyond_latin, spaced, words
from bench.metrics.protocol import Arithmetic, Parameter, RegisteredMetric
from bench.model import Row
from bench.patterns import pattern

_WORDS = pattern(r"[a-z0-9]+")
_WEIGHTS = {"bleu1_nltk_method1": (1.0, 0.0, 0.0, 0.0), "bleu4_nltk_method1": (0.25, 0.25, 0.25, 0.25)}
_PUNCTUATION = pattern(
    "[\u3001-\u3004\u3008-\u3020\u3030\u30fb\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff65\u060c\u061b\u061f\u06d4\u0964\u0965\u0f0d\u104a\u104b\u17d4\u17d5]"
)
"""punctuation to separate from words: that of sacreBLEU's ``zh`` tokenizer, and the sentence ends of other scripts"""
_VARIANTS = ("multilingual", "bleu1_multilingual", "sacrebleu_sentence", "sacrebleu_corpus", *_WEIGHTS)


def rouge_l(prediction: str, reference: str) -> float:
    """Return ROUGE-L: the F-measure of the longest common subsequence of words (Lin 2004).

    Words are runs of a-z and 0-9 in lower case; there is no stemming.
    """
    return _rouge(_WORDS.findall(prediction.lower()), _WORDS.findall(reference.lower()))


def rouge_l_recall(prediction: str, reference: str) -> float:
    """Return the recall of ROUGE-L: the share of the reference's words that occur in the answer in the same order."""
    expected = _tokens(reference)
    return _common_length(_tokens(prediction), expected) / len(expected) if expected else 0.0


def _rouge(predicted: Sequence[str], expected: Sequence[str]) -> float:
    common = _common_length(predicted, expected)
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def rouge_l_multilingual(prediction: str, reference: str) -> float:
    """Return ROUGE-L over the words of every script; in scripts without spaces each character is a word."""
    return _rouge(_tokens(prediction), _tokens(reference))


def _tokens(text: str) -> list[str]:
    return words(text) if is_beyond_latin(text) else _WORDS.findall(unicodedata.normalize("NFC", text).lower())


def _common_length(a: Sequence[str], b: Sequence[str]) -> int:
    row = [0] * (len(b) + 1)
    for word in a:
        diagonal = 0
        for j, other in enumerate(b, start=1):
            above = row[j]
            row[j] = diagonal + 1 if word == other else max(above, row[j - 1])
            diagonal = above
    return row[-1]


def nltk_bleu(weights: tuple[float, ...], prediction: str, reference: str) -> float:
    """Return the sentence BLEU of NLTK with smoothing method 1 (Chen and Cherry 2014).

    Both texts are converted to lower case and split by the Treebank tokenizer.
    """
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    predicted, expected = _treebank().tokenize(prediction.lower()), _treebank().tokenize(reference.lower())
    if not predicted or not expected:
        return 0.0
    return float(sentence_bleu([expected], predicted, weights, SmoothingFunction().method1))


@functools.cache
def _treebank():  # type: ignore[no-untyped-def]
    from nltk.tokenize.destructive import NLTKWordTokenizer

    return NLTKWordTokenizer()


def multilingual_bleu(compare: Compare, prediction: str, reference: str) -> float | None:
    """Return the value of ``compare`` for both texts, in Unicode form NFC.

    In a text that is not in Latin script, spaces are put around punctuation and around each character of a script
    without spaces.
    """
    return compare(_separate_punctuation(prediction), _separate_punctuation(reference))


def _separate_punctuation(text: str) -> str:
    text = unicodedata.normalize("NFC", text)
    if not is_beyond_latin(text):
        return text
    plain = OPTIONAL_MARKS.sub("", text)
    return _PUNCTUATION.sub(r" \g<0> ", spaced(plain))


def sacrebleu_sentence(prediction: str, reference: str) -> float:
    """Return the sentence BLEU of sacreBLEU with its default settings, divided by 100 to be in 0..1."""
    import sacrebleu

    return _share(sacrebleu.sentence_bleu(prediction, [reference]).score)


def sacrebleu_corpus(predictions: Sequence[object], references: Sequence[object]) -> float | None:
    """Return the corpus BLEU of sacreBLEU over all pairs, in 0..1; None if there are no pairs."""
    if not predictions:
        return None
    import sacrebleu

    pairs = [as_text(p) for p in predictions], [[as_text(r) for r in references]]
    return _share(sacrebleu.corpus_bleu(*pairs).score)


def _share(percent: float) -> float:
    """Convert a score of sacreBLEU from percent to a share of at most 1.

    Rounding can make the score of equal texts slightly larger than 100 percent.
    """
    return min(1.0, float(percent) / 100)


def signature(variant: str) -> str:
    """Return the settings of sacreBLEU, or the version of NLTK. This text is stored with the result."""
    from importlib.metadata import version

    if variant in _WEIGHTS or variant == "bleu1_multilingual":
        return f"nltk:{version('nltk')}"
    effective = "no" if variant == "sacrebleu_corpus" else "yes"
    return f"nrefs:var|case:mixed|eff:{effective}|tok:13a|smooth:exp|version:{version('sacrebleu')}"


def _sentence(variant: str) -> Compare:
    if variant == "multilingual":
        return functools.partial(multilingual_bleu, sacrebleu_sentence)
    if variant == "bleu1_multilingual":
        return functools.partial(multilingual_bleu, _sentence("bleu1_nltk_method1"))
    if variant == "sacrebleu_sentence":
        return sacrebleu_sentence
    return functools.partial(nltk_bleu, _WEIGHTS[variant])


def _bleu(k: int | None, params: Mapping[str, object]) -> Arithmetic:
    variant = str(params["variant"])
    method = functools.partial(signature, variant)
    if variant != "sacrebleu_corpus":
        return replace(text_comparison(_sentence(variant)), method=method)
    return Arithmetic(
        method=method,
        of_row=lambda row: None,
        of_inputs=sacrebleu_corpus,
        parts={part: functools.partial(_corpus_part, place) for place, part in enumerate(_PARTS)},
        of_sums=_bleu_of_counts,
    )


_ORDERS = (1, 2, 3, 4)
_PARTS = ("answer_tokens", "reference_tokens", *(f"matched_{n}" for n in _ORDERS), *(f"total_{n}" for n in _ORDERS))


@functools.lru_cache(maxsize=16)
def _counts(prediction: str, references: tuple[str, ...]) -> tuple[float, ...]:
    """Return the n-gram counts of one answer, in the order of ``_PARTS``; corpus BLEU is computed from their sums."""
    import sacrebleu

    found = sacrebleu.sentence_bleu(prediction, references)
    return (found.sys_len, found.ref_len, *found.counts, *found.totals)


def _corpus_part(place: int, row: Row) -> float | None:
    if row.prediction is None or not row.references:
        return None
    return float(_counts(row.prediction, row.references)[place])


def _bleu_of_counts(sums: Sequence[float]) -> float:
    from sacrebleu.metrics.bleu import BLEU

    answer_tokens, reference_tokens, *counts = (int(n) for n in sums)
    matched, totals = counts[: len(_ORDERS)], counts[len(_ORDERS) :]
    score = BLEU.compute_bleu(matched, totals, answer_tokens, reference_tokens, smooth_method="exp").score
    return _share(score)


_ROUGE = {"ascii": rouge_l, "multilingual": rouge_l_multilingual, "recall": rouge_l_recall}

ENTRIES = (
    RegisteredMetric(
        name="bleu",
        summary="n-gram overlap of answer and reference; bleu1_* and bleu4_*: as in NLTK; other variants: sacreBLEU",
        category="answer",
        build=_bleu,
        define=lambda params: f"bleu.{params['variant']}",
        versions={"bleu.multilingual": 2, "bleu.bleu1_multilingual": 2},  # 2: Unicode form NFC
        aliases={
            "bleu_1": {"variant": "bleu1_multilingual"},
            "bleu1_multilingual": {"variant": "bleu1_multilingual"},
            "bleu1_nltk_method1": {"variant": "bleu1_nltk_method1"},
            "bleu4_nltk_method1": {"variant": "bleu4_nltk_method1"},
            "sacrebleu_sentence": {"variant": "sacrebleu_sentence"},
            "sacrebleu_corpus": {"variant": "sacrebleu_corpus"},
        },
        parameters={"variant": Parameter(default="multilingual", choices=_VARIANTS)},
        dotted="variant",
    ),
    RegisteredMetric(
        name="rouge_l",
        summary="F-measure, or recall, of the longest common subsequence of words",
        category="answer",
        build=lambda k, params: text_comparison(_ROUGE[str(params["variant"])]),
        define=lambda params: "rouge_l" if params["variant"] == "ascii" else f"rouge_l.{params['variant']}",
        versions={"rouge_l.multilingual": 2, "rouge_l.recall": 2},  # 2: Unicode form NFC
        parameters={"variant": Parameter(default="ascii", choices=tuple(_ROUGE))},
        run_presets={"variant": "multilingual"},
        dotted="variant",
    ),
)
