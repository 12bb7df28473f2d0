"""On how many examples a law is tried.

``make test`` tries few, the same ones each time: what it says depends on the code only. ``make test-long`` tries
thousands of random ones. A law whose examples are dear says how many of them are few::

    @settings(max_examples=examples(15))
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

FEW, MANY = 20, 3_000


def register() -> None:
    """Make both profiles known, and the short one the default; how long an example takes says nothing of the code."""
    calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("short", calm, max_examples=FEW, derandomize=True, database=None)
    settings.register_profile("long", calm, max_examples=MANY, print_blob=True)
    settings.load_profile("short")


def examples(few: int) -> int:
    """So many in the short profile, and in proportion in the one that is loaded."""
    return few * settings().max_examples // FEW
