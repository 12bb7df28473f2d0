"""Set the number of examples of property tests.

``make test`` tries few examples, the same ones each time, so that its result depends only on the code.
``make test-long`` tries thousands of random ones. A property with expensive examples sets its own number::

    @settings(max_examples=examples(15))
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

FEW, MANY = 20, 3_000

constants_of_modules = providers._get_local_constants


def register() -> None:
    """Register both profiles, with the short one as default; deadlines are off, because machines differ in speed."""
    calm = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.register_profile("short", calm, max_examples=FEW, derandomize=True, database=None)
    settings.register_profile("long", calm, max_examples=MANY, print_blob=True)
    settings.load_profile("short")
    providers._get_local_constants = constants


def examples(few: int) -> int:
    """Return ``few`` in the short profile, and a proportional number in the long one."""
    return few * settings().max_examples // FEW


def constants() -> Constants:
    """Return the constants in the code of the loaded modules, of which random examples are made too.

    There are none in the short profile: which modules are loaded depends on the tests before, and reading the code
    takes seconds.
    """
    return providers._local_constants if settings().derandomize else constants_of_modules()
