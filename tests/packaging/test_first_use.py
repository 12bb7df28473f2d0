"""Modules and patterns are loaded only when they are used."""

from __future__ import annotations

import re
import subprocess
import sys

from bench.patterns import METHODS, pattern


def test_a_lazy_pattern_compiles_at_its_first_use_and_equals_re_compile() -> None:
    late, now = pattern(r"(\w+)-(\d)", re.IGNORECASE), re.compile(r"(\w+)-(\d)", re.IGNORECASE)
    assert not set(METHODS) & vars(late).keys()
    assert (late.pattern, late.findall("a-1 B-2"), late.groups) == (now.pattern, now.findall("a-1 B-2"), now.groups)
    assert set(METHODS) <= vars(late).keys()


def test_importing_the_engine_loads_no_terminal_or_report_module() -> None:
    words = "import sys, bench.engine.run, bench.http.client; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"rich", "pygments", "structlog", "cyclopts", "jinja2", "cryptography", "bench.report"}
