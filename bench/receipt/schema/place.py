"""Where it was measured: machine, interpreter, packages, code. Image and commit may be self-declared.

Example::

    receipt.environment.git.dirty
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.receipt.wire import Flag, Hex16, Hex40, Hex64, Natural, Text, Wire


class Git(Wire):
    """The checkout as it was before the run's first write."""

    commit: Hex40 | None
    tag: Text | None
    dirty: Flag | None


class Environment(Wire):
    """The machine and the code; image and commit may be self-declared."""

    python: Text
    implementation: Text
    platform: Text
    cpu: Text
    cpu_count: Natural
    memory_bytes: Natural
    container_image: Text | None
    container_digest: Text | None
    lock_sha256: Hex64 | None
    packages: Mapping[str, Text]
    git: Git
    code_tree_sha256: Hex64
    host_hash: Hex16
