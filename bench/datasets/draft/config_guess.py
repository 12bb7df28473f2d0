"""Usual names of data fields, and functions that recognize a field by its name or its value.

Field names are compared without regard to case, spaces, hyphens and underscores::

    first_field({"answerKey": "A"}, ("answer_key",))      # "answerKey"
    is_gold("gold_answer"), is_date("2023-05-30")   # True, True
    field_path("log", "[*]", "text")                # "$.log[*].text"
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from bench.datasets.dates import DateReader
from bench.datasets.rows.row_values import scalar_text

Row = Mapping[str, object]

IDS = ("id", "question_id", "sample_id", "case_id", "item_id", "uid", "_id", "qid", "query_id", "uuid")
QUESTIONS = ("question", "query", "q", "Q", "user_question_or_message", "user_query", "prompt", "input",
             "ask", "question_text", "final_question", "inquiry", "input_text", "problem")  # fmt: skip
ANSWERS = ("answer", "expected_answer", "expected", "answers", "gold", "a", "output", "target", "gold_answer",
           "ground_truth", "ideal_response", "correct_answer", "reference_answer", "A", "ideal_answer",
           "gold_response", "ideal", "outputs", "targets", "gold_answers", "short_answers", "reference_answers",
           "solution", "reply", "want", "reference", "response")  # fmt: skip
ANSWER_LIKE = re.compile(
    r"(?:(?:gold|ref|reference|expected|correct|true|target|model|ideal|right)_)?"
    r"(?:answers?|repl(?:y|ies)|responses?|outputs?|solutions?|targets?)(?:_?\d+|_text)?"
)
"""regular expression for names of answer fields, as `plain_name` returns them"""
_ANSWER_NAMES = frozenset(name.lower() for name in ANSWERS)
ALIASES = ("answer_aliases", "aliases", "ideal_response", "ideal_answer", "ideal_summary", "expected_compliance")
HISTORIES = ("sessions", "haystack_sessions", "conversation", "content", "context", "text", "messages", "history",
             "document", "passage", "items", "dialogue", "dialogues", "dialog", "chat", "chats", "chat_history",
             "turns", "paragraphs", "passages", "documents", "conversations", "transcript", "memories",
             "article", "story", "log", "logs", "diary", "notes", "ctxs", "contexts",
             "meeting_transcripts")  # fmt: skip
DATES = ("dates", "haystack_dates", "session_dates", "timestamps", "days")
SESSION_IDS = ("session_ids", "haystack_session_ids")
ONE_ID = ("id", "session_id", "sid", "turn_id", "message_id", "msg_id", "dia_id", "idx", "turn_idx",
          "_id", "uuid", "docid", "doc_id", "document_id", "passage_id", "pid", "conversation_id",
          "url", "title")  # fmt: skip
ONE_DATE = ("date", "session_date", "timestamp", "time", "datetime", "created_at", "time_anchor",
            "date_time", "published_at", "create_time", "sent_at", "ts", "when", "day", "started_at",
            "start_time")  # fmt: skip
TURNS = ("turns", "messages", "chat_messages", "dialogue", "dialog", "conversation", "utterances",
         "chat", "content", "sentences")  # fmt: skip
TEXT_NAMES = ("content", "text")
ROLES = ("user", "assistant", "system", "human", "ai", "bot", "gpt")
TYPES = ("question_type", "type", "category", "kind", "pref_type", "domain", "task", "topic")
QUESTION_LISTS = ("qa", "qa_pairs", "questions", "queries", "probing_questions", "qas",
                  "test_questions", "qa_list", "question_answer_pairs")  # fmt: skip
CHOICES = ("choices", "options", "all_options", "candidates")
RIGHT_CHOICES = ("answerKey", "answer_key", "correct_choice", "correct_option", "correct", "label",
                 "answer_index", "gold_label", "ground_truth")  # fmt: skip
NESTED_EVIDENCE = ("evidence", "evidence_ids", "expectedAnswerIds")
CORPORA = ("corpus_id", "persona_id", "user_id", "conversation_id", "shared_context_id", "context_id",
           "dialogue_id", "sample_id", "conv_id")  # fmt: skip
UNANSWERABLE = ("abstention", "is_abstention", "unanswerable", "is_unanswerable", "is_impossible", "no_answer")
ANSWERABLE = ("answerable", "is_answerable", "has_answer")
GOLD = re.compile(
    r"(?:gold|answer|correct|label|evidence|support|rubric|explanation|rationale|ground_?truth|ideal|expected|target"
    r"|has_answer|related|relevan|reference|citation|memory_points?|facts?|incorrect|wrong|qrels|hint|is_|question"
    r"|all_options|choice|option|candidate|distractor|key_?points).*|R|refs?"
    r"|.*_(?:snippet|evidence|answers?|aliases|gold|labels?)",
    re.IGNORECASE,
)
"""regular expression for names of fields that never belong to the history, such as correct answers"""
EVIDENCE = re.compile(
    r"R|refs?|(?:target_step_id|.*snippet|related|.*evidence|support|gold|answer_session|relevan|qrels|source_).*",
    re.IGNORECASE,
)
GRADES = ("score", "grade", "relevance", "rel", "gain", "label")
FLAG = re.compile(r"has_?answer|(?:is_?)?(?:supporting|gold|evidence|relevant)(?:_fact)?|label", re.IGNORECASE)
LITERAL = re.compile(r"\s*(?:\{\s*['\"]|\[\s*['\"{\[(])")
DECODE_HINT = "add data.with: {NAME: {decode: NAME}} for it"
PLAIN_STEP = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
YAML_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")
NUMBERED = re.compile(r"(.*?)[0-9]+(\D*)")


def plain_name(name: str) -> str:
    """Return a name in lower case with underscores: ``answerKey`` and ``Answer Key`` become ``answer_key``."""
    return re.sub(r"[\s_-]+", "_", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)).strip("_").lower()


def first_field(row: Row, names: Iterable[str], kind: type | tuple[type, ...] = object) -> str | None:
    """Return the row's key for the first of ``names`` that has a value of the type ``kind``.

    Case, spaces, hyphens and underscores in names do not matter. Return None if no field has such a value.
    """
    plain: dict[str, str] = {}
    for name in row:
        plain.setdefault(plain_name(name), name)
    for name in names:
        for key in (name, plain.get(plain_name(name))):
            if key is not None and row.get(key) is not None and isinstance(row[key], kind):
                return key
    return None


def is_gold(name: str) -> bool:
    """Return True when a field name suggests a correct answer or evidence. No provider may see such a field."""
    plain = plain_name(name)
    return bool(GOLD.fullmatch(name) or GOLD.fullmatch(plain) or plain in _ANSWER_NAMES or ANSWER_LIKE.fullmatch(plain))


def is_request(part: Row, name: str) -> bool:
    """Return True when an object contains a request and a response. Such an object is a turn and not a question."""
    weak = name.lower() in ("query", "prompt", "input", "ask") and first_field(
        part, ("response", "reply", "output"), str
    )
    return bool(weak) and not str(part[name]).rstrip().endswith(("?", "？"))


def is_question(part: Row) -> bool:
    """Return True when an object contains a question and an answer. Such an object is never ingested."""
    name = first_field(part, QUESTIONS, (str, Mapping))
    return name is not None and first_field(part, ANSWERS) is not None and not is_request(part, name)


def date_field(found: Sequence[Row], *, all_have: bool = True) -> str | None:
    """Return the name of the field that contains the date of each object.

    A field with a usual date name is preferred. If ``all_have`` is true, this field must contain a date in every
    object. If no field with a usual name fits, return the only field whose values are all dates. If
    there is not exactly one, return None.
    """
    if not found:
        return None
    have = all if all_have else any
    for name in ONE_DATE:
        key = first_field(merged_fields(found), (name,))
        if key is not None and have(is_date(one.get(key)) for one in found):
            return key
    dated = [
        name for name in found[0] if not GOLD.fullmatch(name) and all(_is_written_date(one.get(name)) for one in found)
    ]
    return dated[0] if len(dated) == 1 else None


def _is_written_date(value: object) -> bool:
    return isinstance(value, str) and len(value) >= 8 and bool(re.search(r"\d{4}", value)) and is_date(value)


def field_path(*steps: str) -> str:
    """Return the JSONPath for a sequence of field names and ``[*]`` steps, as written in the config."""
    parts = (
        step if step == "[*]" else f".{step}" if PLAIN_STEP.fullmatch(step) else f"[{json.dumps(step)}]"
        for step in steps
    )
    return "$" + "".join(parts)


def quoted_path(text: str) -> str:
    """Return a path in quotes if YAML needs the quotes, otherwise unchanged."""
    return text if re.fullmatch(r"\$[\w.\[\]*]+", text, re.ASCII) else json.dumps(text, ensure_ascii=False)


def field_name(name: str) -> str:
    """Return a field name as written in the config.

    A name that starts with ``$`` or ``@`` would be read as a path. Such a name is returned as the path to its field.
    """
    return quoted_name(
        f"$[{json.dumps(name, ensure_ascii=False)}]" if name.startswith(("$", "@")) or not name else name
    )


def quoted_name(name: str) -> str:
    """Return a name in quotes if YAML needs the quotes, otherwise unchanged."""
    plain = PLAIN_NAME.fullmatch(name) and name.lower() not in YAML_WORDS
    return name if plain else json.dumps(name, ensure_ascii=False)


def map_at(row: Row, name: str) -> Row:
    """Return the map in the field ``name``, or an empty map if the field contains something else."""
    part = row.get(name)
    return part if isinstance(part, Mapping) else {}


def merged_fields(rows: Iterable[Row]) -> dict[str, object]:
    """Return a map of all fields in the rows. Each field has its first value that is not null or empty."""
    merged: dict[str, object] = {}
    for row in rows:
        for key, value in row.items():
            if merged.get(key) in (None, "", []):
                merged[key] = value
    return merged


def nested_objects(value: object) -> Iterator[Row]:
    """Yield the objects in a list or in the values of a map. Nested lists are searched too."""
    for part in value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ():
        if isinstance(part, Mapping):
            yield part
        elif isinstance(part, list):
            yield from nested_objects(part)


DAY_FIRST = ("%d.%m.%Y, %H:%M:%S", "%d.%m.%Y %H:%M:%S", "%d.%m.%Y, %H:%M", "%d.%m.%Y %H:%M", "%d.%m.%Y")
"""date formats such as 31.12.2026; they are not read by default, so a config must list them"""
_DATES_READ = DateReader("UTC", DAY_FIRST)


_DOTTED = re.compile(r"\d{1,2}\.\d{1,2}\.\d{4}")
_SLASHED = re.compile(
    r"(?P<first>\d{1,2})(?P<mark>[/-])(?P<second>\d{1,2})(?P=mark)(?P<year>\d{4}|(?<=/)\d{2})"
    r"(?:(?P<gap>,?\s+)\d{1,2}:\d{2}(?P<seconds>:\d{2})?(?P<half>\s?[AaPp][Mm])?)?"
)
"""regular expression for dates such as 07/28/2024; day and month are in either order, so a config must list them"""


def is_date(value: object) -> bool:
    text = (None if isinstance(value, bool) else scalar_text(value)) or ""
    match = _SLASHED.fullmatch(text.strip())
    if match is not None:
        return any(DateReader("UTC", (_slashed_format(match, day_first=first),)).read(text) for first in (True, False))
    return bool(text) and _DATES_READ.read(text) is not None


def _slashed_format(match: re.Match[str], *, day_first: bool) -> str:
    """Return the strptime format of a date that `_SLASHED` matches."""
    year = "%Y" if len(match["year"]) == 4 else "%y"
    clock = ""
    if match["gap"]:
        half = match["half"] or ""
        clock = f"{match['gap']}{'%I' if half else '%H'}:%M{':%S' if match['seconds'] else ''}{half[:-2]}"
        clock += "%p" if half else ""
    return match["mark"].join(("%d", "%m", year) if day_first else ("%m", "%d", year)) + clock


def numeric_dates(value: object) -> Iterator[str]:
    """Yield each date whose form a config must list: 01.02.2026, 07/28/2024 or 28-07-2024.

    Dates inside lists and maps are included.
    """
    if isinstance(value, str):
        text = value.strip()
        if (_DOTTED.match(text) or _SLASHED.fullmatch(text)) and is_date(text):
            yield text
    elif isinstance(value, Mapping | list):
        for part in value.values() if isinstance(value, Mapping) else value[:50]:
            yield from numeric_dates(part)


def date_formats(dates: Collection[str]) -> tuple[list[str], list[str], list[str]]:
    """Return (formats, guesses, open questions) for dates whose order of day and month must be guessed.

    ``formats`` are strptime formats. ``guesses`` has a note on each order that was assumed. A date with dots begins
    with the day. For a date with slashes or hyphens, a number above 12 shows the order. If the order stays
    unclear, these dates get no format, and the last list has a note for the user.
    """
    dotted = [text for text in dates if _DOTTED.match(text)]
    formats = [next(form for form in DAY_FIRST if DateReader("UTC", (form,)).read(text)) for text in dotted]
    guesses = ["dates such as 01.02.2026 begin with the day"] if dotted else []
    matches = [match for text in dates if (match := _SLASHED.fullmatch(text))]
    orders = [first for first, name in ((True, "first"), (False, "second")) if any(int(m[name]) > 12 for m in matches)]
    if matches and len(orders) != 1:
        either = [_slashed_format(matches[0], day_first=first) for first in (False, True)]
        unclear = (
            f"dates such as {matches[0][0]} can begin with the month or with the day: write "
            f"dateFormats: {json.dumps(either[:1])} or {json.dumps(either[1:])}"
        )
        return list(dict.fromkeys(formats)), guesses, [unclear]
    for match in matches:
        formats.append(_slashed_format(match, day_first=orders[0]))
    if matches:
        guesses.append(f"dates such as {matches[0][0]} begin with the {'day' if orders[0] else 'month'}")
    return list(dict.fromkeys(formats)), guesses, []


def list_or_empty(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def are_known(references: Collection[str], ids: Collection[str]) -> bool:
    """Return True when at least half of the references are ids.

    References that are numbers must all be ids, because any small number would match.
    """
    found = sum(reference in ids for reference in references)
    numbers = all(map(str.isdecimal, references))
    return found > 0 and (found == len(references) if numbers else 2 * found >= len(references))


def are_distinct(values: Sequence[object]) -> bool:
    """Return True when every value is a text, number or boolean, and no two values have the same text."""
    texts = [scalar_text(value) for value in values]
    return None not in texts and len(set(texts)) == len(texts)
