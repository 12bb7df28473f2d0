"""Names of a config that stand for something in the data: which of them nothing in the data has, and what it has.

What the config names is collected by `bench.datasets.naming`; the readers of rows show what they meet::

    roles = Names("no turn has that role", [(("removeRoles", 0), "asistant")], none="no turn has a role")
    roles.meet(["user"]), roles.meet(["assistant"])
    [name.guess() for name in roles.open]     # ['; did you mean "assistant"?']

A part that some row holds, be it null, is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq

from bench.config.findings import did_you_mean
from bench.config.jsonpath import Path, Step, compile_path
from bench.config.jsontext import TreePath
from bench.datasets.values import path_hint

MOST_KEYS = 1_000
"""so many names are kept to guess from: a file may have another key in each row"""
LISTED = 6
"""where nothing is near, so many names of the data are shown"""

Wanted = tuple[TreePath, str]
"""where the config says a name, and the name"""


@dataclass(slots=True, kw_only=True)
class Name:
    """One name of a config that nothing in the data has had so far, and the names that stood in its place."""

    key: TreePath
    text: str
    """as the config writes it"""
    name: str
    """what is looked for: of a path its last name"""
    parent: Path
    """where a path goes before that name"""
    seen: set[str]
    hint: str = ""
    """how to write it, where it is a path without its beginning"""

    def stands_in(self, scopes: Sequence[object]) -> bool:
        """True when one of the scopes has the name; the keys of those that have not are kept."""
        nodes = [node for scope in scopes for node in self.parent.all(scope) if isinstance(node, Mapping)]
        if any(self.name in node for node in nodes):
            return True
        if not self.hint:
            self.hint = next((hint for scope in scopes if (hint := path_hint(self.text, scope))), "")
        if len(self.seen) < MOST_KEYS:
            self.seen.update(key for node in nodes for key in node)
        return False

    def guess(self) -> str:
        """The end of the sentence: the nearest name of the data, or the first of those that it has."""
        if self.hint:
            return f"; {self.hint}"
        if near := did_you_mean(self.name, self.seen):
            return near
        shown = ", ".join(f'"{one}"' for one in sorted(self.seen)[:LISTED])
        more = f" and {len(self.seen) - LISTED} more" if len(self.seen) > LISTED else ""
        return f"; there is {shown}{more}" if shown else ""


@dataclass(slots=True, init=False)
class Names:
    """Names of one sort; those that the data was found to have are ``open`` no more."""

    absence: str
    """what is wrong with one that stays open: no item has it"""
    open: list[Name]
    none: str
    """what is said where the data has no name of this sort at all"""
    fits: Callable[[str, str], bool] = field(repr=False)

    def __init__(
        self,
        absence: str,
        wanted: Iterable[Wanted],
        *,
        none: str = "",
        fits: Callable[[str, str], bool] = eq,
    ) -> None:
        self.absence, self.none, self.fits = absence, none, fits
        seen: set[str] = set()
        self.open = [Name(key=key, text=text, name=text, parent=Path("$", ()), seen=seen) for key, text in wanted]

    @classmethod
    def of_paths(cls, absence: str, wanted: Iterable[Wanted]) -> Names:
        """Names that are paths: each is looked for at its own place, as far as its last name before any ``[*]``."""
        names = cls(absence, ())
        names.open = [name for key, text in wanted if (name := _of_path(key, text)) is not None]
        return names

    def look(self, scopes: Sequence[object]) -> None:
        """Look for the open names as keys in what a row holds."""
        self.open = [name for name in self.open if not name.stands_in(scopes)]

    def meet(self, met: Iterable[str]) -> None:
        """Strike out the open names that fit one of those that the data has."""
        if not self.open:
            return
        seen, given = self.open[0].seen, list(met)
        seen.update(given[: MOST_KEYS - len(seen)])
        self.open = [name for name in self.open if not any(self.fits(name.name, one) for one in given)]

    def unmet(self) -> list[tuple[Name, str]]:
        """What stayed open, each with the end of its sentence."""
        return [(name, self._told(name)) for name in self.open]

    def _told(self, name: Name) -> str:
        if not name.seen and self.none:
            return f"{self.absence}: {self.none}"
        return f"{self.absence}{name.guess()}"


def _of_path(key: TreePath, text: str) -> Name | None:
    """A path as a name; None where it names nothing."""
    steps: list[Step] = []
    for step in compile_path(text, bare=True).steps:
        if not isinstance(step, str | int):
            break
        steps.append(step)
    while steps and not isinstance(steps[-1], str):
        steps.pop()
    if not steps:
        return None
    return Name(key=key, text=text, name=str(steps[-1]), parent=Path(text, tuple(steps[:-1])), seen=set())
