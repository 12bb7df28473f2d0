"""P9: each key of a benchmark, in both dialects, changes an output; a key without effect has a note that says so.

The outputs are what a run would send and store, what ``describe`` and a plan show, the job record of a report, and the
notes. Digests are left out because they change with every key. Keys that only change a run have their own test below.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from bench.config.benchmark.config import BenchmarkFile
from bench.config.benchmark.manifest import Manifest
from bench.config.catalog import Catalog
from bench.config.file import keys_of
from bench.config.run import RunRequest
from bench.datasets.dataset_json import describe, item_lines, memory_lines
from bench.errors import BenchError
from bench.plan import make_plan
from bench.plan.job_record import records
from bench.settings import Environment
from tests.datasets.test_path_keys import paths_of
from tests.scenarios.program import bench
from tests.small_world import PROVIDER, World

Worlds = Callable[..., World]
Tree = Mapping[str, object]
DIGESTS = {"config_sha256", "sha256", "content_sha256"}


def outputs(folder: Path, name: str, flags: Tree) -> str:
    """Return all outputs that a config can change, or its error."""
    try:
        text = json.dumps(list(_outputs(folder, name, flags)), default=str)
    except BenchError as error:
        text = f"error: {error}"
    return re.sub(r":\d+:\d+:", ":", text)  # a longer line moves the columns after it


def _outputs(folder: Path, name: str, flags: Tree) -> Iterator[object]:
    catalog = Catalog.load(folder)
    entry = catalog.find("benchmarks", name)
    yield [entry.name, entry.aliases, entry.tags]
    config = catalog.benchmark(name)
    yield [config.title, config.description, config.marks]
    request = RunRequest.combine(None, {"benchmarks": name, "providers": "bm25", **flags})
    plan = make_plan(catalog, request, Environment(values={"OPENAI_API_KEY": "k" * 9}))
    (lane,) = plan.lanes
    dataset = lane.benchmark.dataset
    yield _without_digests(describe(dataset))
    yield list(item_lines(dataset))
    yield [dataclasses.asdict(dataset.item(ref)) for ref in dataset.items()]
    yield list(memory_lines(dataset))
    yield [one.memory.metadata for corpus in dataset.corpora() for one in dataset.memories(corpus)]
    yield _without_digests(plan.identity)
    yield [_without_digests(dataclasses.asdict(record)) for record in records(plan)]
    yield [str(spec) for spec in lane.benchmark.scoring.specs]
    yield [lane.benchmark.k, lane.level, lane.unit, plan.notes]


def _without_digests(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _without_digests(inner) for key, inner in value.items() if key not in DIGESTS}
    return value


# ------------------------------------------------------------------------ the YAML dialect

TURNS = [{"role": "user", "content": "I like <tea>.", "mood": "fine"}, {"role": "assistant", "content": "Noted."}]
MIXED = [{"role": "user", "content": "I like tea.", "speaker": "Ann", "text": "Tea is fine."}]
ROW = {
    "id": "r", "q": "What?", "a": "tea",
    "talk": [TURNS, [{"role": "user", "content": "Bye."}], [{"role": "user", "content": "Hi."}]],
    "list": ["One.", "Two."], "refs": ["D:1:2", "r"], "many": [{"q": "Why?"}, {"q": "How?"}], "both": [MIXED] * 3,
    "days": ["2024-05-01 10:00", "2024-05-03 10:00", "2024-05-04 10:00"],
    "sids": ["s1", "s2", "s3"], "gold": ["s1"], "kind": "fact",
    "asked": None,
}  # fmt: skip
KEYED_ROW = {
    "id": "r", "q": "What?", "a": "tea", "talk": {"session_1": TURNS, "session_1_date_time": "2024-05-01 10:00",
                                                  "chat_1": TURNS, "session_1_day": "2024-05-02 10:00"},
    "qa": [{"q": "What?", "a": "tea", "cat": 1}, {"q": "Why?", "a": "tea", "cat": 2}],
}  # fmt: skip
FLAT: dict[str, object] = {
    "name": "t",
    "version": "1",
    "data": {"type": "local", "path": "./datasets/t.json"},
    "schema": {
        "itemId": "id", "question": "q", "answer": "a",
        "context": {"field": "talk", "type": "array", "dateField": "days", "sessionIdField": "sids",
                    "itemSchema": {"role": "role", "content": "content"}},
        "metadata": {"questionType": "kind"},
    },
    "evidence": {"sessionIdsField": "gold"},
    "evaluation": {"method": "llm-judge", "judge": {"model": "openai/j"}, "answeringModel": {"model": "openai/a"}},
    "metrics": ["accuracy"],
}  # fmt: skip
NESTED: dict[str, object] = {
    "name": "n",
    "version": "1",
    "data": {"type": "local", "path": "./datasets/n.json"},
    "schema": {
        "itemId": "id", "context": {"field": "talk", "type": "object", "itemSchema": {"content": "content"}},
        "questions": {"field": "qa", "questionField": "q", "answerField": "a", "categoryField": "cat"},
    },
    "evaluation": {"method": "exact-match"},
}  # fmt: skip
HUB: dict[str, object] = {**FLAT, "data": {"type": "huggingface", "path": "acme/set", "file": "t.json"}}
HERE: dict[str, object] = {
    **FLAT, "data": {"type": "huggingface", "path": "acme/set", "localPath": "./datasets/t.json"},
}  # fmt: skip
OTHER = "Say: ${question} ${retrievedContext}"
JUDGE = "${question} ${answer} ${response}"
BY_TYPE = {
    "evaluation": {"method": "llm-judge", "judgePrompts": {"byQuestionType": {"strict": JUDGE}}},
    "questionTypes": [{"name": "fact"}],
}
ONE_METRIC = FLAT | {"metrics": [{"name": "accuracy"}]}
CLASS = "class Mine:\n    name = 'mine'\n    async def evaluate(self, *given: object) -> None: ...\n"

Case = tuple[Tree, str, object]


def put_in(tree: Tree, section: str, **keys: object) -> dict[str, object]:
    """The tree with keys added to a section."""
    own = tree[section]
    assert isinstance(own, dict)
    return {**tree, section: {**own, **keys}}


YAML: list[Case] = [
    (FLAT, "name", "u"), (FLAT, "version", "2"), (FLAT, "displayName", "Tea"), (FLAT, "description", "Of tea."),
    (FLAT, "source", "https://a.test"), (FLAT, "paper", "https://b.test"), (FLAT, "license", "MIT"),
    (FLAT, "tags", ["hot"]), (FLAT, "aliases", ["tee"]), (FLAT, "extends", "parent"),
    (FLAT, "data.type", "url"), (FLAT, "data.path", "./datasets/o.json"), (HUB, "data.file", "o.json"),
    (HERE, "data.revision", "main"), (HUB, "data.localPath", "./datasets/t.json"), (FLAT, "data.format", "csv"),
    (FLAT, "data.sha256", "0" * 64),
    (FLAT, "schema.context.type", "string"), (NESTED, "schema.context.sessionPattern", "chat_*"),
    (NESTED, "schema.context.datePattern", "session_*_day"),
    (NESTED, "categories", {"1": "fact", "2": "reason"}),
    (NESTED | {"categories": {"1": "fact"}}, "categoriesStrict", True),
    (FLAT, "questionTypes.name", [{"name": "time"}]),
    (FLAT | BY_TYPE, "questionTypes.evaluationPrompt", [{"name": "fact", "evaluationPrompt": "strict"}]),
    (FLAT | {"questionTypes": [{"name": "fact"}]}, "questionTypes.allowOffByOne",
     [{"name": "fact", "allowOffByOne": True}]),
    (FLAT, "groups", {"all": ["fact"]}),
    (FLAT | {"evidence": {"turnIdsField": "gold"}}, "evidence.parser", "dialog_refs"),
    (FLAT | {"abstention": {"field": "kind", "equals": "none"}}, "abstention.equals", "fact"),
    (FLAT, "abstention.idPattern", "^r$"), (FLAT, "abstention.questionTypes", ["fact"]),
    (FLAT, "questionDate.from", "last_session"), (FLAT, "timezone", "Asia/Tokyo"),
    (FLAT, "dateFormats", ["%Y-%d-%m %H:%M"]), (FLAT, "overlay", "doubts"), (FLAT, "clusterBy", None),
    (FLAT, "ingestion.mode", "incremental"), (FLAT, "ingestion.dateHeader", "never"),
    (FLAT, "ingestion.preprocessing.escapeHtml", True), (FLAT, "ingestion.preprocessing.removeRoles", ["assistant"]),
    (FLAT | {"ingestion": {"preprocessing": {"formatTemplate": "${session|json}"}}},
     "ingestion.preprocessing.removeFields", ["role"]),
    (FLAT, "ingestion.preprocessing.formatTemplate", "${session|json}"), (FLAT, "search.defaultLimit", 3),
    (FLAT, "evaluation.method", "contains"), (FLAT, "evaluation.answeringModel.model", "openai/b"),
    (FLAT, "evaluation.answeringModel.temperature", 0.5), (FLAT, "evaluation.answerPrompt.default", OTHER),
    (FLAT, "evaluation.answerPrompt.byQuestionType", {"fact": OTHER}),
    (FLAT | {"flags": {"answer_prompt": OTHER}}, "evaluation.answerPrompt.userOverride", False),
    (FLAT, "evaluation.answerPrompt.promptFields", ["town"]), (FLAT, "evaluation.judge.model", "openai/k"),
    (FLAT, "evaluation.judge.temperature", 0.5), (FLAT, "evaluation.judgePrompts.source", "paper"),
    (FLAT, "evaluation.judgePrompts.paperReference", "page 7"), (FLAT, "evaluation.judgePrompts.default", JUDGE),
    (FLAT, "evaluation.judgePrompts.byQuestionType", {"fact": JUDGE}),
    (FLAT, "evaluation.judgePrompts.abstention", JUDGE),
    (FLAT | {"flags": {"judge_prompt": [JUDGE]}}, "evaluation.judgePrompts.userOverride", False),
    (FLAT | {"evaluation": {"method": "locomo-f1"}}, "evaluation.pack", "locomo@1"),
    (FLAT | {"ingestion": {"mode": "incremental"}, "evidence": {"sessionIdsField": "gold", "turnFlag": "mood"}},
     "evaluation.granularity", "session"),
    (FLAT | {"evaluation": {"method": "custom", "customEvaluator": "./mine.py:Mine"}},
     "evaluation.customEvaluator", "./yours.py:Mine"),
    (FLAT, "evaluation.methods", {"fact": "contains"}),
    (put_in(FLAT, "evaluation", methods={"fact": "contains"}), "evaluation.methodsBy", "choices"),
    (put_in(put_in(FLAT, "schema", rubric="a"), "evaluation", method="rubric-points"), "evaluation.values", [0, 1]),
    (put_in(FLAT, "evaluation", method="labels", labels={"good": 1}), "evaluation.labels", {"good": 1, "bad": 0}),
    (FLAT, "published.page", "tea"), (FLAT, "published.split", "test"), (FLAT, "published.items", 7),
    (FLAT, "published.memories", 7), (FLAT, "published.memoryTokens", 7), (FLAT, "published.size", "7 cups"),
    (FLAT, "published.score", "Taste."), (FLAT, "published.differs", "By smell."),
    (FLAT, "published.baselines", ["water 0"]),
    (FLAT, "epochsReducer", "max"), (FLAT, "metrics.name", [{"name": "mrr"}]),
    (ONE_METRIC, "metrics.breakdown", [{"name": "accuracy", "breakdown": ["question_type"]}]),
    (ONE_METRIC, "metrics.method", [{"name": "accuracy", "method": "contains"}]),
    (ONE_METRIC, "metrics.evaluator", [{"name": "accuracy", "evaluator": "./mine.py:Mine"}]),
    (FLAT | {"metrics": [{"name": "recall"}]}, "metrics.config", [{"name": "recall", "config": {"k": 3}}]),
    (FLAT, "requiredCapabilities", ["update_memory"]),
    (FLAT, "runtime.checkpointing", False), (FLAT, "runtime.resumable", False),
    (FLAT, "runtime.checkpointGranularity", "session"),
]  # fmt: skip
# ------------------------------------------------------------------------ the manifest dialect

REQUIRED: dict[str, object] = {
    "manifest_version": "1", "name": "m", "version": "1", "data_file": "t.json", "metrics": ["correctness"],
    "required_capabilities": ["add_memory", "retrieve_memory"],
    "query": {"question_field": "q", "expected_answer_field": "a"}, "evaluation": {"protocol": "exact-match"},
}  # fmt: skip
SIMPLE = {**REQUIRED, "ingestion": {"strategy": "simple", "content_field": "q"}}
CHATS = {**REQUIRED, "ingestion": {"strategy": "session-based", "sessions_field": "talk", "dates_field": "days",
                                   "session_ids_field": "sids", "answer_session_ids_field": "gold"}}  # fmt: skip
REDUCED = put_in(CHATS, "ingestion", mode="shared")
KEYED = {**REQUIRED, "data_file": "k.json", "ingestion": {
    "strategy": "session-based", "sessions_field": "talk", "sessions_format": "dynamic_keys"}}  # fmt: skip
DELETING = {**REQUIRED, "required_capabilities": ["add_memory", "retrieve_memory", "delete_memory"],
            "ingestion": {"strategy": "add-delete-verify", "add_content_field": "q", "delete_target_field": "id",
                          "verify_query_field": "q"}}  # fmt: skip
DELETED = {**DELETING, "evaluation": {"protocol": "deletion-check", "verification_query_field": "q",
                                      "deleted_content_field": "a"}}  # fmt: skip
JUDGED = {**SIMPLE, "evaluation": {"protocol": "llm-as-judge", "type_field": "kind"}}
CHILDREN = {**SIMPLE, "flatten": {"field": "many"}}

MANIFEST: list[Case] = [
    (SIMPLE, "manifest_version", "2"), (SIMPLE, "name", "x"), (SIMPLE, "version", "2"), (SIMPLE, "description", "Tea."),
    (SIMPLE, "source", "https://a.test"), (SIMPLE, "license", "MIT"), (SIMPLE, "tags", ["hot"]),
    (SIMPLE, "aliases", ["tee"]), (SIMPLE, "extends", "parent"), (SIMPLE, "data_file", "o.json"),
    (SIMPLE, "sha256", "0" * 64), (SIMPLE, "ingestion.strategy", "session-based"),
    (SIMPLE, "ingestion.is_array", True),
    (SIMPLE, "ingestion.metadata_fields", ["kind"]), (put_in(SIMPLE, "ingestion", evidence_field="refs"),
                                                      "ingestion.evidence_parser", "dialog_refs"),
    (CHATS, "ingestion.date_header", False), (CHATS, "ingestion.mode", "lazy"),
    (REDUCED, "ingestion.shared_sample_size", 1), (CHATS, "ingestion.content_formatter", "json"),
    (put_in(CHATS, "ingestion", sessions_field="both"), "ingestion.dialogue_content_formatter", "speaker_text"),
    (KEYED, "ingestion.sessions_format", "array"), (KEYED, "ingestion.session_key_prefix", "chat_"),
    (KEYED, "ingestion.date_key_suffix", "_day"),
    (SIMPLE, "query.retrieval_limit", 3),
    (SIMPLE, "evaluation.protocol", "llm-as-judge"), (SIMPLE, "evaluation.case_sensitive", True),
    (SIMPLE, "evaluation.normalize_whitespace", False), (JUDGED, "evaluation.type_instructions_file", "types.json"),
    (DELETED, "evaluation.fuzzy_match", True), (SIMPLE, "metrics", ["mrr"]),
    (SIMPLE, "required_capabilities", ["update_memory"]), (CHILDREN, "flatten.max_items", 1),
    (CHILDREN, "flatten.promote_fields", ["q"]), (JUDGED, "groups", {"all": ["fact"]}),
    ({**SIMPLE, "abstention": {"field": "kind", "equals": "none"}}, "abstention.equals", "fact"),
    (SIMPLE, "abstention.id_pattern", "^r$"), (JUDGED, "abstention.question_types", ["fact"]),
    (CHATS, "question_date.from", "last_session"), (CHATS, "timezone", "Asia/Tokyo"),
    (CHATS, "date_formats", ["%Y-%d-%m %H:%M"]), (SIMPLE, "overlay", "doubts"), (SIMPLE, "cluster_by", None),
]  # fmt: skip
IN_RUN = {
    "ingestion.batchSize": "test_batch_size_of_a_benchmark_limits_the_memories_per_add",
    "ingestion.delayBetweenBatches": "test_delay_between_batches_separates_two_adds",
    "search.defaultThreshold": "test_threshold_and_chunks_reach_a_provider_that_maps_them",
    "search.includeChunks": "test_threshold_and_chunks_reach_a_provider_that_maps_them",
    "evaluation.answeringModel.maxTokens": "tests/reality: test_a_benchmark_config_sets_max_tokens_of_both_models",
    "evaluation.judge.maxTokens": "tests/reality: test_a_benchmark_config_sets_max_tokens_of_both_models",
    "abstention.phrases": "test_abstention_phrases_of_a_benchmark_count_as_refusals",
    "abstention.scoreRetrieval": "test_score_retrieval_decides_whether_abstention_items_have_retrieval_scores",
}
"""keys that change only requests to the provider or results, and the test below that checks them"""


def leaves(model: type[BaseModel]) -> set[str]:
    """Return every key of a dialect that has a value, with dots, in snake_case."""
    fields = model.model_fields.items()
    return {name for key, info in fields for name in _leaves(keys_of(key, info)[-1], info.annotation)}


def _leaves(key: str, annotation: object) -> Iterator[str]:
    inner = list(_models(annotation))
    if not inner:
        yield key
    for one in inner:
        yield from (f"{key}.{name}" for name in leaves(one))


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type):
        if issubclass(annotation, BaseModel):
            yield annotation
    else:
        for part in get_args(annotation):
            yield from _models(part)


def world(folder: Path) -> Path:
    """Write the files that the configs above refer to."""
    rows = {"t": [ROW], "o": [{**ROW, "id": "o"}], "n": [KEYED_ROW], "k": [KEYED_ROW]}
    for name, content in rows.items():
        for place in (folder / "datasets", folder / "configs" / "benchmarks" / "m"):
            _write(place / f"{name}.json", json.dumps(content))
    _write(folder / "configs" / "benchmarks" / "m" / "types.json", '{"fact": "Be strict."}')
    for name in ("mine", "yours"):
        _write(folder / "configs" / "benchmarks" / f"{name}.py", CLASS)
    parent = {**FLAT, "name": "parent", "search": {"defaultLimit": 4}}
    _write(folder / "configs" / "benchmarks" / "parent.yaml", json.dumps(parent))
    return folder


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


LISTS = ("questionTypes", "metrics")
"""keys whose value is replaced as a whole"""


def of_manifest(folder: Path, tree: Tree) -> str:
    place = folder / "configs" / "benchmarks" / "m"
    _write(place / "manifest.json", json.dumps(tree))
    return outputs(folder, str(tree["name"]), {"answering_model": "builtin/extractive", "judge_model": "openai/j"})


@pytest.mark.scenario("P9")
@pytest.mark.parametrize(("base", "key", "value"), MANIFEST, ids=[key for _, key, _ in MANIFEST])
def test_each_key_of_a_manifest_changes_the_output(tmp_path: Path, base: Tree, key: str, value: object) -> None:
    before = of_manifest(world(tmp_path), base)
    after = of_manifest(tmp_path, put(base, key, value, lists=()))
    assert before != after and ("unknown field" not in after or key == "ingestion.strategy")
    assert not before.startswith("error"), before


def test_the_table_has_every_key_of_a_manifest() -> None:
    below = {"abstention.score_retrieval", "abstention.phrases"}
    elsewhere = {"ingestion.phase_delay_ms", *below}  # tests/engine/test_deleting.py
    tested = {key for _, key, _ in MANIFEST} | paths_of(Manifest) | elsewhere
    assert _without_shapes(leaves(Manifest)) == _without_shapes(tested)


OF_SHAPES = re.compile(
    r"(data\.(with_?|where|files|columns|fetch)|schema\.(questions\.where|rubric|choices)|evidence\.textsField"
    r"|abstention\.where|visibility|ingestion\.chunk\.words)\b"
)
"""keys about the format and location of published data: test_published_shapes.py, test_row_values.py"""


def _without_shapes(keys: set[str]) -> set[str]:
    return {key for key in keys if not OF_SHAPES.match(key.replace("with_", "with"))}


def camel(path: str) -> str:
    """Convert a dotted path of the model to the spelling of a config file."""
    return ".".join(to_camel(part) for part in path.replace("fields.", "schema.", 1).split("."))


def put(tree: Tree, path: str, value: object, lists: tuple[str, ...] = LISTS) -> dict[str, object]:
    """Return a copy of the tree with one key set."""
    changed = copy.deepcopy(dict(tree))
    node = changed
    *parents, last = path.split(".") if path.partition(".")[0] not in lists else path.split(".")[:1]
    for part in parents:
        node = node.setdefault(part, {})  # type: ignore[assignment]
    node[last] = value
    return changed


def of_yaml(folder: Path, tree: Tree) -> str:
    flags = dict(tree).get("flags", {})
    own = {key: value for key, value in tree.items() if key != "flags"}
    _write(folder / "configs" / "benchmarks" / f"{'t' if own['name'] == 'u' else own['name']}.yaml", json.dumps(own))
    return outputs(folder, str(own["name"]), flags)  # type: ignore[arg-type]


@pytest.mark.scenario("P9")
@pytest.mark.parametrize(("base", "key", "value"), YAML, ids=[key for _, key, _ in YAML])
def test_each_key_of_a_benchmark_config_changes_the_output(tmp_path: Path, base: Tree, key: str, value: object) -> None:
    before = of_yaml(world(tmp_path), base)
    after = of_yaml(tmp_path, put(base, key, value))
    assert before != after and "unknown field" not in after
    assert base is HUB or not before.startswith("error"), before


def test_the_tables_have_every_key_of_a_benchmark_config() -> None:
    paths = {camel(path) for path in paths_of(BenchmarkFile)}
    tested = {key for _, key, _ in YAML} | set(IN_RUN) | paths
    assert _without_shapes({camel(key) for key in leaves(BenchmarkFile)}) == _without_shapes(tested)


# ------------------------------------------------------------------------ keys that change only a run


def facts(world: World, *changes: tuple[str, str]) -> None:
    """Change the benchmark of a small world."""
    path = world.workspace / "configs" / "benchmarks" / "facts.yaml"
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")


def received(world: World, endpoint: str) -> list[dict[str, Any]]:
    """Return the request bodies that the service received at an endpoint."""
    calls = world.control(f"received?provider=default&endpoint={endpoint}")
    return [json.loads(call["body"]) for call in calls]


async def test_batch_size_of_a_benchmark_limits_the_memories_per_add(world_of: Worlds) -> None:
    world = world_of(corpora=1, items=4, flags=("--record",))
    facts(world, ("mode: session-based, batchSize: 1", "mode: incremental, batchSize: 3"))
    body = '{$each: $.items, $do: {id: "@.id", content: "@.content"}}'
    old = 'body: {id: "$.id", content: "$.content", namespace: "$.runTag", metadata: "$.metadata"}'
    pairs = (
        PROVIDER.replace("ingest: {", "ingest: {batch: {max_items: 10}, ")
        .replace(old, f'body: {{namespace: "$.runTag", items: {body}}}')
        .replace('ids: "$.job_id"', 'ids: "$.jobs"')
    )
    world.write("configs/providers/faulty.yaml", pairs)
    await world.run(providers="faulty", isolation="off", phases="ingest")
    assert sorted(len(body["items"]) for body in received(world, "add")) == [1, 3, 3], "seven turns"


@pytest.mark.parametrize("order", ["serial", "parallel"])
async def test_delay_between_batches_separates_two_adds(world_of: Worlds, order: str) -> None:
    world = world_of(corpora=1, items=2)
    facts(world, ("batchSize: 1", "delayBetweenBatches: 300"))
    world.provider("faulty", **{"ingest: {": f"ingest: {{order: {order}, "})
    await world.run(providers="faulty", isolation="off", phases="ingest")
    began = sorted(start for start, *_ in world.control("timeline?provider=default&endpoint=add"))
    assert len(began) == 3
    assert all(later - sooner > 0.29 for sooner, later in pairwise(began)), began


async def test_threshold_and_chunks_reach_a_provider_that_maps_them(world_of: Worlds) -> None:
    world = world_of(corpora=1, items=2, flags=("--record",))
    facts(world, ("evaluation: {", "search: {defaultThreshold: 0.25, includeChunks: true}\nevaluation: {"))
    world.provider("faulty", **{'limit: "$.k"': 'limit: "$.k", least: "$.threshold", chunks: "$.includeChunks"'})
    await world.run(providers="faulty", isolation="off")
    assert [(body["least"], body["chunks"]) for body in received(world, "search")] == [(0.25, True)] * 2


@pytest.mark.parametrize(("counts", "n"), [("false", 2), ("true", 4)])
async def test_score_retrieval_decides_whether_abstention_items_have_retrieval_scores(
    world_of: Worlds, counts: str, n: int
) -> None:
    world = world_of(corpora=1, items=4)
    facts(world, ("evaluation: {", f"abstention: {{questionTypes: [one], scoreRetrieval: {counts}}}\nevaluation: {{"))
    outcome = await world.run(providers="faulty")
    shown = json.loads(bench(world.workspace, "results", outcome.run_id, "--json", **world.variables).stdout)
    assert shown["jobs"][0]["metrics"]["hit_at_5"]["n"] == n


@pytest.mark.parametrize(
    ("phrases", "states"),
    [("[]", ["incorrect"] * 4), ("[the vault]", ["abstained", "abstained", "correct", "correct"])],
)
async def test_abstention_phrases_of_a_benchmark_count_as_refusals(
    world_of: Worlds, phrases: str, states: list[str]
) -> None:
    world = world_of(corpora=1, items=4)
    declining = f"abstention: {{questionTypes: [one], phrases: {phrases}}}\nevaluation: {{"
    facts(world, ("method: contains", "method: exact-match"), ("evaluation: {", declining))
    outcome = await world.run(providers="faulty", answering_model="builtin/extractive")
    rows = bench(world.workspace, "export", outcome.run_id, "--format", "jsonl", **world.variables).stdout
    assert sorted(json.loads(row)["state"] for row in rows.splitlines()) == states
