"""The identity of a benchmark config: one digest of everything that can change a result.

::

    config_sha256(config)       # 64 hex digits; the same for either dialect that says the same
"""

from __future__ import annotations

from bench.canonical import digest
from bench.config.benchmark import BenchmarkConfig

_APART = {"aliases", "tags", "display_name", "description", "extends", "runtime", "overlay"}
"""what describes, what has been merged in, and the overlay, which has a digest of its own in the plan"""

_ADDED = (("abstention", "equals"), ("abstention", "phrases"))
"""keys that earlier versions did not know: a config that is silent about them keeps its digest"""


def identity_tree(config: BenchmarkConfig) -> dict[str, object]:
    """The resolved config without what only describes it or says where a file lies."""
    tree = config.model_dump(mode="json", exclude=_APART)
    tree["data"].pop("local_path")
    for section, key in _ADDED:
        if tree[section][key] in (None, []):
            tree[section].pop(key)
    for role in ("answering_model", "judge"):
        if tree["evaluation"][role]["max_tokens"] is None:  # added as those above
            del tree["evaluation"][role]["max_tokens"]
    return tree


def config_sha256(config: BenchmarkConfig) -> str:
    """SHA-256 of the RFC 8785 form of `identity_tree`."""
    return digest(identity_tree(config))
