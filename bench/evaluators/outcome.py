"""How an item ends, from its verdict; and what counts as a refusal to answer.

Example::

    state_of(verdict, answerable=True)          # State.PARTIAL for a value of 0.5
    is_refusal("I don't know.")                 # True
"""

from __future__ import annotations

import re
from functools import lru_cache

from bench.model import State, Verdict

_SPACES = re.compile(r"[\s\ufeff]+")
_MARKS = str.maketrans("", "", '*_`"“”')
_UNKNOWN = re.compile(
    r"(?:i'm sorry|i am sorry|sorry|unfortunately)?[,. ]*(?:but )?(?:"
    r"i (?:really |just |honestly )?(?:do not|don't|dont) (?:know|remember|recall|have (?:that|this|the|any|enough))"
    r"|i'?m (?:not sure|unsure)|i am (?:not sure|unsure)"
    r"|i (?:cannot|can't|could not|couldn't|am unable to|'m unable to) "
    r"(?:answer|tell|find|determine|say|recall|remember|help)"
    r"|(?:there is |there's )?(?:no|not enough|insufficient) (?:such )?"
    r"(?:information|info|mention|memory|memories|data|record)"
    r"|(?:it |this |that |the answer )?(?:is |was )?(?:not|never) "
    r"(?:mentioned|stated|specified|known|available|provided|given)"
    r"|(?:the answer is |it is |it's )?(?:unknown|unclear|n/a|not applicable|unanswerable)\W*$"
    r"|(?:the )?(?:memories|context|conversations?|information|provided [\w ]+) (?:do|does|did) ?(?:not|n't) "
    r"(?:say|mention|contain|include|provide|specify|hold|tell)"
    r")"
)


@lru_cache(maxsize=64)  # every judge of an answer asks
def is_refusal(answer: str) -> bool:
    """Whether an answer declines to answer: it is empty, or *begins* by saying that it is not known.

    Only the beginning counts, so "Paris, though I don't know the street" is an answer. This is the rule of
    the deterministic evaluators; a judge's own verdict decides for judged ones.
    """
    text = _SPACES.sub(" ", answer.replace("’", "'").translate(_MARKS)).strip().lower()
    return not text or _UNKNOWN.match(text) is not None


def state_of(verdict: Verdict | None, *, answerable: bool, threshold: float = 1.0) -> State:
    """The item's state, from the verdict of its first evaluator.

    No verdict at all: measured (nothing was evaluated). A verdict without a value: unscored. A refusal on
    an answerable item: abstained.
    """
    if verdict is None:
        return State.MEASURED
    if verdict.value is None:
        return State.UNSCORED
    if verdict.abstained and answerable:
        return State.ABSTAINED
    correct = verdict.correct if verdict.correct is not None else verdict.value >= threshold
    if correct:
        return State.CORRECT
    return State.PARTIAL if 0 < verdict.value < threshold else State.INCORRECT
