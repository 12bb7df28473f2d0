"""Interpret provider files: build the requests that a file describes, and read the responses by its paths.

Modules: ``request`` compiles and sends calls, ``response`` reads bodies, ``body_errors`` finds failures in them, and
``variables`` has the request variables. ``setup``, ``ingest``, ``status_poller``, ``hits``, ``sources`` and ``clear``
implement the operations of a provider; ``provider`` combines these.
"""

from __future__ import annotations

from bench.providers.declarative.provider import Declarative

__all__ = ["Declarative"]
