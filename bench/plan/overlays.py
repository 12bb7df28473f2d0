"""Which golds of a benchmark are known to be doubtful: ``overlays/NAME.yaml`` beside its config.

Example::

    overlay: audit-2026        # in the benchmark's config, or overlays/audit-2026.yaml in full

The dataset is never edited; the file's digest is part of the plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import PurePosixPath

from bench.config.benchmark import BenchmarkConfig
from bench.config.overlay import OverlayFile, read_overlay
from bench.config.source import Source
from bench.datasets import Dataset
from bench.errors import ConfigError, DataError
from bench.metrics.overlay import Overlay, Suspect

FOLDER = "overlays"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOverlay:
    """An overlay as a run uses it."""

    name: str
    sha256: str
    """of the file"""
    overlay: Overlay


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
    source = Source.read(path)
    file = read_overlay(source)
    _check_edition(source, file, dataset)
    if problems := list(_misfits(source, file, dataset)):
        raise ConfigError.of(problems)
    items = {
        one.id: Suspect(id=one.id, kind=one.kind, note=one.note or "", corrected_answer=one.corrected_answer)
        for one in file.items
    }
    overlay = Overlay(benchmark=dataset.name, dataset_sha256=file.dataset_sha256, source=file.source or "", items=items)
    return PlannedOverlay(name=name, sha256=sha256(path.read_bytes()).hexdigest(), overlay=overlay)


def _check_edition(source: Source, file: OverlayFile, dataset: Dataset) -> None:
    if file.dataset_sha256 not in (dataset.sha256, dataset.content_sha256):
        raise DataError(
            f"the overlay is for the dataset {file.dataset_sha256}, this one is {dataset.sha256}",
            where=source.place(("dataset_sha256",)),
            hint="golds are doubted in one edition: name an overlay of this one, or none",
        )


def _misfits(source: Source, file: OverlayFile, dataset: Dataset) -> Iterator[ConfigError]:
    if file.benchmark and file.benchmark.lower() != dataset.name.lower():
        yield ConfigError(
            f"the overlay is for {file.benchmark}, not for {dataset.name}",
            where=source.place(("benchmark",)),
            hint=f"write benchmark: {dataset.name} here, or name another overlay in the config",
        )
    for index, item in enumerate(file.items):
        if dataset.index_of(item.id) is None:
            yield ConfigError(
                f'{dataset.name} has no item "{item.id}"',
                where=source.place(("items", index, "id")),
                hint=f"bench describe {dataset.name} --items shows the ids",
            )
