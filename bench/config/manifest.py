"""The manifest dialect: ``configs/benchmarks/NAME/manifest.json``, and how it becomes a `BenchmarkConfig`.

::

    manifest = load(Source.read(path), Manifest)
    fields = manifest.as_benchmark(instructions={})     # what BenchmarkConfig.model_validate reads
    PLACES[("data", "path")]                            # ("data_file",): where errors point to
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from bench.config.benchmark import Flatten
from bench.config.benchmark.sections import Abstention, QuestionDate
from bench.config.benchmark.terms import Capability, FieldPath, Milliseconds, Parser, Positive, Segment, Sha256, Zone
from bench.config.jsontext import TreePath
from bench.config.source import ConfigModel

ROW_IDS = ("id", "question_id", "sample_id", "case_id")


class _Manifest(ConfigModel):
    """Keys of this dialect are snake_case."""

    model_config = ConfigDict(alias_generator=None)


class _Ingestion(_Manifest):
    """What every strategy may say about corpora and evidence."""

    corpus_field: FieldPath | None = None
    """rows of one value share a memory"""
    date_header: bool = True
    answer_session_ids_field: FieldPath | None = None
    evidence_field: FieldPath | None = None
    evidence_parser: Parser = "direct"


class Simple(_Ingestion):
    """One text a row, or a list of texts."""

    strategy: Literal["simple"]
    content_field: FieldPath
    is_array: bool = False
    metadata_fields: tuple[str, ...] = ()

    def context(self) -> dict[str, object]:
        return {"field": self.content_field, "type": "array" if self.is_array else "string"}


class SessionBased(_Ingestion):
    """Conversations: a list of sessions, or an object with numbered keys."""

    strategy: Literal["session-based"]
    sessions_field: FieldPath
    session_ids_field: FieldPath | None = None
    dates_field: FieldPath | None = None
    sessions_format: Literal["array", "dynamic_keys"] = "array"
    session_key_prefix: str = "session_"
    date_key_suffix: str = "_date_time"
    mode: Literal["full", "lazy", "shared"] = "full"
    shared_sample_size: Positive = 10
    content_formatter: Literal["conversation", "json", "raw"] = "conversation"
    dialogue_content_formatter: Literal["auto", "speaker_text", "role_content"] = "auto"

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
    add_content_field: FieldPath
    delete_target_field: FieldPath
    verify_query_field: FieldPath
    phase_delay_ms: Milliseconds = 0

    def context(self) -> dict[str, object]:
        return {"field": self.add_content_field, "type": "string"}


class Query(_Manifest):
    question_field: FieldPath
    expected_answer_field: FieldPath | None = None
    retrieval_limit: Positive = 10
    date_field: FieldPath | None = None


class ExactMatch(_Manifest):
    protocol: Literal["exact-match"]
    case_sensitive: bool = False
    normalize_whitespace: bool = True


class LlmAsJudge(_Manifest):
    protocol: Literal["llm-as-judge"]
    type_field: FieldPath | None = None
    type_instructions_file: str | None = None


class DeletionCheck(_Manifest):
    protocol: Literal["deletion-check"]
    verification_query_field: FieldPath
    deleted_content_field: FieldPath
    fuzzy_match: bool = False


class Manifest(_Manifest):
    """The whole file."""

    manifest_version: Literal["1"]
    name: Segment
    version: str
    description: str | None = None
    source: str | None = None
    license: str | None = None
    tags: tuple[str, ...] = ()
    aliases: tuple[Segment, ...] = ()
    extends: str | None = None
    data_file: str
    sha256: Sha256 | None = None
    ingestion: Annotated[Simple | SessionBased | AddDeleteVerify, Field(discriminator="strategy")]
    query: Query
    evaluation: Annotated[ExactMatch | LlmAsJudge | DeletionCheck, Field(discriminator="protocol")]
    metrics: tuple[str, ...]
    required_capabilities: tuple[Capability, ...]
    flatten: Flatten | None = None
    id_field: FieldPath | None = None
    groups: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    abstention: Abstention = Abstention()
    question_date: QuestionDate = QuestionDate()
    timezone: Zone = "UTC"
    date_formats: tuple[str, ...] = ()
    overlay: str | None = None
    cluster_by: Literal["corpus"] | None = "corpus"

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
        kind = self.evaluation.type_field if isinstance(self.evaluation, LlmAsJudge) else None
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
            return {"exact_match": self.evaluation.model_dump(exclude={"protocol"})}
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
    ("schema", "item_id"): ("id_field",),
    ("schema", "question"): ("query", "question_field"),
    ("schema", "answer"): ("query", "expected_answer_field"),
    ("schema", "context"): ("ingestion",),
    ("schema", "metadata", "questionType"): ("evaluation", "type_field"),
    ("schema", "metadata", "questionDate"): ("query", "date_field"),
    ("evidence",): ("ingestion",),
    ("search", "default_limit"): ("query", "retrieval_limit"),
    ("evaluation", "method"): ("evaluation", "protocol"),
    ("history", "mode"): ("ingestion", "mode"),
    ("type_instructions",): ("evaluation", "type_instructions_file"),
}
"""Where a key of the model stands in a manifest."""
