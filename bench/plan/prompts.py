"""Choose the prompts of one benchmark from prompt pack, config and command line, before the run.

Example::

    prompts = Prompts.of(config, pack=None, answer_prompt=None, judge_prompts=(), folder=workspace)
    chosen = prompts.answer("temporal")              # ChosenPrompt(name, template), chosen.sha256
    prompts.judges                                   # the judge prompts for evaluators
    unfilled_names(prompts, dataset, judged=True)
    # [ConfigError('demo.yaml:40:5: the answer prompt "default" needs ${speakerA}, which no item of demo has')]

A benchmark without prompts uses generic prompts. Every provider gets the same prompts.

``unfilled_names`` reads items only until each name in the prompts has a value. For valid prompts, it usually reads only
the first rows of the data.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.file import did_you_mean, fold_key
from bench.config.template import Template
from bench.datasets import Dataset
from bench.errors import ConfigError, UsageError
from bench.evaluators import JudgePrompts
from bench.evaluators.judge_prompts import ABSTENTION, DEFAULT
from bench.evaluators.packs import PromptPack, generic_answer_prompt
from bench.model import Corpus, Item

ANSWER_NAMES = ("question", "questionDate", "retrievedContext", "choices", "speakerA", "speakerB")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenPrompt:
    """One answer prompt with its name. ``sha256`` is the digest of the prompt before placeholders are filled in."""

    name: str
    template: Template

    @property
    def sha256(self) -> str:
        return self.template.sha256


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompts:
    """All prompts that one benchmark uses in this run."""

    answers: Mapping[str, ChosenPrompt]
    judges: JudgePrompts
    fidelity: str | None = None
    """origin of the answer prompts: custom, adapted, official or None

    ``custom`` means that the config or the command line sets a prompt. ``adapted`` and ``official`` come from the
    prompt pack. None means generic prompts.
    """

    @classmethod
    def of(
        cls,
        config: BenchmarkConfig,
        *,
        pack: PromptPack | None,
        answer_prompt: str | None,
        judge_prompts: tuple[str, ...],
        types: Collection[str] = (),
        folder: Path,
    ) -> Prompts:
        """Choose the prompts from prompt pack, config and command line. ``types`` are the question types of the data.

        Raises:
            UsageError: the benchmark does not allow an override, or does not have the question type of an override.
            ConfigError: a prompt file is missing, a name in a prompt is unknown, or a prompt does not show the choices.
        """
        answers = _answers(config, pack, answer_prompt, folder)
        names = (*ANSWER_NAMES, *config.evaluation.answer_prompt.prompt_fields)
        own = (config.evaluation.answer_prompt, config.evaluation.judge_prompts)
        written = any(one.default is not None or one.by_question_type for one in own) or own[1].abstention is not None
        custom = written or answer_prompt is not None or bool(judge_prompts)
        chosen = {
            name: ChosenPrompt(
                name=name, template=Template.parse(text, names, where=f"{config.name}: answer prompt {name!r}")
            )
            for name, text in answers.items()
        }
        _require_choices(config, chosen)
        return cls(
            answers=chosen,
            judges=JudgePrompts.of(
                _judges(config, pack, judge_prompts, frozenset(types), folder),
                prompt_of_type={
                    kind.name: kind.evaluation_prompt
                    for kind in config.question_types
                    if kind.evaluation_prompt != DEFAULT
                },
                off_by_one=[kind.name for kind in config.question_types if kind.allow_off_by_one],
                instructions=config.type_instructions,
            ),
            fidelity="custom" if custom else pack.fidelity if pack else None,
        )

    def answer(self, question_type: str | None, *, choices: bool = True) -> ChosenPrompt:
        """Return the answer prompt of a question type.

        If this prompt needs answer choices and ``choices`` is false, return the prompt for items without choices.
        """
        chosen = self.answers.get(question_type or DEFAULT, self.answers[DEFAULT])
        if choices or OPEN not in self.answers or "choices" not in chosen.template.needed:
            return chosen
        return self.answers[OPEN]

    @property
    def digests(self) -> dict[str, dict[str, str]]:
        """Return the SHA-256 of each prompt's text, in a map by role and then by prompt name."""
        judges = {DEFAULT: self.judges.default, ABSTENTION: self.judges.abstention, **self.judges.by_type}
        return {
            "answer": {name: prompt.sha256 for name, prompt in self.answers.items()},
            "judge": {name: prompt.sha256 for name, prompt in judges.items()},
        }


OPEN = "(no choices)"
"""name of the answer prompt for items without answer choices in a multiple-choice benchmark"""


def _answers(config: BenchmarkConfig, pack: PromptPack | None, given: str | None, folder: Path) -> dict[str, str]:
    own = config.evaluation.answer_prompt
    if given is not None:
        _require_allowed(config.name, "--answer-prompt", own.user_override)
        return {DEFAULT: read_prompt(given, folder)}
    usual = generic_answer_prompt("choices" if config.has_choices else "default")
    answers = {DEFAULT: usual, **(pack.answer if pack else {}), **own.by_question_type}
    if config.has_choices and config.evaluation.every_method != ("mcq",):
        answers[OPEN] = generic_answer_prompt()
    return answers if own.default is None else {**answers, DEFAULT: own.default}


def _require_choices(config: BenchmarkConfig, answers: Mapping[str, ChosenPrompt]) -> None:
    """Raise ConfigError if a prompt of a multiple-choice benchmark does not show the answer choices."""
    if config.evaluation.method != "mcq":
        return
    for name, prompt in answers.items():
        if "choices" not in prompt.template.names:
            raise ConfigError(
                f'the answer prompt "{name}" of {config.name} does not list the options: method "mcq" '
                f"needs ${{choices}}",
                where=prompt.template.where,
                hint="add a line with ${choices} to the prompt",
            )


def _judges(
    config: BenchmarkConfig, pack: PromptPack | None, given: tuple[str, ...], types: frozenset[str], folder: Path
) -> dict[str, str]:
    own = config.evaluation.judge_prompts
    judges = {**(pack.judge if pack else {}), **own.by_question_type}
    if own.default is not None:
        judges[DEFAULT] = own.default
    if own.abstention is not None:
        judges[ABSTENTION] = own.abstention
    known = types | {kind.name for kind in config.question_types} | set(judges) | {ABSTENTION, DEFAULT}
    for entry in given:
        _require_allowed(config.name, "--judge-prompt", own.user_override)
        kind, text = _kind_and_text(config.name, entry, known, folder)
        judges[kind] = read_prompt(text, folder)
    return judges


def _kind_and_text(benchmark: str, entry: str, known: Collection[str], folder: Path) -> tuple[str, str]:
    """Split ``TYPE=FILE`` or ``TYPE=TEXT`` into the question type and the FILE or TEXT. The file is not read.

    An entry without a type is the default prompt. If the benchmark does not have the type, a UsageError is raised.
    """
    kind, equals, rest = entry.partition("=")
    if not equals or (kind not in known and _is_file(folder, entry.removeprefix("@"))):
        return DEFAULT, entry
    if kind in known:
        return kind, rest
    near = did_you_mean(kind, known)
    if not near and set(kind) & set(" \n${"):
        return DEFAULT, entry
    raise UsageError(
        f'--judge-prompt: {benchmark} has no question type "{kind}"{near}',
        hint=f'types: {", ".join(sorted(known))}; if the prompt itself contains "=", write default=TEXT',
    )


def read_prompt(text: str, folder: Path) -> str:
    """Return the content of the file that ``text`` names. If it names no file, return ``text`` unchanged.

    ``text`` names a file if it has the form ``@file``, or if it is an existing path in ``folder``.

    Raises:
        ConfigError: ``@file`` or a single word does not name an existing file, or the file is not text.
    """
    named = text.removeprefix("@")
    if _is_file(folder, named):
        try:
            return (folder / named).read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ConfigError(f"prompt file {named} is not UTF-8 text", hint="save the file as UTF-8") from error
    if text.startswith("@") or not (set(text) & set(" \n{")):
        raise ConfigError(f"no such prompt file: {named}", hint="correct the path, which is relative to the workspace")
    return text


def _is_file(folder: Path, name: str) -> bool:
    try:
        return "\n" not in name and (folder / name).is_file()
    except (OSError, ValueError):  # a text too long for a name
        return False


def _require_allowed(benchmark: str, flag: str, allowed: bool) -> None:
    if not allowed:
        raise UsageError(
            f"{benchmark} does not allow {flag}",
            hint="remove the flag: the config of the benchmark forbids it (userOverride: false)",
        )


IN_EVERY_RUN = frozenset({"question", "retrievedContext", "answer", "response", "evidence"})
"""names that always have a value, from the item or from the run"""
SECTIONS = {"answer": "answerPrompt", "judge": "judgePrompts"}


@dataclass(slots=True, kw_only=True)
class _PromptCheck:
    """One prompt, and its placeholders that had no value in the items that were read so far."""

    role: str
    name: str
    template: Template
    missing: set[str]
    used: bool = False

    @classmethod
    def of(cls, role: str, name: str, template: Template) -> _PromptCheck:
        return cls(role=role, name=name, template=template, missing=set(template.needed - IN_EVERY_RUN))

    def add(self, item: Item, corpus: Corpus) -> None:
        self.used = True
        known = _filled_names(item, corpus)
        self.missing = {name for name in self.missing if fold_key(name) not in known}

    def problems(self, config: BenchmarkConfig) -> Iterator[ConfigError]:
        for name in sorted(self.missing) if self.used else ():
            yield ConfigError(
                f'the {self.role} prompt "{self.name}" needs ${{{name}}}, which no item of {config.name} has',
                where=self._place(config),
                hint=f'set the path of "{name}" in "schema", or write ${{{name}|default:\'\'}}',
            )

    def _place(self, config: BenchmarkConfig) -> str | None:
        """Return the place of the prompt in the config file.

        If the prompt is not in the config file, return the place of the prompt's template.
        """
        prompts = config.evaluation.answer_prompt if self.role == "answer" else config.evaluation.judge_prompts
        path = ("default",) if self.name == "default" else ("byQuestionType", self.name)
        given = prompts.default if self.name == "default" else prompts.by_question_type.get(self.name)
        return config.place("evaluation", SECTIONS[self.role], *path) if given is not None else self.template.where


def unfilled_names(prompts: Prompts, dataset: Dataset, *, judged: bool) -> list[ConfigError]:
    """Return an error for each placeholder that the answer prompts use and that has no value in any item.

    If ``judged`` is true, the judge prompts are checked too.
    """
    prompts_by_type: dict[str | None, list[_PromptCheck]] = {}
    known: dict[tuple[str, str], _PromptCheck] = {}
    for kind in (None, *dataset.known_types()):
        answer = prompts.answer(kind)
        chosen = [_PromptCheck.of("answer", answer.name, answer.template)]
        if judged:
            judge = prompts.judges.by_type.get(kind or "", prompts.judges.default)
            chosen.append(_PromptCheck.of("judge", judge.name, judge.template))
        prompts_by_type[kind] = [known.setdefault((one.role, one.name), one) for one in chosen]
    _read_items(dataset, prompts_by_type)
    return [problem for one in known.values() for problem in one.problems(dataset.config)]


def _read_items(dataset: Dataset, prompts_by_type: dict[str | None, list[_PromptCheck]]) -> None:
    """Read items until each name in each prompt has a value, or until all items are read."""
    for ref in dataset.items():
        if not any(one.missing for prompts in prompts_by_type.values() for one in prompts):
            return
        wanting = [one for one in prompts_by_type[ref.question_type] if one.missing]
        if not wanting:
            continue
        item, corpus = dataset.item(ref), dataset.corpus(ref.corpus)
        for one in wanting:
            if one.role == "answer" or not item.abstention:  # those have a judge prompt of their own
                one.add(item, corpus)


def _filled_names(item: Item, corpus: Corpus) -> set[str]:
    """Return the names for which the item has a value, normalized by `fold_key`.

    A name is a metadata key of the item or its corpus, or a field of the item that is not empty.
    """
    named = {**corpus.metadata, **item.metadata}
    parts = {
        "questionDate": item.question_date,
        "questionType": item.question_type,
        "choices": item.choices,
        "rubric": item.rubric,
    }
    return {fold_key(name) for name, value in named.items() if value is not None} | {
        fold_key(name) for name, value in parts.items() if value
    }
