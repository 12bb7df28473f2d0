"""Answers in other languages and other spellings: refusals, digits, digit grouping, markup."""

from __future__ import annotations

import pytest

from tests.reality.chat_stub import completion
from tests.reality.test_answers import Job, Serve, job, own, serve, workspace

__all__ = ["job", "serve", "workspace"]


@pytest.mark.parametrize(
    ("refusal", "detail"),
    [
        ("Jag vet inte.", "I Lund, men gatan nämns inte."),
        ("در این مکالمه به آن اشاره نشده است.", "در لوند، اما خیابان ذکر نشده است."),
        ("V rozhovoru o tom není žádná zmínka.", "V Brně, ale ulice není uvedena."),
    ],
)
def test_a_refusal_is_right_where_nothing_is_known_and_a_detail_that_is_missing_is_no_refusal(
    refusal: str, detail: str, serve: Serve, job: Job
) -> None:
    serve(own([completion(refusal), completion(detail)], completion(refusal)))
    found = job(benchmark="abst")
    assert found["counts"] == {"abstained": 1, "incorrect": 1, "correct": 2}
    assert found["metrics"]["accuracy"]["value"] == 0.5
