"""Where a run was made: machine and code, as they were journaled before the first call.

    environment(reader.meta).git.commit

Nothing is read anew: whoever signs may sit at another machine, on another commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from bench.journal import RunMeta
from bench.receipt import schema
from bench.receipt.stored import NO_DIGEST, UNKNOWN, commit_or_none, integer, text_or_none, tree


def environment(meta: RunMeta) -> schema.Environment:
    """The receipt's environment."""
    machine = tree(meta.extra.get("environment"))
    text = {name: str(machine.get(name) or UNKNOWN) for name in ("python", "implementation", "platform", "cpu")}
    return schema.Environment(
        **text,
        cpu_count=integer(machine.get("cpuCount")),
        memory_bytes=integer(machine.get("memoryBytes")),
        container_image=text_or_none(machine.get("containerImage")),
        container_digest=text_or_none(machine.get("containerDigest")),
        lock_sha256=text_or_none(machine.get("lockSha256")),
        packages=cast("Mapping[str, str]", tree(machine.get("packages"))),
        git=_git(meta),
        code_tree_sha256=str(machine.get("codeTreeSha256") or NO_DIGEST),
        host_hash=str(machine.get("hostHash") or "0" * 16),
    )


def _git(meta: RunMeta) -> schema.Git:
    code = meta.code_state
    return schema.Git(
        commit=commit_or_none(code.get("commit")),
        tag=text_or_none(code.get("tag")),
        dirty=cast("bool | None", code.get("dirty")),
    )
