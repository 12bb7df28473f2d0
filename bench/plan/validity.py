"""When a job has no headline number: the one rule that the exit code, the report and the receipt share.

Example::

    invalid_reasons({State.ERROR: 3, State.CORRECT: 97}, {"timeout": 3}, 100, 0.02, 0)
    # ("3 of 100 items failed (error or not_ready): above the allowed 2 %",)
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.model import State


def invalid_reasons(
    states: Mapping[State, int],
    error_kinds: Mapping[str, int],
    planned: int,
    max_error_rate: float,
    failed_probes: int,
    *,
    epochs: int = 1,
) -> tuple[str, ...]:
    """Say why a job is INVALID; empty = valid. What is pending does not count, it may still end well.

    With ``epochs`` above 1 ``states`` and ``planned`` count repeats: of an item that failed twice in three times a
    third is known, and the report shows it as an item that ended well.
    """
    failed = states.get(State.ERROR, 0) + states.get(State.NOT_READY, 0)
    reasons = []
    if planned and failed / planned > max_error_rate:
        share = f"{max_error_rate * 100:g} %"
        what = "items" if epochs == 1 else "repeats of items"
        reasons.append(f"{failed} of {planned} {what} failed (error or not_ready): above the allowed {share}")
    if failed_probes or error_kinds.get("contaminated"):
        reasons.append("an isolation probe found foreign memories in a namespace")
    return tuple(reasons)
