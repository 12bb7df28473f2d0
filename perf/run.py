"""Measure ``bench`` against its goals: ``python perf/run.py [--quick|--full] [--only P1,P4] [--json|--markdown]
[--gate] [--from A.json B.json C.json]``.

``--quick`` (default) takes minutes; ``--full`` uses the scales of the goals. With ``--gate`` the exit code is 1 if a
gated figure misses its goal. CPU, memory, journal and resume ratios are gated; wall times depend on the machine and
are only printed. ``--from`` measures nothing: it reads the ``--json`` output of several runs, and prints and judges
the median of each figure, with its smallest and largest value.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import engine_measures
import journal_measures
from figures import Figure, Skipped, machine, markdown, medians, table

Found = Sequence[Figure | Skipped]

MEASURES: dict[str, Callable[..., Found]] = {
    "P1": engine_measures.p1_wall,
    "P2": engine_measures.p2_cpu,
    "P3": engine_measures.p3_throughput,
    "P4": engine_measures.p4_memory,
    "P5": engine_measures.p5_crash,
    "P6": journal_measures.p6_resume_scan,
    "P7": journal_measures.p7_group_commit,
    "P8": engine_measures.p8_start,
    "P9": engine_measures.p9_limiter,
    "P10": engine_measures.p10_faults,
    "P11": journal_measures.p11_report,
    "P12": engine_measures.p12_locomo,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true")
    scale.add_argument("--full", action="store_true")
    parser.add_argument("--only", type=lambda text: text.upper().split(","), default=list(MEASURES))
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true")
    shape.add_argument("--markdown", action="store_true", help="the table of docs/performance.md")
    parser.add_argument("--gate", action="store_true")
    parser.add_argument(
        "--from", dest="earlier", type=Path, nargs="+", metavar="JSON", help="files that --json printed"
    )
    given = parser.parse_args()
    if unknown := [name for name in given.only if name not in MEASURES]:
        parser.error(f"no measure {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    if given.earlier:
        runs = [json.loads(path.read_text(encoding="utf-8")) for path in given.earlier]
        found = medians([run["figures"] for run in runs])
        machines = [run["machine"] for run in runs]
    else:
        found, machines = measured(given.only, full=given.full), [machine()]
    if given.json:
        where = {"machine": machines[0]} if len(machines) == 1 else {"machines": machines}
        print(json.dumps({**where, "figures": [asdict(one) for one in found]}, indent=2))
    else:
        print(markdown(found, machines) if given.markdown else table(found))
    missed = [one for one in found if isinstance(one, Figure) and one.gated and one.ok is False]
    sys.exit(1 if given.gate and missed else 0)


def measured(names: Sequence[str], *, full: bool) -> list[Figure | Skipped]:
    """Take each measurement, and print its figures to stderr when it is done."""
    found: list[Figure | Skipped] = []
    for name in names:
        part = MEASURES[name](full=full)
        found += part
        print(table(part), file=sys.stderr, flush=True)
    return found


if __name__ == "__main__":
    main()
