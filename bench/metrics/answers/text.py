"""Metrics that compare the text of an answer with a reference: exact match, containment, shared tokens, LoCoMo's own
score.

The inputs are ``prediction`` and ``reference`` or ``references``. If there are several references, the highest value
counts. To add a metric, write its function of two texts, and register the function as a ``RegisteredMetric``.

Example::

    bench.metrics.score("token_f1", prediction="a red car", references=["the car", "red"])
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from bench.metrics.aggregation import Mean
from bench.metrics.answers.text_normalization import (
    as_iterable,
    as_text,
    comparable_form,
    is_mark,
    locomo_stems,
    locomo_tokens,
    mem0_tokens,
    normal_form,
    spaced,
    splits_number,
    squad_tokens,
)
from bench.metrics.protocol import Arithmetic, Parameter, RegisteredMetric
from bench.model import Row
from bench.tokens import UNSPACED_CHARACTER

Params = Mapping[str, object]
Compare = Callable[[str, str], float | None]

_NO_BOUNDARY_FROM = 0x2E80
"""scripts from this code point on need no word boundary around a match"""

NORMALIZATION = {
    "normalize_whitespace": Parameter(default=True),
    "case_sensitive": Parameter(default=False),
    "unicode": Parameter(default="none", choices=("none", "nfc", "nfkc")),
}
LOCOMO_TYPES = {"multi-hop": "1", "temporal": "2", "open-domain": "3", "single-hop": "4", "adversarial": "5"}
"""name of a question category in the LoCoMo paper -> its number in the dataset"""
UNANSWERABLE_PHRASES = ("no information available", "not mentioned")
"""the two phrases that LoCoMo accepts as the answer to a question without an answer in the conversation"""


def best_score(compare: Compare, prediction: object, references: str | Iterable[object]) -> float | None:
    """Return the highest value of ``compare(prediction, reference)`` over all references.

    Return None if there is no prediction, or if no reference can be compared.
    """
    if prediction is None:
        return None
    text = as_text(prediction)
    scores = [compare(text, as_text(reference)) for reference in as_iterable(references) if reference is not None]
    return max((s for s in scores if s is not None), default=None)


def text_comparison(compare: Compare) -> Arithmetic:
    """Build a metric that compares the answer with each reference and uses the highest value."""

    def of_inputs(
        prediction: object, reference: object = None, references: str | Iterable[object] | None = None
    ) -> float | None:
        return best_score(compare, prediction, [reference] if references is None else references)

    return Arithmetic(of_row=lambda row: answer_score(compare, row), of_inputs=of_inputs)


def answer_score(compare: Compare, row: Row) -> float | None:
    """Return the highest value of ``compare`` over the references of the row; 0 for a blank answer.

    Return None if the row has no answer, or if no reference can be compared.
    """
    found = best_score(compare, row.prediction, row.references)
    return 0.0 if found and not as_text(row.prediction).strip() else found


def normalizer(params: Params) -> Callable[[str], str]:
    """Return a function that normalizes a text as the parameters of a metric say."""
    white, case, form = params["normalize_whitespace"], params["case_sensitive"], params["unicode"]
    return lambda text: normal_form(
        text, normalize_whitespace=bool(white), case_sensitive=bool(case), unicode=str(form)
    )


def equality(variant: str, normal: Callable[[str], str]) -> Compare:
    """Return a function that gives 1 for two equal texts, else 0.

    The variant ``squad`` compares lists of tokens, and ``locomo`` compares sets of tokens. Any other variant compares
    the texts that ``normal`` returns.
    """
    if variant == "squad":
        return lambda p, r: float(squad_tokens(p) == squad_tokens(r))
    if variant == "locomo":
        return lambda p, r: float(set(locomo_tokens(p)) == set(locomo_tokens(r)))
    return lambda p, r: float(normal(p) == normal(r))


def containment(normal: Callable[[str], str], *, whole_words: bool) -> Compare:
    """Return a function that gives 1 if the answer contains the reference, else 0; None for an empty reference."""

    def compare(prediction: str, reference: str) -> float | None:
        wanted = normal(reference)
        return float(occurs(wanted, normal(prediction), whole_words=whole_words)) if wanted else None

    return compare


def exact_match(k: int | None, params: Params) -> Arithmetic:
    """Build the metric exact match, which is 0 or 1."""
    return text_comparison(equality(str(params["variant"]), normalizer(params)))


def contains_match(k: int | None, params: Params) -> Arithmetic:
    """Build the metric containment: 1 if the answer contains the reference, else 0."""
    return text_comparison(containment(normalizer(params), whole_words=bool(params["word_boundary"])))


_UNPHRASED = re.compile(r"[^\w\s]")


def has_phrases(prediction: str, reference: str, *, ordered: bool = False) -> float | None:
    """Return 1 if the prediction contains every phrase of the reference as whole words, else 0.

    Phrases are separated by ``;``, or by ``,`` if there is no ``;``. With ``ordered``, they must occur in the order of
    the reference. Return None if the reference has no phrase.
    """
    plain = _phrase(prediction)
    phrases = [phrase for part in reference.split(";" if ";" in reference else ",") if (phrase := _phrase(part))]
    start = 0
    for phrase in phrases:
        found = re.compile(rf"\b{re.escape(phrase)}\b").search(plain, start if ordered else 0)
        if found is None:
            return 0.0
        start = found.end()
    return 1.0 if phrases else None


def _phrase(text: str) -> str:
    """Return the text in lower case without punctuation; hyphens, commas and semicolons become spaces."""
    parted = re.sub(r"[-_,;]", " ", text.lower())
    return " ".join(_UNPHRASED.sub("", parted).split())


def occurs(wanted: str, text: str, *, whole_words: bool) -> bool:
    """Return True if ``text`` contains ``wanted``.

    With ``whole_words``, an occurrence inside a longer word or number does not count.
    """
    counted = whole_words and (wanted[:1].isdigit() or wanted[-1:].isdigit())
    start = text.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        apart = not whole_words or not (_is_inside_word(text, start) or _is_inside_word(text, end))
        if apart and not (counted and splits_number(text, start, end)):
            return True
        start = text.find(wanted, start + 1)
    return False


def _is_inside_word(text: str, place: int) -> bool:
    """Return True if a word continues across the position ``place``.

    A combining mark belongs to the letter before it.
    """
    if not 0 < place < len(text):
        return False
    before, after = text[place - 1], text[place]
    if before.isascii() and after.isascii():
        return before.isalnum() and after.isalnum()
    if UNSPACED_CHARACTER.match(before) or UNSPACED_CHARACTER.match(after):
        return is_mark(after)
    return all((c.isalnum() or is_mark(c)) and ord(c) < _NO_BOUNDARY_FROM for c in (before, after))


def f1(predicted: Sequence[str], expected: Sequence[str]) -> float:
    """Return the F1 of two token lists; 0 if they share no token.

    A repeated token counts as often as it occurs in both lists.
    """
    common = sum((Counter(predicted) & Counter(expected)).values())
    if not common:
        return 0.0
    precision, recall = common / len(predicted), common / len(expected)
    return 2 * precision * recall / (precision + recall)


def f1_squad(prediction: str, reference: str) -> float:
    """Return the F1 of the tokens into which SQuAD's evaluation splits both texts; 1 if neither text has tokens."""
    predicted, expected = squad_tokens(prediction), squad_tokens(reference)
    if not predicted or not expected:
        return float(predicted == expected)
    return f1(predicted, expected)


def f1_hotpot(prediction: str, reference: str) -> float:
    """Return ``f1_squad``, but follow HotpotQA's rule for yes, no and noanswer.

    If the texts differ and one of them is yes, no or noanswer, the value is 0.
    """
    mine, theirs = " ".join(squad_tokens(prediction)), " ".join(squad_tokens(reference))
    if mine != theirs and {mine, theirs} & {"yes", "no", "noanswer"}:
        return 0.0
    return f1_squad(prediction, reference)


def f1_multilingual(prediction: str, reference: str) -> float:
    """Return the token F1 for texts in any script.

    In scripts without spaces between words, each character is a token.
    """
    return f1_squad(spaced(comparable_form(prediction)), spaced(comparable_form(reference)))


def f1_locomo(prediction: str, reference: str) -> float:
    """Return the F1 of stemmed tokens as in LoCoMo's evaluation; 0 if either text has no tokens."""
    return f1(locomo_stems(prediction), locomo_stems(reference))


def f1_locomo_multi(prediction: str, reference: str) -> float:
    """Return LoCoMo's score for several answers that are separated by commas.

    Each part of the gold answer gets its best F1 with a part of the prediction. The score is the mean of these values.
    """
    predicted, expected = prediction.split(","), reference.split(",")
    return math.fsum(max(f1_locomo(p, e) for p in predicted) for e in expected) / len(expected)


def f1_mem0(prediction: str, reference: str) -> float:
    """Return the F1 of the sets of tokens, as in mem0's evaluation."""
    return f1(sorted(set(mem0_tokens(prediction))), sorted(set(mem0_tokens(reference))))


F1_VARIANTS: Mapping[str, Compare] = {
    "multilingual": f1_multilingual,
    "squad": f1_squad,
    "hotpot": f1_hotpot,
    "locomo": f1_locomo,
    "locomo_multi": f1_locomo_multi,
    "mem0": f1_mem0,
}


def token_f1(k: int | None, params: Params) -> Arithmetic:
    """Build the metric token F1.

    The variant ``multilingual`` fits texts of any script. The other variants compute what published evaluations do.
    """
    return text_comparison(F1_VARIANTS[str(params["variant"])])


def locomo_category(category: object, question_type: str | None) -> str | None:
    """Return the number of the LoCoMo category as a text.

    If ``category`` is such a number, return it. Otherwise return the number that belongs to the question type. Return
    None if neither is known.
    """
    if category is not None and as_text(category) in LOCOMO_TYPES.values():
        return as_text(category)
    return LOCOMO_TYPES.get((question_type or "").replace("_", "-").lower())


def locomo_qa(category: str, prediction: str, reference: str) -> float | None:
    """Return the score of one answer by LoCoMo's official rules; None for an unknown category.

    Unlike the official program, this function splits a text without spaces between words into characters.
    """
    prediction, reference = spaced(prediction), spaced(reference)
    if category == "1":
        return f1_locomo_multi(prediction, reference)
    if category in ("2", "4"):
        return f1_locomo(prediction, reference)
    if category == "3":
        return f1_locomo(prediction, reference.split(";")[0].strip())
    if category == "5":
        return float(any(phrase in prediction.lower() for phrase in UNANSWERABLE_PHRASES))
    return None


def locomo_qa_score(k: int | None, params: Params) -> Arithmetic:
    """Build the metric LoCoMo score. The category comes from the parameters, otherwise from the row."""
    fixed = params["category"]

    def of_inputs(
        prediction: object,
        reference: object = None,
        references: str | Iterable[object] | None = None,
        category: object = fixed,
    ) -> float | None:
        kind = as_text(category)
        golds = [""] if kind == "5" else [reference] if references is None else references
        return best_score(lambda p, r: locomo_qa(kind, p, r), prediction, golds)

    def of_row(row: Row) -> float | None:
        category = locomo_category(row.category if fixed is None else fixed, row.labels.get("question_type"))
        return of_inputs(row.prediction, references=row.references, category=category)

    return Arithmetic(of_row=of_row, of_inputs=of_inputs)


def answer_length(k: int | None, params: Params) -> Arithmetic:
    """Build the metric answer length, in characters."""
    return Arithmetic(of_row=lambda row: text_length(row.prediction), of_inputs=text_length, fold=Mean(shares=False))


def text_length(prediction: object) -> float | None:
    """Return the number of characters of the answer; None if there is no answer."""
    return None if prediction is None else float(len(as_text(prediction)))


ENTRIES = (
    RegisteredMetric(
        name="exact_match",
        summary="1 if the answer equals a reference after normalization; in a run, unicode is nfc by default",
        category="answer",
        build=exact_match,
        parameters={"variant": Parameter(default="plain", choices=("plain", "squad", "locomo")), **NORMALIZATION},
        run_presets={"unicode": "nfc"},
        dotted="variant",
    ),
    RegisteredMetric(
        name="contains_match",
        summary="1 if a reference occurs in the answer as whole words; in a run, unicode is nfc by default",
        category="answer",
        build=contains_match,
        version=3,  # 2: no word boundary in Thai, Lao, Khmer and Burmese; 3: a part of a longer number is no match
        aliases={"contains": {}},
        parameters={"word_boundary": Parameter(default=True), **NORMALIZATION},
        run_presets={"unicode": "nfc"},
    ),
    RegisteredMetric(
        name="token_f1",
        summary="F1 of tokens shared by answer and reference; multilingual: any alphabet; others: as in published code",
        category="answer",
        build=token_f1,
        define=lambda params: f"token_f1.{params['variant']}",
        aliases={"f1": {}},
        parameters={"variant": Parameter(default="multilingual", choices=tuple(F1_VARIANTS))},
        dotted="variant",
    ),
    RegisteredMetric(
        name="locomo_qa_score",
        summary="LoCoMo's official score: token F1 per category; category 5: 1 if the answer has one of two phrases",
        category="answer",
        build=locomo_qa_score,
        version=2,  # 2: scripts without spaces are cut into characters
        aliases={"locomo_f1": {}},
        parameters={"category": Parameter(default=None, choices=(None, *LOCOMO_TYPES.values()))},
    ),
    RegisteredMetric(
        name="answer_length",
        summary="number of characters of the answer",
        category="answer",
        build=answer_length,
        unit="characters",
    ),
)
