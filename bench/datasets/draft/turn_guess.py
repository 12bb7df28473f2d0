"""Guess the config lines for the fields of a turn: text, speaker, id and date.

Example::

    turn = TurnGuess(["..."], gold=[{"D1:3"}], single=False)
    turn.lines()                # the lines of itemSchema; none if the usual field names read the whole turn
    turn.ids, turn.unmapped
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from bench.datasets.draft.config_guess import (
    GOLD,
    ONE_DATE,
    ONE_ID,
    ROLES,
    TEXT_NAMES,
    Row,
    are_distinct,
    are_known,
    date_field,
    field_name,
    first_field,
    is_date,
    list_or_empty,
    merged_fields,
)
from bench.datasets.draft.turn_paths import SPEAKER_FIELDS
from bench.datasets.rows.row_values import scalar_text, value_of

SPEAKER_NAMES = (*(name for name in SPEAKER_FIELDS if name != "author"), "title", "author", "name")
INNER_SPEAKER_NAMES = ("role", "name", "speaker")
_MEDIA_NAMES = re.compile(r".*(?:image|screenshot|img_url|audio|video).*", re.IGNORECASE)
_ID_NAMES = re.compile(r".*(?:_id|uuid|hash)", re.IGNORECASE)


class TurnGuess:
    """A guess of the fields of a history's turns. A turn is an object, a text, or a pair of title and text."""

    def __init__(self, found: Sequence[object], gold: Sequence[Collection[str]], *, single: bool) -> None:
        self.turns = list({id(one): one for one in found if isinstance(one, Mapping)}.values())
        """the turns, each once; a history that is joined to several questions is in several rows"""
        self.texts = {one for one in found if isinstance(one, str)}
        self.pairs = [one for one in found if isinstance(one, list) and len(one) == 2]
        self.gold = gold
        self.single = single
        """true if the whole history is one session"""
        self.ids: set[str] = set()
        self.golds = False
        """true if the evidence ids of at least one question are ids of turns"""
        self.words: str | None = None
        self.date: str | None = None
        self.id_field: str | None = None
        self.unmapped: list[str] = []

    def lines(self) -> Iterator[str]:
        """Yield the lines of the config section ``itemSchema``."""
        parts: dict[str, str] = {}
        if self.turns:
            parts = self._parts_of_turn(merged_fields(self.turns))
        elif self.pairs:
            text = "${$[1]|join:''}" if isinstance(self.pairs[0][1], list) else "${$[1]}"
            parts = {"id": '"$[0]"', "content": f'"${{$[0]}}: {text}"'}
            self.ids = {str(pair[0]) for pair in self.pairs}
        elif self.texts and self.single:
            parts = {"content": "$", **({"id": '"$keys[-1]"'} if self._by_place() else {})}
        if parts:
            yield "itemSchema:"
            yield from (f"  {key}: {text}" for key, text in parts.items())

    def _parts_of_turn(self, turn: Row) -> dict[str, str]:
        who, key = speaker_field(turn)
        self.date = date_field(self.turns) or self._usual_date()
        words = self._text_field(turn, who)
        if words is None:
            return {}
        date = self.date
        ids = self.id_field = self._id(turn)
        caption = first_field(turn, ("blip_caption", "caption"), str)
        if words in TEXT_NAMES and who in (None, "role", "speaker") and date is None and ids in (None, "dia_id"):
            return {}
        if (self.texts and not words.startswith('"')) or self.texts:
            words = f"[{words}, $]"
        parts = {"content": words if words.startswith(('"', "[")) else field_name(words)}
        if who is not None and key is not None:
            named = value_of(who)
            lacking = self.texts or any(named is None or named.get(one) is None for one in self.turns)
            optional = json.dumps(f"${{{who}|default:''}}", ensure_ascii=False)
            parts[key] = optional if lacking else who if who.startswith("$") else field_name(who)
        if ids is not None:
            parts["dialogId" if ids == "dia_id" else "id"] = ids if ids.startswith('"') else field_name(ids)
        if date is not None:
            parts["date"] = field_name(date)
        if caption is not None:
            parts["caption"] = field_name(caption)
        return parts

    def _text_field(self, turn: Row, who: str | None) -> str | None:
        """Return the field with the text of a turn; None if no field contains a text.

        If the text consists of several fields, return a template in quotes.
        """
        texts = {name: one for name, one in turn.items() if isinstance(one, str) and one and name != who
                 and not GOLD.fullmatch(name) and not _MEDIA_NAMES.fullmatch(name) and not _ID_NAMES.fullmatch(name)
                 and name not in (*ONE_DATE, *ONE_ID, "index", "type") and name != self.date}  # fmt: skip
        texts = {name: one for name, one in texts.items() if name != "title" or who != "title"}
        if (named := first_field(turn, TEXT_NAMES, str)) is not None and turn[named]:
            self._note_unread_texts([name for name in texts if name != named])
            parts = any(isinstance(one.get(named), list) for one in self.turns)
            return _joined_parts(named, self.turns) if parts else named
        if (nested := _nested_text(turn, self.turns)) is not None:
            return nested
        if len(texts) > 1 and (who is None or who == "title") and not first_field(turn, TEXT_NAMES, str):
            lines = "\n".join(f"{name}: {self._optional_field(name)}" for name in texts if re.fullmatch(r"\w+", name))
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
        if lists and found is not None and len(str(turn[lists[0]])) > len(texts[found]):
            return json.dumps(f"${{{found}}}: ${{{lists[0]}|join:' '}}")
        if found is not None:
            self.words = found
            self._note_unread_texts([name for name in texts if name != found])
        return found

    def _usual_date(self) -> str | None:
        """Return the field that contains a date in most turns, and is empty in all others; None if no field fits."""
        name = date_field(self.turns, all_have=False)
        dated = [one for one in self.turns if name is not None and one.get(name) is not None]
        return name if 2 * len(dated) > len(self.turns) and all(is_date(one.get(name or "")) for one in dated) else None

    def _optional_field(self, name: str) -> str:
        return f"${{{name}}}" if all(one.get(name) is not None for one in self.turns) else f"${{{name}|default:none}}"

    def _note_unread_texts(self, left: list[str]) -> None:
        plain = [
            name
            for name in left
            if name not in ("title", "caption", "blip_caption") and not is_date(self.turns[0].get(name))
        ]
        if plain:
            self.unmapped.append(f"these texts of a turn are not ingested: {', '.join(plain)}")

    def _id(self, turn: Row) -> str | None:
        """Return the field with the ids of turns; None if no field fits.

        A field that contains all or most evidence ids is preferred. Otherwise, a field with a usual id name and
        distinct values is returned.
        """
        fields = {
            name: {text for one in self.turns if (text := scalar_text(one.get(name)))}
            for name, value in turn.items()
            if not GOLD.fullmatch(name) and name not in SPEAKER_FIELDS and not isinstance(value, bool | list | Mapping)
        }
        for fits in (_are_all_known, are_known):
            for name, values in fields.items():
                if any(fits(gold, values) for gold in self.gold):
                    self.ids, self.golds = values, True
                    return name
        if self._by_place():
            return '"$keys[-1]"'
        ids = next((name for name in ONE_ID if name != "title" and isinstance(turn.get(name), str | int)
                    and not isinstance(turn[name], bool)
                    and are_distinct([one.get(name) for one in self.turns[:20]])), None)  # fmt: skip
        self.ids = {scalar_text(one[ids]) or "" for one in self.turns if ids and one.get(ids) is not None}
        return ids

    def _by_place(self) -> bool:
        """Return True when the history is one session and the evidence ids are the numbers of its turns."""
        numbers = {str(number) for number in range(max(len(self.turns), len(self.texts)) + 1)}
        placed = self.single and any(gold and set(gold) <= numbers for gold in self.gold)
        if placed:
            self.ids = numbers
        return placed


def _are_all_known(references: Collection[str], ids: Collection[str]) -> bool:
    return bool(references) and set(references) <= set(ids)


def speaker_field(turn: Row) -> tuple[str | None, str | None]:
    """Return the field that names the speaker, and the config key for this field: ``role`` or ``speaker``.

    Both values are None if no field names the speaker.
    """
    name = first_field(turn, SPEAKER_NAMES, str)
    if name is not None:
        known = {str(turn[name])} & {*ROLES}
        return name, "role" if name == "role" or known else "speaker"
    for holder in ("author", "sender", "user", "from"):
        if (
            isinstance(part := turn.get(holder), Mapping)
            and (inner := first_field(part, INNER_SPEAKER_NAMES, str)) is not None
        ):
            return f"$.{holder}.{inner}", "role" if inner == "role" else "speaker"
    return None, None


def _nested_text(turn: Row, turns: Sequence[Row]) -> str | None:
    """Return a quoted path or template for a text that is inside a map or a list.

    Return None if the turn contains no such text.
    """
    for name in ("text_entities", "content", "text", "message", "body"):
        part = turn.get(name)
        if isinstance(part, Mapping) and isinstance(part.get("parts"), list):
            return json.dumps(f"${{$.{name}.parts|join:''}}")
        if isinstance(part, Mapping) and (inner := first_field(part, TEXT_NAMES, str)) is not None:
            return json.dumps(f"$.{name}.{inner}")
        if isinstance(part, list) and any(
            isinstance(one, Mapping) and isinstance(one.get("text"), str) for one in part
        ):
            return _joined_parts(name, turns)
    return None


def _joined_parts(name: str, turns: Sequence[Row]) -> str:
    """Return a quoted template for a field that contains a text in some turns, and a list of parts in others.

    Parts that are fragments of one text, as in a Telegram export, are joined without a separator.
    """
    default = "default:''|" if any(one.get(name) is None for one in turns) else ""
    parts = [part for one in turns for part in list_or_empty(one.get(name))]
    fragments = name == "text_entities" or any(isinstance(part, str) for part in parts)
    joined = "join:''" if fragments else "join"
    return json.dumps(f"${{{name}|{default}texts|{joined}}}")
