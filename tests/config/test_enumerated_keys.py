"""Enumerated keys accept exactly the words of their specification."""

from __future__ import annotations

from typing import Annotated, Literal, Union, get_args, get_origin

from bench.config.benchmark.config import BenchmarkFile, HistorySection, Rendering
from bench.config.benchmark.manifest import (
    AddDeleteVerify,
    DeletionCheck,
    ExactMatch,
    LlmAsJudge,
    Manifest,
    SessionBased,
    Simple,
)
from bench.config.benchmark.sections import (
    ContextSection,
    Data,
    Evaluation,
    EvidenceFields,
    Ingestion,
    JudgePromptFiles,
    QuestionDate,
    Runtime,
)
from bench.config.benchmark.terms import METHODS, UNIT_OF_MODE
from bench.config.builtin_providers import BUILT_IN
from bench.config.file import ConfigModel
from bench.config.model import ModelFile
from bench.config.provider.calls import RequestSection, ScoreSection, WaitBlock
from bench.config.provider.config import ProviderConfig
from bench.config.provider.sections import (
    ADD_VARIABLES,
    CLEAR_VARIABLES,
    COMMON_VARIABLES,
    DELETE_VARIABLES,
    ITEM_VARIABLES,
    LIST_VARIABLES,
    OPERATIONS,
    OPERATORS,
    SEARCH_VARIABLES,
    SETUP_VARIABLES,
    TURN_VARIABLES,
    WAIT_VARIABLES,
    Auth,
    CapabilitiesConfig,
    IngestSection,
    Scoping,
    Verified,
)
from bench.config.run import Operation
from bench.config.traffic import ErrorRule, Errors
from tests.rows import each_row

CAPABILITIES = "add_memory retrieve_memory delete_memory update_memory list_memories"


def words(annotation: object) -> set[object]:
    """Return all literals of a type, also nested ones."""
    if get_origin(annotation) is Literal:
        return set(get_args(annotation))
    if isinstance(annotation, type) and issubclass(annotation, ConfigModel):
        return set()
    inner = get_args(annotation)[:1] if get_origin(annotation) is Annotated else get_args(annotation)
    return set().union(*map(words, inner)) if inner or get_origin(annotation) is Union else set()


@each_row(
    ("model", "field", "expected"),
    [
        (Data, "type", "huggingface local url"),
        (Data, "format", "json jsonl csv tsv parquet"),
        (ContextSection, "type", "array object string session"),
        (EvidenceFields, "parser", "direct dialog_refs exact_text ranges position"),
        (QuestionDate, "source", "none last_session"),
        (Ingestion, "mode", "session-based incremental bulk"),
        (Ingestion, "date_header", "session always never"),
        (Runtime, "checkpoint_granularity", "item batch session"),
        (Evaluation, "granularity", "auto turn session memory text"),
        (JudgePromptFiles, "source", "custom paper"),
        (BenchmarkFile, "cluster_by", "corpus"),
        (BenchmarkFile, "epochs_reducer", "mean mode max"),
        (BenchmarkFile, "required_capabilities", CAPABILITIES),
        (HistorySection, "mode", "full lazy shared"),
        (Rendering, "formatter", "conversation json raw"),
        (Rendering, "dialogue", "auto speaker_text role_content"),
        (Manifest, "manifest_version", "1"),
        (Manifest, "required_capabilities", CAPABILITIES),
        (Simple, "strategy", "simple"),
        (SessionBased, "strategy", "session-based"),
        (SessionBased, "sessions_format", "array dynamic_keys"),
        (SessionBased, "mode", "full lazy shared"),
        (SessionBased, "content_formatter", "conversation json raw"),
        (SessionBased, "dialogue_content_formatter", "auto speaker_text role_content"),
        (AddDeleteVerify, "strategy", "add-delete-verify"),
        (ExactMatch, "protocol", "exact-match"),
        (LlmAsJudge, "protocol", "llm-as-judge"),
        (DeletionCheck, "protocol", "deletion-check"),
        (ModelFile, "dialect", "openai anthropic google"),
        (ModelFile, "api_version", "bench/v1"),
        (ProviderConfig, "api_version", "bench/v1"),
        (ProviderConfig, "type", "hosted local docker mcp"),
        (ProviderConfig, "determinism", "deterministic drifts search_mutates unknown"),
        (Verified, "level", "live recorded documented"),
        (Auth, "type", "bearer token apikey basic query none"),
        (Scoping, "strategy", "containerTags userId sessionId single custom"),
        (IngestSection, "unit", "benchmark turn session corpus chunk"),
        (IngestSection, "timestamp", "iso date unix unix_ms omit"),
        (IngestSection, "order", "serial parallel"),
        (IngestSection, "on_unknown", "repeat probe reset"),
        (CapabilitiesConfig, "metadata_values", "any flat strings none"),
        (RequestSection, "method", "GET POST PUT PATCH DELETE"),
        (WaitBlock, "scope", "id namespace"),
        (ScoreSection, "kind", "similarity distance rank"),
        (ScoreSection, "transform", "none 1-x 1/(1+x) -x"),
        (ScoreSection, "order", "as_returned asc desc"),
        (ErrorRule, "kind", "auth quota rate_limited unavailable rejected ingest_failed"),
        (Errors, "status", "retry fail stop"),
        (Operation, "isolation", "off probe full"),
        (Operation, "cleanup", "corpus run never"),
        (Operation, "concurrency", "auto"),
    ],
)
def test_each_enumerated_key_accepts_the_words_of_its_specification(
    model: type[ConfigModel], field: str, expected: str
) -> None:
    assert words(model.model_fields[field].annotation) == set(expected.split())


def test_METHODS_contains_the_specified_methods_and_our_own() -> None:
    own = "contains faithfulness code-correctness rubric-points order-agreement labels memory-audit phrases"
    given = "exact-match llm-judge semantic-similarity custom none token-f1 locomo-f1 mcq rubric deletion-check"
    assert set(METHODS) == {*given.split(), *own.split(), "ordered-phrases"}


def test_each_ingestion_mode_has_its_unit() -> None:
    assert UNIT_OF_MODE == {"session-based": "session", "incremental": "turn", "bulk": "corpus"}


def test_operations_operators_and_built_ins_have_their_specified_names() -> None:
    assert " ".join(OPERATIONS) == CAPABILITIES
    assert set(OPERATORS) == {"$each", "$do", "$column", "$omit_if_null", "$literal", "$lines", "$json"}
    assert set(BUILT_IN) == {"bm25", "vector", "full-context", "random", "no-memory", "oracle"}


@each_row(
    ("known", "expected"),
    [
        (COMMON_VARIABLES, "runTag userId namespace runId runUuid benchmarkId corpusId attempt"),
        (ITEM_VARIABLES, "id content when role speaker sessionId messages metadata embedding uuid index"),
        (TURN_VARIABLES, "content role speaker when"),
        (ADD_VARIABLES, "items batchKey"),
        (SEARCH_VARIABLES, "query k limit queryWhen queryEmbedding threshold includeChunks"),
        (WAIT_VARIABLES, "jobId sent"),
        (CLEAR_VARIABLES, "ids idChunks"),
        (DELETE_VARIABLES, "ids id"),
        (LIST_VARIABLES, "sessionId"),
        (SETUP_VARIABLES, "dimensions"),
    ],
)
def test_each_kind_of_call_has_its_specified_variables(known: frozenset[str], expected: str) -> None:
    assert known == set(expected.split())
