"""Options to read published forms: files, rows, joins, values, contexts, conditions."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from bench.config.benchmark.config import config_sha256
from bench.config.catalog import Catalog, builtin_root
from bench.datasets.dataset import Dataset, open_benchmark
from bench.datasets.history import split_chunks
from bench.datasets.questions import expand_ranges
from bench.datasets.rows.field_steps import decode_text
from bench.errors import BenchError
from tests.datasets.conftest import Workspace
from tests.rows import each_row

BASE = {
    "name": "t", "version": "1",
    "data": {"type": "local", "path": "datasets/t.json"},
    "schema": {"itemId": "id", "question": "q", "answer": "a", "context": {"field": "text", "type": "string"}},
    "evaluation": {"method": "contains"},
}  # fmt: skip
ROW = {"id": "r", "q": "Which?", "a": "tea", "text": "I like tea."}


def opened(workspace: Workspace, rows: object, **changes: object) -> Dataset:
    """Open a dataset with changed sections of the base config; ``schema__context`` changes one key of a section."""
    config = json.loads(json.dumps(BASE))
    for name, value in changes.items():
        section, _, key = name.partition("__")
        if key:
            config[section][key] = value
        else:
            config[section] = value
    workspace.yaml("t", json.dumps(config))
    workspace.data("t.json", rows)
    return workspace.open("t")


def refusal(workspace: Workspace, rows: object, **changes: object) -> str:
    with pytest.raises(BenchError) as refused:
        opened(workspace, rows, **changes)
    return f"{refused.value.where}: {refused.value}"


def ids(dataset: Dataset) -> list[str]:
    return [ref.id for ref in dataset.items()]


def contents(dataset: Dataset, corpus: str | None = None) -> list[str]:
    names = dataset.corpora() if corpus is None else [corpus]
    return [one.memory.content for name in names for one in dataset.memories(name)]


# ------------------------------------------------------------------ stable digests


DIGESTS = {
    "code-rag": "90c36a8aba8c4732",
    "convomem": "0322cdfd048f93ac",
    "demo": "77e40300a31e6070",
    "demo-deletion": "598bcb9f36d061ec",
    "financial-rag": "72b7b6d8fb259d18",
    "legal-rag": "89e57a0b3988ba6f",
    "locomo": "e877892e9812b6f0",
    "locomo-turns": "04f0d46577a0458f",
    "longmemeval": "c346037b65774500",
    "longmemeval-m": "5ee2ae6d2cacc6e5",
    "longmemeval-m-turns": "1a89770ed55300eb",
    "longmemeval-official-retrieval": "67fa557097a0d54a",
    "longmemeval-oracle": "4c3943b95f614dea",
    "longmemeval-oracle-turns": "fbbd1c0ef23cd48f",
    "longmemeval-turns": "d2cc4881ea1d872b",
    "nolima": "20661003d5082db5",
    "rag-template": "35fdca39efdc160b",
}


@each_row("name", DIGESTS)
def test_shipped_configs_have_a_stable_config_sha256(name: str) -> None:
    config = Catalog.load(builtin_root()).benchmark(name)
    assert config_sha256(config)[:16] == DIGESTS[name]


def test_the_demo_has_a_stable_size_and_content_sha256() -> None:
    root = builtin_root()
    dataset = open_benchmark(Catalog.load(root).benchmark("demo"), root)
    assert (len(dataset), dataset.counts.corpora, dataset.counts.memories) == (160, 8, 576)
    assert dataset.content_sha256.startswith("1a470b6af898d35d")


# ------------------------------------------------------------------ files and rows


def test_files_are_read_in_order_and_a_glob_adds_every_match(workspace: Workspace) -> None:
    for name in "ba":
        workspace.data(f"{name}.jsonl", json.dumps({**ROW, "id": name}))
    (workspace.root / "datasets" / "c.json.gz").write_bytes(gzip.compress(json.dumps([{**ROW, "id": "c"}]).encode()))
    data = {"type": "local", "files": ["datasets/c.json.gz", "datasets/*.jsonl"]}
    dataset = opened(workspace, [], data=data, schema__metadata={"questionType": "$file", "at": "$row"})
    assert ids(dataset) == ["c", "a", "b"]
    assert [dataset.item(name).question_type for name in "ca"] == ["datasets/c", "datasets/a"]
    assert dataset.item("b").metadata["at"] == 0
    one = dataset.sha256
    workspace.data("b.jsonl", json.dumps({**ROW, "id": "d"}))
    assert workspace.open("t").sha256 != one, "every file counts"


def test_a_missing_file_of_several_is_named(workspace: Workspace) -> None:
    expected = refusal(workspace, [ROW], data={"type": "local", "files": ["datasets/t.json", "datasets/gone.json"]})
    assert 'the data file "datasets/gone.json" is not there' in expected
    expected = refusal(workspace, [ROW], data={"type": "local", "path": "a.json", "files": ["b.json"]})
    assert 'data has both "path" and "files"' in expected


def test_columns_names_the_fields_of_a_table_without_header(workspace: Workspace) -> None:
    workspace.data("t.tsv", 'r1\tSay "hi"\ttea\tI like tea.\nr2\tWhich?\ttea\tNo.\n')
    data = {"type": "local", "path": "datasets/t.tsv", "columns": ["id", "q", "a", "text"]}
    dataset = opened(workspace, [], data=data)
    assert [dataset.item(name).question for name in ids(dataset)] == ['Say "hi"', "Which?"]


def test_rows_may_be_nested_under_keys_of_a_document(workspace: Workspace) -> None:
    document = {"x": {"k": [ROW, ROW], "l": None}, "y": {"k": [ROW]}}
    data = {"type": "local", "path": "datasets/t.json", "rows": "$.*.*[*]"}
    dataset = opened(workspace, document, data=data, schema__itemId="${$keys[0]}-${$keys[-1]}")
    assert ids(dataset) == ["x-0", "x-1", "y-0"]
    assert [dataset.item(name).question for name in ids(dataset)] == ["Which?"] * 3
    data["rows"] = "$.x.*"
    assert "matches a list at $.k; a row must be an object" in refusal(
        workspace, document["x"] | {}, data={**data, "rows": "$.*"}
    )
    assert "matches nothing in" in refusal(workspace, document, data={**data, "rows": "$.z[*]"})


def test_parquet_rows_are_read_and_null_is_absent(workspace: Workspace) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{**ROW, "id": f"r{at}", "more": None if at % 2 else {"x": [1.5, None]}} for at in range(7)]
    path = workspace.root / "datasets" / "t.parquet"
    path.parent.mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=3)
    data = {"type": "local", "path": "datasets/t.parquet"}
    dataset = opened(workspace, [], data=data, schema__metadata={"more": "more"})
    assert ids(dataset) == [f"r{at}" for at in range(7)]
    assert [("more" in dataset.item(f"r{at}").metadata) for at in (6, 1, 0)] == [True, False, True]
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BenchError, match=r"t\.parquet: the file is not valid parquet"):
        workspace.open("t")


# ------------------------------------------------------------------ with


def test_decode_text_reads_JSON_and_Python_literals() -> None:
    assert decode_text('{"a": [1, null]}') == {"a": [1, None]}
    assert decode_text("{'a': (1, None, True)}") == {"a": [1, None, True]}
    for text in ("print(1)", "[1", "{1, 2}", "hello", "[" * 400, "b'x'"):
        with pytest.raises(ValueError, match=r"line \d+, column \d+"):
            decode_text(text)


def joined(workspace: Workspace, step: dict[str, object], *, field: str = "docs") -> dict[str, object]:
    workspace.data("docs.jsonl", "".join(json.dumps({"n": n, "t": t, "s": s}) + "\n" for n, t, s in DOCS))
    return {
        "data": {**BASE["data"], "with": {"docs": {"file": "docs.jsonl", **step}}},  # type: ignore[dict-item]
        "schema__context": {"field": field, "type": "session", "itemSchema": {"id": "n", "content": "t"}},
        "ingestion": {"mode": "incremental"},
    }


DOCS = [("d1", "Tea.", 1), ("d2", "Milk.", 0), ("d3", "Rye.", 2)]


def test_with_joins_rows_of_another_file_by_key(workspace: Workspace) -> None:
    changes = joined(workspace, {"key": "n", "by": "wants"})
    dataset = opened(workspace, [{**ROW, "wants": ["d3", "d1"]}], **changes)
    assert contents(dataset) == ["Rye.", "Tea."]
    expected = refusal(workspace, [{**ROW, "wants": ["d9"]}], **changes)
    assert 'data.with.docs: no row of docs.jsonl has "d9" as its key (row 0)' in expected
    changes = joined(workspace, {"key": "s", "by": "wants", "many": True, "where": {"s": {"above": 0}}})
    dataset = opened(workspace, [{**ROW, "wants": 2}], **changes)
    assert contents(dataset) == ["Rye."]
    changes = joined(workspace, {"key": "x", "by": "wants"})
    assert "docs.jsonl:1: x is missing" in refusal(workspace, [{**ROW, "wants": "d1"}], **changes)
    changes = joined(workspace, {"key": "$", "by": "wants"})
    assert "data.with.docs and must be text or a number" in refusal(workspace, [{**ROW, "wants": "d1"}], **changes)


def test_with_refuses_repeated_keys_and_files_outside_the_data_folder(workspace: Workspace) -> None:
    changes = joined(workspace, {"key": "n", "by": "wants"})
    with (workspace.root / "datasets" / "docs.jsonl").open("a") as file:
        file.write('{"n": "d1", "t": "x"}\n')
    expected = refusal(workspace, [{**ROW, "wants": "d1"}], **changes)
    assert 'the key "d1" occurs twice in docs.jsonl: lines 1 and 4' in expected
    for name, words in (
        ("../x.jsonl", "leaves the folder of the data"),
        ("no.jsonl", 'the file "no.jsonl" is not there'),
    ):
        data = {**BASE["data"], "with": {"docs": {"file": "${link}"}}}  # type: ignore[dict-item]
        expected = refusal(workspace, [{**ROW, "link": name}], **{**changes, "data": data})
        assert words in expected
        assert "data.with.docs" in expected


def test_rows_of_one_corpus_must_have_equal_joined_histories(workspace: Workspace) -> None:
    changes = joined(workspace, {"key": "n", "by": "wants"})
    rows = [{**ROW, "id": name, "wants": ["d1", "d2"]} for name in "xy"]
    dataset = opened(workspace, rows, corpus={"field": "wants"}, **changes)
    assert len(list(dataset.corpora())) == 1
    assert contents(dataset) == ["Tea.", "Milk."]
    expected = refusal(workspace, [rows[0], {**rows[1], "wants": ["d3"]}], corpus={"field": "${'web'}"}, **changes)
    assert 'corpus "web": rows x and y have different histories' in expected


def test_zip_combines_parallel_lists_into_objects(workspace: Workspace) -> None:
    row = {**ROW, "qs": ["One?", "Two?"], "as": ["1", ["2", "two"]], "dates": None}
    data = {**BASE["data"], "with": {"qa": {"zip": {"q": "qs", "a": "as", "d": "dates"}}}}  # type: ignore[dict-item]
    schema = {"itemId": "id", "context": BASE["schema"]["context"],  # type: ignore[index]
              "questions": {"field": "qa", "questionField": "q", "answerField": "a"}}  # fmt: skip
    dataset = opened(workspace, [row], data=data, schema=schema)
    assert [dataset.item(name).answers for name in ids(dataset)] == [("1",), ("2", "two")]
    expected = refusal(workspace, [{**row, "as": ["1"]}], data=data, schema=schema)
    assert "data.with.qa: lists of different length: q has 2, a has 1 (row 0)" in expected


def test_with_does_not_replace_an_existing_field_except_by_its_own_value(workspace: Workspace) -> None:
    data = {**BASE["data"], "with": {"text": {"decode": "a"}}}  # type: ignore[dict-item]
    assert 'data.with.text: the rows already have a field "text"' in refusal(workspace, [ROW], data=data)
    data = {**BASE["data"], "with": {"text": {"decode": "text"}}}  # type: ignore[dict-item]
    assert contents(opened(workspace, [{**ROW, "text": '"Tea"'}], data=data)) == ["Tea"]


# ------------------------------------------------------------------ where


@each_row(
    ("where", "left"),
    [
        ({"n": 2}, "b"),
        ({"n": {"above": 1}}, "bc"),
        ({"f": True}, "a"),
        ({"g": None}, "bc"),
        ({"g": {"present": True}}, "a"),
        ({"k": ["x", "y"]}, "ab"),
        ({"k": {"not": "x"}}, "bc"),
        ({"k": {"like": "z*_abs"}, "n": 3}, "c"),
    ],
)
def test_where_selects_rows_and_the_counts_are_noted(workspace: Workspace, where: dict[str, object], left: str) -> None:
    rows = [
        {**ROW, "id": "a", "n": 1, "f": True, "g": ["x"], "k": "x"},
        {**ROW, "id": "b", "n": 2, "f": False, "g": None, "k": "y"},
        {**ROW, "id": "c", "n": 3, "f": "no", "k": "z_q_abs"},
    ]
    dataset = opened(workspace, rows, data={**BASE["data"], "where": where})  # type: ignore[dict-item]
    assert ids(dataset) == list(left)
    expected = {1: "data.where excludes 2 rows; 1 row is used", 2: "data.where excludes 1 row; 2 rows are used"}
    assert expected[len(left)] in dataset.notes
    assert dataset.item(left[-1]).question == "Which?", "rows are read again by their place"


def test_where_is_refused_if_it_excludes_all_rows_or_compares_no_number(workspace: Workspace) -> None:
    data = {**BASE["data"], "where": {"q": "x"}}  # type: ignore[dict-item]
    assert "data.where (q) excludes every row, 1" in refusal(workspace, [ROW], data=data)
    data = {**BASE["data"], "where": {"a": {"above": 0}}}  # type: ignore[dict-item]
    assert "a is not a number, but data.where compares it with a number: " in refusal(workspace, [ROW], data=data)


# ------------------------------------------------------------------ values and histories


def test_a_template_value_names_its_missing_field(workspace: Workspace) -> None:
    changes = {"schema__question": "${topic}: ${$.meta.q|default:'what'}?"}
    dataset = opened(workspace, [{**ROW, "topic": "Tea"}], **changes)
    assert dataset.item("r").question == "Tea: what?"
    assert 'topic is missing; the value "${topic}: ' in refusal(workspace, [ROW], **changes)
    expected = refusal(workspace, [ROW], schema__question="$keys[-1]")
    assert "$keys[-1]: expected at least 1 [*] in the path, found 0" in expected


def test_a_list_of_fields_takes_the_first_value_but_all_answers(workspace: Workspace) -> None:
    changes = {"schema__question": ["gone", "q"], "schema__answer": ["a", ["gone", "b", "c"]]}
    dataset = opened(workspace, [{**ROW, "b": ["x", "y"], "c": "z"}], **changes)
    assert dataset.item("r").question == "Which?"
    assert dataset.item("r").answers == ("tea", "x", "y")


def test_several_contexts_are_concatenated(workspace: Workspace) -> None:
    row = {**ROW, "past": {"p": {"who": "s9", "at": "2024-01-02", "goal": "tea", "turns": [["A", "x"], ["B", "y"]]},
                           "none": None}}  # fmt: skip
    context = [
        {"field": "$.past.*", "session": {"id": "who", "turns": "turns"},
         "itemSchema": {"speaker": "$[0]", "content": "$[1]", "id": "${$keys[-2]}/${$keys[-1]}"}},
        {"field": "text", "type": "string", "id": "${'now'}"},
    ]  # fmt: skip
    dataset = opened(workspace, [row], schema__context=context)
    (corpus,) = dataset.corpora()
    assert [session.id for session in dataset.corpus(corpus).sessions] == ["s9", "now"]
    assert [turn.id for turn in dataset.corpus(corpus).sessions[0].turns] == ["p/0", "p/1"]
    assert contents(dataset) == ["A: x\nB: y", "I like tea."]
    template = {"preprocessing": {"formatTemplate": "${goal|default:'-'}: ${session}"}}
    assert contents(opened(workspace, [row], schema__context=context, ingestion=template))[0] == "tea: A: x\nB: y"


def test_visibility_through_includes_the_session_and_needs_date_order(workspace: Workspace) -> None:
    def session(day: str, *questions: str) -> dict[str, object]:
        return {"day": day, "lines": [{"w": day}], "asks": [{"q": q, "a": "x"} for q in questions]}

    schema = {
        "itemId": "id",
        "context": {"field": "$.s[*]", "session": {"date": "day", "turns": "lines"}, "itemSchema": {"content": "w"}},
        "questions": {"field": "$.s[*].asks[*]", "questionField": "q", "answerField": "a"},
    }
    cut = {"field": "$keys[-2]", "through": True}
    row = {"id": "u", "s": [session("2024-01-01", "One?"), session("2024-01-02"), session("2024-01-03", "Two?")]}
    dataset = opened(workspace, [row], schema=schema, visibility=cut)
    seen = [len(dataset.memories(dataset.item(name).corpus)) for name in ids(dataset)]
    assert seen == [1, 3]
    row["s"] = list(reversed(row["s"]))
    assert "the sessions of u are not in the order of their dates" in refusal(
        workspace, [row], schema=schema, visibility=cut
    )


# ------------------------------------------------------------------ single keys


def test_split_chunks_cuts_after_sentences_and_lines() -> None:
    assert split_chunks("One two. Three four five! Six.\nSeven", 3) == ["One two.", "Three four five!", "Six.\nSeven"]
    assert split_chunks("a b c d e. f", 2) == ["a b", "c d", "e. f"]
    assert split_chunks("  \n", 5) == []


def test_expand_ranges_expands_numbers_and_ranges() -> None:
    assert expand_ranges("2025-01-10/Group 1/1, 3-5") == [f"2025-01-10/Group 1/{n}" for n in (1, 3, 4, 5)]
    assert expand_ranges("D1:7") == ["D1:7"]
    assert expand_ranges("5-3") == ["5-3"], "no range: it stays, and is counted as unresolved"
    assert expand_ranges("1-99999999") == ["1-99999999"]


def test_shuffled_choices_have_the_same_order_on_every_load(workspace: Workspace) -> None:
    schema = {
        **BASE["schema"],  # type: ignore[dict-item]
        "choices": {"from": ["right", "wrong"], "shuffle": True},
        "choiceAnswer": "right",
    }
    rows = [{**ROW, "id": f"r{n}", "right": "tea", "wrong": ["milk", "rye", "ale"]} for n in range(12)]
    first, again = (opened(workspace, rows, schema=schema, evaluation={"method": "mcq"}) for _ in range(2))
    orders = [first.item(name).choices for name in ids(first)]
    assert orders == [again.item(name).choices for name in ids(again)]
    assert all(sorted(order) == ["ale", "milk", "rye", "tea"] for order in orders)
    assert len({order.index("tea") for order in orders}) > 1
    rows[3]["wrong"] = ["tea", "ale"]
    assert "the right choice of r3 occurs twice" in refusal(workspace, rows, schema=schema)


def test_a_misspelled_name_in_data_where_or_with_is_noted(workspace: Workspace) -> None:
    data = {**BASE["data"], "where": {"imagee": None}, "with": {"o": {"decode": "optionz"}}}  # type: ignore[dict-item]
    dataset = opened(workspace, [{**ROW, "image": None, "options": "[]"}], data=data)
    expected = "\n".join(dataset.notes)
    assert 'names "imagee", but no row has this field; did you mean "image"?' in expected
    assert 'names "optionz", but no row has this field; did you mean "options"?' in expected


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"decode": "a", "file": "x.json"}, 'one of these keys: "decode", "zip", "file"'),
        ({"file": "x.json", "key": "a"}, '"key" and "by" must be used together: set both'),
        ({"decode": "a", "many": True}, '"by" and "many" can be used only together with "file"'),
        ({"decode": "${a"}, "unclosed"),
    ],
)
def test_an_invalid_step_of_data_with_is_refused(workspace: Workspace, step: dict[str, object], words: str) -> None:
    expected = refusal(workspace, [ROW], data={**BASE["data"], "with": {"x": step}})  # type: ignore[dict-item]
    assert words in expected
    assert "t.yaml:1:" in expected


def test_the_example_of_the_docs_page_loads(workspace: Workspace, root: Path) -> None:
    page = (root / "docs" / "add-a-benchmark.md").read_text(encoding="utf-8")
    start = page.index('```yaml title="configs/benchmarks/scenes.yaml"\n')
    text = page[page.index("\n", start) + 1 : page.index("```", start + 3)]
    docs = json.dumps({"id": "d1", "title": None, "text": "Tea."}) + "\n"
    workspace.yaml("scenes", text.replace("docs.parquet", "docs.jsonl"))
    workspace.data("x", "")
    folder = workspace.root / "scenes"
    folder.mkdir()
    queries = [{"id": "one_1", "text": "Which?"}, {"id": "two_1", "text": "Where?"}]
    (folder / "q.jsonl.gz").write_bytes(gzip.compress("\n".join(map(json.dumps, queries)).encode()))
    (folder / "gold.tsv").write_text("one_1\td1\t2\ntwo_1\td1\t0\n")
    (folder / "docs.jsonl").write_text(docs)
    dataset = workspace.open("scenes")
    assert ids(dataset) == ["one_1"]
    assert dataset.item("one_1").evidence.turns == ("d1",)
    assert contents(dataset) == [" Tea."]


# ------------------------------------------------------------------ questions, points and sentences that count


def test_questions_where_excludes_questions_and_notes_how_many(workspace: Workspace) -> None:
    asked = [{"q": "What?", "a": "tea", "ok": "True"}, {"q": "Why?", "a": "tea", "ok": "False"}]
    nested: dict[str, object] = {"field": "qa", "questionField": "q", "answerField": "a", "where": {"ok": "True"}}
    schema = {"itemId": "id", "context": BASE["schema"]["context"], "questions": nested}  # type: ignore[index]
    dataset = opened(workspace, [{**ROW, "qa": asked}], schema=schema)
    assert [dataset.item(name).question for name in ids(dataset)] == ["What?"]
    assert "schema.questions.where excludes 1 question" in dataset.notes
    nested["where"] = {"ok": "maybe"}
    expected = refusal(workspace, [{**ROW, "qa": asked}], schema=schema)
    assert "schema.questions.where (ok) excludes every question, 2" in expected


def test_rubric_points_may_be_objects_selected_by_where(workspace: Workspace) -> None:
    points = [{"say": "tea", "by": "her"}, {"say": "milk", "by": "noise"}]
    rubric = {"from": "points", "text": "say", "where": {"by": {"not": "noise"}}}
    dataset = opened(workspace, [{**ROW, "points": points}], schema__rubric=rubric)
    assert dataset.item("r").rubric == ("tea",)
    expected = refusal(workspace, [{**ROW, "points": [{"by": "her"}, *points]}], schema__rubric=rubric)
    assert "points[0]" in expected and "has no text at say" in expected


def test_the_position_parser_resolves_a_sentence_by_session_and_index(workspace: Workspace) -> None:
    row = {
        **ROW,
        "pages": [{"t": "Tolle", "s": ["A town.", "On the Arn."]}],
        "gold": [{"t": "Tolle", "n": n} for n in (1, 9)],
    }
    context = {"field": "pages", "session": {"id": "t", "turns": "s"}, "itemSchema": {"content": "$"}}
    evidence = {"turnIdsField": "$.gold[*]", "reference": "${t}#${n}", "parser": "position"}
    dataset = opened(workspace, [row], schema__context=context, evidence=evidence)
    item = dataset.item("r")
    assert (item.evidence.turns, item.flags) == (("Tolle#2",), ("evidence_unresolved",))
