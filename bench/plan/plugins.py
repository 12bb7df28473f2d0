"""Find the installed plug-ins and their versions, and refuse names with two definitions.

Example::

    installed = Installed.read()
    installed.distributions("bench.models", ["acme"])       # {"acme-models": "1.2"}
    installed.refuse_duplicates("bench.models", {"openai"})   # ConfigError: "openai" is registered twice

If another distribution registers a built-in name, a run that uses this name is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint

from bench.config.model import ModelFile
from bench.evaluators import registry as evaluators
from bench.evaluators.registry import BUILT_IN
from bench.metrics import registry
from bench.metrics.plugins import OWN_DISTRIBUTION, duplicate_name_error
from bench.metrics.protocol import canonical, split_cut
from bench.plan.model import Lane
from bench.version import plug_ins

GROUPS = ("bench.providers", "bench.models", "bench.evaluators", "bench.metrics")


@dataclass(frozen=True, slots=True)
class Installed:
    """The entry points of the installed distributions when the run is planned."""

    points: Mapping[str, tuple[EntryPoint, ...]]
    """name of an entry point group -> the entry points in this group"""

    @classmethod
    def read(cls) -> Installed:
        """Read the entry points of the installed distributions, without importing the plug-ins."""
        return cls({group: tuple(plug_ins(group)) for group in GROUPS})

    def names(self, group: str) -> frozenset[str]:
        """Return the names of the plug-ins in an entry point group."""
        return frozenset(point.name for point in self.points[group])

    def distributions(self, group: str, names: Collection[str], spelled: Callable[[str], str] = str) -> dict[str, str]:
        """Return the name and version of each distribution that provides one of the plug-ins ``names`` of a group.

        Bench is left out. ``spelled`` converts the name of an entry point to the spelling in ``names``.
        """
        found = (point for point in self.points[group] if spelled(point.name) in names)
        return {name: release for name, release in _releases(found) if name != OWN_DISTRIBUTION}

    def versions(self) -> dict[str, str]:
        """Return the name and version of every distribution that provides a plug-in for bench."""
        return {name: release for group in GROUPS for name, release in _releases(self.points[group])}

    def refuse_duplicates(self, group: str, ours: Collection[str], spelled: Callable[[str], str] = str) -> None:
        """Raise ConfigError if another distribution registers a plug-in under one of the names in ``ours``."""
        for point in self.points[group]:
            name, owner = spelled(point.name), point.dist.name if point.dist else "(unknown)"
            if name in ours and owner != OWN_DISTRIBUTION:
                raise duplicate_name_error(name, group, OWN_DISTRIBUTION, owner)


def refuse_duplicates(lanes: Sequence[Lane], files: Mapping[str, ModelFile], installed: Installed) -> None:
    """Raise an error if the run uses a built-in name that another distribution also registers.

    If a file of the workspace defines the name, this file is used and there is no error.

    Raises:
        ConfigError: a provider, model prefix, evaluator or metric has two definitions.
    """
    from bench.config.model import LOCAL
    from bench.models.names import VENDORS

    planned = [lane.provider for lane in lanes]
    installed.refuse_duplicates(
        "bench.providers", {one.config.name for one in planned if one.built_in and not one.config.path}
    )
    prefixes = {name.partition("/")[0] for lane in lanes for name in lane.models}
    installed.refuse_duplicates("bench.models", prefixes & {*VENDORS, "builtin", LOCAL} - files.keys())
    scorings = [lane.benchmark.scoring for lane in lanes]
    judged = {name for scoring in scorings for name in scoring.names}
    installed.refuse_duplicates("bench.evaluators", judged & BUILT_IN.keys(), evaluators.canonical_name)
    measured = {metric.name for scoring in scorings for metric in scoring.metrics}
    known = {name for name in measured if registry().parse_name(name) is not None}
    installed.refuse_duplicates("bench.metrics", known | {split_cut(name)[0] for name in known}, canonical)


def _releases(points: Iterable[EntryPoint]) -> Iterator[tuple[str, str]]:
    return ((point.dist.name, point.dist.version) for point in points if point.dist is not None)
