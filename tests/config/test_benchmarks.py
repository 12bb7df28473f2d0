"""Benchmarks of both dialects become one model; extends, catalog, checks and notes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.config.benchmark.config import BenchmarkConfig, config_sha256
from bench.config.catalog import Catalog
from bench.config.json_schema import KINDS, json_schema
from bench.errors import ConfigError, UsageError

BASE = """
name: {name}
version: "1"
data: {{type: local, path: ./datasets/x.jsonl}}
schema: {{itemId: id, question: q, answer: a, context: {{field: c, type: string}}}}
evaluation: {{method: exact-match}}
metrics: [accuracy]
"""

MANIFEST: dict[str, object] = {
    "manifest_version": "1",
    "name": "m",
    "version": "1",
    "data_file": "data.jsonl",
    "ingestion": {"strategy": "simple", "content_field": "c"},
    "query": {"question_field": "q", "expected_answer_field": "a"},
    "evaluation": {"protocol": "exact-match"},
    "metrics": ["correctness"],
    "required_capabilities": ["add_memory", "retrieve_memory"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "configs" / "benchmarks"
    path.mkdir(parents=True)
    return path


@pytest.fixture
def yaml(folder: Path, tmp_path: Path) -> Callable[..., BenchmarkConfig]:
    def make(text: str = "", *, name: str = "b", base: str = BASE) -> BenchmarkConfig:
        (folder / f"{name}.yaml").write_text(base.format(name=name) + text, encoding="utf-8")
        return Catalog.load(tmp_path).benchmark(name)

    return make


def manifest(folder: Path, **changes: object) -> BenchmarkConfig:
    (folder / "m").mkdir(exist_ok=True)
    (folder / "m" / "manifest.json").write_text(json.dumps({**MANIFEST, **changes}, indent=1), encoding="utf-8")
    return Catalog.load(folder.parent.parent).benchmark("m")


def test_a_manifest_and_an_equal_YAML_file_have_equal_sections(folder, yaml) -> None:
    one, two = manifest(folder), yaml()
    assert one.search == two.search
    assert one.evaluation.method == two.evaluation.method == "exact-match"
    assert one.fields.context.type == two.fields.context.type == "string"
    assert one.ingestion == two.ingestion


def test_unknown_strategies_and_keys_of_a_manifest_ingestion_are_refused(folder) -> None:
    with pytest.raises(ConfigError) as caught:
        manifest(folder, ingestion={"strategy": "session-based", "sessions_field": "s", "mode": "laz"})
    assert "manifest.json" in str(caught.value) and 'did you mean "lazy"?' in str(caught.value)
    with pytest.raises(ConfigError) as caught:
        manifest(folder, ingestion={"strategy": "sesion-based"})
    assert 'ingestion.strategy must be "simple" or "session-based"' in str(caught.value)
    with pytest.raises(ConfigError, match='missing field "strategy" in ingestion'):
        manifest(folder, ingestion={})
    with pytest.raises(ConfigError, match='unknown field "mode" in ingestion'):
        manifest(folder, ingestion={"strategy": "simple", "content_field": "c", "mode": "full"})


def test_gold_fields_are_refused_as_metadata_fields_of_a_memory(folder) -> None:
    ingestion = {"strategy": "simple", "content_field": "c", "evidence_field": "e"}
    for name in ("a", "e"):
        with pytest.raises(ConfigError, match=rf'manifest.json:\d+:\d+: metadata_fields names "{name}"'):
            manifest(folder, ingestion={**ingestion, "metadata_fields": ["topic", name]})


def test_id_is_refused_in_promote_fields(folder) -> None:
    with pytest.raises(ConfigError, match=r'manifest.json:\d+:\d+: promote_fields names "id"'):
        manifest(folder, flatten={"field": "qa", "promote_fields": ["q", "id"]})


def test_deletion_check_in_a_manifest_needs_the_strategy_add_delete_verify(folder) -> None:
    evaluation = {"protocol": "deletion-check", "verification_query_field": "v", "deleted_content_field": "d"}
    with pytest.raises(ConfigError, match="add-delete-verify"):
        manifest(folder, evaluation=evaluation)


def test_extends_merges_maps_replaces_lists_and_null_removes(folder, yaml) -> None:
    yaml("tags: [one, two]\naliases: [bee]\ngroups: {g: [x]}\ncategories: {1: x, 2: y}\n", name="parent")
    child = (
        "extends: parent\nname: child\ntags: [three]\ngroups: null\ncategories: {2: z}\nsearch: {default_limit: 3}\n"
    )
    config = yaml(child, name="child", base="")
    assert config.tags == ("three",)
    assert config.aliases == ()
    assert config.groups == {}
    assert config.categories == {"1": "x", "2": "z"}
    assert config.search.default_limit == 3
    assert config.version == "1"


def test_a_child_has_its_own_data_file_only_if_it_changes_data(folder, yaml) -> None:
    hub = "data: {type: huggingface, path: acme/set, file: rows.json}"
    base = BASE.replace("data: {{type: local, path: ./datasets/x.jsonl}}", hub.replace("{", "{{").replace("}", "}}"))
    yaml(name="parent", base=base)
    child = yaml("extends: parent\nname: child\n", name="child", base="")
    other = yaml("extends: child\nname: other\ndata: {file: more.json}\n", name="other", base="")
    assert child.data.local_path == "datasets/parent/rows.json"
    assert other.data.local_path == "datasets/other/more.json"
    assert child.marks == ("dataset_unpinned",)


def test_an_error_in_an_inherited_key_points_to_the_parent_file(folder, yaml) -> None:
    (folder / "parent.yaml").write_text(BASE.format(name="parent") + "tagz: [x]\n", encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        yaml("extends: parent\nname: child\n", name="child", base="")
    assert "parent.yaml:8:1" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("requiredCapabilities: [add_memry]\n", 'did you mean "add_memory"?'),
        ("ingestion: {batchSize: 0}\n", "greater than or equal to 1"),
        ("ingestion: {preprocessing: {formatTemplate: '${session.length}'}}\n", 'unknown name "session.length"'),
    ],
)
def test_invalid_values_of_top_level_keys_are_refused_with_a_suggestion(yaml, text: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml(text)
    assert part in str(caught.value)
    assert "b.yaml:" in str(caught.value)


@pytest.mark.parametrize(
    ("evaluation", "part"),
    [
        ("{method: custom, customEvaluator: ./judge.ts}", "Python"),
        ("{method: exact-matc}", 'did you mean "exact-match"?'),
    ],
)
def test_invalid_evaluation_values_are_refused_with_a_suggestion(yaml, evaluation: str, part: str) -> None:
    with pytest.raises(ConfigError) as caught:
        yaml(base=BASE.replace("{{method: exact-match}}", evaluation.replace("{", "{{").replace("}", "}}")))
    assert part in str(caught.value)


def test_a_judge_prompt_is_read_from_a_file(folder, yaml) -> None:
    (folder / "judge.txt").write_text("Right? ${answer} ${response}", encoding="utf-8")
    prompts = "{{default: '@judge.txt', byQuestionType: {{temporal: T}}, abstention: A}}"
    config = yaml(
        "questionTypes: [{name: when, evaluationPrompt: temporal}, {name: who, evaluationPrompt: nowhere}]\n",
        base=BASE.replace("{{method: exact-match}}", f"{{{{method: llm-judge, judgePrompts: {prompts}}}}}"),
    )
    assert config.judge_prompt("when") == ("temporal", "T")
    assert config.judge_prompt("who") == ("default", "Right? ${answer} ${response}")
    assert config.judge_prompt("when", abstention=True) == ("abstention", "A")
    assert any('"nowhere" of question type "who"' in note for note in config.notes)


def test_a_different_version_changes_config_sha256(yaml) -> None:
    assert config_sha256(yaml()) != config_sha256(yaml(base=BASE.replace('"1"', '"2"')))


def test_benchmarks_are_found_by_name_or_alias_in_any_case(folder, yaml, tmp_path) -> None:
    yaml("aliases: [Bee-One]\ntags:\n  - x\n  - y\n")
    catalog = Catalog.load(tmp_path)
    assert catalog.benchmark("B").name == catalog.benchmark("bee-one").name == "b"
    entry = catalog.find("benchmarks", "b")
    assert (entry.tags, entry.builtin) == (("x", "y"), False)
    with pytest.raises(UsageError, match='did you mean "Bee-One"'):
        catalog.benchmark("bee-onne")


def test_k3_a_broken_benchmark_file_does_not_hide_the_others(folder, yaml, tmp_path) -> None:
    (folder / "broken.yaml").write_text("name: broken\n\t: [", encoding="utf-8")
    (folder / "worse").mkdir()
    (folder / "worse" / "manifest.json").write_text("{", encoding="utf-8")
    yaml()
    catalog = Catalog.load(tmp_path)
    names = {entry.name for entry in catalog.benchmarks() if not entry.builtin}
    assert names == {"b", "broken", "worse"}
    with pytest.raises(ConfigError, match=r"broken\.yaml:2"):
        catalog.benchmark("broken")


def test_shipped_long_benchmarks_load_and_have_retrieval_metrics(root: Path) -> None:
    catalog = Catalog.load(root)
    for path in sorted((root / "configs" / "benchmarks").glob("lo*.yaml")):
        if path.stem in ("longbench-v2", "longmemeval-v2"):
            continue  # their data names no evidence
        config = catalog.read_benchmark(path)
        assert {"hit_at_5", "hit_at_10", "recall_fraction_at_10", "ndcg_at_10", "mrr"} <= set(config.metrics)
    assert catalog.benchmark("longmemeval-s").name == "longmemeval"


@pytest.mark.parametrize("kind", KINDS)
def test_every_JSON_schema_is_serializable_and_closed(kind) -> None:
    schema = json_schema(kind)
    json.dumps(schema)
    assert schema["additionalProperties"] is False
