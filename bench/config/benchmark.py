"""The benchmark config as one closed model for both file dialects.

Also in this module:

* The identity of a benchmark config: one digest of everything that can change a result.

Example::

    config = Catalog.load(Path(".")).benchmark("locomo")
    config.search.default_limit, config.unit, config.evaluation.method      # 10, "session", "locomo-f1"
    config.judge_prompt("temporal", abstention=False)                       # ("temporal", "...") or None
    config_sha256(config)       # 64 hex digits; the same for either dialect of the same config
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import Field, PrivateAttr, field_validator

from bench.canonical import digest
from bench.config.benchmark_sections import (
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
from bench.config.benchmark_terms import (
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
    """lower case, digits, dots and dashes; runs use this name"""
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
    """tags for bench list --tags"""
    aliases: tuple[Segment, ...] = ()
    """alternative names"""
    extends: str | None = None
    """name of a benchmark whose keys apply where this file has none"""
    data: Data
    """location of the rows"""
    fields: SchemaSection = Field(alias="schema")
    """where the parts of a row are"""
    categories: Mapping[str, str] = Field(default_factory=dict)
    """id in the data -> name of the question type"""
    categories_strict: bool = False
    """true: an id without a name is an error; false: it gives a note"""
    question_types: tuple[QuestionType, ...] = ()
    """the allowed question types; any other type is an error"""
    groups: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """name -> question types; additional rows of a report"""
    evidence: EvidenceFields = EvidenceFields()
    """location of the sessions and turns that hold the answer"""
    abstention: Abstention = Abstention()
    """rules for items that have no answer and must not be answered"""
    question_date: QuestionDate = QuestionDate()
    """source of the question date"""
    timezone: Zone = "UTC"
    """time zone of dates without one; UTC"""
    date_formats: tuple[DateFormat, ...] = ()
    """strptime formats that are tried before the built-in ones; unix and unix_ms are numeric dates since 1970"""
    corpus: FieldOnly | None = None
    """rows with the same value of this field share one corpus; without it, each row is a corpus"""
    visibility: Visibility | None = None
    """cut-off of the history that an item may see; each distinct cut-off makes a corpus of its own"""
    overlay: str | None = None
    """list of disputed gold answers: a name in overlays/, or a path"""
    cluster_by: Literal["corpus"] | None = "corpus"
    """independent unit for confidence intervals: corpus"""
    ingestion: Ingestion = Ingestion()
    """rules to make memories from the history"""
    search: Search = Search()
    """number of hits to request"""
    evaluation: Evaluation
    """models, prompts and evaluators of answers"""
    epochs_reducer: Literal["mean", "mode", "max"] = "mean"
    """rule to combine the values of an item's epochs"""
    metrics: tuple[str | MetricEntry, ...] = ()
    """names, or objects with name, method, config, breakdown and evaluator"""
    required_capabilities: tuple[Capability, ...] = ("add_memory", "retrieve_memory")
    """operations that a provider must support; other providers are skipped"""
    runtime: Runtime = Runtime()
    """accepted for compatibility with manifests, without effect: a run always writes its journal"""

    @field_validator("categories", mode="before")
    @classmethod
    def _text_labels(cls, value: object) -> object:
        """Accept names that are numbers."""
        if not isinstance(value, Mapping):
            return value
        return {key: str(name) if isinstance(name, int | float) else name for key, name in value.items()}


class ItemFlatten(ConfigModel):
    """Make one item of each child of a list in each row."""

    field: FieldPath
    """path of the list whose children become items"""
    max_items: Positive | None = None
    """maximum children per row; the number of dropped children is reported"""
    promote_fields: tuple[str, ...] = ()
    """keys of the row that are copied to each child"""


class HistorySection(ConfigModel):
    """The part of each history that is ingested; results of any mode but ``full`` are not publishable."""

    mode: Literal["full", "lazy", "shared"] = "full"
    """full; lazy: evidence sessions only; shared: those and the first others. Only full is publishable"""
    shared_sample_size: Positive = 10
    """number of sessions in a shared history"""


class DeletionSection(ConfigModel):
    """The three steps of an add-delete-verify benchmark."""

    target: FieldPath
    """path of the memory to delete"""
    verify_query: FieldPath
    """path of the query to run after the deletion"""
    deleted_content: FieldPath | None = None
    """path of the text that must not be found any more"""
    fuzzy_match: bool = False
    """also count a nearly equal text as found"""
    phase_delay_ms: Milliseconds = 0
    """pause between add, delete and verify"""


class Rendering(ConfigModel):
    """The text forms of sessions and turns in a manifest, in addition to its template."""

    formatter: Literal["conversation", "json", "raw"] = "conversation"
    """form of a session's text"""
    dialogue: Literal["auto", "speaker_text", "role_content"] = "auto"
    """form of a turn's line"""


class MatchOptions(ConfigModel):
    """Options of exact-match."""

    case_sensitive: bool = False
    """distinguish upper and lower case"""
    normalize_whitespace: bool = True
    """treat a run of white space as one space"""


class BenchmarkConfig(BenchmarkFile):
    """A benchmark config from either dialect. The fields added here are set by the manifest dialect only."""

    row_id_candidates: tuple[str, ...] = ()
    """the row id is read from the first of these fields that row 1 has; if none, ids are ``row_1``, ``row_2`` ..."""
    fields_by_name: bool = False
    """read turns by the usual field names instead of an itemSchema"""
    memory_metadata: tuple[str, ...] = ()
    """row fields that are copied to ``Memory.metadata``"""
    flatten: ItemFlatten | None = None
    """make one item of each child of a list in each row"""
    history: HistorySection = HistorySection()
    """the part of each history that is ingested"""
    deletion: DeletionSection | None = None
    """the steps of an add-delete-verify benchmark"""
    rendering: Rendering = Rendering()
    """text forms of sessions and turns"""
    exact_match: MatchOptions = MatchOptions()
    """options of exact-match"""
    type_instructions: Mapping[str, str] = Field(default_factory=dict)
    """question type -> instruction for the judge; ``_default`` for the rest"""

    _origin: ConfigOrigin | None = PrivateAttr(default=None)
    _notes: tuple[str, ...] = PrivateAttr(default=())

    @property
    def origin(self) -> ConfigOrigin | None:
        """Return the files of the config; None for a config that was read from a journal."""
        return self._origin

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the notes on the config; they do not stop a run."""
        return self._notes

    @property
    def unit(self) -> Unit:
        """Return the unit of one memory, unless the provider's config sets another."""
        return UNIT_OF_MODE[self.ingestion.mode]

    @property
    def title(self) -> str:
        return self.display_name or self.name

    @property
    def has_choices(self) -> bool:
        """Return True when the config names the field with the options of a question."""
        return bool(self.fields.choice_paths or any(one.choices_field for one in self.fields.question_lists))

    @property
    def has_evidence(self) -> bool:
        """Return True when the config names fields of the gold evidence."""
        nested = any(one.evidence_field for one in self.fields.question_lists)
        fields = (
            self.evidence.session_ids_field, self.evidence.turn_ids_field, self.evidence.turn_flag,
            self.evidence.texts_field,
        )  # fmt: skip
        return nested or any(fields)

    @property
    def marks(self) -> tuple[str, ...]:
        """Return the reasons why results of this config are not publishable; empty if there are none."""
        found = {
            "altered": self.ingestion.preprocessing.escape_html,
            "reduced_history": self.history.mode != "full",
            "dataset_unpinned": self.data.type != "local" and self.data.sha256 is None,
        }
        return tuple(mark for mark, holds in found.items() if holds)

    def place(self, *path: str | int) -> str:
        """Return ``file:line:column`` of a key, for errors."""
        return self._origin.place(path) if self._origin else self.name

    def written(self, *path: str | int) -> str:
        """Return a key joined with dots, spelled as in its file, for messages."""
        return self._origin.written(path) if self._origin else ".".join(map(str, path))

    def says(self, *path: str | int) -> bool:
        """Return True when a file of the config sets the key; False for a default."""
        return self._origin is not None and self._origin.says(path)

    def folder_of(self, *path: str | int) -> Path | None:
        """Return the folder of the file that sets a value."""
        return self._origin.folder_of(path) if self._origin else None

    def question_type(self, name: str | None) -> QuestionType | None:
        """Return the declared question type with this name."""
        return next((kind for kind in self.question_types if kind.name == name), None)

    def judge_prompt(self, question_type: str | None, *, abstention: bool = False) -> tuple[str, str] | None:
        """Return name and text of the judge's prompt: for abstention, else by question type, else the default."""
        prompts = self.evaluation.judge_prompts
        if abstention and prompts.abstention is not None:
            return "abstention", prompts.abstention
        return self._prompt(prompts.by_question_type, prompts.default, question_type)

    def answer_prompt(self, question_type: str | None) -> tuple[str, str] | None:
        """Return name and text of the answer prompt: by question type, else the default."""
        prompts = self.evaluation.answer_prompt
        return self._prompt(prompts.by_question_type, prompts.default, question_type)

    def _prompt(self, by_type: Mapping[str, str], default: str | None, name: str | None) -> tuple[str, str] | None:
        kind = self.question_type(name)
        for candidate in (kind.evaluation_prompt if kind else None, name):
            if candidate is not None and candidate in by_type:
                return candidate, by_type[candidate]
        return None if default is None else ("default", default)


_APART = {"aliases", "tags", "display_name", "description", "published", "extends", "runtime", "overlay"}
"""fields left out of the identity: descriptions, merged parents, and the overlay, whose digest is in the plan"""

_ADDED: Mapping[str, object] = {
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
"""keys that earlier versions did not have: left out when unset, so that older configs keep their digest"""
_SILENT = (("through", False), ("methods_by", "question_type"))
"""added keys with a default, and the default"""


def identity_tree(config: BenchmarkConfig) -> dict[str, object]:
    """Return the resolved config without descriptions and file locations."""
    tree = config.model_dump(mode="json", exclude=_APART)
    tree["data"].pop("local_path")
    tree["data"].pop("fetch")
    _forget(tree, _ADDED)
    return tree


def _forget(tree: object, added: object) -> None:
    """Remove the added keys that the config does not set."""
    if isinstance(tree, list):
        for one in tree:
            _forget(one, added)
    if not isinstance(tree, dict):
        return
    if isinstance(added, Mapping):
        for key, below in added.items():
            _forget(tree.get(key) if key else tree, below)
        return
    assert isinstance(added, set)
    for key in added & tree.keys():
        said = tree[key]
        if said is None or said == [] or said == {} or (key, said) in _SILENT:
            del tree[key]


def config_sha256(config: BenchmarkConfig) -> str:
    """Return the SHA-256 of the RFC 8785 form of `identity_tree`."""
    return digest(identity_tree(config))
