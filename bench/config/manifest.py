"""The manifest dialect: ``configs/benchmarks/NAME/manifest.json``, and how it becomes a `BenchmarkConfig`.

::

    manifest = load(Source.read(path), Manifest)
    fields = manifest.as_benchmark(instructions={})     # what BenchmarkConfig.model_validate reads
    PLACES[("data", "path")]                            # ("data_file",): where errors point to
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from bench.config.benchmark import Flatten
from bench.config.benchmark.sections import Abstention, QuestionDate
from bench.config.benchmark.terms import Capability, DateFormat, FieldPath, Segment, Sha256, Zone
from bench.config.jsontext import TreePath
from bench.config.manifestparts import (
    AddDeleteVerify,
    DeletionCheck,
    ExactMatch,
    LlmAsJudge,
    ManifestPart,
    Query,
    SessionBased,
    Simple,
)

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
    """what is stored, and where the gold stands"""
    query: Query
    """what is asked"""
    evaluation: Annotated[ExactMatch | LlmAsJudge | DeletionCheck, Field(discriminator="protocol")]
    """how an answer is judged"""
    metrics: tuple[str, ...]
    """names or aliases of bench list metrics"""
    required_capabilities: tuple[Capability, ...]
    """what a provider must offer; one that lacks it is skipped"""
    flatten: Flatten | None = None
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
"""Where a key of the model stands in a manifest."""
