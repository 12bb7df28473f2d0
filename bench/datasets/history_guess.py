"""Guess from sample rows where the turns of a history are, and what of a turn is remembered.

Example::

    guess = HistoryGuess(rows, "sessions", gold=[{"s1"}])
    guess.lines                 # the lines of schema.context
    guess.unmapped              # what is not remembered, with what to write
    guess.turn_ids, guess.session_ids

What holds gold is never walked into.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import cast

from bench.datasets.config_guess import (
    DATES,
    DECODE,
    GOLD,
    LITERAL,
    NESTED,
    NUMBERED,
    ONE_DATE,
    ONE_ID,
    ROLES,
    SESSION_IDS,
    TURNS,
    WORDS,
    Row,
    are_ids,
    field_name,
    field_path,
    first,
    is_date,
    objects,
    quoted,
    union,
    written,
)
from bench.datasets.row import scalar_text, value_of

SPEAKING = ("role", "speaker", "who", "author", "sender", "from", "user_name", "sender_name")
NAMED = (*(name for name in SPEAKING if name != "author"), "title", "author", "name")
INSIDE = ("role", "name", "speaker")
_DEEP = 6

_UNSPOKEN = re.compile(r".*(?:image|screenshot|img_url|audio|video).*", re.IGNORECASE)
PICTURES = re.compile(r"(?:image|screenshot|img|audio|video)(?:_url|_path|s)?", re.IGNORECASE)

Way = tuple[str, ...]
"""steps to the turns: a name, ``[*]`` or ``.*``"""


def is_turn(part: object) -> bool:
    """True for an object that says who speaks, or has words and holds no list of objects."""
    if not isinstance(part, Mapping):
        return False
    if any(isinstance(part.get(name), str) for name in SPEAKING) or isinstance(part.get("author"), Mapping):
        return True
    return not any(_holds_lists(one) for one in part.values())


def _holds_lists(value: object) -> bool:
    """A list of objects or lists, or a map of such lists."""
    if isinstance(value, Mapping):
        return any(map(_holds_lists, value.values()))
    return isinstance(value, list) and any(isinstance(part, list | Mapping) for part in value)


def way_to_turns(value: object, deep: int = _DEEP) -> Way | None:
    """Where the turns of a value are; None where it holds none."""
    if deep == 0 or isinstance(value, str) or value is None:
        return None
    if isinstance(value, list):
        return _way_in_list([part for part in value if part is not None], deep)
    return _way_in_map(value, deep) if isinstance(value, Mapping) else None


def _way_in_list(parts: Sequence[object], deep: int) -> Way | None:
    if parts and all(isinstance(part, str) for part in parts):
        return ("[*]",)
    if parts and all(map(_is_pair, parts)):
        return ("[*]",)
    if parts and all(isinstance(part, list) for part in parts):
        inner = way_to_turns([one for part in parts for one in cast("list[object]", part)], deep - 1)
        return None if inner is None else ("[*]", *inner)
    maps = [part for part in parts if isinstance(part, Mapping)]
    if not maps or len(maps) != len(parts):
        return ("[*]",) if maps else None
    if sum(map(is_turn, maps)) * 2 > len(maps) and not _keyed(maps):
        return ("[*]",)
    inner = _way_in_map(union(maps), deep - 1, keyed=_keyed(maps))
    return None if inner is None else ("[*]", *inner)


def _is_pair(part: object) -> bool:
    return isinstance(part, list) and len(part) == 2 and isinstance(part[0], str) and isinstance(part[1], list | str)


def _keyed(maps: Sequence[Row]) -> bool:
    """Every object holds nothing but lists or maps under keys that are data."""
    parts = [(key, part) for one in maps for key, part in one.items() if part is not None]
    return bool(parts) and all(isinstance(part, list | Mapping) and NUMBERED.fullmatch(key) for key, part in parts)


def _way_in_map(value: Row, deep: int, *, keyed: bool = False) -> Way | None:
    parts = {key: part for key, part in value.items() if part is not None}
    even = len(parts) > 1 and len({type(part) for part in parts.values()}) == 1
    if (keyed or even) and all(isinstance(part, list | Mapping) for part in parts.values()):
        turns = [next((key for key, one in part.items() if is_turn(one)), None) for part in parts.values()
                 if isinstance(part, Mapping)]  # fmt: skip
        wrapped = next(filter(None, turns), None)
        if wrapped is not None:
            return ("*", wrapped)
        inner = next((way for part in parts.values() if (way := way_to_turns(part, deep - 1))), None)
        if inner is not None and (
            keyed or all(way_to_turns(part, deep - 1) == inner for part in parts.values() if part)
        ):
            return ("*", *inner)
    names = [name for name in parts if not GOLD.fullmatch(name) and name not in NESTED and name != "personas"]
    found = {name: way for name in names if (way := way_to_turns(parts[name], deep - 1)) is not None}
    known = next((name for name in (*TURNS, "mapping", "sessions") if name in found), None)
    name = known or max(found, key=lambda name: len(str(parts[name])), default=None)
    return None if name is None else (name, *found[name])


def spelled(steps: Sequence[str]) -> str:
    """The path of steps below ``$``."""
    return "".join(".*" if step == "*" else step if step == "[*]" else field_path(step)[1:] for step in steps)


class HistoryGuess:
    """The history in one field of the rows."""

    def __init__(
        self, rows: Sequence[Row], history: str, *, gold: Sequence[Collection[str]] = (), cut: bool = False
    ) -> None:
        self.rows = rows
        self.row = union(rows)
        self.field = history
        self.gold = gold
        self.cut = cut
        """questions see a part of the history: what is counted are its turns"""
        self.unmapped: list[str] = []
        self.session_ids: set[str] = set()
        self.turn_ids: set[str] = set()
        self.turns: list[Row] = []
        self.texts: set[str] = set()
        self.single = False
        """the history is one session"""
        self.words: str | None = None
        self.turn_golds = False
        """the gold of some question names turns"""
        self.lines = list(self._context())

    def _context(self) -> Iterator[str]:
        value = self.row.get(self.field)
        if isinstance(value, str | int | float) or value is None:
            yield from (f"field: {field_name(self.field)}", "type: string")
            if isinstance(value, str) and LITERAL.match(value):
                self.unmapped.append(f'"{self.field}" is a list or map written as text: {DECODE}')
            return
        if isinstance(value, Mapping) and (found := list(self._numbered(value) or self._side_by_side(value))):
            yield from found
        else:
            yield from self._walked(value)
        yield from self._item_schema()

    # --------------------------------------------------------------- sessions

    def _numbered(self, holder: Row) -> list[str]:
        """Sessions under numbered keys, dates beside them."""
        lists = {key: part for key, part in holder.items() if isinstance(part, list)}
        shapes = Counter(match.groups() for key in lists if (match := NUMBERED.fullmatch(key)))
        if len(shapes) != 1:
            return []
        (before, after), _ = shapes.most_common(1)[0]
        found = [f"field: {field_name(self.field)}", "type: object"]
        if (before, after) != ("session_", ""):
            found.append(f"sessionPattern: {json.dumps(f'{before}*{after}', ensure_ascii=False)}")
        dates = Counter(match.groups() for key, part in holder.items() if is_date(part)
                        and (match := NUMBERED.fullmatch(key)))  # fmt: skip
        if dates and (shape := dates.most_common(1)[0][0]) != ("session_", "_date_time"):
            found.append(f"datePattern: {json.dumps('*'.join(shape), ensure_ascii=False)}")
        self.turns = list(objects([part for key, part in lists.items() if NUMBERED.fullmatch(key)]))
        self.session_ids = set(holder)
        return found

    def _side_by_side(self, holder: Row) -> list[str]:
        """A list of sessions with a list of dates or ids beside it."""
        lists = {key: part for key, part in holder.items() if isinstance(part, list) and part}
        main = max(lists, key=lambda key: (_holds_lists(lists[key]), len(str(lists[key]))),
                   default=None)  # fmt: skip
        if main is None or not all(isinstance(part, list | Mapping) for part in lists[main]):
            return []
        beside = {key: part for key, part in lists.items() if key != main and len(part) == len(lists[main])}
        dates = next((key for key, part in beside.items() if is_date(part[0])), None)
        ids = next((key for key, part in beside.items() if key != dates and are_ids(part)), None)
        if not dates and not ids:
            return []
        found = [f"field: {written(field_path(self.field, main))}", "type: array"]
        if dates:
            found.append(f"dateField: {written(field_path(self.field, dates))}")
        if ids:
            found.append(f"sessionIdField: {written(field_path(self.field, ids))}")
            self.session_ids = {scalar_text(one) or "" for one in lists[ids]}
        self.turns = list(objects(lists[main]))
        return found

    def _walked(self, value: object) -> Iterator[str]:
        way = way_to_turns(value)
        if way is None:
            self.unmapped.append(f'"{self.field}" holds no list of turns: name its sessions in schema.context')
            yield from (
                f"field: {field_name(self.field)}",
                "type: object" if isinstance(value, Mapping) else "type: array",
            )
            return
        every = value_of(f"$.x{spelled(way)}")
        assert every is not None
        found = [one for row in self.rows for one in every.all({"x": row.get(self.field)}) if one is not None]
        self.turns = [one for one in found if isinstance(one, Mapping)]
        self.texts = {one for one in found if isinstance(one, str)}
        self.pairs = [one for one in found if isinstance(one, list)]
        stars = [number for number, step in enumerate(way) if step in ("[*]", "*")]
        if len(stars) == 1:
            yield from self._one_session(way)
        else:
            yield from self._sessions(way, stars)

    def _one_session(self, way: Way) -> Iterator[str]:
        whole = way == ("[*]",)
        path = field_name(self.field) if whole else written(field_path(self.field) + spelled(way))
        spoken = bool(self.turns) and _who(union(self.turns))[1] is not None
        dates, ids = first(self.row, DATES, list), first(self.row, SESSION_IDS, list)
        if (whole and (dates or ids)) or (spoken and whole and not self.cut and not self.gold):
            yield from (f"field: {path}", "type: array")
            yield from self._lists_beside(dates, ids)
            return
        self.single = True
        yield from (f"field: {path}", "type: session")

    def _lists_beside(self, dates: str | None, ids: str | None) -> Iterator[str]:
        if dates:
            yield f"dateField: {dates}"
        if ids:
            yield f"sessionIdField: {ids}"
            self.session_ids = {scalar_text(one) or "" for row in self.rows for one in _list(row.get(ids))}

    def _sessions(self, way: Way, stars: Sequence[int]) -> Iterator[str]:
        """Sessions are the innermost objects around turns, else the innermost lists."""
        at = next((number for number in reversed(stars[:-1]) if way[number + 1] not in ("[*]", "*")), None)
        if at is None:
            head, rest = way[: stars[-1]], way[stars[-1] :]
        else:
            head, rest = way[: at + 1], way[at + 1 :]
        turn = union(self.turns)
        own = next((name for name in ONE_DATE if is_date(turn.get(name))), None)
        plain = at is None and head == ("[*]",)
        if plain and not (own and self._sparse(own)):
            yield from (f"field: {field_name(self.field)}", "type: array")
            yield from self._lists_beside(first(self.row, DATES, list), first(self.row, SESSION_IDS, list))
            return
        yield f"field: {written(field_path(self.field) + spelled(head))}"
        parts = {}
        if at is None:
            parts = {"date": json.dumps(f"$[*].{own}")} if own else {}
        else:
            parts = self._parts_of_session(head, rest, own)
        if parts:
            yield f"session: {{{', '.join(f'{key}: {text}' for key, text in parts.items())}}}"

    def _parts_of_session(self, head: Way, rest: Way, own: str | None) -> dict[str, str]:
        every = value_of(f"$.x{spelled(head)}")
        assert every is not None
        held = [one for row in self.rows for one in every.all({"x": row.get(self.field)}) if isinstance(one, Mapping)]
        ids = next((name for name in ONE_ID if all(scalar_text(one.get(name)) for one in held) and held
                    and not isinstance(held[0].get(name), bool)), None)  # fmt: skip
        dates = next(
            (name for name in (*ONE_DATE, "start_time") if held and all(is_date(one.get(name)) for one in held)), None
        )
        if ids:
            self.session_ids = {scalar_text(one[ids]) or "" for one in held}
        if texts := [name for name, one in union(held).items() if isinstance(one, str) and name not in (ids, dates)
                     and not is_date(one) and not GOLD.fullmatch(name)]:  # fmt: skip
            shown = " ".join(f"${{{name}}}" for name in texts)
            self.unmapped.append(
                f"of a session these texts are not remembered: {', '.join(texts)}; "
                f'ingestion.preprocessing.formatTemplate takes them: "{shown} ${{session}}"'
            )
        found = {"id": field_name(ids)} if ids else {}
        found["turns"] = json.dumps(f"${spelled(rest)}", ensure_ascii=False)
        if dates:
            found["date"] = field_name(dates)
        elif own and self._sparse(own):
            found["date"] = json.dumps(f"${spelled(rest)}.{own}")
        return found

    def _sparse(self, name: str) -> bool:
        """A date that is in some turns only: it is the session's."""
        return any(turn.get(name) is None for turn in self.turns)

    # ------------------------------------------------------------------ turns

    def _item_schema(self) -> Iterator[str]:
        """Where the parts of a turn are, for turns that the usual names do not read whole."""
        if self.turns:
            parts = self._parts_of_turn(union(self.turns))
        elif getattr(self, "pairs", None):
            text = "${$[1]|join:''}" if isinstance(self.pairs[0][1], list) else "${$[1]}"
            parts = {"id": '"$[0]"', "content": f'"${{$[0]}}: {text}"'}
            self.turn_ids = {str(pair[0]) for pair in self.pairs}
        elif self.texts and self.single:
            parts = {"content": "$", **({"id": '"$keys[-1]"'} if self._by_place() else {})}
        else:
            return
        if not parts:
            return
        yield "itemSchema:"
        yield from (f"  {key}: {text}" for key, text in parts.items())

    def _parts_of_turn(self, turn: Row) -> dict[str, str]:
        who, key = _who(turn)
        words = self._words(turn, who)
        if words is None:
            return {}
        if who is not None and not who.startswith("$") and any(one.get(who) is None for one in self.turns):
            words = words if words.startswith('"') else json.dumps(f"${{{who}|default:''}} ${{{words}}}")
            who = key = None
        date = next((name for name in ONE_DATE if is_date(turn.get(name)) and not self._sparse(name)), None)
        ids = self._id(turn)
        caption = first(turn, ("blip_caption", "caption"), str)
        if words in WORDS and who in (None, "role", "speaker") and date is None and ids in (None, "dia_id"):
            return {}
        if (self.texts and not words.startswith('"')) or self.texts:
            words = f"[{words}, $]"
        parts = {"content": words if words.startswith(('"', "[")) else field_name(words)}
        if who is not None and key is not None:
            parts[key] = who if who.startswith("$") else field_name(who)
        if ids is not None:
            parts["dialogId" if ids == "dia_id" else "id"] = ids if ids.startswith('"') else field_name(ids)
        if date is not None:
            parts["date"] = field_name(date)
        if caption is not None:
            parts["caption"] = field_name(caption)
        return parts

    def _words(self, turn: Row, who: str | None) -> str | None:
        """The field of a turn's text, or a template of several."""
        texts = {name: one for name, one in turn.items() if isinstance(one, str) and one and name != who
                 and not GOLD.fullmatch(name) and not _UNSPOKEN.fullmatch(name)
                 and name not in (*ONE_DATE, *ONE_ID, "index", "type")}  # fmt: skip
        texts = {name: one for name, one in texts.items() if name != "title" or who != "title"}
        if (named := first(turn, WORDS, str)) is not None and turn[named]:
            self._left([name for name in texts if name != named])
            return named
        if (nested := _nested_words(turn)) is not None:
            return nested
        if len(texts) > 1 and (who is None or who == "title") and not first(turn, WORDS, str):
            lines = "\n".join(f"{name}: ${{{name}|default:none}}" for name in texts if re.fullmatch(r"\w+", name))
            return (
                json.dumps(lines, ensure_ascii=False)
                if lines and who is None
                else max(texts, key=lambda one: len(texts[one]))
            )
        found = max(texts, key=lambda name: len(texts[name]), default=None)
        lists = [name for name, one in turn.items() if isinstance(one, list) and one and isinstance(one[0], str)
                 and not GOLD.fullmatch(name)]  # fmt: skip
        if lists and (found is None or found == "title"):
            return json.dumps("${" + lists[0] + "|join:' '}")
        if found is not None:
            self.words = found
            self._left([name for name in texts if name != found])
        return found

    def _left(self, left: list[str]) -> None:
        plain = [
            name
            for name in left
            if name not in ("title", "caption", "blip_caption") and not is_date(self.turns[0].get(name))
        ]
        if plain:
            self.unmapped.append(f"of a turn these texts are not remembered: {', '.join(plain)}")

    def _id(self, turn: Row) -> str | None:
        """The field that gold names, else the one that differs from turn to turn."""
        for name in [
            name for name in turn if not GOLD.fullmatch(name) and not isinstance(turn[name], bool | list | Mapping)
        ]:
            values = {scalar_text(one.get(name)) for one in self.turns}
            if any(gold and set(gold) <= values for gold in self.gold):
                self.turn_ids = {one for one in values if one}
                self.turn_golds = True
                return name
        if self._by_place():
            return '"$keys[-1]"'
        ids = next((name for name in ONE_ID if name != "title" and isinstance(turn.get(name), str | int)
                    and not isinstance(turn[name], bool) and self._differ(name)), None)  # fmt: skip
        self.turn_ids = {scalar_text(one[ids]) or "" for one in self.turns if ids and one.get(ids) is not None}
        return ids

    def _by_place(self) -> bool:
        """Gold names turns by their number in the one session."""
        numbers = {str(number) for number in range(max(len(self.turns), len(self.texts)) + 1)}
        placed = self.single and any(gold and set(gold) <= numbers for gold in self.gold)
        if placed:
            self.turn_ids = numbers
        return placed

    def _differ(self, name: str) -> bool:
        values = [scalar_text(turn.get(name)) for turn in self.turns[:20]]
        return None not in values and len(set(values)) == len(values)


def _who(turn: Row) -> tuple[str | None, str | None]:
    """The field of who speaks, and whether it is a role or a name."""
    name = first(turn, NAMED, str)
    if name is not None:
        known = {str(turn[name])} & {*ROLES}
        return name, "role" if name == "role" or known else "speaker"
    for holder in ("author", "sender", "user", "from"):
        if isinstance(part := turn.get(holder), Mapping) and (inner := first(part, INSIDE, str)) is not None:
            return f"$.{holder}.{inner}", "role" if inner == "role" else "speaker"
    return None, None


def _nested_words(turn: Row) -> str | None:
    """Text that is a list of parts, or in a map of its own."""
    for name in ("content", "text", "message", "body"):
        part = turn.get(name)
        if isinstance(part, Mapping) and isinstance(part.get("parts"), list):
            return json.dumps(f"${{$.{name}.parts|join:''}}")
        if isinstance(part, Mapping) and (inner := first(part, WORDS, str)) is not None:
            return json.dumps(f"$.{name}.{inner}")
        if isinstance(part, list) and any(
            isinstance(one, Mapping) and isinstance(one.get("text"), str) for one in part
        ):
            return json.dumps(f"${{$.{name}[*].text|join:''}}")
    return None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


__all__ = ["HistoryGuess", "is_turn", "quoted", "way_to_turns"]
