"""Official scoring methods in whole runs with a stub judge: points, orders, labels, audits, letters, sentences."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.reality.chat_stub import Reply, Stub, completion, serving

Bench = Callable[..., Any]
Serve = Callable[[Callable[[str], object]], Stub]
TURNS = "context: {field: talk, type: session, itemSchema: {role: role, content: content, id: n}}"
ROWS = [
    {
        "id": name,
        "talk": [{"n": f"{name}1", "role": "user", "content": "I keep bees.\nI moved to Tolle in May."},
                 {"n": f"{name}2", "role": "user", "content": "The honey was dark this year."}],
        "q": "What does she keep?", "a": "bees", "kind": kind, "rubric": rubric, "options": options, "right": right,
        "quotes": ["I moved to  Tolle in May.", "It rained."],
        "points": [{"text": "keeps bees", "source": "primary"}, {"text": "lives in Tolle", "source": "primary"},
                   {"text": "hates honey", "source": "interference"}],
    }
    for name, kind, rubric, options, right in (
        ("x", "fact", ["says bees", "says Tolle"], None, None),
        ("y", "order", ["kept bees", "moved", "honey"], ["(a) cats", "(b) bees"], "b"),
    )
]  # fmt: skip


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Start a model that answers ``reply(prompt)``; other values than texts are sent as JSON."""
    with ExitStack() as stack:

        def start(reply: Callable[[str], object]) -> Stub:
            def answered(body: dict[str, Any]) -> Reply:
                answer = reply(str(body["messages"][-1]["content"]))
                return completion(answer if isinstance(answer, str) else json.dumps(answer))

            stub = stack.enter_context(serving(answered))
            folder = tmp_path / "configs/models"
            folder.mkdir(parents=True, exist_ok=True)
            file = {"name": "local", "dialect": "openai", "base_url": stub.url, "auth": {"type": "none"}}
            (folder / "local.yaml").write_text(json.dumps(file))
            return stub

        yield start


@pytest.fixture
def metrics_of(bench: Bench, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run a benchmark of the rows and return its metrics by name."""

    def run(schema: str, rest: str, *flags: str) -> dict[str, Any]:
        (tmp_path / "configs/benchmarks").mkdir(parents=True, exist_ok=True)
        (tmp_path / "rows.json").write_text(json.dumps(ROWS))
        (tmp_path / "configs/benchmarks/b.yaml").write_text(
            'name: b\nversion: "1"\ndata: {type: local, path: ./rows.json}\n'
            f"schema:\n  itemId: id\n  question: q\n  {TURNS}\n  metadata: {{questionType: kind}}\n{schema}"
            f"ingestion: {{mode: incremental}}\n{rest}"
        )
        bench("run", "-q", "--benchmarks", "b", "--providers", "bm25", "--run-id", "r", *flags)
        return metrics("r")

    def metrics(run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(bench("results", run_id, "--json").stdout)["jobs"][0]
        return {name: one["value"] for name, one in found["metrics"].items()} | {"job": found}

    return run


BOTH = ("--answering-model", "local/m", "--judge-model", "local/j")
JUDGE_ONLY = ("--judge-model", "local/j")


def graded(prompt: str) -> object:
    if "<point>" in prompt:
        return {"score": 0.5 if "Tolle" in prompt.partition("<point>")[2][:20] else 1, "reasoning": "so"}
    if "<events>" in prompt:
        return {"order": [1, 3, 2], "reasoning": "so"}
    return "She keeps bees."


RUBRIC = """\
evaluation: {method: rubric-points, methods: {order: order-agreement}}
metrics: [correctness, correctness_floored, correctness.order_agreement, order_agreement]
"""


def test_rubric_points_give_correctness_floored_correctness_and_order_agreement(
    serve: Serve, metrics_of: Callable[..., dict[str, Any]]
) -> None:
    stub = serve(graded)
    found = metrics_of("  rubric: rubric\n", RUBRIC, *BOTH)
    assert found["correctness"] == pytest.approx((0.75 + 2 / 3) / 2)
    assert found["correctness_floored"] == pytest.approx((0.5 + 2 / 3) / 2)
    assert found["order_agreement"] == found["correctness.order_agreement"] == pytest.approx(2 / 3)
    assert len(stub.asked) == 2 + 2 + 1, "two answers, one call per point, one for the order"


def test_rescore_of_rubric_points_uses_the_stored_replies_without_calls(
    serve: Serve, metrics_of: Callable[..., dict[str, Any]], bench: Bench
) -> None:
    stub = serve(graded)
    metrics_of("  rubric: rubric\n", RUBRIC, *BOTH)
    calls = len(stub.asked)
    bench("rescore", "r", "--metrics", "correctness", "--metrics", "correctness_floored")
    again = json.loads(bench("results", "r", "--json").stdout)["jobs"][0]["metrics"]
    assert again["correctness"]["value"] == pytest.approx((0.75 + 2 / 3) / 2)
    assert len(stub.asked) == calls


def test_the_plan_counts_one_judge_call_per_rubric_point(
    serve: Serve, metrics_of: Callable[..., dict[str, Any]], bench: Bench
) -> None:
    serve(graded)
    metrics_of("  rubric: rubric\n", "evaluation: {method: rubric-points}\nmetrics: [correctness]\n", *BOTH)
    plan = json.loads(bench("plan", "--benchmarks", "b", "--providers", "bm25", *BOTH, "--json").stdout)
    assert {one["endpoint"]: one["calls"] for one in plan["endpoints"]}["local/j.judge"] == 5


LABELED = """\
evaluation:
  method: labels
  labels: {correct: 1, partly: 0.5, omission: 0}
  judgePrompts: {default: "QUOTED Label it, as JSON. ${%s}"}
metrics: [correctness, label_share.partly, label_share.omission]
"""


def test_labels_give_correctness_and_label_shares(serve: Serve, metrics_of: Callable[..., dict[str, Any]]) -> None:
    serve(lambda prompt: {"label": "Partly", "reasoning": "so"} if "QUOTED" in prompt else "Bees, I think.")
    found = metrics_of("  answer: a\n", LABELED % "response", *BOTH)
    assert (found["correctness"], found["label_share.partly"], found["label_share.omission"]) == (0.5, 1, 0)


def test_labels_can_judge_the_retrieved_evidence_without_an_answer(
    serve: Serve, metrics_of: Callable[..., dict[str, Any]]
) -> None:
    stub = serve(lambda prompt: {"label": "omission", "reasoning": "so"})
    found = metrics_of("  answer: a\n", LABELED % "evidence", *JUDGE_ONLY)
    assert (found["correctness"], found["label_share.omission"]) == (0, 1)
    assert "I keep bees." in stub.asked[0]["messages"][-1]["content"]


AUDITED = """\
evaluation: {method: memory-audit}
requiredCapabilities: [add_memory, retrieve_memory, list_memories]
metrics: [memory_recall, memory_recall_partial, memory_accuracy, memory_target_accuracy, memory_f1]
"""
POINTS = "  rubric: {from: points, text: text, where: {source: {not: interference}}}\n"


def audited(prompt: str) -> object:
    if "<fact>" in prompt:
        assert "I keep bees." in prompt and "The honey was dark" in prompt
        return {"score": 1 if "bees" in prompt.partition("<fact>")[2][:20] else 0.5, "reasoning": "so"}
    bees = "bees" in prompt.partition("<memory>")[2]
    return {"score": 1 if bees else 0, "expected": bees, "reasoning": "so"}


def test_a_memory_audit_scores_the_memories_that_the_provider_lists(
    serve: Serve, metrics_of: Callable[..., dict[str, Any]], bench: Bench
) -> None:
    stub = serve(audited)
    found = metrics_of(POINTS, AUDITED, *JUDGE_ONLY)
    wanted = {
        "memory_recall": 0.5, "memory_recall_partial": 0.75, "memory_accuracy": 0.5, "memory_target_accuracy": 1,
        "memory_f1": 2 / 3,
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == pytest.approx(wanted)
    assert len(stub.asked) == 2 * (2 + 2), "two points and two memories per item, without the interference"
    bench("rescore", "r")
    assert len(stub.asked) == 8, "the listing is in the journal, and so are the replies"


def test_a_memory_audit_of_a_provider_without_list_memories_is_refused(
    serve: Serve, metrics_of: Callable[..., dict[str, Any]], bench: Bench
) -> None:
    serve(audited)
    metrics_of(POINTS, AUDITED, *JUDGE_ONLY)
    error = bench("run", "--benchmarks", "b", "--providers", "no-memory", *JUDGE_ONLY, check=2).stderr
    assert "b needs list_memories, no-memory does not have it" in error


def test_items_with_options_are_scored_by_letter_and_others_by_the_default_method(
    serve: Serve, metrics_of: Callable[..., dict[str, Any]]
) -> None:
    stub = serve(lambda prompt: "(b) bees" if "Options:" in prompt else "bees")
    rest = "evaluation: {method: contains, methodsBy: choices, methods: {present: mcq}}\n"
    names = "metrics: [accuracy, choice_letter.exact, choice_letter.only]\n"
    found = metrics_of("  answer: a\n  choices: options\n  choiceAnswer: right\n", rest + names, *BOTH[:2])
    assert (found["accuracy"], found["choice_letter.exact"], found["choice_letter.only"]) == (1, 0, 1)
    assert found["job"]["metrics"]["choice_letter.only"]["n"] == 1
    assert sum("Options:" in body["messages"][-1]["content"] for body in stub.asked) == 1


def test_a_hit_counts_as_the_evidence_sentences_that_its_text_contains(
    serve: Serve, metrics_of: Callable[..., dict[str, Any]], bench: Bench
) -> None:
    rest = "evidence: {textsField: quotes}\nevaluation: {method: none, granularity: text}\n"
    found = metrics_of("", rest + "metrics: [hit_at_10, recall_fraction_at_10, mrr_at_10]\n")
    assert found["hit_at_10"] == 1, "white space aside"
    assert found["recall_fraction_at_10"] == 0.5, "no memory contains that it rained"
    bench("run", "-q", "--benchmarks", "b", "--providers", "oracle", "--run-id", "o")
    best = json.loads(bench("results", "o", "--json").stdout)["jobs"][0]["metrics"]
    assert (best["mrr_at_10"]["value"], best["recall_fraction_at_10"]["value"]) == (1, 0.5)


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("evaluation: {method: labels}\n", 'method "labels" needs the key "labels"'),
        ("evaluation: {method: labels, labels: {good: 2}}\n", "expected a number from 0 to 1, got 2"),
        ("evaluation: {method: contains, methodsBy: choice, methods: {a: mcq}}\n", 'methodsBy "choice" is unknown'),
        ("evaluation: {method: contains, methods: {a: judge}}\n", "judge"),
    ],
)
def test_an_invalid_evaluation_config_is_refused_with_its_place(
    tmp_path: Path, bench: Bench, rest: str, message: str
) -> None:
    path = tmp_path / "configs/benchmarks/b.yaml"
    path.parent.mkdir(parents=True)
    (tmp_path / "rows.json").write_text(json.dumps(ROWS))
    path.write_text(
        'name: b\nversion: "1"\ndata: {type: local, path: ./rows.json}\n'
        f"schema: {{itemId: id, question: q, answer: a, {TURNS}}}\n{rest}"
    )
    done = bench("validate", str(path), check=2)
    assert message in done.stdout + done.stderr
    assert "b.yaml:5:" in done.stdout + done.stderr
