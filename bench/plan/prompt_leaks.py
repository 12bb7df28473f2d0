"""Find answer prompts that show scoring data to the model: gold answer, evidence or question type.

Example::

    leaks(prompts, dataset)
    # ('prompt knows the answer: the answer prompt "default" of facts shows ${answer}',)

A prompt leaks the answer if its text or one of its filled-in fields contains the gold answer or the evidence.

A prompt leaks the question type if a field shows the type, or if the value of a field depends only on the type.
Different prompts for different types also leak the type. Only prompt packs may have such prompts, because they are part
of the benchmark's published protocol.

In shipped prompts, only the fields are checked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from bench.config.file import fold_key
from bench.config.template import text_of
from bench.datasets import Dataset
from bench.evaluators.judge_prompts import DEFAULT
from bench.evaluators.refusals import is_refusal
from bench.metrics.answers.text_normalization import squad_tokens
from bench.model import Corpus, Item
from bench.plan.prompts import ANSWER_NAMES, ChosenPrompt, Prompts
from bench.visible_text import counted

KNOWS_ANSWER = "prompt knows the answer"
KNOWS_TYPE = "prompt knows the type"
ANSWER_FIELDS = frozenset([
    "answer", "answers", "gold", "goldanswer", "goldanswers", "expected", "expectedanswer", "expectedanswers",
    "reference", "references", "referenceanswer", "groundtruth", "correctanswer", "choiceanswer", "idealanswer",
    "solution", "target", "rubric",
])  # fmt: skip
EVIDENCE_FIELDS = frozenset([
    "evidence", "evidences", "evidenceids", "evidencetext", "evidencetexts", "supportingfacts", "goldcontext",
    "goldevidence", "answersessionids", "answersessions", "relevant", "relevantids", "grades",
])  # fmt: skip
TYPE_FIELDS = frozenset([
    "type", "category", "questiontype", "questioncategory", "categoryname", "typename", "tasktype", "reasoningtype",
    "ability",
])  # fmt: skip
BENCH_FIELDS = frozenset(ANSWER_NAMES)
MOST_ITEMS = 20_000
"""maximum number of items that are read to find leaks"""
SHARE = 0.2
"""maximum share of items in which a field may contain the gold answer without being a leak"""
LONG_WORDS, LONG_TEXT = 3, 10
"""minimum words or minimum characters of a long gold answer; one long gold answer in a prompt's text is a leak"""
SHORT_TEXT, SHORT_GOLDS = 4, 3
"""minimum characters of a short gold answer, and number of short gold answers in a prompt's text that are a leak"""
EVIDENCE_TEXT = 24
"""minimum characters of an evidence turn; such a turn in a prompt's text is a leak"""


def leaks(prompts: Prompts, dataset: Dataset) -> tuple[str, ...]:
    """Return one sentence per leak, with the kind of leak, the answer prompt and the shown data."""
    used = _used_prompts(prompts, dataset)
    values = [_FieldCheck(name=name) for name in sorted({n for one in used for n in one.template.names} - BENCH_FIELDS)]
    texts = [_TextCheck.of(one) for one in used] if prompts.fidelity == "custom" else []
    if any(one.named is None for one in values) or texts:
        for item, corpus in _items(dataset):
            for one in values:
                one.read(item, corpus)
            for text in texts:
                text.read(item, corpus)
    found = [*_type_leaks(prompts, dataset)]
    for prompt in used:
        shown = (one for one in values if one.name in prompt.template.names)
        found += [(kind, f"the answer prompt \"{prompt.name}\" of {dataset.name} {why}")
                  for one in shown for kind, why in one.found()]  # fmt: skip
    found += [(KNOWS_ANSWER, f'the answer prompt "{one.name}" of {dataset.name} {why}')
              for one in texts for why in one.found()]  # fmt: skip
    return tuple(dict.fromkeys(f"{kind}: {why}" for kind, why in found))


def _used_prompts(prompts: Prompts, dataset: Dataset) -> list[ChosenPrompt]:
    """Return the answer prompts that are used for at least one question type of the data."""
    found = [prompts.answer(kind) for kind in (None, *dataset.known_types())]
    return list({one.name: one for one in found}.values())


def _type_leaks(prompts: Prompts, dataset: Dataset) -> Iterator[tuple[str, str]]:
    if prompts.fidelity != "custom":
        return  # the benchmark's own protocol, the same for every system
    default = prompts.answer(None)
    for kind in dataset.known_types():
        chosen = prompts.answers.get(kind)
        if kind != DEFAULT and chosen is not None and chosen.template.text.strip() != default.template.text.strip():
            yield KNOWS_TYPE, f'questions of the type "{kind}" of {dataset.name} have their own answer prompt'


def _items(dataset: Dataset) -> Iterator[tuple[Item, Corpus]]:
    for ref in islice(dataset.items(), MOST_ITEMS):
        yield dataset.item(ref), dataset.corpus(ref.corpus)


@dataclass(slots=True, kw_only=True)
class _FieldCheck:
    """A check of one field that a prompt shows. It collects the values of the field."""

    name: str
    n: int = 0
    answers: int = 0
    evidence: int = 0
    kinds: dict[str, set[str | None]] = field(default_factory=lambda: defaultdict(set))

    @property
    def named(self) -> tuple[str, str] | None:
        """Return (kind of leak, message) if the name of the field alone is a leak, such as ``answer``.

        Return None for any other name.
        """
        name = fold_key(self.name).replace("-", "").replace(".", "")
        for names, kind, what in (
            (ANSWER_FIELDS, KNOWS_ANSWER, "the gold answer"),
            (EVIDENCE_FIELDS, KNOWS_ANSWER, "the evidence"),
            (TYPE_FIELDS, KNOWS_TYPE, "the question type"),
        ):
            if name in names:
                return kind, f"shows ${{{self.name}}}, {what}"
        return None

    def read(self, item: Item, corpus: Corpus) -> None:
        metadata = {fold_key(name): value for name, value in {**corpus.metadata, **item.metadata}.items()}
        value = metadata.get(fold_key(self.name))
        if value is None or item.abstention:
            return
        text, words = text_of(value), squad_tokens(text_of(value))
        self.n += 1
        golds = [*item.answers, *item.rubric]
        self.answers += any(_holds(words, squad_tokens(gold)) for gold in golds if not is_refusal(gold))
        self.evidence += _holds_evidence(text, item, corpus)
        self.kinds[text.strip().lower()].add(item.question_type)

    def found(self) -> Iterator[tuple[str, str]]:
        """Yield the kind and the message of each leak of the field."""
        if self.named is not None:
            yield self.named
            return
        for count, what in ((self.answers, "the gold answer"), (self.evidence, "the evidence")):
            if count > max(1, SHARE * self.n) or count == self.n == 1:
                yield (
                    KNOWS_ANSWER,
                    f"shows ${{{self.name}}}, which contains {what} in {count} of {counted(self.n, 'item(|s)')}",
                )
        if self._chosen_by_type():
            yield KNOWS_TYPE, f"shows ${{{self.name}}}, which depends on the question type only"

    def _chosen_by_type(self) -> bool:
        """Return True if the value of the field seems to depend only on the question type.

        There must be several types, and each value must belong to only one type. On average, a value must occur at
        least three times.
        """
        types = {kind for kinds in self.kinds.values() for kind in kinds}
        alone = all(len(kinds) == 1 for kinds in self.kinds.values())
        return alone and len(types) > 1 and self.n >= 3 * len(self.kinds)


@dataclass(slots=True, kw_only=True)
class _TextCheck:
    """A check of the fixed text of a prompt, without its placeholders. It collects the scoring data in the text."""

    name: str
    text: str
    words: list[str]
    long: set[str] = field(default_factory=set)
    short: set[str] = field(default_factory=set)
    evidence: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, prompt: ChosenPrompt) -> _TextCheck:
        text = " ".join(part for part in prompt.template.parts if isinstance(part, str))
        return cls(name=prompt.name, text=" ".join(text.split()), words=squad_tokens(text))

    def read(self, item: Item, corpus: Corpus) -> None:
        golds = () if item.abstention else item.answers
        for gold in golds:
            words = squad_tokens(gold)
            if is_refusal(gold) or not _holds(self.words, words) or gold in item.choices:
                continue
            if len(words) >= LONG_WORDS or len("".join(words)) >= LONG_TEXT or self._contains_question(item):
                self.long.add(gold)
            elif len(gold) >= SHORT_TEXT:
                self.short.add(gold.lower())
        if any(len(text) >= EVIDENCE_TEXT and text in self.text for text in _evidence_texts(item, corpus)):
            self.evidence.add(item.id)

    def _contains_question(self, item: Item) -> bool:
        return " ".join(item.question.split()).lower() in self.text.lower()

    def found(self) -> Iterator[str]:
        """Yield a message for each kind of scoring data that the prompt's text contains."""
        golds = sorted(self.long) or (sorted(self.short) if len(self.short) >= SHORT_GOLDS else [])
        if golds:
            yield f"contains the gold answer of {counted(len(golds), 'item(|s)')} in its text"
        if self.evidence:
            yield f"contains the evidence of {counted(len(self.evidence), 'item(|s)')} in its text"


def _holds(words: Sequence[str], gold: Sequence[str]) -> bool:
    """Return True if ``words`` contains the words of ``gold`` in order and without a gap."""
    size = len(gold)
    return size > 0 and any(list(words[at : at + size]) == list(gold) for at in range(len(words) - size + 1))


def _holds_evidence(text: str, item: Item, corpus: Corpus) -> bool:
    ids = {*item.evidence.sessions, *item.evidence.turns}
    if ids & set(text.replace(",", " ").replace(";", " ").split()):
        return True
    plain = " ".join(text.split())
    return any(len(turn) >= EVIDENCE_TEXT and turn in plain for turn in _evidence_texts(item, corpus))


def _evidence_texts(item: Item, corpus: Corpus) -> list[str]:
    wanted = set(item.evidence.turns)
    if not wanted:
        return []
    return [" ".join(turn.text.split()) for session in corpus.sessions for turn in session.turns if turn.id in wanted]
