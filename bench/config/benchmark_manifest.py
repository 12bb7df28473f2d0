"""The manifest dialect: ``configs/benchmarks/NAME/manifest.json``, converted to a `BenchmarkConfig`.

Here too:

* The parts of a manifest: ingestion by strategy, the query, evaluation by protocol.

Example::

    manifest = load(Source.read(path), Manifest)
    fields = manifest.as_benchmark(instructions={})     # what BenchmarkConfig.model_validate reads
    PLACES[("data", "path")]                            # ("data_file",): where errors point to
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from bench.config.benchmark import ItemFlatten
from bench.config.benchmark_sections import Abstention, QuestionDate
from bench.config.benchmark_terms import (
    Capability,
    DateFormat,
    FieldPath,
    Milliseconds,
    Parser,
    Positive,
    Segment,
    Sha256,
    Zone,
)
from bench.config.file import ConfigModel
from bench.config.jsontext import TreePath


class ManifestPart(ConfigModel):
    """Keys of this dialect are snake_case."""

    model_config = ConfigDict(alias_generator=None)


class _Ingestion(ManifestPart):
    """What every strategy may say about corpora and evidence."""

    corpus_field: FieldPath | None = None
    """rows of one value share a memory"""
    date_header: bool = True
    """the date is first line of a session's text"""
    answer_session_ids_field: FieldPath | None = None
    """path of the ids of the sessions that hold the answer"""
    evidence_field: FieldPath | None = None
    """path of the ids of the turns that hold the answer"""
    evidence_parser: Parser = "direct"
    """direct: ids as they are; dialog_refs: D1:3 and the like, in lists or one text; exact_text: quoted turns"""


class Simple(_Ingestion):
    """One text a row, or a list of texts."""

    strategy: Literal["simple"]
    """a text or a list of texts a row"""
    content_field: FieldPath
    """path of the text, or of the list of texts"""
    is_array: bool = False
    """content_field is a list; each element becomes a memory"""
    metadata_fields: tuple[str, ...] = ()
    """row fields that are sent along as metadata; gold is refused here"""

    def context(self) -> dict[str, object]:
        return {"field": self.content_field, "type": "array" if self.is_array else "string"}


class SessionBased(_Ingestion):
    """Conversations: a list of sessions, or an object with numbered keys."""

    strategy: Literal["session-based"]
    """dated conversations"""
    sessions_field: FieldPath
    """path of the conversations of a row"""
    session_ids_field: FieldPath | None = None
    """path of the list of session ids, as long as the sessions"""
    dates_field: FieldPath | None = None
    """path of the list of session dates, as long as the sessions"""
    sessions_format: Literal["array", "dynamic_keys"] = "array"
    """array: a list of sessions; dynamic_keys: an object with a numbered key a session"""
    session_key_prefix: str = "session_"
    """dynamic_keys: what is before the number of a session's key"""
    date_key_suffix: str = "_date_time"
    """dynamic_keys: a session's date is under its key with this added"""
    mode: Literal["full", "lazy", "shared"] = "full"
    """full: all of a history; lazy: evidence sessions only; shared: those and the first others. Only full is
    publishable"""
    shared_sample_size: Positive = 10
    """sessions a history keeps in mode shared"""
    content_formatter: Literal["conversation", "json", "raw"] = "conversation"
    """how a session becomes text: lines, the JSON of its turns, or as it is"""
    dialogue_content_formatter: Literal["auto", "speaker_text", "role_content"] = "auto"
    """a turn's line begins with its speaker or its role; auto: with what it has"""

    def context(self) -> dict[str, object]:
        pattern = f"{self.session_key_prefix}*"
        return {
            "field": self.sessions_field,
            "type": "object" if self.sessions_format == "dynamic_keys" else "array",
            "date_field": self.dates_field,
            "session_id_field": self.session_ids_field,
            "session_pattern": pattern,
            "date_pattern": f"{pattern}{self.date_key_suffix}",
        }


class AddDeleteVerify(_Ingestion):
    """Add a text, delete it, look whether it is gone."""

    strategy: Literal["add-delete-verify"]
    """a text is added, deleted and looked for"""
    add_content_field: FieldPath
    """path of the text that is stored"""
    delete_target_field: FieldPath
    """path of what names the row whose memory is deleted"""
    verify_query_field: FieldPath
    """path of the search that must find the text before, and not after"""
    phase_delay_ms: Milliseconds = 0
    """least wait between the three steps, beside readiness"""

    def context(self) -> dict[str, object]:
        return {"field": self.add_content_field, "type": "string"}


class ManifestQuery(ManifestPart):
    question_field: FieldPath
    """path of the question"""
    expected_answer_field: FieldPath | None = None
    """path of the accepted answer, or of a list of them"""
    retrieval_limit: Positive = 10
    """k, the hits asked for; -k of a run wins"""
    date_field: FieldPath | None = None
    """path of the day on which the question is asked"""


class ExactMatch(ManifestPart):
    protocol: Literal["exact-match"]
    """the answer must be an expected one"""
    type_field: FieldPath | None = None
    """path of the question type"""
    case_sensitive: bool = False
    """tell upper from lower case"""
    normalize_whitespace: bool = True
    """take runs of blanks for one"""


class LlmAsJudge(ManifestPart):
    protocol: Literal["llm-as-judge"]
    """a model judges the answer"""
    type_field: FieldPath | None = None
    """path of the question type"""
    type_instructions_file: str | None = None
    """JSON file beside this one: question type -> what the judge is asked; _default for the rest"""


class DeletionCheck(ManifestPart):
    protocol: Literal["deletion-check"]
    """what was deleted must not be found"""
    verification_query_field: FieldPath
    """path of the search; comes before verify_query_field"""
    deleted_content_field: FieldPath
    """path of the text that must be gone"""
    fuzzy_match: bool = False
    """also count a text that is nearly the same"""


ROW_IDS = ("id", "question_id", "sample_id", "case_id")


class Manifest(ManifestPart):
    """The whole file."""

    manifest_version: Literal["1"]
    """of this dialect"""
    name: Segment
    """how runs name it; equals the folder's name"""
    version: str
    """raise it when items or protocol change"""
    description: str | None = None
    """one sentence"""
    source: str | None = None
    """where it comes from: an address"""
    license: str | None = None
    """SPDX name of the data's licence"""
    tags: tuple[str, ...] = ()
    """for bench list --tags"""
    aliases: tuple[Segment, ...] = ()
    """other names it answers to"""
    extends: str | None = None
    """a benchmark whose keys hold where this file is silent"""
    data_file: str
    """the rows: .json, .jsonl or .csv, beside this file"""
    sha256: Sha256 | None = None
    """of data_file; another file is refused"""
    ingestion: Annotated[Simple | SessionBased | AddDeleteVerify, Field(discriminator="strategy")]
    """what is stored, and where the gold is"""
    query: ManifestQuery
    """what is asked"""
    evaluation: Annotated[ExactMatch | LlmAsJudge | DeletionCheck, Field(discriminator="protocol")]
    """how an answer is judged"""
    metrics: tuple[str, ...]
    """names or aliases of bench list metrics"""
    required_capabilities: tuple[Capability, ...]
    """what a provider must offer; one that lacks it is skipped"""
    flatten: ItemFlatten | None = None
    """one item a child of a list in each row, in place of one a row"""
    id_field: FieldPath | None = None
    """path of the item's id; without it the first of id, question_id, sample_id, case_id that row 1 has"""
    groups: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """name -> question types: extra rows of a report"""
    abstention: Abstention = Abstention()
    """which items must not be answered"""
    question_date: QuestionDate = QuestionDate()
    """where the date of a question comes from"""
    timezone: Zone = "UTC"
    """IANA name, for dates without an offset"""
    date_formats: tuple[DateFormat, ...] = ()
    """strptime formats tried before the known ones"""
    overlay: str | None = None
    """a list of doubted answers: a name in overlays/, or a path"""
    cluster_by: Literal["corpus"] | None = "corpus"
    """what intervals take for one independent unit; null: each item"""

    def as_benchmark(self, instructions: Mapping[str, str]) -> dict[str, object]:
        """Say the same in the words of `BenchmarkConfig`; ``instructions`` is the read type_instructions_file."""
        same = self.model_dump(include=_SAME, by_alias=True)
        return (
            same
            | {
                "data": {"type": "local", "path": self.data_file, "sha256": self.sha256},
                "schema": self._schema(),
                "evidence": self._evidence(),
                "corpus": {"field": self.ingestion.corpus_field} if self.ingestion.corpus_field else None,
                "ingestion": {"date_header": "session" if self.ingestion.date_header else "never"},
                "search": {"default_limit": self.query.retrieval_limit},
                "evaluation": {"method": self.evaluation.protocol},
                "row_id_candidates": () if self.id_field else ROW_IDS,
                "fields_by_name": True,
                "type_instructions": dict(instructions),
            }
            | self._strategy()
            | self._protocol()
        )

    def _schema(self) -> dict[str, object]:
        kind = None if isinstance(self.evaluation, DeletionCheck) else self.evaluation.type_field
        labels = {"questionType": kind, "questionDate": self.query.date_field}
        return {
            "item_id": self.id_field or ROW_IDS[0],
            "question": self.query.question_field,
            "answer": self.query.expected_answer_field,
            "context": self.ingestion.context(),
            "metadata": {key: path for key, path in labels.items() if path},
        }

    def _evidence(self) -> dict[str, object]:
        sessions, refs = self.ingestion.answer_session_ids_field, self.ingestion.evidence_field
        flag = "has_answer" if isinstance(self.ingestion, SessionBased) else None
        return {
            "session_ids_field": sessions,
            "turn_ids_field": refs,
            "turn_flag": flag,
            "parser": self.ingestion.evidence_parser,
        }

    def _strategy(self) -> dict[str, object]:
        match self.ingestion:
            case Simple(metadata_fields=fields):
                return {"memory_metadata": fields}
            case SessionBased() as ingestion:
                return {
                    "history": {"mode": ingestion.mode, "shared_sample_size": ingestion.shared_sample_size},
                    "rendering": {
                        "formatter": ingestion.content_formatter,
                        "dialogue": ingestion.dialogue_content_formatter,
                    },
                }
            case AddDeleteVerify() as ingestion:
                return {"deletion": self._deletion(ingestion)}

    def _deletion(self, ingestion: AddDeleteVerify) -> dict[str, object]:
        steps: dict[str, object] = {
            "target": ingestion.delete_target_field,
            "verify_query": ingestion.verify_query_field,
            "phase_delay_ms": ingestion.phase_delay_ms,
        }
        if isinstance(self.evaluation, DeletionCheck):
            steps["deleted_content"] = self.evaluation.deleted_content_field
            steps["verify_query"] = self.evaluation.verification_query_field
            steps["fuzzy_match"] = self.evaluation.fuzzy_match
        return steps

    def _protocol(self) -> dict[str, object]:
        if isinstance(self.evaluation, ExactMatch):
            return {"exact_match": self.evaluation.model_dump(exclude={"protocol", "type_field"})}
        return {}


_SAME = {
    "name",
    "version",
    "description",
    "source",
    "license",
    "tags",
    "aliases",
    "extends",
    "metrics",
    "required_capabilities",
    "flatten",
    "groups",
    "abstention",
    "question_date",
    "timezone",
    "date_formats",
    "overlay",
    "cluster_by",
}

PLACES: Mapping[TreePath, TreePath] = {
    ("data", "path"): ("data_file",),
    ("data", "sha256"): ("sha256",),
    ("data",): ("data_file",),
    ("memory_metadata",): ("ingestion", "metadata_fields"),
    ("schema",): ("query",),
    ("schema", "item_id"): ("id_field",),
    ("schema", "question"): ("query", "question_field"),
    ("schema", "answer"): ("query", "expected_answer_field"),
    ("schema", "context"): ("ingestion",),
    ("schema", "context", "date_field"): ("ingestion", "dates_field"),
    ("schema", "context", "session_id_field"): ("ingestion", "session_ids_field"),
    ("schema", "context", "session_pattern"): ("ingestion", "session_key_prefix"),
    ("schema", "context", "date_pattern"): ("ingestion", "date_key_suffix"),
    ("schema", "metadata", "questionType"): ("evaluation", "type_field"),
    ("schema", "metadata", "questionDate"): ("query", "date_field"),
    ("evidence",): ("ingestion",),
    ("evidence", "session_ids_field"): ("ingestion", "answer_session_ids_field"),
    ("evidence", "turn_ids_field"): ("ingestion", "evidence_field"),
    ("search", "default_limit"): ("query", "retrieval_limit"),
    ("evaluation", "method"): ("evaluation", "protocol"),
    ("type_instructions",): ("evaluation", "type_instructions_file"),
}
"""Where a key of the model is in a manifest."""
