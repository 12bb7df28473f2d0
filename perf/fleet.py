"""Run real memory systems, one after the other: ``make fleet SYSTEMS="chroma pgvector mem0-library"``.

Each system is installed with a pinned version into its own environment below ``.servers`` (or MEMORYBENCH_SERVERS),
started on its own port of 127.0.0.1, checked by ``bench doctor``, measured by ``bench run``, and stopped by its pid.
All systems use one endpoint for embeddings with real weights (`perf/fleet_models.py`), so a store that ranks by cosine
must agree with ``vector``, which computes it exactly. The output ends with a table, which explains differences.

The demo is measured; ``BENCHMARKS="locomo locomo-turns"`` measures others, whose data is in ``WORKSPACE=folder``.
Ctrl-C stops all processes that were started. A system that is not available as a package is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.contract import servers

ROOT = servers.ROOT
MODEL = "openai/all-MiniLM-L6-v2-int8"
KEY = "sk-of-this-machine-only"
NOISE = 0.01
"""difference in nDCG that an approximate index may have from exact cosine"""


@dataclass(frozen=True, kw_only=True)
class FleetSystem:
    """The start and the configuration of one system."""

    package: str
    provider: str
    start: Callable[[Path, str], AbstractContextManager[dict[str, str]]]
    """context manager: (folder, model endpoint) -> environment variables of the run"""
    edits: tuple[tuple[str, str], ...] = ()
    """(old, new) texts to replace in the shipped config"""
    inside: bool = False
    """True for a library: bench runs in the environment of the system"""
    why: str = ""
    """why its ranking may differ from that of ``vector``"""


@contextmanager
def _chroma(folder: Path, models: str) -> Iterator[dict[str, str]]:
    with servers.chroma(folder) as url:
        yield {"CHROMA_URL": url}


@contextmanager
def _pgvector(folder: Path, models: str) -> Iterator[dict[str, str]]:
    with servers.postgres() as url:
        yield {"PGVECTOR_URL": url}


@contextmanager
def _nothing(folder: Path, models: str) -> Iterator[dict[str, str]]:
    yield {}


@contextmanager
def _agent_memory(folder: Path, models: str) -> Iterator[dict[str, str]]:
    from tests.fleet.memory_servers import agent_memory

    with agent_memory(folder, models) as url:
        yield {"AGENT_MEMORY_URL": url}


@contextmanager
def _letta(folder: Path, models: str) -> Iterator[dict[str, str]]:
    from tests.fleet.memory_servers import letta

    with letta(folder, models) as url:
        yield {"LETTA_BASE_URL": url, "LETTA_MODEL": "openai-proxy/gpt-4o-mini"}


@contextmanager
def _hindsight(folder: Path, models: str) -> Iterator[dict[str, str]]:
    from tests.fleet.hindsight_server import hindsight

    with hindsight(folder, models) as url:
        yield {"HINDSIGHT_API_URL": url}


SYSTEMS = {
    "chroma": FleetSystem(package="chroma", provider="chroma", start=_chroma),
    "pgvector": FleetSystem(package="pgvector", provider="pgvector", start=_pgvector),
    "langmem": FleetSystem(package="langmem", provider="langmem", start=_nothing, inside=True),
    "mem0-library": FleetSystem(
        package="mem0",
        provider="mem0-library",
        start=_nothing,
        edits=(
            ("infer: true", "infer: false"),
            ("unit: session", "unit: benchmark"),
            ("dimensions: 1536", "dimensions: 384"),
            ("embedder: text-embedding-3-small", f"embedder: {MODEL.partition('/')[2]}"),
        ),
        inside=True,
        why="each text begins with its date, which the embedding reads too; no model extracts anything",
    ),
    "hindsight": FleetSystem(
        package="hindsight",
        provider="hindsight",
        start=_hindsight,
        edits=(("  # - {name: verbatim", "  - {name: verbatim"),),
        why="semantic, keyword and graph recall together, within a budget of tokens; texts as they are",
    ),
    "agent-memory-server": FleetSystem(
        package="agent-memory-server", provider="agent-memory-server", start=_agent_memory
    ),
    "letta": FleetSystem(package="letta", provider="letta", start=_letta),
}
ALIASES = {"mem0-oss": ("mem0-library", "mem0's REST server is in no package: its library is measured, same version")}


@dataclass(kw_only=True)
class FleetRow:
    """One row of the table."""

    system: str
    benchmark: str = "demo"
    version: str = "-"
    doctor: str = "-"
    metrics: Mapping[str, float] = field(default_factory=dict)
    took_s: float = 0.0
    note: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        shown = [f"{self.metrics[one]:.4f}" if one in self.metrics else "-" for one in ("hit_at_10", "ndcg_at_10")]
        p50 = self.metrics.get("latency_p50")
        took = f"{self.took_s:.0f}" if self.took_s else "-"
        middle = "-" if p50 is None else f"{p50:.1f}"
        return (self.system, self.benchmark, self.version, self.doctor, *shown, took, middle, self.note)


HEADER = ("system", "benchmark", "version", "doctor", "hit@10", "nDCG@10", "run s", "p50 ms", "against exact cosine")


@dataclass(frozen=True, kw_only=True)
class Fleet:
    """One workspace and the model endpoint for all systems."""

    workspace: Path
    models: str
    benchmarks: Sequence[str]

    def bench(self, python: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a bench command in the workspace."""
        own = {"OPENAI_BASE_URL": self.models, "OPENAI_API_KEY": KEY, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [str(python), "-m", "bench", *arguments],
            cwd=self.workspace,
            env={**os.environ, **own, **more},
            text=True,
            check=False,
            capture_output=True,
        )

    def measured(
        self, python: Path, providers: Sequence[str], name: str, benchmark: str, **more: str
    ) -> dict[str, FleetRow]:
        """Run a benchmark and return one row per provider; only the demo can be answered without a model."""
        began, run_id = time.monotonic(), f"fleet-{name}" + ("" if benchmark == "demo" else f"-{benchmark}")
        answers = "builtin/extractive" if benchmark == "demo" else "none"
        flags = ("--embedding-model", MODEL, "--answering-model", answers, "--run-id", run_id)
        done = self.bench(python, "run", "--benchmarks", benchmark, "--providers", *providers, *flags, **more)
        took_s = time.monotonic() - began
        told = self.bench(Path(sys.executable), "results", run_id, "--json")
        if told.returncode:
            raise RuntimeError(f"{run_id}: exit {done.returncode}\n{done.stderr[-1500:]}")
        rows = {}
        for job in json.loads(told.stdout)["jobs"]:
            values = {name: one["value"] for name, one in job["metrics"].items() if one["value"] is not None}
            note = "" if job["valid"] else f"INVALID: {'; '.join(map(str, job['invalid']))}"
            rows[str(job["provider"])] = FleetRow(
                system=str(job["provider"]),
                benchmark=benchmark,
                metrics=values,
                took_s=took_s / len(providers),
                note=note,
            )
        return rows

    def base(self) -> dict[str, dict[str, FleetRow]]:
        """Measure the baselines on each benchmark; other systems are compared with ``vector``."""
        found = {}
        for one in self.benchmarks:
            found[one] = self.measured(Path(sys.executable), ["bm25", "vector"], "base", one)
            found[one]["vector"].note = "exact cosine"
        return found

    def _edit(self, system: FleetSystem) -> None:
        if system.edits:
            name = f"configs/providers/{system.provider}.yaml"
            text = (ROOT / name).read_text(encoding="utf-8")
            for old, new in system.edits:
                text = text.replace(old, new)
            (self.workspace / name).parent.mkdir(parents=True, exist_ok=True)
            (self.workspace / name).write_text(text, encoding="utf-8")

    def rows(self, name: str, exact: Mapping[str, Mapping[str, FleetRow]]) -> list[FleetRow]:
        """Start one system, run the doctor and each benchmark, and stop it."""
        system = SYSTEMS[name]
        python = servers.python_of(system.package) if system.inside else Path(sys.executable)
        self._edit(system)
        with (
            tempfile.TemporaryDirectory(prefix="bench-fleet-", ignore_cleanup_errors=True) as scratch,
            system.start(Path(scratch), self.models) as variables,
        ):
            doctor = self.bench(python, "doctor", system.provider, "--embedding-model", MODEL, "--json", **variables)
            rows = [
                self.measured(python, [system.provider], name, one, **variables)[system.provider]
                for one in self.benchmarks
            ]
        report = json.loads(doctor.stdout) if doctor.stdout.startswith("{") else {"version": "-", "checks": []}
        passed = sum(check["outcome"] == "pass" for check in report["checks"])
        failed = [check["name"] for check in report["checks"] if check["outcome"] == "fail"]
        for row in rows:
            row.system, row.version = name, report["version"]
            row.doctor = f"{passed}/{len(report['checks'])}" + (f" fails: {', '.join(failed)}" if failed else "")
            row.note = row.note or _against(row, exact[row.benchmark]["vector"], system.why)
        return rows


def _against(row: FleetRow, exact: FleetRow, why: str) -> str:
    difference = row.metrics["ndcg_at_10"] - exact.metrics["ndcg_at_10"]
    if not difference and row.metrics["hit_at_10"] == exact.metrics["hit_at_10"]:
        return "equal"
    if abs(difference) <= NOISE:
        return f"within noise ({difference:+.4f})"
    return f"{difference:+.4f}: {why or 'not explained: look at its run'}"


@contextmanager
def model_endpoint(folder: Path) -> Iterator[str]:
    """Start the endpoint with real embeddings and a stand-in for a language model."""
    port = servers.free_port()
    command = [str(servers.python_of("embedder")), str(ROOT / "perf" / "fleet_models.py"), str(port)]
    with (folder / "models.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            servers.until_open(port, process, folder / "models.log")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            servers.end(process)


def table(found: Sequence[FleetRow]) -> str:
    """Return the rows as aligned columns."""
    lines = [HEADER, *(row.cells for row in found)]
    widths = [max(len(line[at]) for line in lines) for at in range(len(HEADER))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def measure(names: Sequence[str], benchmarks: Sequence[str], workspace: Path) -> list[FleetRow]:
    """Install, start and measure the systems; a failure becomes a row with its reason."""
    for package in dict.fromkeys(["embedder", *(SYSTEMS[name].package for name in names)]):
        if not servers.installed(package):
            print(f"fleet: installing {package}", flush=True)
            servers.install(package)
    workspace.mkdir(parents=True, exist_ok=True)
    with model_endpoint(workspace) as url:
        fleet = Fleet(workspace=workspace, models=url, benchmarks=benchmarks)
        print("fleet: bm25 and vector", flush=True)
        base = fleet.base()
        rows = [row for one in benchmarks for row in base[one].values()]
        for name in names:
            print(f"fleet: {name}", flush=True)
            try:
                rows += fleet.rows(name, base)
            except (OSError, RuntimeError, subprocess.SubprocessError, pytest.fail.Exception) as error:
                rows.append(FleetRow(system=name, note=f"failed: {str(error).strip()[-300:]}"))
    return rows


def main(arguments: Sequence[str]) -> int:
    """Print the table; return 1 if a system was not measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("systems", nargs="*", default=["chroma", "pgvector", "mem0-library"])
    parser.add_argument("--benchmarks", nargs="+", default=["demo"])
    parser.add_argument("--workspace", type=Path, default=None, help="keeps the runs; without it they are deleted")
    given = parser.parse_args(arguments)
    wanted = list(dict.fromkeys(given.systems or ["chroma", "pgvector", "mem0-library"]))
    unknown = [name for name in wanted if name not in SYSTEMS | ALIASES]
    if unknown:
        print(f"error: no system {', '.join(unknown)}; known: {', '.join((*SYSTEMS, *ALIASES))}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for name in wanted:
        if name in ALIASES:
            print(f"fleet: {name}: {ALIASES[name][1]}", flush=True)
    names = list(dict.fromkeys(ALIASES[name][0] if name in ALIASES else name for name in wanted))
    with tempfile.TemporaryDirectory(prefix="bench-fleet-runs-") as scratch:
        try:
            rows = measure(names, given.benchmarks, given.workspace or Path(scratch))
        except KeyboardInterrupt:
            print("fleet: ended by a signal; everything it started is stopped", file=sys.stderr)
            return 130
    print(table(rows))
    return int(any(row.note.startswith(("failed", "INVALID")) for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
