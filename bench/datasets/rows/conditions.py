"""Check the conditions that ``where`` in a config sets for rows. A row must meet all conditions.

Values are equal if their texts are equal. ``above`` compares numbers::

    conditions = Conditions({"image": None, "kind": ("a", "b"), "score": Criterion(above=0)}, "data.where")
    conditions.hold([row], place)       # True if the row meets all three conditions
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite

from bench.config.benchmark.sections import Condition, Criterion
from bench.config.benchmark.values import compile_value, roots_of
from bench.datasets.rows.row import RowPlace
from bench.datasets.rows.row_values import path_name, scalar_text


class Conditions:
    """Conditions on the values of a row. ``where`` maps each path to the required value.

    ``key`` is the config key that contains the conditions, for error messages.
    """

    def __init__(self, where: Mapping[str, Condition], key: str) -> None:
        self.key = key
        self.each = [(compile_value(text), wanted) for text, wanted in where.items()]

    def __bool__(self) -> bool:
        return bool(self.each)

    def hold(self, scopes: Sequence[object], place: RowPlace) -> bool:
        """Return True when all conditions hold.

        A path is read in each object of ``scopes``, in order, until a value is found that is not null.
        """
        for value, wanted in self.each:
            found = next((one for scope in scopes if (one := value.get(scope)) is not None), None)
            if not self._holds(found, wanted, path_name(value), place):
                return False
        return True

    def _holds(self, found: object, wanted: Condition, name: str, place: RowPlace) -> bool:
        if wanted is None:
            return found is None
        if isinstance(wanted, tuple):
            return any(_same_text(found, one) for one in wanted)
        if isinstance(wanted, Criterion):
            return self._meets(found, wanted, name, place)
        return _same_text(found, wanted)

    def _meets(self, found: object, wanted: Criterion, name: str, place: RowPlace) -> bool:
        if wanted.differs is not None and _same_text(found, wanted.differs):
            return False
        if wanted.like is not None and not _is_like(scalar_text(found), wanted.like):
            return False
        if wanted.present is not None and wanted.present is not (found not in (None, "", [], {})):
            return False
        return wanted.above is None or self._is_above(found, wanted.above, name, place)

    def _is_above(self, found: object, least: float, name: str, place: RowPlace) -> bool:
        if found is None:
            return False
        try:
            number = float(scalar_text(found) or "")
        except ValueError:
            number = float("nan")
        if isinstance(found, bool) or not isfinite(number):
            raise place.error(
                name, f"is not a number, but {self.key} compares it with a number", found, hint="correct the row"
            )
        return number > least


def split_conditions(
    where: Mapping[str, Condition], added: frozenset[str]
) -> tuple[dict[str, Condition], dict[str, Condition]]:
    """Split conditions into conditions on fields of the file and conditions on fields that ``data.with`` adds.

    ``added`` contains the names of the added fields.
    """
    late = {text for text in where if roots_of(text) & (added | {"$"})}
    return {t: c for t, c in where.items() if t not in late}, {t: c for t, c in where.items() if t in late}


def _same_text(found: object, wanted: object) -> bool:
    text = scalar_text(found)
    return text is not None and text == scalar_text(wanted)


def _is_like(text: str | None, pattern: str) -> bool:
    form = ".*".join(map(re.escape, pattern.split("*")))
    return text is not None and re.fullmatch(form, text, re.DOTALL) is not None
