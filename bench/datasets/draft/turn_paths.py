"""Find the path that leads from a value to its turns.

Example::

    path_to_turns({"log": [{"turns": [{"role": "user", "content": "x"}]}]})     # ("log", "[*]", "turns", "[*]")
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bench.datasets.draft.config_guess import (
    GOLD,
    NUMBERED,
    QUESTION_LISTS,
    TURNS,
    Row,
    field_path,
    is_date,
    is_question,
    merged_fields,
)

SPEAKER_FIELDS = ("role", "speaker", "who", "author", "sender", "from", "user_name", "sender_name")
_DEEP = 6
_NO_TURNS = re.compile(r"personas|(?:.*_)?tokens|(?:.*_)?token_ids", re.IGNORECASE)
"""regular expression for names of lists that are not turns, such as the tokens of a text"""

TurnPath = tuple[str, ...]
"""steps that lead to the turns: a name, ``[*]`` for the elements of a list, or ``*`` for the values of a map"""


def is_turn(part: object) -> bool:
    """Return True when an object can be a turn: it names a speaker, or it contains no list of objects.

    An object with a question and an answer is never a turn.
    """
    if not isinstance(part, Mapping):
        return False
    if is_question(part):
        return False
    if any(isinstance(part.get(name), str) for name in SPEAKER_FIELDS) or isinstance(part.get("author"), Mapping):
        return True
    return not any(holds_lists(one) or _holds_messages(one) for one in part.values())


def _holds_messages(value: object) -> bool:
    """Return True for a map of messages by id, as in a ChatGPT export."""
    return isinstance(value, Mapping) and any(isinstance(one, Mapping) and "message" in one for one in value.values())


def holds_lists(value: object) -> bool:
    """Return True for a list that contains an object or a list, or for a map with such a list inside."""
    if isinstance(value, Mapping):
        return any(map(holds_lists, value.values()))
    return isinstance(value, list) and any(isinstance(part, list | Mapping) for part in value)


def path_to_turns(value: object, deep: int = _DEEP) -> TurnPath | None:
    """Return the steps of the path from a value to its turns, or None if the value contains no turns."""
    if deep == 0 or isinstance(value, str) or value is None:
        return None
    if isinstance(value, list):
        return _path_in_list([part for part in value if part is not None], deep)
    return _path_in_map(value, deep) if isinstance(value, Mapping) else None


def _path_in_list(parts: Sequence[object], deep: int) -> TurnPath | None:
    if parts and (all(isinstance(part, str) for part in parts) or all(map(_is_pair, parts))):
        return ("[*]",)
    if parts and all(isinstance(part, list) for part in parts):
        inner = path_to_turns([one for part in parts if isinstance(part, list) for one in part], deep - 1)
        return None if inner is None else ("[*]", *inner)
    maps = [part for part in parts if isinstance(part, Mapping)]
    if not maps or len(maps) != len(parts):
        return ("[*]",) if maps else None
    if sum(map(is_turn, maps)) * 2 > len(maps) and not _keyed(maps):
        return ("[*]",)
    inner = _path_in_map(merged_fields(maps), deep - 1, keyed=_keyed(maps))
    return None if inner is None else ("[*]", *inner)


def _is_pair(part: object) -> bool:
    return isinstance(part, list) and len(part) == 2 and isinstance(part[0], str) and isinstance(part[1], list | str)


def _keyed(maps: Sequence[Row]) -> bool:
    """Return True when all keys of the objects contain numbers, and all values are lists or maps."""
    parts = [(key, part) for one in maps for key, part in one.items() if part is not None]
    return bool(parts) and all(isinstance(part, list | Mapping) and NUMBERED.fullmatch(key) for key, part in parts)


def _path_in_map(value: Row, deep: int, *, keyed: bool = False) -> TurnPath | None:
    parts = {key: part for key, part in value.items() if part is not None}
    keyed = keyed or (bool(parts) and all(map(is_date, parts)))
    even = len(parts) > 1 and len({type(part) for part in parts.values()}) == 1
    if (keyed or even) and all(isinstance(part, list | Mapping) for part in parts.values()):
        maps = [part for part in parts.values() if isinstance(part, Mapping)]
        turns = [key for part in maps for key, one in part.items() if is_turn(one)]
        if turns and len(set(turns)) == 1:
            return ("*", turns[0])
        if len(maps) == len(parts) and all(is_turn(part) and _has_words(part) for part in maps):
            return ("*",)
        inner = next((way for part in parts.values() if (way := path_to_turns(part, deep - 1))), None)
        if inner is not None and (
            keyed or all(path_to_turns(part, deep - 1) == inner for part in parts.values() if part)
        ):
            return ("*", *inner)
    names = [
        name
        for name in parts
        if not GOLD.fullmatch(name) and name not in QUESTION_LISTS and not _NO_TURNS.fullmatch(name)
    ]
    found = {name: way for name in names if (way := path_to_turns(parts[name], deep - 1)) is not None}
    known = next((name for name in (*TURNS, "mapping", "sessions") if name in found), None)
    name = known or max(found, key=lambda name: len(str(parts[name])), default=None)
    return None if name is None else (name, *found[name])


def _has_words(part: Row) -> bool:
    return any(isinstance(one, str) and " " in one.strip() for one in part.values())


def steps_text(steps: Sequence[str]) -> str:
    """Write steps as a path without the ``$`` at the start, such as ``.log[*].turns``."""
    return "".join(".*" if step == "*" else step if step == "[*]" else field_path(step)[1:] for step in steps)
