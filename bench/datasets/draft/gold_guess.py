"""Guess which fields contain the ids of the evidence: ids of sessions or ids of turns.

Example::

    gold = GoldGuess(QuestionPlace(rows), skipped={"answer"})
    gold.paths                          # {"$.evidence[*]": {"D1:3"}}
    history = HistoryGuess(rows, "sessions", gold=[{"D1:3"}])
    gold.nested(history)                # "evidence"
    list(gold.flat(history))            # ["turnIdsField: evidence"]
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

from bench.datasets.draft.config_guess import (
    EVIDENCE,
    GRADES,
    NESTED_EVIDENCE,
    Row,
    are_known,
    field_name,
    field_path,
    first_field,
    merged_fields,
    nested_objects,
)
from bench.datasets.draft.history_guess import HistoryGuess
from bench.datasets.draft.question_place import QuestionPlace
from bench.datasets.evidence import split_references
from bench.datasets.rows.row_values import flatten_lists, is_graded, scalar_text, value_of
from bench.untyped_values import object_or_empty


class GoldGuess:
    """A guess of the paths to the ids of the evidence. ``paths`` maps each path to the ids in the sample rows."""

    def __init__(self, place: QuestionPlace, skipped: Collection[str | None]) -> None:
        self.place = place
        self.unmapped: list[str] = []
        self.guessed: list[str] = []
        self.joined: set[str] = set()
        """fields whose texts contain several ids each, such as ``d1, d2``"""
        names = [key for key in place.asked if EVIDENCE.fullmatch(key) and key not in skipped]
        self.paths = dict(_gold_values(place.questions(), names))
        held = {name: [one[name] for one in place.questions() if one.get(name)] for name in names}
        self.ranged = {name for name, values in held.items() if values and all(map(_are_ranges, values))}
        """fields whose values are pairs of turn numbers: the first and the last turn with the answer"""

    def names(self) -> list[str]:
        """Return the field names at the beginning of the paths, without repetitions."""
        return list(dict.fromkeys(map(_root_field, self.paths)))

    def flat(self, history: HistoryGuess) -> Iterator[str]:
        """Yield the config's evidence keys for data with one question per row.

        If the values of a field match no id, a note is added to ``unmapped``.
        """
        texts = {scalar_text(turn.get("content")) or scalar_text(turn.get("text")) for turn in history.turns}
        inside = self.place.inside
        missed: dict[str, set[str]] = {}
        taken: set[str] = set()
        for path, values in self.paths.items():
            name = _root_field(path)
            whole = json.dumps(field_path(inside) + path[1:]) if inside else _short_path(path, name)
            key = self._key(name, values, history)
            if key == "sessionIdsField":
                yield f"sessionIdsField: {whole}"
            elif key is not None:
                parser = ", parser: dialog_refs" if name in self.joined else ""
                yield self._graded(path, inside) or f"turnIdsField: {whole}{parser}"
            elif path.endswith(".content") and values & texts:
                yield f"turnIdsField: {name}, parser: exact_text"
            else:
                missed[name] = missed.get(name, set()) | values
                continue
            taken.add(name)
        known = history.session_ids | history.turn.ids
        for name in [name for name in missed if name not in taken]:
            values = missed[name]
            self.unmapped.append(
                f'"{name}" seems to contain evidence, but '
                + (
                    f"only {len(values & known)} of its {len(values)} values match an id of a session or turn"
                    if values & known
                    else "its values match no id of a session or turn"
                )
            )
            parts = [path.rpartition(".")[2] for path in self.paths if path.startswith(f"{field_path(name)}[*].")]
            if len(parts) > 1:
                made = "/".join(f"${{{part}}}" for part in parts)
                self.unmapped[-1] += (
                    f": if several fields together identify a turn, write evidence.reference, for example "
                    f'"{made}", and the same template for itemSchema.id'
                )

    def _key(self, name: str, values: set[str], history: HistoryGuess) -> str | None:
        """Return the config key for a field with evidence ids: of sessions or of turns. Return None if neither fits.

        A note is added to ``guessed`` if some values are not ids.
        """
        parts = {part for value in values for part in split_references(value)}
        turns = history.turn.ids
        if not values <= history.session_ids | turns and len(parts & turns) > len(values & turns):
            values = parts
            self.joined.add(name)
        for key, kind, ids in (("sessionIdsField", "sessions", history.session_ids), ("turnIdsField", "turns", turns)):
            if values <= ids:
                return key
            if are_known(values, ids):
                missed = sorted(values - ids)
                self.guessed.append(
                    f'{len(values) - len(missed)} of {len(values)} values of "{name}" are ids of {kind}, so it is used '
                    f"as evidence; not an id: {', '.join(missed[:3])}"
                )
                return key
        self.joined.discard(name)
        return None

    def with_ids(self, names: Collection[str], history: HistoryGuess) -> tuple[str, str, str] | None:
        """Return (field, kind, config key) for the first field whose values are all ids of sessions or of turns.

        ``kind`` is ``sessions`` or ``turns``. Return None if there is no such field. Ids that are numbers are not
        recognized, because any small number would match.
        """
        for path, values in _gold_values(self.place.questions(), list(names)):
            if len(values) < 2 or all(map(str.isdecimal, values)) or path.count(".") > 1:
                continue
            if values <= history.session_ids:
                return _root_field(path), "sessions", "sessionIdsField"
            if values <= history.turn.ids:
                return _root_field(path), "turns", "turnIdsField"
        return None

    def _graded(self, path: str, inside: str) -> str | None:
        """Return the evidence keys of the config, if each piece of evidence is an object with an id and a grade.

        Return None if there are no grades, or if all grades are equal.
        """
        name, _, part = path.removeprefix("$.").partition("[*].")
        found = [one for row in self.place.questions() for one in nested_objects(row.get(name))] if part else []
        grade = first_field(merged_fields(found), GRADES, (int, float))
        if grade is None or part == grade or len({one.get(grade) for one in found}) < 2 or inside:
            return None
        return f"turnIdsField: {json.dumps(f'$.{name}[*]')}, reference: {field_name(part)}, grade: {field_name(grade)}"

    def nested(self, history: HistoryGuess) -> str | None:
        """Return the field or path that contains the evidence ids of nested questions; None if no field fits."""
        known = history.session_ids | history.turn.ids
        fields: dict[str, list[set[str]]] = {}
        for path, values in self.paths.items():
            fields.setdefault(_root_field(path), []).append(values)
        for name, lists in fields.items():
            listed = any(one <= known for path, one in self.paths.items() if path.startswith(f"$.{name}["))
            if listed or set().union(*lists) <= known or (len(lists) == 1 and self._key(name, lists[0], history)):
                return json.dumps(f"{field_path(name)}[*]") if name in self.ranged else field_name(name)
        held = first_field(self.place.asked, NESTED_EVIDENCE, list)
        plain = held is not None and all(isinstance(one, str) for one in flatten_lists(self.place.asked[held]))
        return held if plain else None


def _are_ranges(value: object) -> bool:
    """Return True for a non-empty list of pairs, if both elements of each pair are numbers written as text."""
    pairs = value if isinstance(value, list) else []
    return bool(pairs) and all(
        isinstance(one, list) and len(one) == 2 and all(isinstance(end, str) and end.isdecimal() for end in one)
        for one in pairs
    )


def _gold_values(places: Sequence[Row], names: Sequence[str]) -> Iterator[tuple[str, set[str]]]:
    for name in names:
        graded = [place[name] for place in places if is_graded(place.get(name))]
        if graded:
            yield field_path(name), {str(key) for one in graded for key in object_or_empty(one)}
            continue
        for path in dict.fromkeys(
            path for place in places for path in _scalar_paths(place.get(name), field_path(name))
        ):
            value = value_of(path)
            assert value is not None
            texts = {text for place in places for one in value.all(place) if (text := scalar_text(one))}
            if texts:
                yield path, texts


def _root_field(path: str) -> str:
    return path[2:].partition("[")[0].partition(".")[0]


def _short_path(path: str, name: str) -> str:
    return field_name(name) if path == f"{field_path(name)}[*]" else json.dumps(path)


def _scalar_paths(value: object, path: str, deep: int = 3) -> Iterator[str]:
    """Yield the path of each text or number in a value.

    For a list of number pairs, yield the paths of both numbers. For other pairs, yield only the path of the first text.
    """
    if isinstance(value, list) and deep:
        if value and all(isinstance(one, list) and len(one) == 2 and isinstance(one[0], str) for one in value):
            yield f"{path}[*][0]"
            if _are_ranges(value):
                yield f"{path}[*][1]"
            return
        for one in value:
            yield from _scalar_paths(one, f"{path}[*]", deep - 1)
    elif isinstance(value, Mapping) and deep:
        for key, one in value.items():
            yield from _scalar_paths(one, path + field_path(key)[1:], deep - 1)
    elif value is not None:
        yield path
