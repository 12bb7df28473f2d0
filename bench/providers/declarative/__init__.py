"""The interpreter of provider files: body trees out, typed paths in, over :mod:`bench.http`.

``request`` compiles and sends calls, ``answer`` reads bodies, ``variables`` are the request variables; ``ingesting``,
``waiting``, ``searching`` with ``hits`` and ``sources``, ``clearing`` are the phases; ``provider`` puts them together.
"""

from __future__ import annotations

from bench.providers.declarative.provider import Declarative

__all__ = ["Declarative"]
