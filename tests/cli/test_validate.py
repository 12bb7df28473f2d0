"""``bench validate`` reports the errors of a benchmark that ``bench run`` reports, with the same line."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]
RUN = ("run", "--benchmarks", "b", "--providers", "bm25", "--answering-model", "none", "--display", "none")


def write(folder: Path, *, metrics: str = "[accuracy]", evaluation: str = "{method: exact-match}") -> Path:
    path = folder / "configs" / "benchmarks" / "b.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(
        'name: b\nversion: "1"\ndata: {type: local, path: ./b.jsonl}\n'
        "schema: {itemId: id, question: q, answer: a, context: {field: c, type: string}, metadata: {team: t}}\n"
        f"evaluation: {evaluation}\nmetrics: {metrics}\n"
    )
    (path.parent / "b.jsonl").write_text('{"id": "1", "q": "q", "a": "a", "c": "c", "t": "red"}\n')
    (path.parent / "mine.py").write_text("class Other: ...\n")
    return path


def test_notes_on_shipped_configs_are_grouped_by_kind_and_complete_in_json(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path)
    done = bench("validate")
    notes = [line for line in done.stderr.splitlines() if line.startswith("note: ")]
    assert len(notes) < 10 and sum("shipped configs: the data is not on disk (" in line for line in notes) == 1
    assert len(json.loads(bench("validate", "--json").stdout)["notes"]) > 30, "JSON has each"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"metrics": "[{name: ndcg_at_10, config: {gian: 1}}]"}, '6:11: metric "ndcg_at_10" has no parameter "gian"'),
        ({"metrics": "[{name: ndcg_at_10, config: {gain: cubic}}]"}, "6:11: metric \"ndcg_at_10\": gain = 'cubic'"),
        ({"metrics": "[{name: accuracy, method: nope}]"}, '6:11: metric "accuracy": unknown method "nope"'),
        ({"metrics": "[{name: accuracy, breakdown: [tema]}]"}, '6:11: metric "accuracy": unknown breakdown "tema"'),
        ({"metrics": "[recall_at_5, {name: recall_at_5, config: {variant: all}}]"}, "is requested twice"),
        ({"metrics": "[{name: m, method: custom, evaluator: './mine.py:Mine'}]"}, "6:11: ./mine.py:Mine: mine.py has"),
        ({"evaluation": "{method: custom, customEvaluator: './mine.py:Mine'}"}, "5:30: ./mine.py:Mine: mine.py has"),
        ({"evaluation": "{method: exact-match, pack: nope@1}"}, "nope@1"),
        (
            {"evaluation": "{method: exact-match, pack: longmemeval@1}"},
            '5:14: "evaluation.method" is fixed by the pack',
        ),
        ({"evaluation": "{method: llm-judge, pack: longmemeval@1, judgePrompts: {default: x}}"}, "is fixed by"),
        ({"evaluation": "{method: exact-match}\noverlay: gone"}, "6:1: there is no overlay overlays/gone.yaml"),
    ],
)
def test_validate_and_run_report_the_same_error(
    bench: Bench, tmp_path: Path, written: dict[str, str], message: str
) -> None:
    path = write(tmp_path, **written)
    refused = bench(*RUN, check=2).stderr
    assert message in refused
    assert refused.splitlines()[0] in bench("validate", str(path), check=2).stderr


def test_each_invalid_metric_is_reported_once(bench: Bench, tmp_path: Path) -> None:
    metrics = "[acuracy, {name: ndcg_at_10, config: {gian: 1}}, {name: m, method: custom, evaluator: ./no.py:No}]"
    errors = json.loads(bench("validate", str(write(tmp_path, metrics=metrics)), "--json", check=2).stdout)["errors"]
    assert sorted(error["where"].rpartition("b.yaml:")[2] for error in errors) == ["6:11", "6:20", "6:85"]


def test_invalid_metrics_are_reported_together_with_other_errors_of_the_file(bench: Bench, tmp_path: Path) -> None:
    metrics = "[acuracy, {nme: mrr}, {name: ndcg_at_10, config: {gian: 1}}, {name: mrr, breakdown: x}, map]\ntagz: [x]"
    path = write(tmp_path, metrics=metrics)
    errors = json.loads(bench("validate", str(path), "--json", check=2).stdout)["errors"]
    assert sorted((error["where"].rpartition("b.yaml:")[2], error["message"]) for error in errors) == [
        ("6:11", 'unknown metric "acuracy"; did you mean "accuracy", "accuracy_macro" or "memory_accuracy"?'),
        ("6:20", 'missing field "name" in metrics[1]'),
        ("6:21", 'unknown field "nme" in metrics[1]; did you mean "name"?'),
        ("6:32", 'metric "ndcg_at_10" has no parameter "gian"'),
        ("6:83", 'metrics[3].breakdown must be a list, not "x"'),
        ("7:1", 'unknown field "tagz"; did you mean "tags"?'),
    ]


@pytest.mark.parametrize("text", ["- a\n", "name: [\n", "metrics: 5\n", "metrics: [5, null]\n"])
def test_a_file_without_a_readable_list_of_metrics_gets_no_metric_error(
    bench: Bench, tmp_path: Path, text: str
) -> None:
    path = write(tmp_path)
    path.write_text(text)
    assert 'metric "' not in bench("validate", str(path), check=2).stderr


def test_a_prompt_field_that_no_item_has_is_reported_if_the_data_exists(bench: Bench, tmp_path: Path) -> None:
    prompt = "{method: exact-match, answerPrompt: {default: '${speakerA} ${question}'}}"
    path = write(tmp_path, evaluation=prompt)
    text = 'the answer prompt "default" needs ${speakerA}, which no item of b has'
    refused = bench(*RUN, check=2).stderr
    assert f"b.yaml:5:50: {text}" in refused
    assert refused.splitlines()[0] in bench("validate", str(path), check=2).stderr
    (path.parent / "b.jsonl").unlink()
    assert text not in bench("validate", str(path), check=None).stderr


def test_the_config_of_a_custom_evaluator_is_passed_to_it_and_validated(bench: Bench, tmp_path: Path) -> None:
    metrics = "[accuracy, {name: strictly, method: custom, evaluator: './mine.py:Mine', config: {strict: true}}]"
    path = write(tmp_path, metrics=metrics)
    (path.parent / "mine.py").write_text(
        "from bench.model import Verdict\n\n\nclass Mine:\n"
        "    def __init__(self, strict=False):\n        self.strict = strict\n\n"
        "    async def evaluate(self, item, answer, hits, judge):\n"
        "        return Verdict(evaluator='mine', value=0.25 if self.strict else 1.0, correct=False)\n"
    )
    run = (
        "run",
        "--benchmarks",
        "b",
        "--providers",
        "bm25",
        "--answering-model",
        "builtin/extractive",
        "--display",
        "none",
    )
    bench(*run, "--run-id", "r")
    (job,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert job["metrics"]["strictly"]["value"] == 0.25
    path.write_text(path.read_text().replace("strict:", "stirct:"))
    refused = bench("validate", str(path), check=2).stderr
    assert "b.yaml:6:21: evaluator ./mine.py:Mine does not accept its parameters: " in refused and "stirct" in refused


def test_validate_accepts_breakdowns_and_metrics_that_a_run_accepts(bench: Bench, tmp_path: Path) -> None:
    metrics = "[{name: accuracy, breakdown: [category, team, group]}, semantic_similarity, accuracy.llm_judge]"
    path = write(tmp_path, metrics=metrics)
    assert "1 config checked, 0 with errors" in bench("validate", str(path)).stdout
    bench("plan", "--benchmarks", path.stem, "--judge-model", "none", "--embedding-model", "ollama/nomic")


@pytest.mark.parametrize(("method", "pack"), [("llm-judge", "longmemeval@1"), ("locomo-f1", "locomo@1")])
def test_a_config_can_name_a_pack_with_the_method_of_that_pack(
    bench: Bench, tmp_path: Path, method: str, pack: str
) -> None:
    bench("validate", str(write(tmp_path, evaluation=f"{{method: {method}, pack: {pack}}}")))
    bench(*RUN, "--run-id", "r")
    assert pack in bench("describe", "b", "--json").stdout


def test_validate_checks_the_overlay_against_the_data(bench: Bench, tmp_path: Path) -> None:
    path = write(tmp_path, evaluation="{method: exact-match}\noverlay: doubts")
    digest = hashlib.sha256((path.parent / "b.jsonl").read_bytes()).hexdigest()
    overlay = path.parent / "overlays" / "doubts.yaml"
    overlay.parent.mkdir()
    for item, code in (("1", 0), ("9", 2)):
        listed = f'items: [{{id: "{item}", kind: wrong, note: n}}]'
        overlay.write_text(f'benchmark: b\ndataset_sha256: "{digest}"\nsource: ours\n{listed}\n')
        done = bench("validate", str(path), check=code)
        assert ('b has no item "9"' in done.stderr) == (code == 2)


def test_validate_resolves_a_path_against_the_workspace(bench: Bench, tmp_path: Path) -> None:
    write(tmp_path / "elsewhere")
    done = bench("--workspace", "elsewhere", "validate", "configs/benchmarks/b.yaml")
    assert "1 config checked, 0 with errors" in done.stdout


STRING = "{field: c, type: string}"
TALKS = [{"title": "Tea", "lines": ["green", "black"]}]
LISTED = "{field: c, type: array, session: {id: title, turns: '$.lines[*]'}, itemSchema: {content: $}}"
POINTS = "{method: rubric-points, judge: {model: openai/j}}"


def described(folder: Path, context: str, rows: list[dict[str, object]], evaluation: str, more: str = "") -> Path:
    """Write the benchmark with another history, other rows and more config keys."""
    path = write(folder, evaluation=f"{evaluation}\n{more}")
    path.write_text(path.read_text().replace(STRING, context))
    base = {"q": "q", "a": "a", "t": "red"}
    texts = [json.dumps(base | {"id": str(at)} | row) for at, row in enumerate(rows)]
    (path.parent / "b.jsonl").write_text("\n".join(texts))
    return path


@pytest.mark.parametrize(
    ("template", "missing"),
    [
        ("${title}: ${session|lines:'${text}'}", []),
        ("${topic|default:'${place}'} ${session.map(turn => `${turn.text}`).join('\\n')}", ["topic"]),
        ("${metadata.team|default:'${place}'} ${session}", []),
    ],
)
def test_only_names_that_a_session_template_inserts_are_looked_up(
    bench: Bench, tmp_path: Path, template: str, missing: list[str]
) -> None:
    more = f"ingestion: {{preprocessing: {{formatTemplate: {json.dumps(template)}}}}}"
    path = described(tmp_path, LISTED, [{"c": TALKS}], "{method: exact-match}", more)
    notes = json.loads(bench("validate", str(path), "--json").stdout)["notes"]
    assert [note.split('"')[1] for note in notes if "no session has this field" in note] == missing


@pytest.mark.parametrize(
    ("context", "history", "message"),
    [
        (LISTED, TALKS, 'ingestion.chunk has no effect: with "type: array"'),
        ("{field: c, type: session, itemSchema: {content: $}}", ["x"], 'with "type: session"'),
        ("{field: c, type: array, itemSchema: {content: w}}", [[{"w": "x"}]], "no history is a text or a list of"),
        (STRING, "A text. Another text.", ""),
        ("{field: c, type: array}", ["A text. Another text."], ""),
    ],
)
def test_a_chunk_size_without_a_text_to_cut_is_an_error(
    bench: Bench, tmp_path: Path, context: str, history: object, message: str
) -> None:
    more = "ingestion: {mode: incremental, chunk: {words: 2}}"
    path = described(tmp_path, context, [{"c": history}], "{method: exact-match}", more)
    if not message:
        bench("validate", str(path))
        assert json.loads(bench("describe", "b", "--json").stdout)["memories"] == 2
        return
    refused = bench("validate", str(path), check=2).stderr
    assert "b.yaml:6:32: " in refused and message in refused
    assert bench(*RUN, check=2).stderr.splitlines()[0] in refused


@pytest.mark.parametrize(
    ("evaluation", "message"),
    [
        (POINTS, '4:1: method "rubric-points" needs "rubric" in "schema"'),
        ("{method: llm-judge, methods: {x: order-agreement}}", 'method "order-agreement" needs "rubric" in "schema"'),
        ("{method: code-correctness}", 'method "code-correctness" needs "tests" in "schema.metadata"'),
        ("{method: exact-match, methodsBy: choices}", "5:35: evaluation.methodsBy has no effect without methods"),
    ],
)
def test_a_config_with_which_an_evaluator_cannot_score_any_item_is_an_error(
    bench: Bench, tmp_path: Path, evaluation: str, message: str
) -> None:
    path = described(tmp_path, STRING, [{"c": "x"}], evaluation)
    refused = bench("validate", str(path), check=2).stderr
    assert message in refused
    assert bench(*RUN, check=2).stderr.splitlines()[0] in refused


@pytest.mark.parametrize(
    ("rubrics", "note"),
    [
        ([["tea"], ["hot"]], ""),
        ([["tea"], [], None, ["hot"]], '2 of 4 items have no rubric, so method "rubric-points" cannot score them'),
        ([["tea"], None], '1 of 2 items has no rubric, so method "rubric-points" cannot score it'),
    ],
)
def test_items_without_a_rubric_are_counted(
    bench: Bench, tmp_path: Path, rubrics: list[list[str] | None], note: str
) -> None:
    path = described(tmp_path, f"{STRING}, rubric: r", [{"c": "x", "r": one} for one in rubrics], POINTS)
    notes = "\n".join(json.loads(bench("validate", str(path), "--json").stdout)["notes"])
    assert note in notes and ("no rubric" in notes) is bool(note)
    (path.parent / "b.jsonl").write_text('{"id": "1", "q": "q", "a": "a", "c": "x", "r": []}\n')
    refused = bench("validate", str(path), check=2).stderr
    assert 'b.yaml:4:81: method "rubric-points" needs a rubric, but no item has one' in refused
    assert bench(*RUN, check=2).stderr.splitlines()[0] in refused
