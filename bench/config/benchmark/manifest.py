"""Models of the manifest ``configs/benchmarks/NAME/manifest.json``, which is converted to a `BenchmarkConfig`.

Example::

    manifest = load(Source.read(path), Manifest)
    fields = manifest.as_benchmark(instructions={})     # what BenchmarkConfig.model_validate reads
    PLACES[("data", "path")]                            # ("data_file",): where errors point to
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from bench.config.benchmark.config import ItemFlatten
from bench.config.benchmark.sections import Abstention, QuestionDate
from bench.config.benchmark.terms import (
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
    """A section of the manifest. Its keys are snake_case."""

    model_config = ConfigDict(alias_generator=None)


class _Ingestion(ManifestPart):
    """The ingestion keys that all strategies have."""

    corpus_field: FieldPath | None = None
    """path of a value that is equal in all rows of one corpus; unset: each row is its own corpus"""
    date_header: bool = True
    """true: the text of a session begins with its date"""
    answer_session_ids_field: FieldPath | None = None
    """path of the ids of the evidence sessions"""
    evidence_field: FieldPath | None = None
    """path of the ids of the evidence turns"""
    evidence_parser: Parser = "direct"
    """format of the evidence. direct: ids; dialog_refs: ids such as D1:3; exact_text: quoted turns; ranges: one
    text with numbers and ranges, such as "x/1, 3-4" for the ids x/1, x/3 and x/4; position: SESSION#N, turns from 0"""


class Simple(_Ingestion):
    """The strategy ``simple``: the history of a row is one text, or a list of texts."""

    strategy: Literal["simple"]
    """one text per row, or a list of texts"""
    content_field: FieldPath
    """path of the text, or of the list of texts"""
    is_array: bool = False
    """true: content_field is a list, and each element becomes a memory"""
    metadata_fields: tuple[str, ...] = ()
    """row fields that are sent to the provider as metadata; a field with gold data is an error"""

    def context(self) -> dict[str, object]:
        return {"field": self.content_field, "type": "array" if self.is_array else "string"}


class SessionBased(_Ingestion):
    """The strategy ``session-based``: the history of a row is a list of sessions, or an object with numbered keys."""

    strategy: Literal["session-based"]
    """each row has conversations with dates"""
    sessions_field: FieldPath
    """path of the conversations of a row"""
    session_ids_field: FieldPath | None = None
    """path of the list of session ids, one per session in the same order"""
    dates_field: FieldPath | None = None
    """path of the list of session dates, one per session in the same order"""
    sessions_format: Literal["array", "dynamic_keys"] = "array"
    """array: a list of sessions; dynamic_keys: an object with one numbered key per session"""
    session_key_prefix: str = "session_"
    """dynamic_keys: text before the number in a session's key"""
    date_key_suffix: str = "_date_time"
    """dynamic_keys: suffix that turns a session's key into the key of its date"""
    mode: Literal["full", "lazy", "shared"] = "full"
    """full: the whole history; lazy: evidence sessions only; shared: evidence sessions and the first other sessions.
    Only results of the mode full can be published"""
    shared_sample_size: Positive = 10
    """number of other sessions in mode shared"""
    content_formatter: Literal["conversation", "json", "raw"] = "conversation"
    """format of a session's text. conversation: one line per turn; json: JSON of the turns; raw: texts of the turns"""
    dialogue_content_formatter: Literal["auto", "speaker_text", "role_content"] = "auto"
    """beginning of a turn's line. speaker_text: the speaker; role_content: the role; auto: the speaker if the turn has
    one, otherwise the role"""

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
    """The strategy ``add-delete-verify``: add a text, delete the text, and check that a search does not find it."""

    strategy: Literal["add-delete-verify"]
    """each row adds a text, deletes a text, and searches for the deleted text"""
    add_content_field: FieldPath
    """path of the text that is stored"""
    delete_target_field: FieldPath
    """path of an id; the memory of the row with this id is deleted"""
    verify_query_field: FieldPath
    """path of the query that must find the text before the deletion, but not after the deletion"""
    phase_delay_ms: Milliseconds = 0
    """minimum milliseconds between the three steps, in addition to readiness checks"""

    def context(self) -> dict[str, object]:
        return {"field": self.add_content_field, "type": "string"}


class ManifestQuery(ManifestPart):
    question_field: FieldPath
    """path of the question"""
    expected_answer_field: FieldPath | None = None
    """path of the accepted answer, or of a list of accepted answers"""
    retrieval_limit: Positive = 10
    """k, the number of hits to request; -k of a run takes precedence"""
    date_field: FieldPath | None = None
    """path of the date on which the question is asked"""


class ExactMatch(ManifestPart):
    protocol: Literal["exact-match"]
    """the answer must equal an expected answer"""
    type_field: FieldPath | None = None
    """path of the question type"""
    case_sensitive: bool = False
    """true: upper and lower case are different"""
    normalize_whitespace: bool = True
    """true: several white space characters count as one space"""


class LlmAsJudge(ManifestPart):
    protocol: Literal["llm-as-judge"]
    """a model judges the answer"""
    type_field: FieldPath | None = None
    """path of the question type"""
    type_instructions_file: str | None = None
    """JSON file next to this file: question type -> instruction for the judge; _default is for all other types"""


class DeletionCheck(ManifestPart):
    protocol: Literal["deletion-check"]
    """the deleted text must not be found"""
    verification_query_field: FieldPath
    """path of the query; this key takes precedence over verify_query_field"""
    deleted_content_field: FieldPath
    """path of the deleted text"""
    fuzzy_match: bool = False
    """true: a nearly equal text also counts as found"""


ROW_IDS = ("id", "question_id", "sample_id", "case_id")


class Manifest(ManifestPart):
    """The whole manifest file."""

    manifest_version: Literal["1"]
    """version of this file format"""
    name: Segment
    """name that runs use; equals the name of the folder"""
    version: str
    """version of the benchmark; increase it when items or protocol change"""
    description: str | None = None
    """one sentence"""
    source: str | None = None
    """URL of the source of the data"""
    license: str | None = None
    """SPDX identifier of the license of the data"""
    tags: tuple[str, ...] = ()
    """tags for `bench list --tags`"""
    aliases: tuple[Segment, ...] = ()
    """alternative names"""
    extends: str | None = None
    """name of another benchmark, whose keys are used if this file does not set them"""
    data_file: str
    """file with the rows: .json, .jsonl or .csv, next to this file"""
    sha256: Sha256 | None = None
    """SHA-256 of data_file; another digest is an error"""
    ingestion: Annotated[Simple | SessionBased | AddDeleteVerify, Field(discriminator="strategy")]
    """paths of the content to ingest and of its evidence"""
    query: ManifestQuery
    """the question of each item"""
    evaluation: Annotated[ExactMatch | LlmAsJudge | DeletionCheck, Field(discriminator="protocol")]
    """rule that decides whether an answer is right"""
    metrics: tuple[str, ...]
    """names or aliases of metrics, as bench list metrics shows them"""
    required_capabilities: tuple[Capability, ...]
    """operations that a provider must support; a provider without them is skipped"""
    flatten: ItemFlatten | None = None
    """rule that turns each element of a list in a row into an item; unset: each row is an item"""
    id_field: FieldPath | None = None
    """path of the item's id; default: the first of id, question_id, sample_id, case_id that the first row has"""
    groups: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    """name of a group -> its question types; each group is an additional row of a report"""
    abstention: Abstention = Abstention()
    """rules that select items without an answer"""
    question_date: QuestionDate = QuestionDate()
    """rule that gives a question date to an item without one"""
    timezone: Zone = "UTC"
    """IANA time zone of dates without an offset"""
    date_formats: tuple[DateFormat, ...] = ()
    """strptime formats that are tried before the built-in formats"""
    overlay: str | None = None
    """NAME of the file overlays/NAME.yaml next to this file, which lists disputed gold answers"""
    cluster_by: Literal["corpus"] | None = "corpus"
    """unit that counts as independent in confidence intervals. corpus: all items of a corpus together; null: each
    item"""

    def as_benchmark(self, instructions: Mapping[str, str]) -> dict[str, object]:
        """Convert the manifest to the fields of a `BenchmarkConfig`.

        ``instructions`` has question type -> instruction, from the type_instructions_file.
        """
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
        exact = isinstance(self.evaluation, ExactMatch)
        return {"exact_match": self.evaluation.model_dump(exclude={"protocol", "type_field"})} if exact else {}


_SAME = {
    "name", "version", "description", "source", "license", "tags", "aliases", "extends", "metrics",
    "required_capabilities", "flatten", "groups", "abstention", "question_date", "timezone", "date_formats", "overlay",
    "cluster_by",
}  # fmt: skip

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
"""key path of `BenchmarkConfig` -> key path in a manifest"""
