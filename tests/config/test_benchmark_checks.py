"""Rules of a benchmark file beyond its types: each finding with its exact message, place and hint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.benchmark.file import problems_of
from bench.config.catalog import Catalog
from bench.errors import ConfigError

HEAD = 'name: b\nversion: "1"\n'
DATA = "data: {type: local, path: ./b.jsonl}\n"
SCHEMA = "schema: {itemId: id, question: q, answer: a, context: {field: c, type: string}}\n"
EVALUATION = "evaluation: {method: exact-match}\n"
GOOD = HEAD + DATA + SCHEMA + EVALUATION
TYPES = "types: fact, when"

Load = Callable[[str], BenchmarkConfig]
Refused = Callable[[str], list[tuple[str, str]]]


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "configs" / "benchmarks"
    folder.mkdir(parents=True)

    def make(text: str) -> BenchmarkConfig:
        (folder / "b.yaml").write_text(text, encoding="utf-8")
        return Catalog.load(tmp_path).read_benchmark(folder / "b.yaml")

    return make


@pytest.fixture
def refused(read: Load) -> Refused:
    def make(text: str) -> list[tuple[str, str]]:
        with pytest.raises(ConfigError) as caught:
            read(text)
        found = caught.value.problems or (caught.value,)
        return [(str(one).removeprefix("configs/benchmarks/"), one.hint) for one in found]

    return make


@pytest.mark.parametrize(
    ("old", "new", "message", "hint"),
    [
        ("name: b", "name: c", 'b.yaml:1:1: name "c" must equal the file name "b"', "rename one of the two"),
        (
            "question: q, ",
            "",
            'b.yaml:4:1: missing field "question" in schema',
            "name the field that contains the question",
        ),
        ("answer: a, ", "", 'b.yaml:4:1: missing field "answer" in schema', "name the field that contains the answer"),
        (
            "type: string",
            "type: array, itemSchema: {role: r}",
            'b.yaml:4:79: itemSchema needs "content" or "text"',
            "name the field with the text of a turn",
        ),
        (
            "type: string",
            "type: string, sessionIdField: d",
            'b.yaml:4:80: schema.context.sessionIdField has no effect: with "type: string", the history is one text',
            "remove it",
        ),
        (
            "type: string",
            "type: array, sessionPattern: s*",
            'b.yaml:4:79: schema.context.sessionPattern has no effect: with "type: array", the sessions '
            "are the elements of a list",
            "remove it",
        ),
        (
            "type: string",
            "type: object, dateField: d",
            'b.yaml:4:80: schema.context.dateField has no effect: with "type: object", the keys contain '
            "the ids and dates of the sessions",
            "remove it",
        ),
        (
            "type: string",
            "type: string, dateField: d",
            'b.yaml:4:66: a context of type "string" has no turns and no dates',
            "write type: array or type: object",
        ),
        (
            "type: string",
            "type: string, itemSchema: {text: t}",
            'b.yaml:4:66: a context of type "string" has no turns and no dates',
            "write type: array or type: object",
        ),
        (
            "./b.jsonl",
            "./b.txt",
            'b.yaml:3:1: cannot tell the format of "./b.txt"',
            "add format: json, jsonl, csv, tsv or parquet",
        ),
        (
            "method: exact-match",
            "method: custom",
            'b.yaml:5:14: method "custom" and the key "customEvaluator" must be used together',
            "write method: custom and customEvaluator: ./file.py:Class",
        ),
        (
            "method: exact-match",
            "method: exact-match, customEvaluator: './e.py:E'",
            'b.yaml:5:14: method "custom" and the key "customEvaluator" must be used together',
            "write method: custom and customEvaluator: ./file.py:Class",
        ),
        (
            "method: exact-match",
            "method: deletion-check",
            'b.yaml:5:14: method "deletion-check" needs the strategy "add-delete-verify"',
            "see docs/add-a-benchmark.md",
        ),
        (
            "method: exact-match",
            "method: token-f1, pack: locomo",
            'b.yaml:5:32: pack "locomo" has no version',
            "write NAME@VERSION",
        ),
        (
            "exact-match",
            "mcq",
            'b.yaml:4:1: method "mcq" needs "choiceAnswer" in "schema"',
            "name the field that contains the right choice",
        ),
        (
            EVALUATION,
            EVALUATION + "questionTypes: [{name: fact}, {name: when}]\ngroups: {g: [fact, wen]}\n",
            'b.yaml:7:20: group "g" names the unknown type "wen"; did you mean "when"?',
            TYPES,
        ),
        (
            EVALUATION,
            EVALUATION + "categories: {1: fact, 2: when}\ngroups: {g: [zzzz]}\n",
            'b.yaml:7:14: group "g" names the unknown type "zzzz"',
            TYPES,
        ),
        (
            EVALUATION,
            EVALUATION + "categories: {1: fact, 2: when}\nabstention: {questionTypes: [fact, fakt]}\n",
            'b.yaml:7:36: abstention names the unknown type "fakt"; did you mean "fact"?',
            TYPES,
        ),
        (
            EVALUATION,
            EVALUATION + "ingestion: {preprocessing: {formatTemplate: '${sesion}'}}\n",
            'b.yaml:6:29: unknown name "sesion" in a template; did you mean "session"?',
            "known names: date, metadata.*, session, sessionDate, turns",
        ),
        (
            "{method: exact-match}",
            "{method: exact-match, answerPrompt: {default: '${answer}'}}",
            'b.yaml:5:50: unknown name "answer" in a template',
            "known names: choices, question, questionDate, retrievedContext, speakerA, speakerB",
        ),
        (
            "{method: exact-match}",
            "{method: exact-match, answerPrompt: {byQuestionType: {when: '${team}'}}}",
            'b.yaml:5:67: unknown name "team" in a template',
            "known names: choices, question, questionDate, retrievedContext, speakerA, speakerB",
        ),
        (
            "{method: exact-match}",
            "{method: llm-judge, judgePrompts: {default: '${context}'}}",
            'b.yaml:5:48: unknown name "context" in a template',
            "known names: answer, evidence, question, questionDate, questionType, response, rubric",
        ),
        (
            "{method: exact-match}",
            "{method: llm-judge, judgePrompts: {abstention: '${anwser}'}}",
            'b.yaml:5:48: unknown name "anwser" in a template; did you mean "answer"?',
            "known names: answer, evidence, question, questionDate, questionType, response, rubric",
        ),
    ],
)
def test_a_benchmark_file_that_breaks_a_rule_gets_the_exact_finding_and_hint(
    refused: Refused, old: str, new: str, message: str, hint: str
) -> None:
    assert old in GOOD
    text = GOOD.replace("id, question", "id, choices: c, question") if new == "mcq" else GOOD
    assert refused(text.replace(old, new, 1)) == [(message, hint)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("answer: a, ", ""),
        ("question: q, answer: a, ", ""),
    ],
)
def test_fields_of_nested_questions_replace_the_question_and_answer_fields_of_schema(
    read: Load, old: str, new: str
) -> None:
    nested = GOOD.replace(old, new, 1).replace(
        "type: string}", "type: string}, questions: {field: qa, questionField: q}"
    )
    assert read(nested).fields.questions is not None


def test_mcq_needs_choices_in_schema_or_in_its_nested_questions(read: Load, refused: Refused) -> None:
    text = GOOD.replace("exact-match", "mcq").replace("answer: a", "answer: a, choiceAnswer: r")
    assert [message for message, _ in refused(text)] == ['b.yaml:4:1: method "mcq" needs "choices" in "schema"']
    nested = "questions: {field: qa, questionField: q, choicesField: c}"
    assert read(text.replace("answer: a", "choices: c, answer: a"))
    assert read(text.replace("type: string}", f"type: string}}, {nested}"))


def test_a_BenchmarkConfig_without_a_file_may_have_any_name(read: Load) -> None:
    config = read(GOOD)
    again = BenchmarkConfig.model_validate(config.model_dump(by_alias=True) | {"name": "other"})
    assert problems_of(again) == []


@pytest.mark.parametrize("method", ["none", "rubric"])
def test_methods_none_and_rubric_need_no_answer_field(read: Load, method: str) -> None:
    text = GOOD.replace("answer: a, ", "rubric: points, ").replace("exact-match", method)
    assert read(text).fields.answer is None


def test_promptFields_makes_metadata_names_usable_in_an_answer_prompt(read: Load) -> None:
    prompt = "{method: exact-match, answerPrompt: {promptFields: [team], default: '${team} ${question}'}}"
    assert read(GOOD.replace("{method: exact-match}", prompt)).answer_prompt(None) == ("default", "${team} ${question}")


def test_type_names_are_not_checked_if_the_file_declares_no_question_types(read: Load) -> None:
    assert read(GOOD + "groups: {g: [anything]}\nabstention: {questionTypes: [whatever]}\n").groups == {
        "g": ("anything",)
    }


def test_a_benchmark_file_outside_configs_may_have_any_file_name(read: Load, tmp_path: Path) -> None:
    (tmp_path / "draft.yaml").write_text(GOOD, encoding="utf-8")
    assert Catalog.load(tmp_path).read_benchmark(tmp_path / "draft.yaml").name == "b"


def test_all_findings_of_a_benchmark_file_are_reported_in_file_order(refused: Refused) -> None:
    text = GOOD.replace("name: b", "name: c").replace("./b.jsonl", "./b").replace("answer: a, ", "")
    text = text.replace("{method: exact-match}", "{method: exact-match, pack: x, answerPrompt: {default: '@gone.txt'}}")
    assert [message for message, _ in refused(text)] == [
        'b.yaml:1:1: name "c" must equal the file name "b"',
        'b.yaml:3:1: cannot tell the format of "./b"',
        'b.yaml:4:1: missing field "answer" in schema',
        'b.yaml:5:35: pack "x" has no version',
        'b.yaml:5:59: the file "gone.txt" is not there',
    ]


# ---------------------------------------------------------------------- notes


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        (GOOD, ()),
        (
            GOOD + "runtime: {checkpointing: false, resumable: false}\n",
            (
                "runtime.checkpointing: false has no effect: every run has a journal and can be resumed",
                "runtime.resumable: false has no effect: every run has a journal and can be resumed",
            ),
        ),
        (
            GOOD + "ingestion: {preprocessing: {escapeHtml: true}}\n",
            ('preprocessing.escapeHtml changes the stored texts, so answers can differ: the run is marked "altered"',),
        ),
        (
            GOOD.replace("type: local, path: ./b.jsonl", "type: url, path: 'https://x.test/b.jsonl'"),
            ("data.sha256 is missing: the file cannot be checked, and results cannot be published",),
        ),
        (
            GOOD.replace(
                "type: local, path: ./b.jsonl",
                f"type: huggingface, path: a/b, file: b.json, sha256: '{'a' * 64}', revision: main",
            ),
            ('data.revision "main" is not a commit, so the data may change',),
        ),
        (
            GOOD.replace(
                "type: local, path: ./b.jsonl",
                f"type: huggingface, path: a/b, file: b.json, sha256: '{'a' * 64}', revision: {'0a' * 20}",
            ),
            (),
        ),
        (
            GOOD.replace("{method: exact-match}", "{method: llm-judge, judgePrompts: {source: paper, default: x}}"),
            ('judgePrompts.source is "paper", but no pack is named: the prompts count as custom (fidelity: custom)',),
        ),
        (
            GOOD + "questionTypes: [{name: fact, evaluationPrompt: odd}, {name: when}]\n",
            (
                'evaluationPrompt "odd" of question type "fact" is not in judgePrompts.byQuestionType: '
                'the prompt "default" is used',
            ),
        ),
    ],
)
def test_settings_without_effect_or_with_a_risk_are_listed_in_notes(
    read: Load, text: str, notes: tuple[str, ...]
) -> None:
    assert read(text).notes == notes


@pytest.mark.parametrize(
    ("text", "marks"),
    [
        (GOOD, ()),
        (GOOD + "ingestion: {preprocessing: {escapeHtml: true}}\n", ("altered",)),
        (
            GOOD.replace("type: local, path: ./b.jsonl", "type: url, path: 'https://x.test/b.jsonl'"),
            ("dataset_unpinned",),
        ),
    ],
)
def test_altered_text_and_unpinned_data_are_listed_in_marks(read: Load, text: str, marks: tuple[str, ...]) -> None:
    assert read(text).marks == marks


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            'dateFormats: ["%Q"]',
            "dateFormats[0]: \"%Q\" is not a valid strptime format: 'Q' is a bad directive in format '%Q'",
        ),
        ('dateFormats: ["%d %"]', "dateFormats[0]: \"%d %\" is not a valid strptime format: stray % in format '%d %'"),
        ("search: {defaultLimit: 1e99}", "search.defaultLimit must be a smaller whole number, not 1e+99"),
    ],
)
def test_invalid_date_formats_and_oversized_numbers_are_refused(refused: Refused, more: str, message: str) -> None:
    ((text, _),) = refused(GOOD + more + "\n")
    assert text.split(": ", 1)[1] == message


def test_formats_that_strptime_accepts_are_accepted_in_dateFormats(read: Load) -> None:
    assert read(GOOD + 'dateFormats: ["%d.%m.%Y", "%Y 100%%"]\n').date_formats == ("%d.%m.%Y", "%Y 100%%")
