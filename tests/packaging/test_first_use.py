"""What a run does not need is not there before its first call."""

from __future__ import annotations

import re
import subprocess
import sys

from bench.patterns import METHODS, pattern


def test_a_pattern_is_what_re_compiles_from_its_first_use_on() -> None:
    late, now = pattern(r"(\w+)-(\d)", re.IGNORECASE), re.compile(r"(\w+)-(\d)", re.IGNORECASE)
    assert not set(METHODS) & vars(late).keys()
    assert (late.pattern, late.findall("a-1 B-2"), late.groups) == (now.pattern, now.findall("a-1 B-2"), now.groups)
    assert set(METHODS) <= vars(late).keys()


def test_the_engine_loads_neither_a_terminal_nor_a_report() -> None:
    words = "import sys, bench.engine.run, bench.http.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"rich", "pygments", "structlog", "cyclopts", "jinja2", "cryptography", "bench.report"}
