"""Check that the names in a benchmark config occur in the data, and suggest similar names from the data.

Example::

    names = ConfigNames(config)
    names.items.search([row]), names.roles.meet(["user"])
    list(names.missing_names())
    # ['trips.yaml:9:14: schema.metadata.questionType names "knd", but no item has this field; did you mean "kind"?']
    roles = NameGroup("no turn has this role", [(("removeRoles", 0), "asistant")], none="no turn has a role")
    roles.meet(["user"]), roles.meet(["assistant"])
    [name.suggestion() for name in roles.open]     # ['; did you mean "assistant"?']

A name that no row contains is usually a typing error. A field counts as present when one row has it, even if its value
is null.

A new config key that names something in the data must be added to this module. Paths that every item needs are not
added here, because they are checked in each row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import eq

from bench.config.benchmark.config import BenchmarkConfig, ContextSection
from bench.config.benchmark.file import ANSWER_NAMES, contexts_of, questions_of, session_fields, session_names
from bench.config.benchmark.sections import FieldStep, RubricPoints
from bench.config.benchmark.values import ValueText, paths_in, roots_of
from bench.config.file import did_you_mean, fold_key
from bench.config.jsonpath import Path, Step, compile_path
from bench.config.jsontext import TreePath
from bench.config.template import Template
from bench.config.value_rules import LONGEST_TEXT
from bench.datasets.rows.row_values import path_hint

MOST_KEYS = 1_000
"""maximum number of data names that are kept for suggestions; every row of a file can have different keys"""
LISTED = 6
"""maximum number of data names that a message lists when no data name is similar"""

NameAt = tuple[TreePath, str]
"""the path of a config key, and the name of data that the config has at this key"""


@dataclass(slots=True, kw_only=True)
class ConfigName:
    """A name in the config that was not found in the data yet.

    ``seen`` contains the other names that the data has at the same place.
    """

    key: TreePath
    text: str
    """the name or path as written in the config"""
    name: str
    """the name to search for; if ``text`` is a path, this is the last name in the path"""
    parent: Path
    """the path to the object in which the name is searched"""
    seen: set[str]
    hint: str = ""
    """advice for a field name that looks like a path but does not begin with ``$.``"""

    def is_found_in(self, scopes: Sequence[object]) -> bool:
        """Return True when an object at the path ``parent`` has the name as a key.

        If no object has the name, the keys of these objects are stored for a suggestion.
        """
        nodes = [node for scope in scopes for node in self.parent.all(scope) if isinstance(node, Mapping)]
        if any(self.name in node for node in nodes):
            return True
        if not self.hint:
            self.hint = next((hint for scope in scopes if (hint := path_hint(self.text, scope))), "")
        if len(self.seen) < MOST_KEYS:
            self.seen.update(key for node in nodes for key in node)
        return False

    def suggestion(self) -> str:
        """Return the end of the message about a missing name, such as the most similar name in the data.

        Return an empty text if the data has no names at this place.
        """
        if self.hint:
            return f"; {self.hint}"
        if near := did_you_mean(self.name, self.seen):
            return near
        shown = ", ".join(f'"{one}"' for one in sorted(self.seen)[:LISTED])
        more = f" and {len(self.seen) - LISTED} more" if len(self.seen) > LISTED else ""
        return f"; the data has {shown}{more}" if shown else ""


@dataclass(slots=True, init=False)
class NameGroup:
    """A group of config names that are searched in objects of one kind, such as items or turns.

    ``open`` lists the names that no row has contained yet.
    """

    absence: str
    """the message about a missing name, for example: no item has this field"""
    open: list[ConfigName]
    searched: bool
    """True if at least one object was searched for the names"""
    none: str
    """text that is added to the message when the data has no name of this kind"""
    fits: Callable[[str, str], bool] = field(repr=False)
    """function that receives a config name and a data name and returns True when they match"""

    def __init__(
        self,
        absence: str,
        wanted: Iterable[NameAt],
        *,
        none: str = "",
        fits: Callable[[str, str], bool] = eq,
    ) -> None:
        self.absence, self.none, self.fits, self.searched = absence, none, fits, False
        seen: set[str] = set()
        self.open = [ConfigName(key=key, text=text, name=text, parent=Path("$", ()), seen=seen) for key, text in wanted]

    @classmethod
    def of_paths(cls, absence: str, wanted: Iterable[NameAt]) -> NameGroup:
        """Create a group of names from paths. From each path, the last name before the first ``[*]`` is searched."""
        names = cls(absence, ())
        names.open = [name for key, text in wanted if (name := _path_name(key, text)) is not None]
        return names

    def search(self, scopes: Sequence[object]) -> None:
        """Search objects for the names in ``open``, and remove each found name from ``open``."""
        self.searched = True
        self.open = [name for name in self.open if not name.is_found_in(scopes)]

    def meet(self, met: Iterable[str]) -> None:
        """Remove each name from ``open`` that matches one of the data names in ``met``."""
        if not self.open:
            return
        seen, given = self.open[0].seen, list(met)
        seen.update(given[: MOST_KEYS - len(seen)])
        self.open = [name for name in self.open if not any(self.fits(name.name, one) for one in given)]

    def missing_names(self) -> list[tuple[ConfigName, str]]:
        """Return each name that no row has contained, and the end of the message about this name."""
        return [(name, self._absence_text(name)) for name in self.open]

    def _absence_text(self, name: ConfigName) -> str:
        if not name.seen and self.none:
            return f"{self.absence}: {self.none}"
        return f"{self.absence}{name.suggestion()}"


def _path_name(key: TreePath, text: str) -> ConfigName | None:
    """Return the last name before the first ``[*]`` of a path, or None if there is no name."""
    steps: list[Step] = []
    for step in compile_path(text, bare=True).steps:
        if not isinstance(step, str | int):
            break
        steps.append(step)
    while steps and not isinstance(steps[-1], str):
        steps.pop()
    if not steps:
        return None
    return ConfigName(key=key, text=text, name=str(steps[-1]), parent=Path(text, tuple(steps[:-1])), seen=set())


NO_ITEM_FIELD = "no item has this field"
TEXT_PARTS = ("content", "text")
"""fields with the text of a turn; each turn needs one of these fields"""
METADATA_PREFIX = "metadata."
"""prefix of a ``schema.metadata`` field in a session template"""
PROMPT_KEYS = {"default", "abstention", "_default"}
"""keys that are not question types, in the config's maps from question type to prompt"""


class ConfigNames:
    """All names in one config that must occur in the data.

    The names are grouped by the kind of object that must contain them, such as items or turns.
    """

    def __init__(self, config: BenchmarkConfig) -> None:
        self.config = config
        self.items = NameGroup.of_paths(NO_ITEM_FIELD, _item_paths(config))
        """names that only the item can contain"""
        self.points = NameGroup.of_paths("no point of a rubric has this field", _rubric_paths(config))
        """names that rubric points contain, if these points are objects"""
        self.around = NameGroup.of_paths(NO_ITEM_FIELD, _surrounding_paths(config))
        """names that the item, its row or its history can contain"""
        self.rows = NameGroup("no row has this field", _names_in_list(("memory_metadata",), config.memory_metadata))
        self.children = NameGroup("no child has this field", _promoted_fields(config))
        self.parts = NameGroup.of_paths("no turn has this field", _turn_parts(config))
        """fields of a turn in ``itemSchema``; a missing field is an error, not only a note"""
        self.turns = NameGroup.of_paths("no turn has this field", _turn_flag(config))
        self.session_parts = NameGroup.of_paths("no session has this field", _session_parts(config))
        self.session_fields = NameGroup("no session has this field", _session_fields(config))
        self.removed = NameGroup("no turn has this field", _preprocessing(config, "remove_fields"))
        self.roles = NameGroup(
            "no turn has this role", _preprocessing(config, "remove_roles"), none="no turn has a role"
        )
        self.sessions = NameGroup("no key matches this pattern", _key_patterns(config), fits=_key_fits)
        self.ids = NameGroup("no item id matches this pattern", _id_pattern(config), fits=_matches_id)
        self.flags = NameGroup("no item has this value", _flag_value(config), none="no item has a value in this field")
        self.categories = NameGroup(
            "no question has this category",
            _names_in_map(("categories",), config.categories),
            none="no question has a category",
        )
        self.types = NameGroup(
            "no item has this question type", _question_types(config), none="no item has a question type"
        )
        self.metadata = NameGroup("schema.metadata does not map it", _metadata_names(config), fits=_same_key)
        self.metadata.meet(_mapped_metadata(config))

    def missing_names(self) -> Iterator[str]:
        """Yield a message for each config name that the data does not contain.

        The message begins with the place in the config.
        """
        for sort in (
            self.items, self.points, self.around, self.rows, self.children, self.turns, self.removed, self.roles,
            self.sessions, self.session_parts, self.session_fields, self.ids, self.flags, self.categories,
            self.types, self.metadata,
        ):  # fmt: skip
            for name, problem in sort.missing_names():
                yield f"{self.config.place(*name.key)}: {self.label(name)}, but {problem}"

    def label(self, name: ConfigName) -> str:
        """Return the beginning of the message about a name: the config key and the name."""
        return f'{self.key_of(name)} names "{name.text}"'

    def key_of(self, name: ConfigName) -> str:
        """Return the config key of a name. For a name in a list or a map, this is the key of the list or map."""
        *holder, last = name.key
        return self.config.written(*(holder if isinstance(last, int) or last == name.text else name.key))


def _item_paths(config: BenchmarkConfig) -> Iterator[NameAt]:
    """Yield the config's paths to optional values that only the item itself can contain, not its row or history."""
    fields, lists = config.fields, list(questions_of(config))
    yield from _paths_given(
        (("schema", "choice_answer"), fields.choice_answer),
        (("schema", "rubric", *(["from"] if isinstance(fields.rubric, RubricPoints) else [])), fields.rubric_paths),
        (("schema", "choices"), None if lists and all(one.choices_field for _, one in lists) else fields.choice_paths),
        (("evidence", "session_ids_field"), config.evidence.session_ids_field),
        (("evidence", "texts_field"), config.evidence.texts_field),
    )
    if not lists:
        yield from _paths_given((("schema", "answer"), fields.answer))
    for key, questions in lists:
        yield from _paths_given(
            ((*key, "answer_field"), questions.answer_field),
            ((*key, "evidence_field"), questions.evidence_field),
            ((*key, "choices_field"), questions.choices_field),
        )
        yield from _paths_given(*(((*key, "where", path), path) for path in questions.where))
    if not lists or any(one.evidence_field is None for _, one in lists):
        yield from _paths_given((("evidence", "turn_ids_field"), config.evidence.turn_ids_field))


def _rubric_paths(config: BenchmarkConfig) -> Iterator[NameAt]:
    """Yield the paths that ``schema.rubric`` reads in each rubric point."""
    rubric = config.fields.rubric
    if isinstance(rubric, RubricPoints):
        yield from _paths_given((("schema", "rubric", "text"), rubric.text))
        yield from _paths_given(*((("schema", "rubric", "where", path), path) for path in rubric.where))


def _surrounding_paths(config: BenchmarkConfig) -> Iterator[NameAt]:
    """Yield the config's paths to values that the item, its row or its history can contain."""
    yield from _paths_given(*((("schema", "metadata", name), path) for name, path in config.fields.metadata.items()))
    yield from _paths_given(*((("abstention", "where", path), path) for path in config.abstention.where))
    yield from _paths_given(
        (("abstention", "field"), config.abstention.field),
        (("visibility", "field"), config.visibility.field if config.visibility else None),
        *(((*key, "date_field"), one.date_field) for key, one in questions_of(config)),
    )


def paths_of_data(config: BenchmarkConfig) -> Iterator[NameAt]:
    """Yield the paths that ``data.where`` and ``data.with`` read in each row."""
    data = config.data
    yield from _paths_given(*((("data", "where", path), path) for path in data.where))
    for name, step in data.with_.items():
        key = ("data", "with", name)
        template = step.file if step.file is not None and "${" in step.file else None
        yield from _paths_given(((*key, "decode"), step.decode), ((*key, "by"), step.by), ((*key, "file"), template))
        yield from _paths_given(*(((*key, "zip", part), path) for part, path in (step.zip or {}).items()))


def paths_of_joined(name: str, step: FieldStep) -> Iterator[NameAt]:
    """Yield the paths in ``where`` of a ``data.with`` step. They are read in the rows of the joined file."""
    yield from _paths_given(*((("data", "with", name, "where", path), path) for path in step.where))


def _promoted_fields(config: BenchmarkConfig) -> Iterator[NameAt]:
    if config.flatten is not None:
        yield from _names_in_list(("flatten", "promote_fields"), config.flatten.promote_fields)


def _turn_parts(config: BenchmarkConfig) -> Iterator[NameAt]:
    for place, context in contexts_of(config):
        parts = mapped_parts(config, context).items()
        yield from _paths_given(*(((*place, "item_schema", part), path) for part, path in parts))


def mapped_parts(config: BenchmarkConfig, context: ContextSection) -> dict[str, ValueText]:
    """Return a map from each key of ``itemSchema`` to its path or template.

    A key is left out if it reads a field that ``removeFields`` removes. The keys for the text of a turn are never left
    out. The map is empty for a manifest, or if there is no ``itemSchema``.
    """
    schema = context.item_schema
    if schema is None or config.fields_by_name:
        return {}
    removed = frozenset(config.ingestion.preprocessing.remove_fields)
    mapped: dict[str, ValueText] = schema.model_dump(exclude_none=True)
    return {part: given for part, given in mapped.items() if part in TEXT_PARTS or not roots_of(given) & removed}


def _session_parts(config: BenchmarkConfig) -> Iterator[NameAt]:
    for place, context in contexts_of(config):
        if context.session is not None:
            yield from _paths_given(((*place, "session", "date"), context.session.date))


def _session_fields(config: BenchmarkConfig) -> Iterator[NameAt]:
    key = ("ingestion", "preprocessing", "format_template")
    yield from ((key, name) for name in session_fields(config))


def _turn_flag(config: BenchmarkConfig) -> Iterator[NameAt]:
    """Yield the name of the field that marks turns with evidence, if a YAML config sets this name."""
    if not config.fields_by_name:
        yield from _paths_given((("evidence", "turn_flag"), config.evidence.turn_flag))


def _preprocessing(config: BenchmarkConfig, key: str) -> Iterator[NameAt]:
    return _names_in_list(("ingestion", "preprocessing", key), getattr(config.ingestion.preprocessing, key))


def _key_patterns(config: BenchmarkConfig) -> Iterator[NameAt]:
    """Yield the patterns of session keys and date keys that the config sets. Default patterns are left out."""
    for place, context in contexts_of(config):
        if context.type != "object":
            continue
        patterns = {"session_pattern": context.session_pattern, "date_pattern": context.date_pattern}
        keys = {(*place, name): pattern for name, pattern in patterns.items()}
        yield from ((key, pattern) for key, pattern in keys.items() if config.sets(*key))


def _id_pattern(config: BenchmarkConfig) -> Iterator[NameAt]:
    yield from _paths_given((("abstention", "id_pattern"), config.abstention.id_pattern))


def _flag_value(config: BenchmarkConfig) -> Iterator[NameAt]:
    wanted = config.abstention.equals
    if wanted is not None:
        yield ("abstention", "equals"), str(wanted).lower() if isinstance(wanted, bool) else str(wanted)


def _question_types(config: BenchmarkConfig) -> Iterator[NameAt]:
    """Yield each question type with the first config key that declares or uses this type."""
    prompts = {kind.evaluation_prompt for kind in config.question_types}
    evaluation = config.evaluation
    named: list[NameAt] = [(("question_types", at), kind.name) for at, kind in enumerate(config.question_types)]
    for group, members in config.groups.items():
        named += _names_in_list(("groups", group), members)
    named += _names_in_list(("abstention", "question_types"), config.abstention.question_types)
    for key, by_type in (
        (("evaluation", "answer_prompt", "by_question_type"), evaluation.answer_prompt.by_question_type),
        (("evaluation", "judge_prompts", "by_question_type"), evaluation.judge_prompts.by_question_type),
        (("type_instructions",), config.type_instructions),
    ):
        named += [(path, name) for path, name in _names_in_map(key, by_type) if name not in prompts | PROMPT_KEYS]
    first = {name: path for path, name in reversed(named)}
    categories = frozenset(config.categories.values())  # one whose category is missing is reported there
    return ((path, name) for path, name in named if first[name] == path and name not in categories)


def _metadata_names(config: BenchmarkConfig) -> Iterator[NameAt]:
    """Yield the names of ``schema.metadata`` fields that the answer prompt and the session template use."""
    fields = _names_in_list(
        ("evaluation", "answer_prompt", "prompt_fields"), config.evaluation.answer_prompt.prompt_fields
    )
    yield from ((key, name) for key, name in fields if name not in ANSWER_NAMES)
    template = config.ingestion.preprocessing.format_template
    if template is not None:
        used = sorted(Template.parse(template, session_names(config)).names)
        key = ("ingestion", "preprocessing", "format_template")
        yield from ((key, name.removeprefix(METADATA_PREFIX)) for name in used if name.startswith(METADATA_PREFIX))


def _mapped_metadata(config: BenchmarkConfig) -> Iterator[str]:
    yield from config.fields.metadata
    if any(one.category_field for one in config.fields.question_lists):
        yield "category"


def _paths_given(*wanted: tuple[TreePath, str | Sequence[ValueText] | None]) -> Iterator[NameAt]:
    """Yield (config key, path) for each path in the given config values.

    A list of alternative paths is left out, because the data needs only one of the paths.
    """
    for key, given in wanted:
        if isinstance(given, str):
            yield from ((key, path) for path in paths_in(given))
        elif given is not None:
            yield from (((*key, index), path) for index, one in enumerate(given) for path in paths_in(one))


def _names_in_list(key: TreePath, names: Iterable[str]) -> Iterator[NameAt]:
    return (((*key, index), name) for index, name in enumerate(names))


def _names_in_map(key: TreePath, names: Iterable[str]) -> Iterator[NameAt]:
    return (((*key, name), name) for name in names)


def key_pattern(pattern: str) -> re.Pattern[str]:
    """Return a regular expression for a pattern of keys such as ``session_*``. The ``*`` matches digits."""
    before, after = pattern.split("*")
    return re.compile(f"{re.escape(before)}([0-9]+){re.escape(after)}")


def _key_fits(pattern: str, key: str) -> bool:
    return key_pattern(pattern).fullmatch(key) is not None


def _matches_id(pattern: str, item_id: str) -> bool:
    return re.search(pattern, item_id[:LONGEST_TEXT]) is not None


def _same_key(wanted: str, name: str) -> bool:
    return fold_key(wanted) == fold_key(name)
