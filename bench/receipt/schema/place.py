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
    """full hash of what was checked out; null where nobody knows it"""
    tag: Text | None
    """tag on that commit; null without one"""
    dirty: Flag | None
    """files differed from the commit (results, checkpoints and datasets aside); null without a checkout"""


class Environment(Wire):
    """The machine and the code; image and commit may be self-declared."""

    python: Text
    """version of the interpreter"""
    implementation: Text
    """which interpreter, such as CPython"""
    platform: Text
    """system and processor family, as linux/x86_64"""
    cpu: Text
    """model of the processor as the system tells it"""
    cpu_count: Natural
    """logical processors"""
    memory_bytes: Natural
    """main memory of the machine"""
    container_image: Text | None
    """image it ran in, by its own word (MEMORYBENCH_IMAGE); null outside of one"""
    container_digest: Text | None
    """digest of that image, by its own word; null outside of one"""
    lock_sha256: Hex64 | None
    """SHA-256 of the lock file of dependencies; null without one"""
    packages: Mapping[str, Text]
    """installed distribution -> version"""
    git: Git
    """the checkout of the code"""
    code_tree_sha256: Hex64
    """SHA-256 over the sorted digests of the installed package's files"""
    host_hash: Hex16
    """first 16 hex digits of SHA-256 over host name and run id: tells machines of a run apart, names none"""
