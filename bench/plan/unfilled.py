"""Prompts that ask for what no item has: said once, before a run in which every item would fail on them.

Example::

    unfilled(prompts, dataset, judged=True)
    # [ConfigError('demo.yaml:40:5: the answer prompt "default" needs ${speakerA}, which no item of demo has')]

Only the items that get a prompt count for it. Reading stops once each name was met, so a prompt that fits costs the
first rows of the file and no more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.config.benchmark import BenchmarkConfig
from bench.config.source import fold
from bench.config.templates import Template
from bench.datasets import Dataset
from bench.errors import ConfigError
from bench.model import Corpus, Item
from bench.plan.prompts import Prompts

IN_EVERY_RUN = frozenset({"question", "retrievedContext", "answer", "response", "evidence"})
"""what items bring, or a run makes of what it found"""
SECTIONS = {"answer": "answerPrompt", "judge": "judgePrompts"}


@dataclass(slots=True, kw_only=True)
class _Asked:
    """One prompt, and the names in it that no item has filled so far."""

    role: str
    name: str
    template: Template
    missing: set[str]
    used: bool = False

    @classmethod
    def of(cls, role: str, name: str, template: Template) -> _Asked:
        return cls(role=role, name=name, template=template, missing=set(template.needed - IN_EVERY_RUN))

    def met(self, item: Item, corpus: Corpus) -> None:
        self.used = True
        known = _known(item, corpus)
        self.missing = {name for name in self.missing if fold(name) not in known}

    def problems(self, config: BenchmarkConfig) -> Iterator[ConfigError]:
        for name in sorted(self.missing) if self.used else ():
            yield ConfigError(
                f'the {self.role} prompt "{self.name}" needs ${{{name}}}, which no item of {config.name} has',
                where=self._place(config),
                hint=f"say in schema where it stands, or write ${{{name}|default:''}}",
            )

    def _place(self, config: BenchmarkConfig) -> str | None:
        """The prompt in the config's file; one of a pack or the command line has no place there."""
        prompts = config.evaluation.answer_prompt if self.role == "answer" else config.evaluation.judge_prompts
        path = ("default",) if self.name == "default" else ("byQuestionType", self.name)
        given = prompts.default if self.name == "default" else prompts.by_question_type.get(self.name)
        return config.place("evaluation", SECTIONS[self.role], *path) if given is not None else self.template.where


def unfilled(prompts: Prompts, dataset: Dataset, *, judged: bool) -> list[ConfigError]:
    """Say which names of answer prompts, and with ``judged`` of judge prompts, no item can fill."""
    asked: dict[str | None, list[_Asked]] = {}
    known: dict[tuple[str, str], _Asked] = {}
    for kind in (None, *dataset.known_types()):
        answer = prompts.answer(kind)
        chosen = [_Asked.of("answer", answer.name, answer.template)]
        if judged:
            judge = prompts.judges.by_type.get(kind or "", prompts.judges.default)
            chosen.append(_Asked.of("judge", judge.name, judge.template))
        asked[kind] = [known.setdefault((one.role, one.name), one) for one in chosen]
    _read(dataset, asked)
    return [problem for one in known.values() for problem in one.problems(dataset.config)]


def _read(dataset: Dataset, asked: dict[str | None, list[_Asked]]) -> None:
    """Show each prompt its items until nothing is missing in it."""
    for ref in dataset.items():
        if not any(one.missing for prompts in asked.values() for one in prompts):
            return
        wanting = [one for one in asked[ref.question_type] if one.missing]
        if not wanting:
            continue
        item, corpus = dataset.item(ref), dataset.corpus(ref.corpus)
        for one in wanting:
            if one.role == "answer" or not item.abstention:  # those have a judge prompt of their own
                one.met(item, corpus)


def _known(item: Item, corpus: Corpus) -> set[str]:
    """The names that this item fills, in one spelling: its metadata, and the parts of it that it has."""
    named = {**corpus.metadata, **item.metadata}
    parts = {
        "questionDate": item.question_date,
        "questionType": item.question_type,
        "choices": item.choices,
        "rubric": item.rubric,
    }
    return {fold(name) for name, value in named.items() if value is not None} | {
        fold(name) for name, value in parts.items() if value
    }
