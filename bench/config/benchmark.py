"""The benchmark config as one closed model, the same for both file dialects.

Here too:

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
    """The keys that a file of the YAML dialect may have."""

    name: Segment
    """lower case, digits, dots and dashes; how runs name it"""
    version: str
    """raise it when items or protocol change"""
    display_name: str | None = None
    """the name for people"""
    description: str | None = None
    """one sentence"""
    source: str | None = None
    """where it comes from: an address"""
    paper: str | None = None
    """address of the paper"""
    license: str | None = None
    """SPDX name of the data's licence"""
    published: PublicFacts = PublicFacts()
    """what its publishers state: size, official score, results"""
    tags: tuple[str, ...] = ()
    """for bench list --tags"""
    aliases: tuple[Segment, ...] = ()
    """other names it answers to"""
    extends: str | None = None
    """a benchmark whose keys hold where this file is silent"""
    data: Data
    """where the rows are"""
    fields: SchemaSection = Field(alias="schema")
    """the section ``schema``"""
    categories: Mapping[str, str] = Field(default_factory=dict)
    """id in the data -> name of the question type"""
    categories_strict: bool = False
    """true: an id without a name is an error, not a note"""
    question_types: tuple[QuestionType, ...] = ()
    """the types there may be; a type that is not listed is an error"""
    groups: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """name -> question types: extra rows of a report"""
    evidence: EvidenceFields = EvidenceFields()
    """which sessions and turns hold an answer"""
    abstention: Abstention = Abstention()
    """which items must not be answered"""
    question_date: QuestionDate = QuestionDate()
    """where the date of a question comes from"""
    timezone: Zone = "UTC"
    """of dates without one; UTC"""
    date_formats: tuple[DateFormat, ...] = ()
    """strptime formats tried before the known ones; unix, unix_ms: numbers since 1970"""
    corpus: FieldOnly | None = None
    """rows with the same value share one memory; without it a row is a corpus"""
    visibility: Visibility | None = None
    """the cut-off of what an item may see; each distinct one is a corpus of its own"""
    overlay: str | None = None
    """a list of doubted answers: a name in overlays/, or a path"""
    cluster_by: Literal["corpus"] | None = "corpus"
    """unit of the intervals: corpus"""
    ingestion: Ingestion = Ingestion()
    """what becomes a memory"""
    search: Search = Search()
    """how much is asked for"""
    evaluation: Evaluation
    """who answers and who judges"""
    epochs_reducer: Literal["mean", "mode", "max"] = "mean"
    """how the epochs of an item become one value"""
    metrics: tuple[str | MetricEntry, ...] = ()
    """names, or name with method, config, breakdown and evaluator"""
    required_capabilities: tuple[Capability, ...] = ("add_memory", "retrieve_memory")
    """what a provider must offer; one that lacks it is skipped"""
    runtime: Runtime = Runtime()
    """accepted and not used, so that manifests that have it load: a run always writes its journal"""

    @field_validator("categories", mode="before")
    @classmethod
    def _text_labels(cls, value: object) -> object:
        """Names may look like numbers."""
        if not isinstance(value, Mapping):
            return value
        return {key: str(name) if isinstance(name, int | float) else name for key, name in value.items()}


class ItemFlatten(ConfigModel):
    """One item a child of a list in each row."""

    field: FieldPath
    """the list of which each child becomes an item"""
    max_items: Positive | None = None
    """children kept of each row; how many are dropped is reported"""
    promote_fields: tuple[str, ...] = ()
    """keys of the row that each child gets too"""


class HistorySection(ConfigModel):
    """How much of each history is ingested; anything but ``full`` is never publishable."""

    mode: Literal["full", "lazy", "shared"] = "full"
    """full; lazy: evidence sessions only; shared: those and the first others. Only full is publishable"""
    shared_sample_size: Positive = 10
    """sessions of a shared history"""


class DeletionSection(ConfigModel):
    """The three steps of an add-delete-verify benchmark."""

    target: FieldPath
    """what is deleted"""
    verify_query: FieldPath
    """what is asked after the deletion"""
    deleted_content: FieldPath | None = None
    """what must not be found any more"""
    fuzzy_match: bool = False
    """also count a text that is nearly the same"""
    phase_delay_ms: Milliseconds = 0
    """pause between add, delete and verify"""


class Rendering(ConfigModel):
    """How a session becomes text where the file states more than a template."""

    formatter: Literal["conversation", "json", "raw"] = "conversation"
    """how a session becomes text"""
    dialogue: Literal["auto", "speaker_text", "role_content"] = "auto"
    """how a turn becomes a line"""


class MatchOptions(ConfigModel):
    """Options of exact-match."""

    case_sensitive: bool = False
    """tell upper from lower case"""
    normalize_whitespace: bool = True
    """take runs of blanks for one"""


class BenchmarkConfig(BenchmarkFile):
    """What a benchmark is, from either dialect. The fields added here are set by the manifest dialect only."""

    row_id_candidates: tuple[str, ...] = ()
    """row ids come from the first of these that row 1 has; none: ``row_1``..."""
    fields_by_name: bool = False
    """turns are read by the usual names instead of an itemSchema"""
    memory_metadata: tuple[str, ...] = ()
    """row fields that go to ``Memory.metadata``"""
    flatten: ItemFlatten | None = None
    """one item a child of a list in each row"""
    history: HistorySection = HistorySection()
    """how much of each history is ingested"""
    deletion: DeletionSection | None = None
    """the steps of an add-delete-verify benchmark"""
    rendering: Rendering = Rendering()
    """how sessions and turns become text"""
    exact_match: MatchOptions = MatchOptions()
    """options of exact-match"""
    type_instructions: Mapping[str, str] = Field(default_factory=dict)
    """question type -> instruction for the judge; ``_default`` for the rest"""

    _origin: ConfigOrigin | None = PrivateAttr(default=None)
    _notes: tuple[str, ...] = PrivateAttr(default=())

    @property
    def origin(self) -> ConfigOrigin | None:
        """The files behind it; None for a config that came back from a journal."""
        return self._origin

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the reader; none of them stops a run."""
        return self._notes

    @property
    def unit(self) -> Unit:
        """What one memory is, unless the provider's config states otherwise."""
        return UNIT_OF_MODE[self.ingestion.mode]

    @property
    def title(self) -> str:
        return self.display_name or self.name

    @property
    def has_choices(self) -> bool:
        """True when the config names the field that holds the options of a question."""
        return bool(self.fields.choice_paths or any(one.choices_field for one in self.fields.question_lists))

    @property
    def has_evidence(self) -> bool:
        """True when the config states where the gold is."""
        nested = any(one.evidence_field for one in self.fields.question_lists)
        fields = (
            self.evidence.session_ids_field, self.evidence.turn_ids_field, self.evidence.turn_flag,
            self.evidence.texts_field,
        )  # fmt: skip
        return nested or any(fields)

    @property
    def marks(self) -> tuple[str, ...]:
        """The reasons why a result of this config is not publishable; empty if there is none."""
        found = {
            "altered": self.ingestion.preprocessing.escape_html,
            "reduced_history": self.history.mode != "full",
            "dataset_unpinned": self.data.type != "local" and self.data.sha256 is None,
        }
        return tuple(mark for mark, holds in found.items() if holds)

    def place(self, *path: str | int) -> str:
        """``file:line:column`` of a key, for errors."""
        return self._origin.place(path) if self._origin else self.name

    def written(self, *path: str | int) -> str:
        """A key with dots, as its file writes it, for sentences."""
        return self._origin.written(path) if self._origin else ".".join(map(str, path))

    def says(self, *path: str | int) -> bool:
        """True when a file of the config gives the key itself, not its default."""
        return self._origin is not None and self._origin.says(path)

    def folder_of(self, *path: str | int) -> Path | None:
        """The folder of the file that gave a value."""
        return self._origin.folder_of(path) if self._origin else None

    def question_type(self, name: str | None) -> QuestionType | None:
        """The declared type of that name."""
        return next((kind for kind in self.question_types if kind.name == name), None)

    def judge_prompt(self, question_type: str | None, *, abstention: bool = False) -> tuple[str, str] | None:
        """Name and text of the judge's prompt: abstention first, then by type, then the default."""
        prompts = self.evaluation.judge_prompts
        if abstention and prompts.abstention is not None:
            return "abstention", prompts.abstention
        return self._prompt(prompts.by_question_type, prompts.default, question_type)

    def answer_prompt(self, question_type: str | None) -> tuple[str, str] | None:
        """Name and text of the answer prompt: by type, then the default."""
        prompts = self.evaluation.answer_prompt
        return self._prompt(prompts.by_question_type, prompts.default, question_type)

    def _prompt(self, by_type: Mapping[str, str], default: str | None, name: str | None) -> tuple[str, str] | None:
        kind = self.question_type(name)
        for candidate in (kind.evaluation_prompt if kind else None, name):
            if candidate is not None and candidate in by_type:
                return candidate, by_type[candidate]
        return None if default is None else ("default", default)


_APART = {"aliases", "tags", "display_name", "description", "published", "extends", "runtime", "overlay"}
"""what describes, what has been merged in, and the overlay, which has a digest of its own in the plan"""

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
"""keys that earlier versions did not know: a config that is silent about them keeps its digest"""
_SILENT = (("through", False), ("methods_by", "question_type"))
"""their defaults, where they have one"""


def identity_tree(config: BenchmarkConfig) -> dict[str, object]:
    """The resolved config without what only describes it or states where a file lies."""
    tree = config.model_dump(mode="json", exclude=_APART)
    tree["data"].pop("local_path")
    tree["data"].pop("fetch")
    _forget(tree, _ADDED)
    return tree


def _forget(tree: object, added: object) -> None:
    """Take out the added keys about which a config states nothing."""
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
    """SHA-256 of the RFC 8785 form of `identity_tree`."""
    return digest(identity_tree(config))
