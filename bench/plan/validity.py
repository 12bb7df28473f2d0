"""When a job has no headline number: the one rule that the exit code, the report and the receipt share.

Example::

    invalid_reasons({State.ERROR: 3, State.CORRECT: 97}, {"timeout": 3}, 100, 0.02, [])
    # ("3 of 100 items failed (error or not_ready): above the allowed 2 %",)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.journal import Probe
from bench.journal.records import Unscored
from bench.model import State
from bench.plan.judges import missing_verdicts, most_missing, scored

CHECKS = ("emptiness", "canary", "leak")
FOREIGN = "an isolation probe found foreign memories in a namespace"


def invalid_reasons(
    states: Mapping[State, int],
    error_kinds: Mapping[str, int],
    planned: int,
    max_error_rate: float,
    probes: Sequence[Probe],
    *,
    epochs: int = 1,
    unscored: Sequence[Unscored] = (),
    useless_judge: str = "",
) -> tuple[str, ...]:
    """Say why a job is INVALID; empty = valid. What is pending does not count, it may still end well.

    With ``epochs`` above 1 ``states`` and ``planned`` count repeats: of an item that failed twice in three times a
    third is known, and the report shows it as an item that ended well. Verdicts that a judge owes (``unscored``) count
    with the failures; a job of which nothing was scored, and one whose judge is no better than chance, have no number.
    """
    failed = states.get(State.ERROR, 0) + states.get(State.NOT_READY, 0)
    lost = most_missing(unscored)
    reasons = [useless_judge] if useless_judge else []
    if lost and planned and ((failed + lost) / planned > max_error_rate or not scored(states)):
        also = f" and {failed} failed" if failed else ""
        allowed = f"above the allowed {max_error_rate * 100:g} %" if scored(states) else "nothing can be said"
        reasons.append(f"{missing_verdicts(unscored, states, planned)}{also}: {allowed}")
    if planned and failed / planned > max_error_rate:
        share = f"{max_error_rate * 100:g} %"
        what = "items" if epochs == 1 else "repeats of items"
        reasons.append(f"{failed} of {planned} {what} failed (error or not_ready): above the allowed {share}")
    found = [probe for probe in deciding(probes) if not probe.passed]
    if found or error_kinds.get("contaminated"):
        reasons.append(": ".join([FOREIGN, *map(in_words, found[:1])]) + _more(found[1:]))
    return tuple(reasons)


def deciding(probes: Sequence[Probe]) -> list[Probe]:
    """Return the isolation checks that the hits of a job rest on: those of the attempts whose hits are used."""
    return [probe for probe in probes if probe.kind in CHECKS and probe.decides]


def in_words(probe: Probe) -> str:
    """Say what a check found, and name the namespaces."""
    place = f'corpus "{probe.corpus}"'
    if "namespace" in probe.data:
        place += f" (namespace {probe.data['namespace']})"
    owner = probe.data.get("of")
    whose = f' of corpus "{owner["corpus"]}" (namespace {owner["namespace"]})' if isinstance(owner, Mapping) else ""
    if probe.kind == "emptiness":
        return f"{place} held {probe.data.get('held', 'some')} memories{whose} before anything was put into it"
    return f"{place} returned a memory{whose or ' of another corpus'}"


def _more(probes: Sequence[Probe]) -> str:
    others = {probe.corpus for probe in probes}
    return f", and {len(others)} other corpora" if len(others) > 1 else ", and another corpus" if others else ""
