"""The docs page on benchmarks lists exactly the flags that a dataset can have."""

from __future__ import annotations

import re
from pathlib import Path

from bench.datasets import corpus_builder as corpora
from bench.datasets import evidence

PAGE = Path(__file__).parents[2] / "docs" / "add-a-benchmark.md"


def test_the_docs_list_every_flag_of_a_dataset() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("\n## Flags\n")[2].partition("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \| (items|sessions) \|", text, flags=re.MULTILINE)
    of_sessions = (corpora.SESSION_EMPTY, corpora.SESSION_JOINED, corpora.SESSION_REPEATED)
    of_items = [value for name, value in vars(evidence).items() if name.isupper() and isinstance(value, str)]
    expected = [*((flag, "items") for flag in of_items), *((flag, "sessions") for flag in of_sessions)]
    assert sorted(listed) == sorted(expected)
