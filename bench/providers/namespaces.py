"""Build a unique name for a namespace: a readable prefix from the provider's template, then a hash.

Example::

    namespace(config, journal=uuid, run_id="r1", benchmark="locomo", lane="locomo/chroma/-", corpus="c0", attempt=1)
    # "bench-locomo-r1-3f2a9c0d1e4b5a67"

``journal`` is a random id that each run creates. So the names differ even if two machines use the same run id.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.config.provider.config import ProviderConfig
    from bench.config.provider.sections import Sanitize

HASH_DIGITS = 16


def namespace(
    config: ProviderConfig, *, journal: str, run_id: str, benchmark: str, lane: str, corpus: str, attempt: int
) -> str:
    """Return the name of the namespace for one attempt to ingest a corpus. Different arguments give different names."""
    scoping = config.scoping
    parts = [run_id, lane, corpus, attempt]
    key = json.dumps([journal, *parts] if journal else parts).encode()
    values = {"benchmarkId": benchmark, "runId": run_id, "corpusId": corpus, "attempt": str(attempt)}
    prefix = re.sub(r"\$\{(\w+)\}", lambda match: values[match.group(1)], scoping.run_id_format)
    return _joined(prefix, hashlib.sha256(key).hexdigest()[:HASH_DIGITS], scoping.sanitize)


def _joined(prefix: str, digits: str, rules: Sanitize) -> str:
    """Join the prefix and the hash, and adapt the name to the service's rules.

    A name that is too long loses the end of its prefix, never a part of its hash.
    """
    text = re.sub(f"[^{rules.allowed}]", rules.replace, prefix)
    text = text.lower() if rules.lowercase else text
    dash = rules.replace if re.fullmatch(f"[^{rules.allowed}]", "-") else "-"
    kept = text[: rules.max_length - HASH_DIGITS - len(dash)].rstrip("-._")
    return f"{kept}{dash}{digits}" if kept else digits
