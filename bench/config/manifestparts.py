"""The parts of a manifest: ingestion by strategy, the query, evaluation by protocol."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict

from bench.config.benchmark.terms import FieldPath, Milliseconds, Parser, Positive
from bench.config.source import ConfigModel


class ManifestPart(ConfigModel):
    """Keys of this dialect are snake_case."""

    model_config = ConfigDict(alias_generator=None)


class _Ingestion(ManifestPart):
    """What every strategy may say about corpora and evidence."""

    corpus_field: FieldPath | None = None
    """rows of one value share a memory"""
    date_header: bool = True
    """the date stands as first line of a session's text"""
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
    """dynamic_keys: what stands before the number of a session's key"""
    date_key_suffix: str = "_date_time"
    """dynamic_keys: a session's date stands under its key with this added"""
    mode: Literal["full", "lazy", "shared"] = "full"
    """full: all of a history; lazy: evidence sessions only; shared: those and the first others. Only full is
    publishable"""
    shared_sample_size: Positive = 10
    """sessions a history keeps in mode shared"""
    content_formatter: Literal["conversation", "json", "raw"] = "conversation"
    """how a session becomes text: lines, the JSON of its turns, or as it stands"""
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


class Query(ManifestPart):
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
    """JSON file beside this one: question type -> what the judge is told; _default for the rest"""


class DeletionCheck(ManifestPart):
    protocol: Literal["deletion-check"]
    """what was deleted must not be found"""
    verification_query_field: FieldPath
    """path of the search; comes before verify_query_field"""
    deleted_content_field: FieldPath
    """path of the text that must be gone"""
    fuzzy_match: bool = False
    """also count a text that is nearly the same"""
