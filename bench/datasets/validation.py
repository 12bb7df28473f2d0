"""Check a benchmark for ``bench validate``: find errors in its config and its data, and collect notes.

Example::

    report = validate_benchmark(Path("configs/benchmarks/demo.yaml"), catalog)
    report.errors, report.notes
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.sections import MetricEntry
from bench.config.catalog import Catalog
from bench.config.file import nearest
from bench.datasets.dataset import Dataset, open_benchmark
from bench.datasets.evidence import CoverageGap, require_coverage
from bench.datasets.rows.data_file import download_hint, find_file, is_shipped
from bench.errors import BenchError, ConfigError, DataError, UnknownMetric
from bench.metrics import names, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """The errors and notes from the validation of one config file."""

    path: Path
    name: str | None = None
    errors: tuple[BenchError, ...] = ()
    notes: tuple[str, ...] = ()
    dataset: Dataset | None = None
    """the data of the benchmark; None if the data is not on disk or is invalid"""

    @property
    def ok(self) -> bool:
        return not self.errors


def validate_benchmark(path: Path, catalog: Catalog) -> Validation:
    """Check one benchmark file, and check its data if the data is on disk."""
    try:
        config = catalog.read_benchmark(path)
    except ConfigError as error:
        return Validation(path=path, errors=tuple(error.problems) or (error,))
    errors: list[BenchError] = list(metric_errors(config))
    errors += plugin_errors(config, catalog.workspace)
    notes = list(config.notes)
    if find_file(config, catalog.workspace) is None and not is_shipped(config):
        notes.append(f"the data is not on disk: {download_hint(config)}")
        return Validation(path=path, name=config.name, errors=tuple(errors), notes=tuple(notes))
    dataset: Dataset | None = None
    try:
        dataset = open_benchmark(config, catalog.workspace)
        notes = list(dataset.notes)
        check_coverage(dataset)
    except (DataError, ConfigError) as error:
        errors.append(error)
        dataset = None
    return Validation(path=path, name=config.name, errors=tuple(errors), notes=tuple(notes), dataset=dataset)


def check_coverage(dataset: Dataset) -> None:
    """Raise a DataError if the memories do not contain all evidence. The message lists the items.

    Nothing is checked if the evidence never names turns, or if the config sets ``escapeHtml``.
    """
    if not dataset.turn_evidence:
        return
    gaps: list[CoverageGap] = [gap for corpus in dataset.corpora() for gap in dataset.coverage_gaps(corpus)]
    if not dataset.config.ingestion.preprocessing.escape_html:
        require_coverage(gaps, benchmark=dataset.name, where=dataset.config.place("ingestion"))


def metric_errors(config: BenchmarkConfig) -> Iterator[ConfigError]:
    """Yield an error for each unknown metric in the config. The error shows the place and up to three similar names."""
    for index, entry in enumerate(config.metrics):
        if isinstance(entry, MetricEntry) and (entry.evaluator or entry.method == "custom"):
            continue
        name = entry.name if isinstance(entry, MetricEntry) else entry
        try:
            resolve(name)
        except UnknownMetric as error:
            near = nearest(name, names(), n=3)
            guess = "; did you mean " + " or ".join(f'"{option}"' for option in near) + "?" if near else ""
            message = f'unknown metric "{name}"{guess}' if near else error.message
            yield UnknownMetric(message, where=config.place("metrics", index), hint=error.hint)


def plugin_errors(config: BenchmarkConfig, workspace: Path) -> list[ConfigError]:
    """Return an error for each missing Python file of an evaluator or metric in the config."""
    named = [(("evaluation", "customEvaluator"), config.evaluation.custom_evaluator)]
    named += [
        (("metrics", index, "evaluator"), entry.evaluator)  # type: ignore[misc]
        for index, entry in enumerate(config.metrics)
        if isinstance(entry, MetricEntry)
    ]
    problems = []
    for path, reference in named:
        if reference is None or not reference.startswith((".", "/")):
            continue
        file = reference.rpartition(":")[0]
        folders = [folder for folder in (config.folder_of(*path), workspace) if folder is not None]
        if not any((folder / file).is_file() for folder in folders):
            folders_text = " or ".join(str(folder) for folder in folders)
            problems.append(
                ConfigError(
                    f'"{file}" is not there', where=config.place(*path), hint=f"put the file into {folders_text}"
                )
            )
    return problems
