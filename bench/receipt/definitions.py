"""Reading metric definition ids: ``NAME[@K]/VERSION``.

Example::

    >>> read_definition("recall_any@10/1")
    Definition(base='recall_any', k=10, version='1')

"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

_DEFINITION = re.compile(r"(?P<base>[^@/\[]+)(?:@(?P<k>[0-9]{1,9}))?(?:\[(?P<options>[^\]/]*)\])?/(?P<version>.+)")
_CUT_IN_NAME = re.compile(r".*_at_([0-9]{1,9})")

RATES = frozenset({
    "hit", "recall_any", "recall_fraction", "recall_all", "recall_capped", "precision", "retrieval_precision",
    "retrieval_recall", "retrieval_f1", "retrieval_coverage", "ndcg", "map", "mrr", "exact_match", "contains_match",
    "token_f1", "locomo_qa_score", "rouge_l", "bleu", "bleu_1", "bleu4_nltk_method1", "deletion_check",
    "citation_accuracy", "accuracy", "accuracy_macro", "accuracy_by_question_type", "accuracy_by_category",
    "accuracy_incl_adversarial", "accuracy_excl_adversarial", "correctness", "abstention_accuracy",
    "over_abstention_rate", "faithfulness",
})  # fmt: skip
"""Base names whose values are shares, so that nothing outside 0..1 can be true."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition id, taken apart."""

    base: str
    k: int | None
    options: Mapping[str, str]
    version: str

    @property
    def is_rate(self) -> bool:
        """Whether the value is a share."""
        return self.base.partition(".")[0] in RATES


def read_definition(text: str) -> Definition:
    """Take a definition id apart; an id of another shape has no cut and its whole text as base."""
    match = _DEFINITION.fullmatch(text)
    if match is None:
        return Definition(base=text, k=None, options={}, version="")
    pairs = [option.partition("=") for option in (match["options"] or "").split(",") if option]
    return Definition(
        base=match["base"],
        k=int(match["k"]) if match["k"] else None,
        options={name: value for name, _, value in pairs},
        version=match["version"],
    )


def cut_of(name: str, definition: Definition) -> int | None:
    """The K of a metric, from its definition or (``mrr_at_10`` with ``mrr/1``) from its name."""
    if definition.k is not None:
        return definition.k
    match = _CUT_IN_NAME.fullmatch(name)
    return int(match.group(1)) if match else None
