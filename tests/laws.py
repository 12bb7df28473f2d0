"""Set the number of examples of property tests.

``make test`` tries few examples, the same ones each time, so that its result depends only on the code.
``make test-long`` tries thousands of random ones. A property with expensive examples sets its own number::

    @settings(max_examples=examples(15))
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

FEW, MANY = 20, 3_000


def register() -> None:
    """Register both profiles, with the short one as default; deadlines are off, because machines differ in speed."""
    calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("short", calm, max_examples=FEW, derandomize=True, database=None)
    settings.register_profile("long", calm, max_examples=MANY, print_blob=True)
    settings.load_profile("short")


def examples(few: int) -> int:
    """Return ``few`` in the short profile, and a proportional number in the long one."""
    return few * settings().max_examples // FEW
