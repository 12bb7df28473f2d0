"""Which golds of a benchmark are known to be doubtful: ``overlays/NAME.yaml`` beside its config.

Example::

    overlay: audit-2026        # in the benchmark's config, or overlays/audit-2026.yaml in full

The dataset is never edited; the file's digest is part of the plan.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePosixPath

from bench.config.benchmark import BenchmarkConfig
from bench.config.source import Source
from bench.datasets import Dataset, open_benchmark
from bench.datasets.files import find_file
from bench.errors import BenchError, ConfigError, DataError
from bench.metrics.overlay import Overlay

FOLDER = "overlays"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOverlay:
    """An overlay as a run uses it."""

    name: str
    sha256: str
    """of the file"""
    overlay: Overlay


def overlay_problem(config: BenchmarkConfig, workspace: Path) -> BenchError | None:
    """What a run would refuse in the overlay of a benchmark; nothing while its data is not on disk."""
    if config.overlay is None or find_file(config, workspace) is None:
        return None
    try:
        overlay_of(config, open_benchmark(config, workspace))
    except (ConfigError, DataError) as error:
        return error
    return None


def overlay_of(config: BenchmarkConfig, dataset: Dataset) -> PlannedOverlay | None:
    """Read the overlay that a config names.

    Raises:
        ConfigError: no such file, a wrong shape, another benchmark, or an item that the dataset does not have.
        DataError: it was made for another dataset.
    """
    if config.overlay is None:
        return None
    name = PurePosixPath(config.overlay).name.removesuffix(".yaml")
    folder = config.folder_of("overlay")
    assert folder is not None
    path = folder / FOLDER / f"{name}.yaml"
    named = (name, f"{name}.yaml", f"{FOLDER}/{name}.yaml", f"./{FOLDER}/{name}.yaml")
    if config.overlay not in named or not path.is_file():
        text = f"there is no overlay {FOLDER}/{name}.yaml"
        raise ConfigError(text, where=config.place("overlay"), hint=f"put it at {path}, beside the config")
    tree = Source.read(path).tree
    known = {dataset.sha256, dataset.content_sha256}
    digest = tree.get("dataset_sha256")
    overlay = Overlay.of(tree, dataset_sha256=str(digest) if digest in known else dataset.sha256, where=str(path))
    if overlay.benchmark and overlay.benchmark.lower() != config.name.lower():
        raise ConfigError(f"the overlay is for {overlay.benchmark}, not for {config.name}", where=str(path))
    unknown = next((item for item in overlay.items if dataset.index_of(item) is None), None)
    if unknown is not None:
        raise ConfigError(f'{config.name} has no item "{unknown}"', where=str(path))
    return PlannedOverlay(name=name, sha256=sha256(path.read_bytes()).hexdigest(), overlay=overlay)
