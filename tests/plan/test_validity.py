"""Reasons that make a job INVALID."""

from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from bench.journal import ProbeRow
from bench.model import State
from bench.plan.validity import invalid_reasons
from tests.rows import each_row

FOREIGN = "an isolation probe found foreign memories in a namespace"
HELD = 'corpus "a" held some memories before this run added any'
LEAKED = 'corpus "a" returned a memory of another corpus'

Kind = Literal["emptiness", "sentinel", "canary", "leak"]


def probe(corpus: str, *, kind: Kind = "emptiness", passed: bool = False, last: bool = True) -> ProbeRow:
    return ProbeRow(lane="l", corpus=corpus, attempt=1, kind=kind, passed=passed, last=last)


def failed(count: int, planned: int, allowed: str) -> str:
    return f"{count} of {planned} items failed (error or not_ready): above the allowed {allowed}"


@each_row(
    ("states", "planned", "allowed", "reasons"),
    [
        ({}, 100, 0.02, ()),
        ({State.CORRECT: 100}, 100, 0.02, ()),
        ({State.ERROR: 2}, 100, 0.02, ()),
        ({State.ERROR: 3}, 100, 0.02, (failed(3, 100, "2%"),)),
        ({State.NOT_READY: 3}, 100, 0.02, (failed(3, 100, "2%"),)),
        ({State.ERROR: 1, State.NOT_READY: 2}, 100, 0.02, (failed(3, 100, "2%"),)),
        ({State.ERROR: 1}, 100, 0.0, (failed(1, 100, "0%"),)),
        ({State.ERROR: 100}, 100, 1.0, ()),
        ({State.ERROR: 1}, 3, 0.333, (failed(1, 3, "33.3%"),)),
        ({State.INCORRECT: 100}, 100, 0.0, ()),
        ({State.UNSCORED: 50, State.UNSUPPORTED: 50}, 100, 0.0, ()),
        ({State.ERROR: 1}, 0, 0.02, ()),
    ],
)
def test_a_job_is_invalid_only_if_failed_items_exceed_the_allowed_rate(
    states: dict[State, int], planned: int, allowed: float, reasons: tuple[str, ...]
) -> None:
    assert invalid_reasons(states, {}, planned, allowed, []) == reasons


@each_row(
    ("kinds", "probes", "reasons"),
    [
        ({}, [], ()),
        ({"timeout": 5}, [], ()),
        ({}, [probe("a", passed=True)], ()),
        ({}, [probe("a", kind="sentinel")], ()),
        ({}, [probe("a", last=False)], ()),
        ({}, [probe("a", kind="leak", last=False)], (f"{FOREIGN}: {LEAKED}",)),
        ({}, [probe("a")], (f"{FOREIGN}: {HELD}",)),
        ({"contaminated": 1}, [], (FOREIGN,)),
        ({"contaminated": 0}, [], ()),
        ({"contaminated": 2}, [probe("a"), probe("b")], (f"{FOREIGN}: {HELD}, and another corpus",)),
        ({}, [probe("a"), probe("b"), probe("c")], (f"{FOREIGN}: {HELD}, and 2 other corpora",)),
    ],
)
def test_foreign_memories_make_a_job_invalid_and_are_named_once(
    kinds: dict[str, int], probes: list[ProbeRow], reasons: tuple[str, ...]
) -> None:
    assert invalid_reasons({}, kinds, 100, 0.02, probes) == reasons


def test_a_leak_names_both_namespaces() -> None:
    data = {"namespace": "bench-a", "of": {"corpus": "b", "namespace": "bench-b"}}
    leak = ProbeRow(lane="l", corpus="a", attempt=1, kind="leak", passed=False, data=data)
    assert invalid_reasons({}, {}, 100, 0.02, [leak]) == (
        f'{FOREIGN}: corpus "a" (namespace bench-a) returned a memory of corpus "b" (namespace bench-b)',
    )


def test_with_epochs_each_repeat_counts() -> None:
    assert invalid_reasons({State.ERROR: 2}, {}, 100, 0.02, [], epochs=5) == ()
    assert invalid_reasons({State.ERROR: 3}, {}, 100, 0.02, [], epochs=5) == (
        "3 of 100 repeats of items failed (error or not_ready): above the allowed 2%",
    )


def test_all_reasons_are_listed() -> None:
    found = invalid_reasons({State.ERROR: 9}, {"contaminated": 9}, 10, 0.02, [probe("a")])
    assert found == (failed(9, 10, "2%"), f"{FOREIGN}: {HELD}")


@given(errors=st.integers(0, 50), late=st.integers(0, 50), more=st.integers(0, 50), allowed=st.floats(0, 1))
def test_more_failures_never_make_an_invalid_job_valid(errors: int, late: int, more: int, allowed: float) -> None:
    states = {State.ERROR: errors, State.NOT_READY: late}
    now = invalid_reasons(states, {}, 100, allowed, [])
    assert bool(now) == ((errors + late) / 100 > allowed)
    later = invalid_reasons({**states, State.ERROR: errors + more}, {}, 100, allowed, [])
    assert not now or later
