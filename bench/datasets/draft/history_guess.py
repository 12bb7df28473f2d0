"""Guess the config lines for the sessions of a history from sample rows.

Example::

    guess = HistoryGuess(rows, "sessions", gold=[{"s1"}])
    guess.lines                 # the lines of schema.context
    guess.unmapped              # notes on fields that the config does not read
    guess.turn.ids, guess.session_ids

Fields with correct answers or evidence are not searched. The field name ``$`` means the row itself. It is used if the
keys of the row are numbered sessions.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence

from bench.config.benchmark.file import SESSION_NAMES
from bench.datasets.draft.config_guess import (
    DATES,
    DECODE_HINT,
    GOLD,
    LITERAL,
    NUMBERED,
    ONE_ID,
    SESSION_IDS,
    Row,
    are_distinct,
    date_field,
    field_name,
    field_path,
    first_field,
    is_date,
    list_or_empty,
    merged_fields,
    nested_objects,
    quoted_path,
)
from bench.datasets.draft.turn_guess import TurnGuess, speaker_field
from bench.datasets.draft.turn_paths import TurnPath, holds_lists, is_turn, path_to_turns, steps_text
from bench.datasets.rows.row_values import scalar_text, value_of


class HistoryGuess:
    """A guess of the config lines for the history in one field of the sample rows."""

    def __init__(
        self, rows: Sequence[Row], history: str, *, gold: Sequence[Collection[str]] = (), cut: bool = False
    ) -> None:
        self.rows = rows
        self.row = merged_fields(rows)
        self.field = history
        self.gold = gold
        self.cut = cut
        """true if a question sees the history only up to a certain turn"""
        self.unmapped: list[str] = []
        self.session_ids: set[str] = set()
        self.single = False
        """true if the whole history is one session"""
        self.turn = TurnGuess((), gold, single=False)
        self.lines = list(self._context_lines())

    @property
    def turns(self) -> list[Row]:
        return self.turn.turns

    def _context_lines(self) -> Iterator[str]:
        value = self.row if self.field == "$" else self.row.get(self.field)
        if isinstance(value, str | int | float) or value is None:
            yield from (f"field: {field_name(self.field)}", "type: string")
            if isinstance(value, str) and LITERAL.match(value):
                self.unmapped.append(f'"{self.field}" is a list or map written as text: {DECODE_HINT}')
            return
        if isinstance(value, Mapping) and (found := self._numbered(value) or self._side_by_side(value)):
            yield from found
        elif isinstance(value, Mapping) and path_to_turns(value) is None and (text := _longest_text(value)):
            yield from (f"field: {quoted_path(field_path(self.field, text))}", "type: string")
            return
        else:
            yield from self._nested_lines(value)
        yield from self.turn.lines()
        self.unmapped += self.turn.unmapped

    def _turns(self, found: Sequence[object]) -> None:
        self.turn = TurnGuess(found, self.gold, single=self.single)

    # --------------------------------------------------------------- sessions

    def _numbered(self, holder: Row) -> list[str]:
        """Return the config lines for sessions under numbered keys, such as ``session_1``.

        Return an empty list if there are no such sessions. Session dates are also found under numbered keys, such as
        ``session_1_date_time``.
        """
        lists = numbered_sessions(holder)
        shapes = Counter(match.groups() for key in lists if (match := NUMBERED.fullmatch(key)))
        if len(shapes) != 1:
            return []
        (before, after), _ = shapes.most_common(1)[0]
        found = [f"field: {self.field if self.field == '$' else field_name(self.field)}", "type: object"]
        if (before, after) != ("session_", ""):
            found.append(f"sessionPattern: {json.dumps(f'{before}*{after}', ensure_ascii=False)}")
        dates = Counter(match.groups() for key, part in holder.items() if is_date(part)
                        and (match := NUMBERED.fullmatch(key)))  # fmt: skip
        if dates and (shape := dates.most_common(1)[0][0]) != ("session_", "_date_time"):
            found.append(f"datePattern: {json.dumps('*'.join(shape), ensure_ascii=False)}")
        holders = self.rows if self.field == "$" else [row.get(self.field) for row in self.rows]
        every = [numbered_sessions(one) for one in holders if isinstance(one, Mapping)]
        self._turns(list(nested_objects([part for one in every for part in one.values()])))
        self.session_ids = {key for one in every for key in one}
        return found

    def _side_by_side(self, holder: Row) -> list[str]:
        """Return the config lines for a list of sessions next to a list of session dates or ids.

        Return an empty list if ``holder`` has no such lists.
        """
        lists = {key: part for key, part in holder.items() if isinstance(part, list) and part}
        main = max(lists, key=lambda key: (holds_lists(lists[key]), len(str(lists[key]))),
                   default=None)  # fmt: skip
        if main is None or not all(isinstance(part, list | Mapping) for part in lists[main]):
            return []
        beside = {key: part for key, part in lists.items() if key != main and len(part) == len(lists[main])}
        dates = next((key for key, part in beside.items() if is_date(part[0])), None)
        ids = next((key for key, part in beside.items() if key != dates and are_distinct(part)), None)
        if not dates and not ids:
            return []
        found = [f"field: {quoted_path(field_path(self.field, main))}", "type: array"]
        if dates:
            found.append(f"dateField: {quoted_path(field_path(self.field, dates))}")
        if ids:
            found.append(f"sessionIdField: {quoted_path(field_path(self.field, ids))}")
            self.session_ids = {scalar_text(one) or "" for one in lists[ids]}
        self._turns(list(nested_objects(lists[main])))
        return found

    def _nested_lines(self, value: object) -> Iterator[str]:
        way = path_to_turns(value)
        if way is None:
            self.unmapped.append(f'"{self.field}" contains no list of turns: name its sessions in schema.context')
            yield from (
                f"field: {field_name(self.field)}",
                "type: object" if isinstance(value, Mapping) else "type: array",
            )
            return
        if "mapping" in way and _branches(value):
            self.unmapped.append(
                "some messages have several replies, because a message was edited or an answer repeated: the messages "
                "of all branches are ingested; to ingest one branch, remove the others from the file"
            )
        every = value_of(f"$.x{steps_text(way)}")
        assert every is not None
        found = [one for row in self.rows for one in every.all({"x": row.get(self.field)}) if one is not None]
        self._turns(found)
        stars = [number for number, step in enumerate(way) if step in ("[*]", "*")]
        if len(stars) == 1:
            yield from self._one_session(way)
        else:
            yield from self._sessions(way, stars)

    def _one_session(self, way: TurnPath) -> Iterator[str]:
        whole = way == ("[*]",)
        path = field_name(self.field) if whole else quoted_path(field_path(self.field) + steps_text(way))
        has_speakers = bool(self.turns) and speaker_field(merged_fields(self.turns))[1] is not None
        dates, ids = first_field(self.row, DATES, list), first_field(self.row, SESSION_IDS, list)
        if (whole and (dates or ids)) or (has_speakers and whole and not self.cut and not self.gold):
            yield from (f"field: {path}", "type: array")
            yield from self._lists_beside(dates, ids)
            return
        self.single = self.turn.single = True
        yield from (f"field: {path}", "type: session")

    def _ids_beside(self) -> str | None:
        """Return the name of a field that lists one id per session in every row; None if there is no such field."""
        for key, part in self.row.items():
            rows = [(row.get(key), row.get(self.field)) for row in self.rows]
            beside = all(isinstance(one, list) and len(one) == len(list_or_empty(held)) for one, held in rows)
            other = key != self.field and key not in DATES
            if (
                beside
                and other
                and len(list_or_empty(part)) > 1
                and all(are_distinct(list_or_empty(one)) for one, _ in rows)
            ):
                return key
        return None

    def _lists_beside(self, dates: str | None, ids: str | None) -> Iterator[str]:
        if dates:
            yield f"dateField: {field_name(dates)}"
        if ids:
            yield f"sessionIdField: {field_name(ids)}"
            self.session_ids = {scalar_text(one) or "" for row in self.rows for one in list_or_empty(row.get(ids))}

    def _sessions(self, way: TurnPath, stars: Sequence[int]) -> Iterator[str]:
        """Yield the config lines for nested sessions.

        A session is the innermost object that contains turns. If no object contains turns, a session is the innermost
        list.
        """
        at = next((number for number in reversed(stars[:-1]) if way[number + 1] not in ("[*]", "*")), None)
        if at is None:
            head, rest = way[: stars[-1]], way[stars[-1] :]
        else:
            head, rest = way[: at + 1], way[at + 1 :]
        own = date_field(self.turns, all_have=False)
        keyed = self._dated_keys(head)
        plain = at is None and head == ("[*]",)
        if plain and not (own and self._sparse(own)):
            yield from (f"field: {field_name(self.field)}", "type: array")
            ids = first_field(self.row, SESSION_IDS, list) or self._ids_beside()
            yield from self._lists_beside(first_field(self.row, DATES, list), ids)
            return
        yield f"field: {quoted_path(field_path(self.field) + steps_text(head))}"
        parts = {}
        if at is None:
            parts = {"date": json.dumps(f"$[*].{own}")} if own else {}
            parts |= {"id": '"$keys[-1]"', "date": '"$keys[-1]"'} if keyed else {}
        else:
            parts = self._parts_of_session(head, rest, own)
        if parts:
            yield f"session: {{{', '.join(f'{key}: {text}' for key, text in parts.items())}}}"

    def _dated_keys(self, head: TurnPath) -> bool:
        """Return True when the sessions are the values of a map whose keys are dates."""
        every = value_of(f"$.x{steps_text(head)}")
        if every is None or head[-1] != "*":
            return False
        keys = [str(keys[-1]) for row in self.rows for keys, _ in every.keyed({"x": row.get(self.field)})]
        if found := bool(keys) and all(map(is_date, keys)):
            self.session_ids = set(keys)
        return found

    def _parts_of_session(self, head: TurnPath, rest: TurnPath, own: str | None) -> dict[str, str]:
        every = value_of(f"$.x{steps_text(head)}")
        assert every is not None
        held = [one for row in self.rows for one in every.all({"x": row.get(self.field)}) if isinstance(one, Mapping)]
        ids = next((name for name in ONE_ID if all(scalar_text(one.get(name)) for one in held) and held
                    and not isinstance(held[0].get(name), bool)), None)  # fmt: skip
        dates = date_field(held)
        if ids:
            self.session_ids = {scalar_text(one[ids]) or "" for one in held}
        texts = [name for name, one in merged_fields(held).items() if isinstance(one, str) and name not in (ids, dates)
                 and not is_date(one) and not GOLD.fullmatch(name)]  # fmt: skip
        plain = [name for name in texts if name not in SESSION_NAMES]
        taken = [name for name in texts if name in SESSION_NAMES]
        if plain:
            shown = " ".join(f"${{{name}}}" for name in plain)
            self.unmapped.append(
                f"these texts of a session are not ingested: {', '.join(plain)}; to include them, write "
                f'ingestion.preprocessing.formatTemplate: "{shown} ${{session}}"'
            )
        if taken:
            self.unmapped.append(
                f"these texts of a session are not ingested: {', '.join(taken)}; if one is the date of the session, "
                "name it in context.session.date, and write its format in dateFormats"
            )
        found = {"id": field_name(ids)} if ids else {}
        found["turns"] = json.dumps(f"${steps_text(rest)}", ensure_ascii=False)
        if dates:
            found["date"] = field_name(dates)
        elif own and self._sparse(own):
            found["date"] = json.dumps(f"${steps_text(rest)}.{own}")
        elif self._dated_keys(head):
            found["date"] = '"$keys[-1]"'
        return found

    def _sparse(self, name: str) -> bool:
        """Return True when some turns have no date in the field ``name``.

        The date then belongs to the whole session.
        """
        return any(turn.get(name) is None for turn in self.turns)


def numbered_sessions(holder: Row) -> dict[str, list[object]]:
    """Return the lists of turns in ``holder`` whose keys contain a number, such as ``session_1``."""
    lists = {key: part for key, part in holder.items() if isinstance(part, list) and NUMBERED.fullmatch(key)}
    return {key: part for key, part in lists.items() if not GOLD.fullmatch(key) and all(map(is_turn, part))}


def _longest_text(holder: Row) -> str | None:
    """Return the name of the field that contains the main text; None if no field contains a text.

    A field with a usual name such as ``content`` is preferred. Otherwise the field with the longest text is returned.
    """
    texts = {name: one for name, one in holder.items() if isinstance(one, str) and " " in one.strip()
             and not GOLD.fullmatch(name) and not name.endswith("_tokenized")}  # fmt: skip
    named = first_field(texts, ("text", "content", "summary", "document", "body"))
    return named or max(texts, key=lambda name: len(texts[name]), default=None)


def _branches(value: object) -> bool:
    """Return True when a message in a ChatGPT export has several replies."""
    return any(
        len(list_or_empty(one.get("children"))) > 1
        or (key == "mapping" and any(map(_branches, one.values())))
        or _branches(one)
        for holder in (value if isinstance(value, list) else [value])
        if isinstance(holder, Mapping)
        for key, one in holder.items()
        if isinstance(one, Mapping)
    )
