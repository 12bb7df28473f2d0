"""The interpreter of provider files: it builds request bodies and reads responses by paths, over :mod:`bench.http`.

Modules: ``request`` compiles and sends calls, ``response`` reads bodies, ``body_errors`` finds failures in them, and
``variables`` has the request variables. ``setup``, ``ingest``, ``status_poller``, ``hits`` with ``sources`` and
``clear`` implement the phases; ``provider`` combines them.
"""

from __future__ import annotations

from bench.providers.declarative.provider import Declarative

__all__ = ["Declarative"]
