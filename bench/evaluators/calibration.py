"""Measure the error rates of a judge, with built-in questions whose correct verdicts are known.

Each judge prompt of a benchmark is tested with 12 answers of each of six kinds. A reply without a readable verdict is
counted separately, and is neither right nor wrong.

Example::

    found = await calibrate(judge, prompts)
    found[0].fpr.value, found[0].noise
    PROBES[0].answer(AnswerKind.RIGHT_OTHER_WORDS)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from bench.evaluators.judge_prompts import JudgePrompt, JudgePrompts
from bench.evaluators.judged import JudgeEvaluator
from bench.evaluators.protocol import Judge
from bench.model import Interval, ScoredItem
from bench.stats import interval_wilson


class AnswerKind(StrEnum):
    """The six kinds of answers that a judge must judge in a calibration."""

    RIGHT = "right"
    RIGHT_OTHER_WORDS = "right_other_words"
    WRONG = "wrong"
    VAGUE = "vague"
    """an answer on the topic that states no fact"""
    REFUSAL = "refusal"
    OVER_LONG = "over_long"
    """a wrong answer with much text around it"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationProbe:
    """One invented question with its answers. ``padding`` is a true but irrelevant text that makes an answer longer."""

    question: str
    expected: str
    other_words: str
    wrong: str
    vague: str
    padding: str

    @property
    def rubric(self) -> str:
        return f"says: {self.expected}"

    def answer(self, kind: AnswerKind) -> str:
        """Return the question's answer of this kind."""
        return {
            AnswerKind.RIGHT: self.expected,
            AnswerKind.RIGHT_OTHER_WORDS: self.other_words,
            AnswerKind.WRONG: self.wrong,
            AnswerKind.VAGUE: self.vague,
            AnswerKind.REFUSAL: "I don't know. Nothing in our conversations tells me that.",
            AnswerKind.OVER_LONG: f"{self.padding} Taking all of that together, the answer is clear: {self.wrong} "
            f"{self.padding} I hope that helps; tell me if you would like to hear more about it.",
        }[kind]


PROBES = (
    CalibrationProbe(
        question="Which instrument did Odile take up after she retired?",
        expected="the cello",
        other_words="She began to learn violoncello once she had stopped working.",
        wrong="the accordion",
        vague="She found a musical hobby that gives her great joy.",
        padding="Odile often spoke of her last years at the office, of the farewell party and of how quiet the "
        "mornings had become.",
    ),
    CalibrationProbe(
        question="How many beehives does Tobias keep?",
        expected="7",
        other_words="He has seven of them.",
        wrong="12",
        vague="He keeps several, and he is proud of every one.",
        padding="Tobias talked a great deal about honey, about the lime trees behind the house and about a swarm that "
        "got away in June.",
    ),
    CalibrationProbe(
        question="Where did the Marchetti family spend New Year's Eve?",
        expected="in a cabin near Bovec",
        other_words="They celebrated it in a hut close to the town of Bovec.",
        wrong="in a hotel in Vienna",
        vague="They spent it somewhere in the mountains, all together.",
        padding="The Marchettis had planned that evening for months; the children were allowed to stay up and there "
        "was far too much to eat.",
    ),
    CalibrationProbe(
        question="When is Ingrid's driving test?",
        expected="on 14 March",
        other_words="She takes it on the fourteenth of March.",
        wrong="on 2 April",
        vague="It is coming up soon, and she is practising for it.",
        padding="Ingrid told me that her instructor is patient, that parking is what she fears most and that her "
        "brother failed twice.",
    ),
    CalibrationProbe(
        question="What did Ravi name his new boat?",
        expected="Marigold",
        other_words="The boat is called Marigold.",
        wrong="Sea Breeze",
        vague="He gave it a pretty name that means a lot to him.",
        padding="Ravi bought the boat second hand, scraped the hull for three weekends and borrowed a trailer from a "
        "neighbour.",
    ),
    CalibrationProbe(
        question="What is Leonie allergic to?",
        expected="hazelnuts",
        other_words="She cannot eat hazelnuts; they give her a reaction.",
        wrong="shellfish",
        vague="There is a food that she has to stay away from.",
        padding="Leonie reads every label twice, carries her tablets with her and always rings the restaurant before "
        "she goes.",
    ),
    CalibrationProbe(
        question="Which language is Mateo learning for his job?",
        expected="Estonian",
        other_words="For work he is taking lessons in the language of Estonia.",
        wrong="Finnish",
        vague="He is learning a new language and makes good progress.",
        padding="Mateo sits over his exercises every evening, complains about the fourteen cases and practises with a "
        "colleague at lunch.",
    ),
    CalibrationProbe(
        question="How much did the repair of the roof cost?",
        expected="2,400 euros",
        other_words="They paid two thousand four hundred euros for it.",
        wrong="4,200 euros",
        vague="It was more expensive than they had thought.",
        padding="The roof had leaked since the storm in autumn; two firms came to look at it and only one of them "
        "sent an offer.",
    ),
    CalibrationProbe(
        question="Who taught Hanna how to solder?",
        expected="her grandfather",
        other_words="She learned it from her mother's father.",
        wrong="her physics teacher",
        vague="Somebody close to her showed her how it is done.",
        padding="Hanna built a radio when she was eleven, burned her thumb while doing so and still has it on the "
        "shelf over her desk.",
    ),
    CalibrationProbe(
        question="What does Kofi do on Wednesday evenings?",
        expected="he sings in a choir",
        other_words="Wednesday evening is when his choir rehearses, and he sings with them.",
        wrong="he plays badminton",
        vague="He has a regular appointment then that he never misses.",
        padding="Kofi keeps a strict week: shopping on Monday, his parents on Friday, and the long run on Sunday "
        "before anyone is awake.",
    ),
    CalibrationProbe(
        question="Which city is Yara moving to?",
        expected="Porto",
        other_words="She is going to live in Porto from now on.",
        wrong="Valencia",
        vague="She is moving to a city by the sea that she has liked for long.",
        padding="Yara has given notice on her flat, sold the piano and spends her evenings wrapping glasses in old "
        "newspapers.",
    ),
    CalibrationProbe(
        question="Why did Emil miss the concert?",
        expected="his train was cancelled",
        other_words="He could not get there because the train he wanted to take did not run.",
        wrong="he had a fever",
        vague="Something got in the way at the last moment, and he was sorry about it.",
        padding="Emil had bought the tickets in spring, asked three friends along and listened to the record every "
        "day of that week.",
    ),
)


WARN_ABOVE = 0.2
"""false positive rate above which a warning about the judge is shown"""
RIGHT_KINDS: Mapping[bool, frozenset[AnswerKind]] = {
    False: frozenset({AnswerKind.RIGHT, AnswerKind.RIGHT_OTHER_WORDS}),
    True: frozenset({AnswerKind.REFUSAL}),
}
"""true for an abstention prompt, false for others -> the kinds of answers that this prompt must accept"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A share of ``n`` verdicts, and its Wilson interval. The share and the interval are None if ``n`` is 0."""

    value: float | None
    n: int
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The error rates of one judge with one judge prompt."""

    judge: str
    prompt_sha256: str
    prompt_name: str
    fpr: Rate
    """false positive rate: the share of wrong answers that are judged right"""
    fnr: Rate
    """false negative rate: the share of right answers that are judged wrong"""
    by_kind: Mapping[str, Rate]
    """kind of answer -> share of these answers that are judged right"""
    unparsed: int

    @property
    def noise(self) -> float:
        """Return the larger of the two error rates.

        If the scores of two jobs differ by less than this rate, the judge alone can cause the difference.
        """
        return max(self.fpr.value or 0.0, self.fnr.value or 0.0)


async def calibrate(
    judge: Judge, prompts: JudgePrompts, *, evaluator: JudgeEvaluator | None = None
) -> list[Calibration]:
    """Ask the judge about every calibration answer, with each distinct prompt. Return one result per prompt.

    The judge calls can cost money.
    """
    return [
        await _calibrate_prompt(judge, prompt, abstention=prompt is prompts.abstention, base=evaluator)
        for prompt in prompts.all
    ]


def calls_needed(prompts: JudgePrompts) -> int:
    """Return the number of judge calls that a calibration with these prompts makes."""
    return len(prompts.all) * sum(1 for _ in probe_answers())


def probe_answers() -> Iterator[tuple[CalibrationProbe, AnswerKind, str]]:
    """Yield each calibration question with each kind of answer and its text."""
    for probe in PROBES:
        for kind in AnswerKind:
            yield probe, kind, probe.answer(kind)


async def _calibrate_prompt(
    judge: Judge, prompt: JudgePrompt, *, abstention: bool, base: JudgeEvaluator | None
) -> Calibration:
    fixed = JudgePrompts(default=prompt, abstention=prompt)
    evaluator = JudgeEvaluator(
        prompts=fixed,
        protocol=base.protocol if base else "auto",
        threshold=base.threshold if base else 1.0,
        temperature=base.temperature if base else 0.0,
    )
    taken: dict[AnswerKind, list[bool]] = {kind: [] for kind in AnswerKind}
    unparsed: Counter[AnswerKind] = Counter()
    for probe, kind, answer in probe_answers():
        verdict = await evaluator.evaluate(_scored_item(probe, abstention), answer, (), judge)
        if verdict.correct is None:
            unparsed[kind] += 1
        else:
            taken[kind].append(verdict.correct)
    right = RIGHT_KINDS[abstention]
    accepted_wrongly = [v for kind in AnswerKind if kind not in right for v in taken[kind]]
    refused_wrongly = [not v for kind in right for v in taken[kind]]
    return Calibration(
        judge=judge.name,
        prompt_sha256=prompt.sha256,
        prompt_name=prompt.name,
        fpr=_rate(accepted_wrongly),
        fnr=_rate(refused_wrongly),
        by_kind={kind.value: _rate(taken[kind]) for kind in AnswerKind},
        unparsed=unparsed.total(),
    )


def _scored_item(probe: CalibrationProbe, abstention: bool) -> ScoredItem:
    answers = ("this was never mentioned",) if abstention else (probe.expected,)
    return ScoredItem(
        id=probe.question, question=probe.question, answers=answers, abstention=abstention, rubric=(probe.rubric,)
    )


def _rate(verdicts: Sequence[bool]) -> Rate:
    if not verdicts:
        return Rate(value=None, n=0, interval=None)
    yes = sum(verdicts)
    return Rate(value=yes / len(verdicts), n=len(verdicts), interval=interval_wilson(yes, len(verdicts)))
