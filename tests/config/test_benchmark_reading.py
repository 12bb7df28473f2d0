"""Reading a benchmark file: defaults, both dialects, extends, prompt files, the path of the data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.config.benchmark.config import (
    BenchmarkConfig,
    DeletionSection,
    HistorySection,
    ItemFlatten,
    MatchOptions,
    Rendering,
    config_sha256,
    identity_tree,
)
from bench.config.benchmark.manifest import PLACES
from bench.config.catalog import Catalog
from bench.errors import ConfigError
from tests.rows import each_row

YAML = """\
name: {name}
version: "1"
data: {{type: local, path: ./b.jsonl}}
schema: {{itemId: id, question: q, answer: a, context: {{field: c, type: string}}}}
evaluation: {{method: exact-match}}
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


class Home:
    """A workspace with benchmarks in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "configs" / "benchmarks"
        self.folder.mkdir(parents=True)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / f"{name}.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    def yaml(self, more: str = "", name: str = "b") -> BenchmarkConfig:
        return self.read(self.write(name, YAML.format(name=name) + more))

    def manifest(self, name: str = "m", **changes: object) -> BenchmarkConfig:
        path = self.folder / name / "manifest.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps({**MANIFEST, "name": name, **changes}, indent=1), encoding="utf-8")
        return self.read(path)

    def read(self, path: Path) -> BenchmarkConfig:
        return Catalog.load(self.root).read_benchmark(path)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.chdir(tmp_path)
    return Home(tmp_path)


def messages(call: Callable[[], object]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        call()
    return [str(one).removeprefix("configs/benchmarks/") for one in caught.value.problems or (caught.value,)]


# ------------------------------------------------------------------- defaults


@each_row(
    ("path", "default"),
    [
        ("display_name", None),
        ("tags", ()),
        ("aliases", ()),
        ("categories", {}),
        ("categories_strict", False),
        ("question_types", ()),
        ("groups", {}),
        ("evidence.parser", "direct"),
        ("evidence.session_ids_field", None),
        ("abstention.score_retrieval", False),
        ("question_date.source", "none"),
        ("timezone", "UTC"),
        ("date_formats", ()),
        ("corpus", None),
        ("visibility", None),
        ("overlay", None),
        ("cluster_by", "corpus"),
        ("ingestion.mode", "session-based"),
        ("ingestion.date_header", "session"),
        ("ingestion.batch_size", None),
        ("ingestion.delay_between_batches", 0),
        ("ingestion.preprocessing.escape_html", False),
        ("ingestion.preprocessing.remove_roles", ()),
        ("ingestion.preprocessing.remove_fields", ()),
        ("ingestion.preprocessing.format_template", None),
        ("search.default_limit", 10),
        ("search.default_threshold", None),
        ("search.include_chunks", False),
        ("evaluation.answering_model.model", None),
        ("evaluation.answering_model.temperature", 0),
        ("evaluation.answer_prompt.user_override", True),
        ("evaluation.judge.model", None),
        ("evaluation.judge_prompts.source", "custom"),
        ("evaluation.judge_prompts.user_override", True),
        ("evaluation.pack", None),
        ("evaluation.granularity", "auto"),
        ("fields.context.session_pattern", "session_*"),
        ("fields.context.date_pattern", "session_*_date_time"),
        ("required_capabilities", ("add_memory", "retrieve_memory")),
        ("runtime.checkpointing", True),
        ("runtime.resumable", True),
        ("runtime.checkpoint_granularity", "item"),
        ("epochs_reducer", "mean"),
        ("metrics", ()),
        ("flatten", None),
        ("deletion", None),
        ("history", HistorySection()),
        ("rendering", Rendering()),
        ("exact_match", MatchOptions()),
        ("memory_metadata", ()),
        ("row_id_candidates", ()),
        ("fields_by_name", False),
        ("type_instructions", {}),
    ],
)
def test_a_key_that_is_left_out_has_its_default(tmp_path: Path, path: str, default: object) -> None:
    home = Home(tmp_path)
    found: object = home.yaml()
    for part in path.split("."):
        found = getattr(found, part)
    assert found == default


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ("categories: {1: fact, '2': when}\n", {"1": "fact", "2": "when"}),
        ("categories: {a: 1, b: 2.5}\n", {"a": "1", "b": "2.5"}),
    ],
)
def test_category_ids_and_names_are_read_as_text(home: Home, more: str, found: dict[str, str]) -> None:
    assert home.yaml(more).categories == found


@pytest.mark.parametrize(
    ("written", "method"),
    [("llm-as-judge", "llm-judge"), ("locomo_qa_score", "locomo-f1"), ("code_correctness", "code-correctness")],
)
def test_llm_as_judge_and_other_alternative_method_names_are_accepted(home: Home, written: str, method: str) -> None:
    text = YAML.format(name="b").replace("context:", "metadata: {tests: t}, context:")
    path = home.write("b", text.replace("exact-match", written))
    assert home.read(path).evaluation.method == method


@pytest.mark.parametrize(("mode", "unit"), [("session-based", "session"), ("incremental", "turn"), ("bulk", "corpus")])
def test_ingestion_mode_sets_the_unit_of_a_memory(home: Home, mode: str, unit: str) -> None:
    assert home.yaml(f"ingestion: {{mode: {mode}}}\n").unit == unit


@pytest.mark.parametrize(
    ("more", "has"),
    [
        ("", False),
        ("evidence: {sessionIdsField: s}\n", True),
        ("evidence: {turnIdsField: t}\n", True),
        ("evidence: {turnFlag: f}\n", True),
        ("evidence: {parser: dialog_refs}\n", False),
    ],
)
def test_has_evidence_is_true_if_a_field_names_the_evidence(home: Home, more: str, has: bool) -> None:
    assert home.yaml(more).has_evidence is has


def test_has_evidence_is_true_if_nested_questions_name_evidence(home: Home) -> None:
    nested = "questions: {field: qa, questionField: q, answerField: a, evidenceField: e}}"
    text = YAML.format(name="b").replace("type: string}}", f"type: string}}, {nested}")
    assert home.read(home.write("b", text)).has_evidence


def test_title_is_displayName_or_else_name(home: Home) -> None:
    assert (home.yaml().title, home.yaml("displayName: Bee\n").title) == ("b", "Bee")


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("timezone: Mars/Base\n", 'b.yaml:6:1: timezone: "Mars/Base" is not a time zone of the IANA database'),
        ("timezone: ../etc\n", 'b.yaml:6:1: timezone: "../etc" is not a time zone of the IANA database'),
        (
            "abstention: {idPattern: '('}\n",
            'b.yaml:6:14: abstention.idPattern: the pattern "(" is not a regular expression: missing ), unterminated '
            "subpattern at position 0",
        ),
        (
            "aliases: ['a b']\n",
            'b.yaml:6:11: aliases[0]: "a b" is not a valid name: expected at most 100 letters, digits, ".", "_" '
            'and "-", without "." or "-" at the beginning',
        ),
        (
            "aliases: [.x]\n",
            'b.yaml:6:11: aliases[0]: ".x" is not a valid name: expected at most 100 letters, digits, ".", "_" '
            'and "-", without "." or "-" at the beginning',
        ),
        (
            "corpus: {field: $.a..b}\n",
            'b.yaml:6:10: corpus.field: "$.a..b" uses an unsupported part of JSONPath: '
            "only names, indexes, [*] and unions of names work",
        ),
        ("corpus: {field: ''}\n", 'b.yaml:6:10: corpus.field: "" is not a valid JSONPath'),
        ("search: {defaultLimit: 0}\n", "b.yaml:6:10: search.defaultLimit must be greater than or equal to 1, not 0"),
        (
            "search: {defaultLimit: 2147483648}\n",
            "b.yaml:6:10: search.defaultLimit must be less than or equal to 2147483647, not 2147483648",
        ),
        (
            "ingestion: {delayBetweenBatches: -1}\n",
            "b.yaml:6:13: ingestion.delayBetweenBatches must be greater than or equal to 0, not -1",
        ),
        ("clusterBy: item\n", 'b.yaml:6:1: clusterBy must be "corpus", not "item"'),
        (
            "epochsReducer: median\n",
            'b.yaml:6:1: epochsReducer must be "mean" or "mode" or "max", not "median"; did you mean "mean"?',
        ),
        ("metrics: [{name: x, breakdown: topic}]\n", 'b.yaml:6:21: metrics[0].breakdown must be a list, not "topic"'),
        ("overlay: [a]\n", "b.yaml:6:1: overlay must be text, not a list"),
        (
            "metrics: [{name: x, evaluator: ./e.ts}]\n",
            'b.yaml:6:21: metrics[0].evaluator: "./e.ts": an evaluator is a Python class, written ./file.py:Class',
        ),
        (
            "metrics: [{name: x, evaluator: ./e.py}]\n",
            'b.yaml:6:21: metrics[0].evaluator: "./e.py" does not contain the name of a class; write ./file.py:Class',
        ),
    ],
)
def test_an_invalid_value_is_refused_with_its_place_and_the_reason(home: Home, more: str, text: str) -> None:
    assert messages(lambda: home.yaml(more)) == [text]


@pytest.mark.parametrize("star", ["session", "s_*_*", ""])
def test_sessionPattern_needs_exactly_one_star(home: Home, star: str) -> None:
    text = YAML.format(name="b").replace("type: string", f"type: object, sessionPattern: '{star}'")
    assert messages(lambda: home.read(home.write("b", text))) == [
        f'b.yaml:4:80: schema.context.sessionPattern: "{star}" must contain exactly one "*", in place of the session '
        "number"
    ]


@pytest.mark.parametrize("digest", ["a" * 63, "g" * 64, ""])
def test_data_sha256_must_have_64_hexadecimal_digits(home: Home, digest: str) -> None:
    text = YAML.format(name="b").replace("./b.jsonl", f"./b.jsonl, sha256: '{digest}'")
    assert messages(lambda: home.read(home.write("b", text))) == [
        "b.yaml:3:38: data.sha256: a SHA-256 is 64 hexadecimal digits"
    ]


def test_data_sha256_in_upper_case_is_read_as_lower_case(home: Home) -> None:
    text = YAML.format(name="b").replace("./b.jsonl", f"./b.jsonl, sha256: '{'AB' * 32}'")
    assert home.read(home.write("b", text)).data.sha256 == "ab" * 32


# -------------------------------------------------------------------- prompts


def test_a_prompt_file_is_searched_next_to_the_config_and_then_in_the_workspace(home: Home) -> None:
    (home.folder / "near.txt").write_text("\ufeffnear", encoding="utf-8")
    (home.root / "near.txt").write_text("far", encoding="utf-8")
    (home.root / "far.txt").write_text("far", encoding="utf-8")
    prompts = "{default: '@near.txt', byQuestionType: {one: '@ far.txt', two: plain}}"
    text = YAML.format(name="b").replace("exact-match", f"exact-match, answerPrompt: {prompts}")
    config = home.read(home.write("b", text))
    assert config.answer_prompt(None) == ("default", "near")
    assert config.answer_prompt("one") == ("one", "far")
    assert config.answer_prompt("two") == ("two", "plain")
    assert config.answer_prompt("three") == ("default", "near")


def test_a_missing_prompt_file_error_names_the_searched_folders(home: Home) -> None:
    text = YAML.format(name="b").replace("exact-match", "llm-judge, judgePrompts: {byQuestionType: {x: '@no.txt'}}")
    path = home.write("b", text)
    with pytest.raises(ConfigError) as caught:
        home.read(path)
    assert str(caught.value) == 'configs/benchmarks/b.yaml:5:65: the file "no.txt" is not there'
    assert caught.value.hint == f"put the file into {home.folder} or {home.root}"


def test_a_prompt_file_that_is_not_UTF8_is_an_error(home: Home) -> None:
    (home.folder / "bad.txt").write_bytes(b"\xff")
    text = YAML.format(name="b").replace("exact-match", "exact-match, answerPrompt: {default: '@bad.txt'}")
    (found,) = messages(lambda: home.read(home.write("b", text)))
    assert found.startswith('b.yaml:5:50: the file "bad.txt" is not UTF-8 at byte 0')


@pytest.mark.parametrize(
    ("kind", "abstention", "name"),
    [
        (None, False, "default"),
        ("plain", False, "default"),
        ("mapped", False, "special"),
        ("special", False, "special"),
        ("lost", False, "default"),
        ("own", False, "own"),
        ("mapped", True, "abstention"),
    ],
)
def test_judge_prompt_chooses_by_abstention_then_evaluationPrompt_then_type(
    home: Home, kind: str | None, abstention: bool, name: str
) -> None:
    prompts = "{default: default, byQuestionType: {special: special, own: own}, abstention: abstention}"
    special, gone = "evaluationPrompt: special", "evaluationPrompt: gone"
    types = f"[{{name: mapped, {special}}}, {{name: lost, {gone}}}, {{name: own, {gone}}}]"
    text = YAML.format(name="b").replace("exact-match", f"llm-judge, judgePrompts: {prompts}")
    config = home.read(home.write("b", text + f"questionTypes: {types}\n"))
    assert config.judge_prompt(kind, abstention=abstention) == (name, name)


def test_judge_prompt_and_answer_prompt_return_None_without_prompts(home: Home) -> None:
    assert home.yaml().judge_prompt("x") is None
    assert home.yaml().judge_prompt("x", abstention=True) is None
    assert home.yaml().answer_prompt(None) is None


# ----------------------------------------------------------------------- data


@pytest.mark.parametrize(
    ("data", "place"),
    [
        ("{type: local, path: ./x/y.jsonl}", "./x/y.jsonl"),
        ("{type: local, path: ./y.jsonl, localPath: z.jsonl}", "z.jsonl"),
        ("{type: huggingface, path: a/b, file: deep/rows.json}", "datasets/b/rows.json"),
        ("{type: url, path: 'https://x.test/d/rows.csv'}", "datasets/b/rows.csv"),
        ("{type: url, path: 'https://x.test/rows', localPath: here.json}", "here.json"),
    ],
)
def test_local_path_defaults_to_the_datasets_folder_for_remote_data(home: Home, data: str, place: str) -> None:
    text = YAML.format(name="b").replace("{type: local, path: ./b.jsonl}", data)
    assert home.read(home.write("b", text)).data.local_path == place


# -------------------------------------------------------------------- extends


def test_a_chain_of_extends_is_merged_into_one_config(home: Home) -> None:
    home.yaml("search: {defaultLimit: 3, includeChunks: true}\ntags: [a]\naliases: [bee]\n")
    home.write("c", "extends: b\nname: c\nsearch: {default_limit: 4}\n")
    config = home.read(home.write("d", "extends: c\nname: d\ntags: [z]\n"))
    assert (config.name, config.search.default_limit, config.search.include_chunks) == ("d", 4, True)
    assert (config.tags, config.aliases) == (("z",), ())
    assert config.place("search", "default_limit").startswith("configs/benchmarks/c.yaml:3:")
    assert config.place("data").startswith("configs/benchmarks/b.yaml:3:")
    assert config.folder_of("data") == home.folder


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("extends: nobody\nname: c\n", 'c.yaml:1:1: "extends: nobody": there is no benchmark with this name'),
        ("name: c\nextends: 5\n", 'c.yaml:2:1: "extends: 5": there is no benchmark with this name'),
        ("extends: c\nname: c\n", 'c.yaml:1:1: "extends: c" is circular'),
        ("extends: m\nname: c\n", "c.yaml:1:1: a manifest and a YAML benchmark cannot extend each other"),
    ],
)
def test_extends_of_an_unknown_name_or_of_itself_or_of_a_manifest_is_an_error(
    home: Home, text: str, found: str
) -> None:
    home.manifest()
    assert messages(lambda: home.read(home.write("c", text))) == [found]


def test_two_benchmarks_that_extend_each_other_are_refused_as_circular(home: Home) -> None:
    home.write("c", "extends: d\nname: c\n")
    found = messages(lambda: home.read(home.write("d", "extends: c\nname: d\n")))
    assert found == ['c.yaml:1:1: "extends: d" is circular']


def test_null_removes_a_key_of_any_kind_also_if_no_extended_file_has_it(home: Home) -> None:
    home.yaml(name="p", more="metrics: [accuracy]\n")
    nulls = (
        "extends: p\nname: c\ngroups: null\nquestionTypes: null\ntags: null\nmetrics: null\nsearch: null\n"
        "evaluation: {labels: null, judge_prompts: null}\nschema: {metadata: {gone: null}}\n"
    )
    config = home.read(home.write("c", nulls))
    assert (config.groups, config.evaluation.labels, dict(config.fields.metadata)) == ({}, {}, {})
    assert config.search.default_limit == 10 and not config.metrics


@each_row(
    ("line", "problem"),
    [
        ("gruops: null\n", 'unknown field "gruops"; did you mean "groups"?'),
        ("evaluation: {labells: null}\n", 'unknown field "labells" in evaluation; did you mean "labels"?'),
        ("version: null\n", 'missing field "version"'),
        ("groups: {g: [null]}\n", "groups.g[0] must be text, not null"),
    ],
)
def test_null_of_an_unknown_or_required_key_or_of_a_list_element_is_an_error(
    home: Home, line: str, problem: str
) -> None:
    home.yaml(name="p")
    (found,) = messages(lambda: home.read(home.write("c", f"extends: p\nname: c\n{line}")))
    assert problem in found


def test_null_of_a_map_without_extends_is_an_error(home: Home) -> None:
    assert "groups must be a map of keys, not null" in messages(lambda: home.yaml(more="groups: null\n"))[0]


def test_extends_follows_at_most_ten_parents(home: Home) -> None:
    home.yaml(name="x0")
    for number in range(1, 12):
        home.write(f"x{number}", f"extends: x{number - 1}\nname: x{number}\n")
    assert home.read(home.folder / "x10.yaml").name == "x10"
    found = messages(lambda: home.read(home.folder / "x11.yaml"))
    assert found == ['x1.yaml:1:1: "extends: x0": the chain of "extends" has more than 10 files']


def test_a_manifest_extends_a_manifest(home: Home) -> None:
    home.manifest("one", groups={"g": ["x"]})
    path = home.folder / "two" / "manifest.json"
    path.parent.mkdir()
    path.write_text('{"manifest_version": "1", "name": "two", "extends": "one", "query": {"retrieval_limit": 3}}')
    config = home.read(path)
    assert (config.search.default_limit, config.fields.question, config.groups) == (3, "q", {"g": ("x",)})


# ------------------------------------------------------------------- manifest


SESSIONS = {"strategy": "session-based", "sessions_field": "s"}
KEYED = {**SESSIONS, "sessions_format": "dynamic_keys"}
DELETION = {
    "strategy": "add-delete-verify",
    "add_content_field": "c",
    "delete_target_field": "t",
    "verify_query_field": "v",
}
CHECK = {"protocol": "deletion-check", "verification_query_field": "w", "deleted_content_field": "d"}


@each_row(
    ("changes", "path", "value"),
    [
        ({}, "data.path", "data.jsonl"),
        ({}, "data.type", "local"),
        ({"sha256": "ab" * 32}, "data.sha256", "ab" * 32),
        ({}, "row_id_candidates", ("id", "question_id", "sample_id", "case_id")),
        ({"id_field": "key"}, "row_id_candidates", ()),
        ({"id_field": "key"}, "fields.item_id", "key"),
        ({}, "fields_by_name", True),
        ({}, "fields.context.type", "string"),
        ({"ingestion": {**SESSIONS}}, "fields.context.type", "array"),
        ({"ingestion": {"strategy": "simple", "content_field": "c", "is_array": True}}, "fields.context.type", "array"),
        ({"ingestion": KEYED}, "fields.context.type", "object"),
        ({"ingestion": {**KEYED, "session_key_prefix": "t"}}, "fields.context.session_pattern", "t*"),
        ({"ingestion": {**KEYED, "session_key_prefix": "t"}}, "fields.context.date_pattern", "t*_date_time"),
        ({"ingestion": {**KEYED, "date_key_suffix": "_at"}}, "fields.context.date_pattern", "session_*_at"),
        ({"ingestion": {**SESSIONS, "dates_field": "d"}}, "fields.context.date_field", "d"),
        ({"ingestion": {**SESSIONS, "session_ids_field": "i"}}, "fields.context.session_id_field", "i"),
        ({"ingestion": {**SESSIONS, "answer_session_ids_field": "g"}}, "evidence.session_ids_field", "g"),
        ({"ingestion": {**SESSIONS, "evidence_field": "e"}}, "evidence.turn_ids_field", "e"),
        ({"ingestion": {**SESSIONS}}, "evidence.turn_flag", "has_answer"),
        ({}, "evidence.turn_flag", None),
        ({"ingestion": {**SESSIONS, "evidence_parser": "dialog_refs"}}, "evidence.parser", "dialog_refs"),
        ({"ingestion": {**SESSIONS, "corpus_field": "k"}}, "corpus.field", "k"),
        ({}, "corpus", None),
        ({"ingestion": {**SESSIONS, "date_header": False}}, "ingestion.date_header", "never"),
        ({}, "ingestion.date_header", "session"),
        (
            {"ingestion": {**SESSIONS, "mode": "shared", "shared_sample_size": 3, "evidence_field": "e"}},
            "history",
            HistorySection(mode="shared", shared_sample_size=3),
        ),
        (
            {"ingestion": {**SESSIONS, "content_formatter": "raw", "dialogue_content_formatter": "role_content"}},
            "rendering",
            Rendering(formatter="raw", dialogue="role_content"),
        ),
        (
            {"ingestion": {"strategy": "simple", "content_field": "c", "metadata_fields": ["topic"]}},
            "memory_metadata",
            ("topic",),
        ),
        (
            {"query": {"question_field": "q", "expected_answer_field": "a", "retrieval_limit": 4}},
            "search.default_limit",
            4,
        ),
        (
            {"query": {"question_field": "q", "expected_answer_field": "a", "date_field": "d"}},
            "fields.metadata",
            {"questionDate": "d"},
        ),
        ({"evaluation": {"protocol": "llm-as-judge", "type_field": "k"}}, "fields.metadata", {"questionType": "k"}),
        ({"evaluation": {"protocol": "llm-as-judge"}}, "evaluation.method", "llm-judge"),
        (
            {"evaluation": {"protocol": "exact-match", "case_sensitive": True, "normalize_whitespace": False}},
            "exact_match",
            MatchOptions(case_sensitive=True, normalize_whitespace=False),
        ),
        (
            {"ingestion": {**DELETION, "phase_delay_ms": 7}, "evaluation": {**CHECK, "fuzzy_match": True}},
            "deletion",
            DeletionSection(target="t", verify_query="w", deleted_content="d", fuzzy_match=True, phase_delay_ms=7),
        ),
        ({"ingestion": DELETION}, "deletion", DeletionSection(target="t", verify_query="v")),
        (
            {"flatten": {"field": "qa", "max_items": 2, "promote_fields": ["x"]}},
            "flatten",
            ItemFlatten(field="qa", max_items=2, promote_fields=("x",)),
        ),
        ({"required_capabilities": ["add_memory"]}, "required_capabilities", ("add_memory",)),
        ({"cluster_by": None}, "cluster_by", None),
        ({"question_date": {"from": "last_session"}}, "question_date.source", "last_session"),
        ({"abstention": {"idPattern": "_abs$"}}, "abstention.id_pattern", "_abs$"),
        ({"timezone": "Europe/Berlin"}, "timezone", "Europe/Berlin"),
    ],
)
def test_manifest_keys_map_to_the_fields_of_BenchmarkConfig(
    tmp_path: Path, changes: dict[str, object], path: str, value: object
) -> None:
    home = Home(tmp_path)
    found: object = home.manifest(**changes)
    for part in path.split("."):
        found = getattr(found, part)
    assert found == value


def test_type_instructions_are_read_from_the_file_next_to_the_manifest(home: Home) -> None:
    judged = {"protocol": "llm-as-judge", "type_instructions_file": "types.json"}
    (home.folder / "m").mkdir()
    (home.folder / "m" / "types.json").write_text('{"when": "dates", "_default": "all"}', encoding="utf-8")
    assert home.manifest(evaluation=judged).type_instructions == {"when": "dates", "_default": "all"}


TYPES_MAP = 'type_instructions_file "types.json" must be a JSON object that maps each question type to a text'


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, 'the file "types.json" is not there'),
        (
            "{",
            'type_instructions_file "types.json" is not JSON: Expecting property name enclosed in double quotes: '
            "line 1 column 2 (char 1)",
        ),
        ("[]", TYPES_MAP),
        ('{"when": 5}', TYPES_MAP),
    ],
)
def test_an_unreadable_type_instructions_file_is_an_error_at_its_key(
    home: Home, content: str | None, text: str
) -> None:
    (home.folder / "m").mkdir()
    if content is not None:
        (home.folder / "m" / "types.json").write_text(content, encoding="utf-8")
    judged = {"protocol": "llm-as-judge", "type_instructions_file": "types.json"}
    assert messages(lambda: home.manifest(evaluation=judged)) == [f"m/manifest.json:16:3: {text}"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"manifest_version": "2"}, 'm/manifest.json:2:2: manifest_version must be "1", not "2"'),
        ({"data_file": 5}, "m/manifest.json:5:2: data_file must be text, not 5"),
        (
            {"query": {"question_field": "q", "expected_answer_field": "a", "retrieval_limit": 0}},
            "m/manifest.json:13:3: query.retrieval_limit must be greater than or equal to 1, not 0",
        ),
        ({"query": {"question_field": "q"}}, 'm/manifest.json:10:2: missing field "expected_answer_field" in query'),
        ({"data_file": "rows"}, 'm/manifest.json:5:2: cannot tell the format of "rows"'),
        ({"questionDate": {}}, 'm/manifest.json:24:2: unknown field "questionDate"; did you mean "question_date"?'),
    ],
)
def test_an_error_in_a_manifest_points_to_its_line_and_column(
    home: Home, changes: dict[str, object], text: str
) -> None:
    assert messages(lambda: home.manifest(**changes)) == [text]


def test_ingestion_mode_lazy_marks_the_run_reduced_history(home: Home) -> None:
    config = home.manifest(ingestion={**SESSIONS, "mode": "lazy", "evidence_field": "e"})
    assert config.marks == ("reduced_history",)
    assert config.notes == (
        'mode "lazy" is for development: the run is marked "reduced_history" and cannot be published',
    )


def test_PLACES_maps_only_fields_that_exist_in_the_model(home: Home) -> None:
    home.manifest()
    for inner, outer in PLACES.items():
        node: object = BenchmarkConfig
        for part in inner:
            fields = getattr(node, "model_fields", {})
            known = {name for name, info in fields.items()} | {info.alias for info in fields.values()}
            assert not fields or part in known, inner
            node = None
        assert all(isinstance(part, str) for part in outer)


# ------------------------------------------------------------------- identity


@each_row(
    "more",
    [
        "displayName: Bee\n",
        "description: words\n",
        "tags: [x]\n",
        "aliases: [y]\n",
        "runtime: {resumable: false}\n",
        "overlay: audit\n",
        "search: {}\n",
        "search: {default_limit: 10}\n",
    ],
)
def test_descriptive_keys_do_not_change_config_sha256(tmp_path: Path, more: str) -> None:
    home = Home(tmp_path)
    assert config_sha256(home.yaml(more)) == config_sha256(home.yaml())


@each_row(
    "more",
    [
        "search: {defaultLimit: 9}\n",
        "ingestion: {mode: incremental}\n",
        "ingestion: {preprocessing: {removeRoles: [assistant]}}\n",
        "timezone: Europe/Berlin\n",
        "metrics: [accuracy]\n",
        "groups: {g: [x]}\n",
        "abstention: {field: f}\n",
        "license: MIT\n",
        "epochsReducer: max\n",
        "clusterBy: null\n",
    ],
)
def test_keys_that_can_change_a_result_change_config_sha256(tmp_path: Path, more: str) -> None:
    home = Home(tmp_path)
    assert config_sha256(home.yaml(more)) != config_sha256(home.yaml())


def test_identity_tree_does_not_depend_on_extends_or_on_the_location_of_the_file(home: Home) -> None:
    home.yaml(name="p")
    child = home.read(home.write("b", "extends: p\nname: b\n"))
    assert identity_tree(child) == identity_tree(home.yaml())


def test_a_config_from_a_journal_has_no_file_and_its_name_as_place(home: Home) -> None:
    config = home.yaml()
    again = BenchmarkConfig.model_validate(config.model_dump(mode="json", by_alias=True))
    assert (again.origin, again.folder_of("data"), again.place("data")) == (None, None, "b")
    assert config_sha256(again) == config_sha256(config)
