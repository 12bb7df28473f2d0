"""Choose the judge prompt of an item, and insert the item's values into it.

An abstention item (the correct reply is a refusal) uses the abstention prompt. Other items use the prompt of their
question type, or the default prompt. If an inserted value contains a tag of the prompt, the tag is escaped.

Example::

    prompts = JudgePrompts.of({"default": text, "temporal": other})
    prompts.choose(item).sha256
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bench.config.template import PromptTags, Template
from bench.errors import ConfigError
from bench.evaluators.judge_parsing import SCALES
from bench.json_reply import object_schema
from bench.model import ChatMessage, Hit, Prompt, ScoredItem
from bench.patterns import pattern

NAMES = ("question", "answer", "response", "questionType", "questionDate", "rubric", "evidence")
DEFAULT = "default"
ABSTENTION = "abstention"
INSTRUCTION_DEFAULT = "_default"
MAX_TOKENS = 1024
"""default and minimum token limit of a judge's reply; with fewer tokens, a reasoning model returns an empty reply"""

OFF_BY_ONE = (
    "\nWhere a number of days, weeks or months is asked for, a count that is one too high or one too low is "
    "still right.\n"
)
CORRECTNESS_SCHEMA = object_schema(
    correctness={"type": "number", "minimum": 0, "maximum": 1},
    faithfulness={"type": "number", "minimum": 0, "maximum": 1},
    reasoning={"type": "string"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePrompt:
    """One judge prompt. ``sha256`` is the digest of its text before values are inserted."""

    name: str
    template: Template
    markers: PromptTags = field(compare=False, repr=False)
    """the tags that the text of the prompt contains; they are escaped in inserted values"""
    asks_for_json: bool = field(compare=False, repr=False)
    """true: the prompt mentions JSON, so that the reply must follow a schema; false: the reply is a word"""

    @classmethod
    def of(cls, name: str, text: str, *, where: str | None = None) -> JudgePrompt:
        """Parse the text of a judge prompt. Its placeholders must be names in ``NAMES``.

        Raises:
            ConfigError: a placeholder is unknown, or the prompt asks for a score above 1 but not for the scale.
        """
        template = Template.parse(text, NAMES, where=where or f"judge prompt {name!r}")
        _require_readable_scale(template, text)
        return cls(name=name, template=template, markers=PromptTags.of(text), asks_for_json="json" in text.lower())

    @property
    def sha256(self) -> str:
        return self.template.sha256

    def render(self, item: ScoredItem, response: str, hits: Sequence[Hit] = ()) -> str:
        """Return the text of the prompt for one item and the answer ``response``."""
        return self.template.render(self.markers.escaped(_values(item, response, hits)))

    def ask(
        self,
        item: ScoredItem,
        response: str,
        hits: Sequence[Hit] = (),
        *,
        schema: Mapping[str, object] | None = None,
        temperature: float = 0.0,
        max_tokens: int = MAX_TOKENS,
    ) -> Prompt:
        """Create the request that is sent to the judge for one item and the answer ``response``.

        ``schema`` is sent only if the prompt asks for JSON. The token limit is at least ``MAX_TOKENS``.
        """
        return Prompt(
            messages=(ChatMessage(role="user", content=self.render(item, response, hits)),),
            max_tokens=max(max_tokens, MAX_TOKENS),
            temperature=temperature,
            json_schema=schema if self.asks_for_json else None,
            question=item.question,
            template_sha256=self.sha256,
        )


_SCALE = pattern(
    r"\b(?:rate|rating|score|grade|scale)\b[^.\n]{0,80}?"
    r"\b(?:(?P<low>[01])\s*(?:\([^()\n]{0,60}\)\s*)?(?:to|through|up to|and|-|–|—)\s*|out of\s+)"
    r"(?P<top>\d{1,3})\b(?![.]\d)(?!\s+(?:words?|sentences?|lines?|turns?|items?|minutes?|hours?|days?|weeks?|months?)\b)",
    re.IGNORECASE,
)
"""a scale of scores in the text of a prompt: ``Rate it from 1 (wrong) to 5 (right)``, ``a score out of 10``"""


def _require_readable_scale(template: Template, text: str) -> None:
    """Raise ConfigError if the prompt asks for scores above 1, but does not let the judge state the scale.

    A score such as ``4`` is read as a number from 0 to 1. A score such as ``4/5`` states its scale.
    """
    for found in _SCALE.finditer(text):
        top = int(found["top"])
        if top > 1 and not re.search(rf"/\s*{top}\b", text) and not any(f'"{key}"' in text.lower() for key in SCALES):
            raise ConfigError(
                f"the prompt asks for a score of {found['low'] or 0} to {top}; bench reads a plain number as 0 to 1",
                where=template.where,
                hint=f'let the judge write the maximum too, such as 1/{top} or {{"score": 1, "max_score": {top}}}',
            )


def _values(item: ScoredItem, response: str, hits: Sequence[Hit]) -> dict[str, str]:
    """Return a map from placeholder name to value for a judge prompt.

    Empty values are left out, except question and response.
    """
    date = item.question_date
    texts = [hit.content for hit in hits] or item.evidence_texts
    values = {"question": item.question, "response": response}
    if answer := " / ".join(item.answers):
        values["answer"] = answer
    if item.question_type is not None:
        values["questionType"] = item.question_type
    if date is not None:
        values["questionDate"] = f"{date:%Y-%m-%d %H:%M}"
    if item.rubric:
        values["rubric"] = "\n".join([f"{n}. {line}" for n, line in enumerate(item.rubric, start=1)])
    if evidence := "\n".join(texts):
        values["evidence"] = evidence
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgePrompts:
    """All judge prompts of a benchmark: the default, the abstention prompt, and prompts by question type."""

    default: JudgePrompt
    abstention: JudgePrompt
    by_type: Mapping[str, JudgePrompt] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        texts: Mapping[str, str] | None = None,
        *,
        prompt_of_type: Mapping[str, str] | None = None,
        off_by_one: Sequence[str] = (),
        instructions: Mapping[str, str] | None = None,
    ) -> JudgePrompts:
        """Create the judge prompts of a benchmark. Generic prompts are used where ``texts`` has no prompt.

        ``texts`` has the keys ``default``, ``abstention`` or a question type. ``prompt_of_type`` maps a question type
        to a key of ``texts``. ``off_by_one`` lists question types for which a number that differs by 1 is right.
        ``instructions`` maps a question type or ``_default`` to extra sentences for the judge.
        """
        from bench.evaluators.packs import generic_prompt

        given = dict(texts or {})
        default = given.pop(DEFAULT, None) or generic_prompt("default")
        abstention = given.pop(ABSTENTION, None) or generic_prompt("abstention")
        described = instructions or {}
        aliases = prompt_of_type or {}
        named: dict[str, tuple[str, str]] = {name: (name, text) for name, text in given.items()}
        for kind in {*aliases, *off_by_one, *described} - {INSTRUCTION_DEFAULT}:
            wanted = aliases.get(kind)
            named.setdefault(kind, named.get(wanted or "", (DEFAULT, default)))
        return cls(
            default=JudgePrompt.of(
                DEFAULT, _with_instructions(default, described.get(INSTRUCTION_DEFAULT), off_by_one=False)
            ),
            abstention=JudgePrompt.of(ABSTENTION, abstention),
            by_type={
                kind: JudgePrompt.of(
                    name,
                    _with_instructions(
                        text, described.get(kind, described.get(INSTRUCTION_DEFAULT)), off_by_one=kind in off_by_one
                    ),
                )
                for kind, (name, text) in named.items()
            },
        )

    def choose(self, item: ScoredItem) -> JudgePrompt:
        """Return the judge prompt of an item.

        This is the abstention prompt for abstention items. Other items use the prompt of their question type, or the
        default.
        """
        if item.abstention:
            return self.abstention
        return self.by_type.get(item.question_type or "", self.default)

    @property
    def all(self) -> tuple[JudgePrompt, ...]:
        """Return all prompts without repetitions."""
        found = {p.sha256: p for p in (self.default, self.abstention, *self.by_type.values())}
        return tuple(found.values())


def _with_instructions(text: str, instruction: str | None, *, off_by_one: bool) -> str:
    described = f"\nFor questions of this kind: {instruction.replace('${', '$${')}\n" if instruction else ""
    return text + described + (OFF_BY_ONE if off_by_one else "")
