"""The benchmark config as one typed model. YAML files and manifests are converted to this model.

`config_sha256` returns a digest of all settings that can change a result.

Example::

    config = Catalog.load(Path(".")).benchmark("locomo")
    config.search.default_limit, config.unit, config.evaluation.method      # 10, "session", "locomo-f1"
    config.judge_prompt("temporal", abstention=False)                       # ("temporal", "...") or None
    config_sha256(config)       # 64 hex digits
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, field_validator

from bench.canonical import digest
from bench.config.benchmark.sections import (
    Abstention,
    ContextSection,
    Data,
    Evaluation,
    EvidenceFields,
    FieldOnly,
    Ingestion,
    MetricEntry,
    PublicFacts,
    QuestionDate,
    QuestionType,
    Runtime,
    SchemaSection,
    Search,
    Visibility,
)
from bench.config.benchmark.terms import (
    UNIT_OF_MODE,
    Capability,
    ConfigOrigin,
    DateFormat,
    FieldPath,
    Milliseconds,
    Positive,
    Segment,
    Unit,
    Zone,
)
from bench.config.file import ConfigModel

__all__ = [
    "BenchmarkConfig",
    "BenchmarkFile",
    "ContextSection",
    "DeletionSection",
    "HistorySection",
    "ItemFlatten",
    "MatchOptions",
    "Rendering",
]


class BenchmarkFile(ConfigModel):
    """The keys that a YAML benchmark file may have."""

    name: Segment
    """name that runs use: letters, digits, dots, dashes and underscores; equals the file name without its suffix"""
    version: str
    """version of the benchmark; increase it when items or protocol change"""
    display_name: str | None = None
    """human-readable name"""
    description: str | None = None
    """one sentence"""
    source: str | None = None
    """URL of the source of the data"""
    paper: str | None = None
    """URL of the paper"""
    license: str | None = None
    """SPDX identifier of the license of the data"""
    published: PublicFacts = PublicFacts()
    """facts from the publishers: size, official score, results"""
    tags: tuple[str, ...] = ()
    """tags for `bench list --tags`"""
    aliases: tuple[Segment, ...] = ()
    """alternative names"""
    extends: str | None = None
    """name of another benchmark, whose keys are used if this file does not set them"""
    data: Data
    """location of the rows"""
    fields: SchemaSection = Field(alias="schema")
    """paths of question, answer, history and other values in a row"""
    categories: Mapping[str, str] = Field(default_factory=dict)
    """value at schema.questions.categoryField -> name of the question type"""
    categories_strict: bool = False
    """true: a value without a name in categories is an error; false: such a value gives a note"""
    question_types: tuple[QuestionType, ...] = ()
    """the allowed question types; any other type is an error"""
    groups: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """name of a group -> its question types; each group is an additional row of a report"""
    evidence: EvidenceFields = EvidenceFields()
    """location of the sessions and turns that hold the answer"""
    abstention: Abstention = Abstention()
    """rules that select items without an answer"""
    question_date: QuestionDate = QuestionDate()
    """rule that gives a question date to an item without one"""
    timezone: Zone = "UTC"
    """IANA time zone of dates without an offset"""
    date_formats: tuple[DateFormat, ...] = ()
    """strptime formats that are tried first; unix, unix_ms: seconds or milliseconds since 1970"""
    corpus: FieldOnly | None = None
    """rows with the same value of this field share one corpus; unset: each row is its own corpus"""
    visibility: Visibility | None = None
    """end of the history that an item can use; items with different ends are in different corpora"""
    overlay: str | None = None
    """NAME of the file overlays/NAME.yaml next to this file, which lists disputed gold answers"""
    cluster_by: Literal["corpus"] | None = "corpus"
    """unit that counts as independent in confidence intervals. corpus: all items of a corpus together; null: each
    item"""
    ingestion: Ingestion = Ingestion()
    """rules for making memories from the history"""
    search: Search = Search()
    """number of hits to request"""
    evaluation: Evaluation
    """models, prompts and evaluators of answers"""
    epochs_reducer: Literal["mean", "mode", "max"] = "mean"
    """rule to combine the values of an item's epochs"""
    metrics: tuple[str | MetricEntry, ...] = ()
    """metrics: names, or objects with name, method, config, breakdown and evaluator"""
    required_capabilities: tuple[Capability, ...] = ("add_memory", "retrieve_memory")
    """operations that a provider must support; a provider without them is skipped"""
    runtime: Runtime = Runtime()
    """accepted for compatibility with other tools; has no effect"""

    @field_validator("categories", mode="before")
    @classmethod
    def _text_labels(cls, value: object) -> object:
        """Convert each name of a question type to text if the name is a number."""
        if not isinstance(value, Mapping):
            return value
        return {key: str(name) if isinstance(name, int | float) else name for key, name in value.items()}


class ItemFlatten(ConfigModel):
    """The rule that turns each element of a list in a row into an item."""

    field: FieldPath
    """path of the list whose elements become items"""
    max_items: Positive | None = None
    """maximum elements per row; the number of dropped elements is reported"""
    promote_fields: tuple[str, ...] = ()
    """keys that an item takes from its element, such as the question; all other keys come from the row"""


class HistorySection(ConfigModel):
    """The part of each history that is ingested. Only results of the mode ``full`` are publishable."""

    mode: Literal["full", "lazy", "shared"] = "full"
    """full: all sessions; lazy: evidence sessions only; shared: evidence sessions and the first other sessions"""
    shared_sample_size: Positive = 10
    """number of other sessions in mode shared"""


class DeletionSection(ConfigModel):
    """The steps of a benchmark that adds a memory, deletes the memory, and checks the deletion."""

    target: FieldPath
    """path of the memory to delete"""
    verify_query: FieldPath
    """path of the query to run after the deletion"""
    deleted_content: FieldPath | None = None
    """path of the text that must not be found any more"""
    fuzzy_match: bool = False
    """true: a nearly equal text also counts as found"""
    phase_delay_ms: Milliseconds = 0
    """minimum milliseconds between add, delete and verify"""


class Rendering(ConfigModel):
    """The text format of sessions and turns. Only a manifest can set it."""

    formatter: Literal["conversation", "json", "raw"] = "conversation"
    """format of a session's text. conversation: one line per turn; json: JSON of the turns; raw: texts of the turns"""
    dialogue: Literal["auto", "speaker_text", "role_content"] = "auto"
    """beginning of a turn's line. speaker_text: the speaker; role_content: the role; auto: the speaker if the turn has
    one, otherwise the role"""


class MatchOptions(ConfigModel):
    """Options of the evaluator exact-match."""

    case_sensitive: bool = False
    """true: upper and lower case are different"""
    normalize_whitespace: bool = True
    """true: several white space characters count as one space"""


class BenchmarkConfig(BenchmarkFile):
    """A benchmark config from a YAML file or a manifest.

    Only manifests set the fields that are not in `BenchmarkFile`.
    """

    row_id_candidates: tuple[str, ...] = ()
    """fields that can be the id of a row; the first field that row 1 has is used. If row 1 has none of the fields, the
    ids are ``row_1``, ``row_2`` and so on"""
    fields_by_name: bool = False
    """true: turns are read by the usual field names instead of an itemSchema"""
    memory_metadata: tuple[str, ...] = ()
    """row fields that are copied to ``Memory.metadata``"""
    flatten: ItemFlatten | None = None
    """rule that turns each element of a list in a row into an item"""
    history: HistorySection = HistorySection()
    """the part of each history that is ingested"""
    deletion: DeletionSection | None = None
    """the steps of an add-delete-verify benchmark"""
    rendering: Rendering = Rendering()
    """text format of sessions and turns"""
    exact_match: MatchOptions = MatchOptions()
    """options of the evaluator exact-match"""
    type_instructions: Mapping[str, str] = Field(default_factory=dict)
    """question type -> instruction for the judge; ``_default`` is for all other types"""

    _origin: ConfigOrigin | None = PrivateAttr(default=None)
    _notes: tuple[str, ...] = PrivateAttr(default=())

    @property
    def origin(self) -> ConfigOrigin | None:
        """Return the files from which the config was read; None if it was read from a journal."""
        return self._origin

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes about the config for the user. A note does not stop a run."""
        return self._notes

    @property
    def unit(self) -> Unit:
        """Return the size of one memory in the benchmark, such as ``session``.

        A provider config can set another size.
        """
        return UNIT_OF_MODE[self.ingestion.mode]

    @property
    def title(self) -> str:
        return self.display_name or self.name

    @property
    def has_choices(self) -> bool:
        """Return True if the config names a field with the choices of a question."""
        return bool(self.fields.choice_paths or any(one.choices_field for one in self.fields.question_lists))

    @property
    def has_evidence(self) -> bool:
        """Return True if the config names fields with gold evidence."""
        nested = any(one.evidence_field for one in self.fields.question_lists)
        fields = (
            self.evidence.session_ids_field, self.evidence.turn_ids_field, self.evidence.turn_flag,
            self.evidence.texts_field,
        )  # fmt: skip
        return nested or any(fields)

    @property
    def marks(self) -> tuple[str, ...]:
        """Return the reasons, such as ``altered``, that results of this config must not be published."""
        found = {
            "altered": self.ingestion.preprocessing.escape_html,
            "reduced_history": self.history.mode != "full",
            "dataset_unpinned": self.data.type != "local" and self.data.sha256 is None,
        }
        return tuple(mark for mark, holds in found.items() if holds)

    def place(self, *path: str | int) -> str:
        """Return ``file:line:column`` of a key for errors. For a config from a journal, return the benchmark name."""
        return self._origin.place(path) if self._origin else self.name

    def written(self, *path: str | int) -> str:
        """Return a key path as messages show it: joined with dots, and spelled as in the file."""
        return self._origin.written(path) if self._origin else ".".join(map(str, path))

    def sets(self, *path: str | int) -> bool:
        """Return True if a file of the config sets the key; False if the value is a default."""
        return self._origin is not None and self._origin.sets(path)

    def folder_of(self, *path: str | int) -> Path | None:
        """Return the folder of the file that sets the key; None for a config from a journal."""
        return self._origin.folder_of(path) if self._origin else None

    def question_type(self, name: str | None) -> QuestionType | None:
        """Return the declaration of the question type with this name; None if there is none."""
        return next((kind for kind in self.question_types if kind.name == name), None)

    def judge_prompt(self, question_type: str | None, *, abstention: bool = False) -> tuple[str, str] | None:
        """Return (name, text) of the judge prompt for an item.

        With ``abstention``, return the abstention prompt if the config has one. Otherwise return the prompt of the
        question type, or the default prompt if the type has no prompt. Return None if the config has none of these
        prompts.
        """
        prompts = self.evaluation.judge_prompts
        if abstention and prompts.abstention is not None:
            return "abstention", prompts.abstention
        return self._prompt(prompts.by_question_type, prompts.default, question_type)

    def answer_prompt(self, question_type: str | None) -> tuple[str, str] | None:
        """Return (name, text) of the answer prompt for a question type.

        If the type has no prompt, return the default prompt. Return None if neither prompt exists.
        """
        prompts = self.evaluation.answer_prompt
        return self._prompt(prompts.by_question_type, prompts.default, question_type)

    def _prompt(self, by_type: Mapping[str, str], default: str | None, name: str | None) -> tuple[str, str] | None:
        kind = self.question_type(name)
        for candidate in (kind.evaluation_prompt if kind else None, name):
            if candidate is not None and candidate in by_type:
                return candidate, by_type[candidate]
        return None if default is None else ("default", default)


_NOT_IDENTITY = {"aliases", "tags", "display_name", "description", "published", "extends", "runtime", "overlay"}
"""fields that are not part of the digest of the config. The digest of the plan covers the overlay"""

_ADDED_KEYS: Mapping[str, object] = {
    "abstention": {"equals", "phrases", "where"},
    "data": {"files", "columns", "rows", "with_", "where"},
    "evidence": {"reference", "texts_field", "grade"},
    "fields": {"context": {"id", "session"}, "questions": {"where"}},
    "ingestion": {"chunk"},
    "visibility": {"through"},
    "evaluation": {
        "answering_model": {"max_tokens"},
        "judge": {"max_tokens"},
        "": {"methods", "methods_by", "values", "labels"},  # of the section itself
    },
}
"""keys that earlier versions did not have. A key that is not set is left out of the digest, so that older configs keep
their digest"""
_ADDED_DEFAULTS = (("through", False), ("methods_by", "question_type"))
"""(key, default) for each key of `_ADDED_KEYS` that has a default"""


def identity_tree(config: BenchmarkConfig) -> dict[str, object]:
    """Return the config as JSON data for its digest, without descriptions and file locations."""
    tree = config.model_dump(mode="json", exclude=_NOT_IDENTITY)
    tree["data"].pop("local_path")
    tree["data"].pop("fetch")
    _drop_unset(tree, _ADDED_KEYS)
    return tree


def _drop_unset(tree: object, added: object) -> None:
    """Remove from ``tree`` each key that ``added`` names and whose value in ``tree`` is empty or the key's default.

    ``added`` has the form of `_ADDED_KEYS`. An empty value is null, an empty list or an empty map.
    """
    if isinstance(tree, list):
        for one in tree:
            _drop_unset(one, added)
    if not isinstance(tree, dict):
        return
    if isinstance(added, Mapping):
        for key, below in added.items():
            _drop_unset(tree.get(key) if key else tree, below)
        return
    assert isinstance(added, set)
    for key in added & tree.keys():
        value = tree[key]
        if value is None or value == [] or value == {} or (key, value) in _ADDED_DEFAULTS:
            del tree[key]


def config_sha256(config: BenchmarkConfig) -> str:
    """Return the SHA-256 of the canonical JSON of `identity_tree`, as hex digits."""
    return digest(identity_tree(config))
