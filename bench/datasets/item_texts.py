"""Collect notes on item texts that affect scores, such as repeated questions and misleading gold answers.

Example::

    texts = ItemTexts()
    texts.add(raw, corpus="c1")
    texts.notes()        # ("1 question is repeated for the same history with another id: q1 and q7",)

Only hashes and the id of each item are kept, so that a benchmark with millions of items fits in memory.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Hashable, Sequence

from bench.datasets.history import RawSession
from bench.datasets.questions import RawItem
from bench.datasets.rows.index import IdTable
from bench.metrics.answers.text_normalization import words
from bench.patterns import pattern
from bench.visible_text import counted, has_misleading_characters

EXAMPLES = 3
LONGEST_GOLD = 2000
MISLEADING_TEXT = (
    "a gold answer, an option or an id with hidden characters, with letters that look like others (Cyrillic, Greek, "
    "full width) or with decomposed letters: a right answer can fail to match it"
)
REPEATED_OPTION = "the same option twice: if it is the gold answer, both letters are right"
_GOLDS = {
    "a gold answer that means no value, such as an empty cell of another program (nan, null, N/A)": pattern(
        r"\s*(?:nan|null|undefined|<na>|n/a|#n/a|nil|todo|tbd|\[\]|\{\})\s*", re.IGNORECASE
    ),
    "a gold answer that means no answer, but is not an abstention item, so a refusal is wrong; map abstention": (
        pattern(
            r"\W*(?:(?:the )?(?:question|answer) (?:is|can(?:not|'t) be) )?(?:un(?:answerable|answered)|unknown"
            r"|no (?:answer|information)(?: (?:available|given|possible|provided))?"
            r"|not (?:mentioned|specified|stated|available|answerable|given|provided|enough information"
            r"|in (?:the )?context)"
            r"|insufficient (?:information|context|data)|(?:i|we) (?:do not|don['’]t) know"
            r"|can(?:not|['’]t) be (?:answered|determined))\W*",
            re.IGNORECASE,
        )
    ),
    "a gold answer that is a list or object written as text; decode it (data.with: {golds: {decode: FIELD}})": pattern(
        r"\s*(?:\[\s*[\"'].*[\"']\s*\]|\{\s*[\"'].*[\"']\s*:.*\})\s*", re.DOTALL
    ),
}
"""description of a problem in a gold answer -> regular expression that finds this problem"""
LITERAL = frozenset({"exact-match", "contains"})
"""evaluators that require the gold answer literally: as the whole answer or as a part of it"""
PHRASES = frozenset({"phrases", "ordered-phrases"})
TEXTUAL = LITERAL | PHRASES | {"token-f1", "locomo-f1"}
"""evaluators that compare the words of the answer with the words of the gold answer"""
MARKED = (
    "a gold answer with marks that this evaluator compares, so an answer without these marks is wrong (a period at its "
    "end, quotes or asterisks around it, several answers with ; or |, Answer:, 2021.0, H₂O, <p>, &amp;, \\n, LaTeX, "
    "digits of another script)"
)
_PART = r"[\w'’&-]+(?: [\w'’&-]+){0,3}"
_MARKS: Sequence[tuple[frozenset[str], re.Pattern[str]]] = (
    (LITERAL, pattern(r"\s*(?=.*\w)(?:.*\w{2,}[.;,:]|[\"'“”«»*_`].*[\"'“”«»*_`])\s*", re.DOTALL)),
    (LITERAL, pattern(rf"\s*{_PART}(?:(?: *; *| / ){_PART})+\s*")),
    (PHRASES, pattern(r"[^;]*\d,\d{3}(?!\d)[^;]*")),
    (
        TEXTUAL,
        pattern(
            rf"\s*{_PART}(?: ?\| ?{_PART})+\s*|\s*-?\d+\.0\s*|\s*(?:(?:final |short |correct )?answer|a):.*",
            re.I | re.S,
        ),
    ),
    (
        TEXTUAL,
        pattern(
            r".*(?:</?[a-z][^<>@]{0,200}>|&(?:amp|quot|apos|lt|gt|nbsp|#\d{1,5});|\\[nt\"]|\\(?:text|math\w\w|boxed|frac)\b"
            r"|\\[%$&#_()]|\$[^$\n]*[\\^_{][^$\n]*\$|[\u00b2\u00b3\u00b9\u2070-\u209c]|(?![0-9])\d).*",
            re.IGNORECASE | re.DOTALL,
        ),
    ),
)
"""(evaluators, regular expression) pairs. A gold answer that matches contains marks, and these evaluators compare the
marks too"""
LEAST_LEAK, LEAST_LEAKS = 4, 4
"""minimum characters of a gold answer that its question contains, and minimum number of such questions for a note"""
LONGEST = 60
"""maximum length of an example in a note, in characters"""


class ItemTexts:
    """A collector of notes on unusual texts of items. Call ``add`` for each item and then ``notes`` once."""

    def __init__(self, method_of: Callable[[RawItem], str] = lambda _: "") -> None:
        self._method_of = method_of
        self._questions = IdTable()
        self._golds = array("q")
        self._first = IdTable()
        self._repeated: list[str] = []
        self._n_repeated = self._n_differing = 0
        self._n_answerable = 0
        self._leaks: list[str] = []
        self._n_leaks = 0
        self._signs: dict[str, tuple[int, list[str]]] = {}
        """description of a problem -> number of items with this problem, and the first few of these items"""

    def add(self, raw: RawItem, corpus: Hashable) -> None:
        """Check one item. ``corpus`` identifies the history of the item.

        Equal questions about one history are reported as repeated.
        """
        self._check(raw)
        if raw.deletion is not None:
            return
        question_hash = hash((corpus, " ".join(raw.question.lower().split()), raw.choices, raw.question_date, raw.cut))
        gold = hash((raw.answers, raw.choice_answer, raw.rubric))
        place = self._questions.add(f"{question_hash:x}")
        if place is not None:
            self._golds.append(gold)
            self._first.add(raw.id)
            return
        known = self._questions.find(f"{question_hash:x}")
        assert known is not None
        self._n_repeated += 1
        self._n_differing += gold != self._golds[known]
        if len(self._repeated) < EXAMPLES:
            self._repeated.append(f"{self._first[known]} and {raw.id}")

    def _check(self, raw: RawItem) -> None:
        gold = () if raw.choice_answer is None else (raw.choice_answer,)
        self._note(
            MISLEADING_TEXT,
            raw,
            next(
                (text for text in (raw.id, *raw.answers, *raw.choices, *gold) if has_misleading_characters(text)), None
            ),
        )
        self._note(REPEATED_OPTION, raw, _repeated_choice(raw.choices))
        if raw.abstention:
            return
        self._check_leak(raw)
        for sign, form in _GOLDS.items():
            found = next((text for text in raw.answers if len(text) < LONGEST_GOLD and form.fullmatch(text)), None)
            self._note(sign, raw, found)
        method = self._method_of(raw)
        if method in TEXTUAL and raw.answers and all(_is_marked(text, method) for text in raw.answers):
            self._note(MARKED, raw, raw.answers[0])

    def _check_leak(self, raw: RawItem) -> None:
        if raw.choices or not raw.answers:
            return
        self._n_answerable += 1
        question = f" {' '.join(words(raw.question))} "
        golds = (" ".join(words(gold)) for gold in raw.answers if len(gold) < LONGEST_GOLD)
        if any(len(gold) >= LEAST_LEAK and f" {gold} " in question for gold in golds):
            self._n_leaks += 1
            if len(self._leaks) < EXAMPLES:
                self._leaks.append(raw.id)

    def _note(self, sign: str, raw: RawItem, text: str | None) -> None:
        if text is not None:
            count, examples = self._signs.setdefault(sign, (0, []))
            self._signs[sign] = (count + 1, examples)
            if len(examples) < EXAMPLES:
                examples.append(f"{raw.id} {text[:LONGEST]!a}")

    def notes(self) -> tuple[str, ...]:
        """Return the notes on unusual texts that were found so far."""
        found = []
        if self._n_repeated:
            questions = counted(self._n_repeated, "question(|s) (is|are)")
            other = f", {self._n_differing} of them with another gold answer" if self._n_differing else ""
            found.append(
                f"{questions} repeated for the same history with another id{other}: {_joined_examples(self._repeated)}"
            )
        if self._n_leaks >= LEAST_LEAKS and 2 * self._n_leaks > self._n_answerable:
            found.append(
                counted(
                    self._n_leaks, f"of {self._n_answerable} questions (contains its|contain their) own gold answer, "
                )
                + "so an answer that repeats the question is right: perhaps questionField names the whole prompt "
                f"({', '.join(self._leaks)})"
            )
        for sign, (count, examples) in sorted(self._signs.items()):
            items = counted(count, "item(|s) (has|have)")
            found.append(f"{items} {sign}: {_joined_examples(examples)}")
        return tuple(found)


def _is_marked(text: str, method: str) -> bool:
    forms = (form for compared, form in _MARKS if method in compared)
    return len(text) < LONGEST_GOLD and any(form.fullmatch(text) is not None for form in forms)


def _repeated_choice(choices: Sequence[str]) -> str | None:
    """Return the first choice that repeats an earlier one; None if all differ. Case and white space are ignored."""
    seen: set[str] = set()
    for choice in choices:
        text = " ".join(choice.lower().split())
        if text in seen:
            return choice
        seen.add(text)
    return None


def _joined_examples(examples: Sequence[str]) -> str:
    return "; ".join(examples)


def history_key(sessions: Sequence[RawSession]) -> Hashable:
    """Return a key that is equal for equal histories.

    The key contains the numbers of sessions and turns, and the texts at the start and end of the history.
    """
    turns = [(session.turns[0].text, session.turns[-1].text) for session in sessions if session.turns]
    return (len(sessions), sum(len(session.turns) for session in sessions), *turns[:1], *turns[-1:])
