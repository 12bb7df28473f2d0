"""The interpreter of provider files: body trees out, typed paths in, over :mod:`bench.http`.

``request`` compiles and sends calls, ``response`` reads bodies, ``variables`` are the request variables; ``ingest``,
``hits`` with ``sources`` and ``lifecycle`` (set up, wait, clear) are the phases; ``provider`` puts them together.
"""

from __future__ import annotations

from bench.providers.declarative.provider import Declarative

__all__ = ["Declarative"]
