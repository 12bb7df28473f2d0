"""Access to the demo: rows of the file, lines of turns, content words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property
from pathlib import Path

STOP_WORDS = frozenset(re.findall(r"\w+", """
a an the and or but of to in on at by for from with as is are was were be been do does did done have has had i me my
mine you your yours we us our he him his she her hers it its they them their this that these those what which who
whom whose when where why how much many not no if then than so too very can could would will shall should may might
must am s t re ve ll d m about into out up down over by before after one any some all there here just only also more
most other own same such again once because while during
"""))  # fmt: skip
DATES = ("%Y-%m-%dT%H:%M", "%Y/%m/%d (%a) %H:%M", "%I:%M %p on %d %B, %Y")


@dataclass(frozen=True)
class Conversation:
    """One row of demo.json."""

    row: Mapping[str, object]

    @property
    def id(self) -> str:
        return str(self.row["id"])

    @property
    def sessions(self) -> list[list[dict[str, str]]]:
        return self.row["sessions"]  # type: ignore[return-value]

    @property
    def dates(self) -> list[str]:
        return self.row["session_dates"]  # type: ignore[return-value]

    @cached_property
    def instants(self) -> list[datetime]:
        return [instant(date) for date in self.dates]

    @property
    def session_ids(self) -> list[str]:
        return self.row["session_ids"]  # type: ignore[return-value]

    @property
    def questions(self) -> list[dict[str, object]]:
        return self.row["questions"]  # type: ignore[return-value]

    @cached_property
    def turns(self) -> dict[str, dict[str, str]]:
        """Every turn by id, in file order."""
        return {turn["id"]: turn for session in self.sessions for turn in session}

    @cached_property
    def session_of(self) -> dict[str, int]:
        """Turn id -> place of its session in the file."""
        return {turn["id"]: place for place, session in enumerate(self.sessions) for turn in session}

    def evidence_text(self, question: Mapping[str, object]) -> str:
        return "\n".join(line(self.turns[turn]) for turn in evidence(question))


def read(path: Path) -> list[Conversation]:
    return [Conversation(row) for row in json.loads(path.read_text(encoding="utf-8"))]


def instant(text: str) -> datetime:
    """Read a date in one of the three formats of the demo."""
    for form in DATES:
        try:
            return datetime.strptime(text, form)
        except ValueError:
            continue
    raise AssertionError(text)


def evidence(question: Mapping[str, object]) -> list[str]:
    return question["evidence"]  # type: ignore[return-value]


def answers(question: Mapping[str, object]) -> list[str]:
    """Return the accepted texts; none for an abstention item."""
    answer = question["answer"]
    if answer is None:
        return []
    return [str(one) for one in answer] if isinstance(answer, list) else [str(answer)]


def line(turn: Mapping[str, str]) -> str:
    """Return a turn as the text of a memory."""
    caption = f" [shares {turn['caption']}]" if turn.get("caption") else ""
    return f"{turn.get('speaker') or turn['role']}: {turn['text']}{caption}"


def spoken_text(turn: Mapping[str, str]) -> str:
    """Return text and caption of the turn, without its speaker."""
    return f"{turn['text']} {turn.get('caption', '')}"


def content_words(text: str) -> set[str]:
    """Return Porter stems of the content words."""
    return {stem(word) for word in words(text) if word not in STOP_WORDS and len(word) > 1}


@cache
def stem(word: str) -> str:
    from nltk.stem import PorterStemmer  # takes seconds

    return str(PorterStemmer().stem(word))


def words(text: str) -> Iterator[str]:
    return iter(re.findall(r"\w+", text.lower()))
