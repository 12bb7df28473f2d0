"""Run a provider that is described in a YAML file: build the requests, and read the responses by their paths.

``provider`` combines the modules of the operations, such as ``ingest`` and ``hits``. ``request`` sends the calls, and
``response`` reads the bodies.
"""

from __future__ import annotations

from bench.providers.declarative.provider import Declarative

__all__ = ["Declarative"]
