"""Answers: the finish reason decides before the text, and a missing text is neither correct nor incorrect."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.reality.chat_stub import Reply, Stub, completion, delta, events, serving

Bench = Callable[..., Any]
FACTS = [
    ("m1", "Tove keeps the spare key under the blue pot.", "Where does Tove keep the spare key?", "under the blue pot"),
    ("m2", "The cat of Tove is called Pelle.", "What is Tove's cat called?", "Pelle"),
    ("m3", "Tove moved to Umea in 2019.", "To which town did Tove move in 2019?", "Umea"),
    ("m4", "Tove sings alto in the harbour choir.", "Which voice does Tove sing?", "alto"),
]
MANIFEST = {
    "manifest_version": "1",
    "version": "1",
    "data_file": "data.jsonl",
    "ingestion": {"strategy": "simple", "content_field": "content", "corpus_field": "line", "evidence_field": "gold"},
    "query": {"question_field": "question", "expected_answer_field": "answer", "retrieval_limit": 3},
    "evaluation": {"protocol": "exact-match"},
    "required_capabilities": ["add_memory", "retrieve_memory"],
}
JUDGED = """\
name: judged
version: "1"
data: {type: local, path: ./judged.jsonl, format: jsonl}
schema:
  itemId: id
  context: {field: sessions, type: array, itemSchema: {role: $.role, content: $.content}}
  questions: {field: qa, questionField: q, answerField: a, idField: id}
ingestion: {mode: session-based}
metrics: [accuracy]
evaluation:
  method: llm-judge
"""
ALL = "<think>\nIs it: under the blue pot, Pelle, Umea, alto? No, none of these.\n</think>\n\nIn the red drawer."


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Four questions (``mini``), of which two cannot be answered in ``abst``."""
    for name, extra in (("mini", {"metrics": ["contains_match", "token_f1"]}), ("abst", {"metrics": ["accuracy"]})):
        folder = tmp_path / "configs" / "benchmarks" / name
        folder.mkdir(parents=True)
        own = {"abstention": {"idPattern": "_abs$"}} if name == "abst" else {}
        (folder / "manifest.json").write_text(json.dumps({**MANIFEST, "name": name, **extra, **own}))
        rows = [
            {
                "id": f"{key}_abs" if name == "abst" and at >= 2 else key,
                "line": "a",
                "content": content,
                "question": question,
                "answer": answer,
                "gold": [f"{key}_abs" if name == "abst" and at >= 2 else key],
            }
            for at, (key, content, question, answer) in enumerate(FACTS)
        ]
        (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sessions = [[{"role": "user", "content": content}] for _, content, _, _ in FACTS]
    questions = [{"id": key, "q": question, "a": answer} for key, _, question, answer in FACTS]
    (tmp_path / "judged.jsonl").write_text(json.dumps({"id": "a", "sessions": sessions, "qa": questions}) + "\n")
    return tmp_path


Serve = Callable[..., Stub]


@pytest.fixture
def serve(workspace: Path) -> Iterator[Serve]:
    """Start an endpoint with the prefix ``local``; its reply is a function of the request body."""
    with ExitStack() as stack:

        def start(
            reply: Reply | Callable[[dict[str, Any]], Reply], dialect: str = "openai", **settings: object
        ) -> Stub:
            stub = stack.enter_context(serving(reply if callable(reply) else lambda _: reply))
            folder = workspace / "configs" / "models"
            folder.mkdir(parents=True, exist_ok=True)
            url = stub.url if dialect == "openai" else stub.url.removesuffix("/v1")
            file = {"name": "local", "dialect": dialect, "base_url": url, "auth": {"type": "none"}, "models": settings}
            (folder / "local.yaml").write_text(json.dumps(file))
            return stub

        yield start


@pytest.fixture
def job(bench: Bench, serve: Serve) -> Callable[..., dict[str, Any]]:
    """Run one benchmark with the answers of the endpoint; return its job with the exit code and the rows."""

    def run(*flags: str, benchmark: str = "mini", model: str = "local/m") -> dict[str, Any]:
        done = bench(
            "run", "--benchmarks", benchmark, "--providers", "bm25", "--answering-model", model, "--run-id", "r",
            "--concurrency", "1", *flags, check=None,
        )  # fmt: skip
        found: dict[str, Any] = json.loads(bench("results", "r", "--json", check=None).stdout)["jobs"][0]
        rows = [json.loads(line) for line in bench("export", "r").stdout.splitlines()]
        return {**found, "exit": done.returncode, "shown": done.stdout + done.stderr, "rows": rows}

    return run


Job = Callable[..., dict[str, Any]]
Endpoint = Callable[[dict[str, Any]], Reply]


def own(replies: Sequence[Reply], usual: Reply | None = None) -> Endpoint:
    """Return a reply for each question, in order, and the usual one (default: the last) for the other questions."""
    rest = replies[-1] if usual is None else usual
    of_question = {question: replies[at] if at < len(replies) else rest for at, (*_, question, _) in enumerate(FACTS)}
    return lambda body: next(one for question, one in of_question.items() if question in str(body))


def parts(cases: Sequence[Any], size: int = len(FACTS)) -> list[Sequence[Any]]:
    """Return groups of cases that share a run, one case per question."""
    return [cases[at : at + size] for at in range(0, len(cases), size)]


def by_question(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows in the order of the questions."""
    rows = {row["question"]: row for row in job["rows"]}
    return [rows[question] for *_, question, _ in FACTS]


def note(job: Mapping[str, Any], words: str) -> bool:
    return any(words in text for text in job["notes"])


# ------------------------------------------------------------------------ reasoning


THOUGHTS = [
    ALL,
    ALL.replace("think>", "THINKING >").replace("</THINKING >", "</ThInKiNg>"),
    ALL.replace("<think>", '<reasoning effort="high">').replace("</think>", "</reasoning>"),
    ALL.replace("<think>", "◁think▷").replace("</think>", "◁/think▷"),
    ALL.removeprefix("<think>"),
    ALL.replace("<think>", "Thinking...").replace("</think>", "...done thinking."),
    ALL.replace("<think>", "<|thinking|>").replace("</think>", "<|/thinking|>"),
]


@pytest.mark.parametrize("texts", parts(THOUGHTS))
def test_reasoning_in_the_text_is_not_scored_and_is_exported(serve: Serve, job: Job, texts: Sequence[str]) -> None:
    serve(own([completion(text) for text in texts]))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 0 and found["metrics"]["contains_match"]["n"] == 4
    assert {row["answer"] for row in found["rows"]} == {"In the red drawer."}
    assert {row["raw_answer"] for row in found["rows"]} == set(texts)


def test_reasoning_in_its_own_field_is_not_scored_and_is_exported(serve: Serve, job: Job) -> None:
    serve(completion("Pelle", reasoning_content="under the blue pot"))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 0.25
    assert {row["reasoning"] for row in found["rows"]} == {"under the blue pot"}


def test_a_truncated_reasoning_block_is_a_truncated_error(serve: Serve, job: Job) -> None:
    serve(completion("<think>\nThe memories speak of: under the blue pot, Pelle, Umea, alto. Let me", "length"))
    found = job()
    assert found["error_kinds"] == {"truncated": 4} and not found["valid"] and found["exit"] == 4


# --------------------------------------------------------------------------- finish


@pytest.mark.parametrize("benchmark", ["mini", "abst"])
def test_an_empty_answer_at_the_token_limit_is_a_truncated_error(serve: Serve, job: Job, benchmark: str) -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 1024}}
    usage = {"prompt_tokens": 200, "completion_tokens": 1024, "total_tokens": 1224, **details}
    serve(completion("", "length", usage=usage, reasoning_content="Let me think"))
    found = job(benchmark=benchmark)
    assert found["error_kinds"] == {"truncated": found["n_planned"]} and found["n_scored"] == 0
    assert note(found, "raise --max-answer-tokens")
    for row in found["rows"]:
        facts = {name: row[name] for name in ("state", "finish", "truncated", "reasoning_tokens", "correct")}
        assert facts == {
            "state": "error", "finish": "length", "truncated": True, "reasoning_tokens": 1024, "correct": None,
        }  # fmt: skip


def test_a_truncated_answer_with_text_is_scored_and_noted(serve: Serve, job: Job, bench: Bench) -> None:
    serve(completion("It is Pelle and", "length"))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 0.25 and found["valid"]
    assert note(found, "4 answers cut at the token limit and scored as sent")
    assert "4 answers cut at the token limit" in found["shown"]
    rows = csv.DictReader(bench("export", "r", "--format", "csv").stdout.splitlines())
    assert [row["finish"] for row in rows] == ["length"] * 4


def test_an_answer_that_filled_the_context_window_is_noted_with_its_own_remedy(serve: Serve, job: Job) -> None:
    serve(completion("It is Pelle and", "model_context_window_exceeded"))
    found = job()
    assert note(found, "4 answers cut because the model's context window was full")
    assert not note(found, "raise --max-answer-tokens")


NO_ANSWERS = [
    (completion(None, "tool_calls", tool_calls=[{"id": "c", "function": {"name": "search"}}]), "no_answer"),
    (completion("Let me look", "stop", tool_calls=[{"id": "c", "function": {"name": "search"}}]), "no_answer"),
    (completion(None, "function_call", function_call={"name": "search"}), "no_answer"),
    (completion("", "weird"), "no_answer"),
    (completion("", None), "no_answer"),
    (completion(None, "max_tokens"), "truncated"),
    (completion("<think>Pelle, alto"), "no_answer"),
    (completion("<think>Pelle, alto</think>"), "no_answer"),
    (completion("", reasoning_content="Pelle, alto"), "no_answer"),
    (completion(" \n", reasoning="I do not know"), "no_answer"),
    (completion(None, reasoning_text="Pelle, alto"), "no_answer"),
]


@pytest.mark.parametrize("first", range(0, len(NO_ANSWERS), len(FACTS)))
@pytest.mark.parametrize("benchmark", ["mini", "abst"])
def test_a_reply_without_an_answer_is_an_error_that_names_the_finish_reason(
    serve: Serve, job: Job, first: int, benchmark: str
) -> None:
    """Send a different kind of reply for each question."""
    replies = {question: one for (*_, question, _), one in zip(FACTS, NO_ANSWERS[first:], strict=False)}

    def reply(body: dict[str, Any]) -> Reply:
        text = body["messages"][-1]["content"]
        return next((one for question, (one, _) in replies.items() if question in text), completion("Pelle"))

    serve(reply)
    rows = {row["question"]: row for row in job(benchmark=benchmark)["rows"]}
    for question, (_, kind) in replies.items():
        assert rows[question]["error"]["kind"] == kind and "finish" in rows[question]["error"]["message"]


def test_an_answer_with_an_unknown_finish_reason_is_scored_and_noted(serve: Serve, job: Job) -> None:
    serve(completion("Pelle", "some_new_reason"))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 0.25
    assert note(found, "4 answers with a finish reason that does not mean a complete answer")


def broken(error: object, finish: str | None = "error", content: str = "") -> dict[str, Any]:
    tree = completion(content, finish)
    tree["choices"][0]["error"] = error
    return tree


ERRORS = [
    (broken({"code": 502, "message": "Upstream went away"}), "unavailable", 2),
    (broken(None), "unavailable", 2),
    ({"error": {"code": 400, "message": "bad"}}, "rejected", 1),
    (broken({"code": 502, "message": "gone"}, content="Pel"), "unavailable", 2),
    ({**completion(""), "error": {"code": 503, "message": "no capacity"}}, "unavailable", 2),
    ({"object": "error", "message": "out of memory", "code": 500}, "unavailable", 2),
]


@pytest.mark.parametrize("cases", parts(ERRORS, 3))
def test_an_error_inside_a_reply_has_the_kind_that_its_code_means(serve: Serve, job: Job, cases: Sequence[Any]) -> None:
    stub = serve(own([reply for reply, _, _ in cases], completion("Pelle")))
    rows = by_question(job())
    for (*_, question, _), row, (_, kind, calls) in zip(FACTS, rows, cases, strict=False):
        assert row["error"]["kind"] == kind, row
        assert sum(question in str(body) for body in stub.asked) >= calls


FILTERED: list[Reply] = [
    (400, {"error": {"code": "content_filter", "message": "filtered", "status": 400}}),
    (400, {"error": {"message": "x" * 600, "innererror": {"code": "ResponsibleAIPolicyViolation"}}}),
    (403, {"error": {"code": 403, "message": "Input flagged", "metadata": {"reasons": [], "flagged_input": "x"}}}),
    (400, {"error": {"message": "Output blocked by content filtering policy", "type": "invalid_request_error"}}),
    completion("", "content_filter"),
    broken({"code": "content_filter", "message": "filtered"}),
    {"error": {"code": "content_filter", "message": "filtered"}},
]


@pytest.mark.parametrize("replies", parts(FILTERED, 3))
def test_every_form_of_a_content_filter_reply_is_scored_as_a_refusal(
    serve: Serve, job: Job, replies: Sequence[Reply]
) -> None:
    serve(own(replies, completion("alto")))
    found = job()
    refused = len(replies)
    assert (found["metrics"]["contains_match"]["value"], found["metrics"]["contains_match"]["n"]) == (0.25, 4)
    assert note(found, f"{refused} answer{'s' * (refused > 1)} refused by the endpoint's filter")
    assert [row["finish"] for row in found["rows"]].count("refusal") == refused


@pytest.mark.parametrize(
    "reply", [completion("", "content_filter"), completion("", "stop"), completion(" ", "stop", reasoning_content="")]
)
def test_an_empty_or_filtered_answer_is_not_scored_as_an_abstention(
    serve: Serve, job: Job, reply: dict[str, Any]
) -> None:
    serve(reply)
    found = job(benchmark="abst")
    assert found["metrics"]["accuracy"]["value"] == 0


def test_bench_score_reads_external_answers_by_the_same_rules(workspace: Path, bench: Bench) -> None:
    rows = [
        {"item": "m1", "answer": ALL},
        {"item": "m2", "answer": "<think>Pelle"},
        {"item": "m3_abs", "answer": " "},
        {"item": "m4_abs", "answer": "<think>hm</think>I don't know."},
    ]
    path = workspace / "theirs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = bench("score", str(path), "--benchmark", "abst", "--json", check=None)
    (found,) = json.loads(done.stdout)["jobs"]
    assert found["counts"] == {"correct": 1, "error": 2, "incorrect": 1}
    assert found["error_kinds"] == {"no_answer": 2}


# --------------------------------------------------------------------- other dialects


def anthropic(*blocks: object, stop: str = "end_turn") -> dict[str, Any]:
    usage = {"input_tokens": 200, "output_tokens": 5}
    return {"type": "message", "model": "c", "content": list(blocks), "stop_reason": stop, "usage": usage}


def google(*parts: object, finish: str | None = "STOP") -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": list(parts)}, "finishReason": finish}], "modelVersion": "g"}


ENDS: list[tuple[str, Reply, str]] = [
    ("anthropic", anthropic({"type": "thinking", "thinking": "alto"}, stop="max_tokens"), "truncated"),
    ("anthropic", anthropic({"type": "tool_use", "name": "search", "input": {}}, stop="tool_use"), "no_answer"),
    ("anthropic", anthropic(stop="pause_turn"), "no_answer"),
    ("anthropic", anthropic(stop="refusal"), "refusal"),
    ("anthropic", anthropic({"type": "text", "text": "<thinking>alto</thinking>Pelle"}), "stop"),
    ("google", google(finish="MAX_TOKENS"), "truncated"),
    ("google", google({"text": "alto", "thought": True}, finish="MAX_TOKENS"), "truncated"),
    ("google", google(finish="SAFETY"), "refusal"),
    ("google", google(finish="RECITATION"), "refusal"),
    ("google", {"promptFeedback": {"blockReason": "OTHER"}}, "refusal"),
    ("google", google({"functionCall": {"name": "f"}}), "no_answer"),
    ("google", google(finish="MALFORMED_FUNCTION_CALL"), "no_answer"),
    ("google", google({"text": "alto", "thought": True}, {"text": "Pelle"}), "stop"),
]


@pytest.mark.parametrize(
    ("dialect", "cases"),
    [(name, part) for name in ("anthropic", "google") for part in parts([one for one in ENDS if one[0] == name])],
)
def test_finish_reasons_of_anthropic_and_google_map_to_the_same_outcomes(
    serve: Serve, job: Job, dialect: str, cases: Sequence[tuple[str, Reply, str]]
) -> None:
    serve(own([reply for _, reply, _ in cases]), dialect)
    for row, (_, _, outcome) in zip(by_question(job()), cases, strict=False):
        if outcome in ("truncated", "no_answer"):
            assert row["error"]["kind"] == outcome and row["state"] == "error"
        else:
            assert row["error"] is None and row["finish"] == outcome and "alto" not in row["answer"]


# ---------------------------------------------------------------------------- limits


def test_max_answer_tokens_is_sent_and_cannot_change_on_resume(serve: Serve, job: Job, bench: Bench) -> None:
    stub = serve(completion("Pelle"))
    job("--max-answer-tokens", "4000")
    assert {body["max_tokens"] for body in stub.asked} == {4000}
    changed = bench("resume", "r", "--max-answer-tokens", "5000", check=2)
    assert "max_answer_tokens" in changed.stderr


def test_a_fork_from_evaluate_with_another_max_answer_tokens_is_refused(serve: Serve, job: Job, bench: Bench) -> None:
    serve(completion("Pelle"))
    job("--max-answer-tokens", "4000")
    refused = bench("fork", "r", "--from", "evaluate", "--max-answer-tokens", "5000", check=2)
    assert "max-answer-tokens would change answers" in refused.stderr


def test_a_benchmark_config_sets_max_tokens_of_both_models(serve: Serve, workspace: Path, job: Job) -> None:
    stub = serve(completion("yes"))
    limits_of_both = "  answeringModel: {maxTokens: 77}\n  judge: {model: local/j, maxTokens: 5000}\n"
    (workspace / "configs/benchmarks/judged.yaml").write_text(JUDGED + limits_of_both)
    job(benchmark="judged")
    limits = {body["model"]: body["max_tokens"] for body in stub.asked}
    assert limits == {"m": 77, "j": 5000}


# ---------------------------------------------------------------------------- judges


def test_a_judge_with_reasoning_is_called_once_per_item_and_sees_no_reasoning(
    serve: Serve, workspace: Path, job: Job
) -> None:
    verdict = '<think>{"correctness": 0}</think>{"correctness": 1, "faithfulness": 1, "reasoning": "r"}'
    stub = serve(lambda body: completion(ALL if body["model"] == "m" else verdict))
    (workspace / "configs/benchmarks/judged.yaml").write_text(JUDGED + "  judge: {model: local/j}\n")
    found = job("--max-judge-tokens", "3000", benchmark="judged")
    judged = [body for body in stub.asked if body["model"] == "j"]
    assert len(judged) == 4 and found["counts"] == {"correct": 4}
    assert {body["max_tokens"] for body in judged} == {3000}
    assert not any("none of these" in body["messages"][0]["content"] for body in judged)


# ---------------------------------------------------------------------------- usage


@pytest.mark.parametrize("counts", [(50.5, -3, "many", True), (1e300, [1])])
def test_an_unreadable_usage_is_noted_and_the_answer_is_scored(
    serve: Serve, job: Job, counts: Sequence[object]
) -> None:
    serve(own([completion("Pelle", usage={"prompt_tokens": count, "completion_tokens": 3}) for count in counts]))
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 0.25 and found["exit"] == 0
    assert note(found, "the usage of 4 answers cannot be read")


def test_a_usage_of_zero_tokens_is_replaced_by_an_estimate(serve: Serve, job: Job) -> None:
    usages = [
        {"prompt_tokens": sent, "completion_tokens": received, "total_tokens": 253}
        for sent, received in ((0, 0), (250, 0), (0, 3))
    ]
    serve(own([completion("Pelle", usage=usage) for usage in usages]))
    assert all(row["tokens"]["answering"]["estimated"] for row in job()["rows"])


def test_a_usage_of_whole_floats_is_read(serve: Serve, job: Job) -> None:
    serve(completion("Pelle", usage={"prompt_tokens": 250.0, "completion_tokens": 3.0, "total_tokens": 253.0}))
    found = job()
    assert found["notes"] == [] or not note(found, "usage")
    assert {row["tokens"]["answering"]["input"] for row in found["rows"]} == {250}


def test_a_prompt_that_the_server_truncated_is_noted_and_flagged(serve: Serve, job: Job) -> None:
    serve(completion("Pelle", usage={"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}))
    found = job()
    assert note(found, "4 answers: on average, it counts 11 tokens") and note(found, "num_ctx")
    assert all("prompt_cut" in row["flags"] for row in found["rows"])


def test_a_prompt_is_cut_to_the_configured_context_of_the_model(serve: Serve, job: Job) -> None:
    stub = serve(completion("Pelle"), m={"context": 1024 + 90})
    job()
    sent = {len(body["messages"][0]["content"]) for body in stub.asked}
    assert max(sent) <= 4 * 91


def test_a_context_without_room_for_memories_is_refused_before_the_first_call(
    serve: Serve, workspace: Path, bench: Bench
) -> None:
    stub = serve(completion("Pelle"), m={"context": 1024 + 20})
    refused = bench("run", "--benchmarks", "mini", "--providers", "bm25", "--answering-model", "local/m", check=2)
    assert "the context of local/m (1044 tokens) has no room for memories" in refused.stderr
    assert "--max-answer-tokens" in refused.stderr and not stub.asked


def test_a_memory_that_is_cut_is_noted_and_is_not_evidence_for_the_reader(serve: Serve, job: Job, bench: Bench) -> None:
    serve(completion("wrong"))
    found = job("--context-budget", "1")
    assert note(found, "the best memory did not fit into the prompt of 4 answers")
    assert all("hit_cut" in row["flags"] for row in found["rows"])
    lost = json.loads(bench("failures", "r", "--json").stdout)
    assert "answer_wrong" not in json.dumps(lost) and "below_cut" in json.dumps(lost)


# ---------------------------------------------------------------------- settings of models


def test_body_fields_of_a_model_are_sent_and_cannot_change_on_resume(
    serve: Serve, workspace: Path, job: Job, bench: Bench
) -> None:
    stub = serve(completion("Pelle"), m={"body": {"chat_template_kwargs": {"a": 1}, "provider": {"order": ["x"]}}})
    (workspace / "run.yaml").write_text("models: {local/m: {body: {reasoning_effort: low}}}\n")
    job("--config", "run.yaml")
    assert {body["reasoning_effort"] for body in stub.asked} == {"low"}
    (workspace / "run.yaml").write_text("models: {local/m: {body: {reasoning_effort: high}}}\n")
    changed = bench("run", "--resume", "r", "--config", "run.yaml", check=2)
    assert "reasoning_effort" in changed.stderr


@pytest.mark.parametrize(
    "body", ["model: x", "messages: []", "stream: true", "max_tokens: 5", "generationConfig: {temperature: 1}", "n: 2"]
)
def test_a_reserved_request_field_cannot_be_set_in_body(serve: Serve, workspace: Path, bench: Bench, body: str) -> None:
    serve(completion("x"))
    (workspace / "run.yaml").write_text(f"benchmarks: [mini]\nmodels: {{local/m: {{body: {{{body}}}}}}}\n")
    refused = bench("run", "--config", "run.yaml", check=2)
    assert 'cannot be set in "body"' in refused.stderr


def test_settings_of_a_model_without_an_endpoint_are_refused(workspace: Path, bench: Bench) -> None:
    (workspace / "run.yaml").write_text("benchmarks: [mini]\nmodels: {nowhere/m: {stream: true}}\n")
    assert "does not begin with the prefix" in bench("run", "--config", "run.yaml", check=2).stderr


CHUNKS = [
    {**delta(""), "choices": [{"index": 0, "delta": {"role": "assistant", "reasoning_content": "hm"}}]},
    delta("Pel"),
    delta("le", "stop"),
    {"choices": [], "usage": {"prompt_tokens": 200, "completion_tokens": 3, "total_tokens": 203}},
]


def streamed(body: dict[str, Any]) -> Reply:
    if not body.get("stream"):
        return 400, {"error": {"message": "This model only support stream mode, please enable the stream parameter"}}
    return events(*CHUNKS)


@pytest.mark.parametrize("settings", [{"m": {"stream": True}}, {}])
def test_an_endpoint_that_only_streams_is_read_completely(serve: Serve, job: Job, settings: dict[str, Any]) -> None:
    stub = serve(streamed, **settings)
    found = job()
    assert found["metrics"]["contains_match"]["value"] == 0.25 and found["exit"] == 0
    assert {row["tokens"]["answering"]["input"] for row in found["rows"]} == {200}
    assert {row["reasoning"] for row in found["rows"]} == {"hm"}
    assert len([body for body in stub.asked if body.get("stream")]) == 4


CUT = [
    (events(delta("Pel"), done=False), "unavailable"),
    (events(delta("Pel"), '{"choices": [{"del', done=False), "unavailable"),
    (events(delta("Pel"), {"error": {"code": 502, "message": "gone"}}, done=False), "unavailable"),
    (events(delta("Pel"), {"error": {"code": 400, "message": "bad"}}), "rejected"),
]


@pytest.mark.parametrize("cases", parts(CUT, 2))
def test_a_stream_that_breaks_off_is_an_error_and_not_a_short_answer(
    serve: Serve, job: Job, cases: Sequence[Any]
) -> None:
    serve(own([stream for stream, _ in cases], events(*CHUNKS)), m={"stream": True})
    found = by_question(job())
    assert [row["error"] and row["error"]["kind"] for row in found] == [*(kind for _, kind in cases), None, None]


# ------------------------------------------------------------------------ other models than requested


def test_answers_of_another_model_than_requested_are_noted_with_their_count(
    serve: Serve, job: Job, bench: Bench
) -> None:
    cheap = completion("Pelle") | {"model": "m-mini-2024-07-18"}
    serve(lambda body: cheap if "cat" in body["messages"][0]["content"].rpartition("\n\n")[2] else completion("alto"))
    found = job()
    assert note(found, '1 of 4 answers came from "m-mini-2024-07-18", but "local/m" was requested')
    assert '3 of 4 answers came from "stub", but "local/m" was requested' in found["shown"]


def test_a_dated_model_name_counts_as_the_requested_model(serve: Serve, job: Job) -> None:
    serve(completion("Pelle") | {"model": "m-2024-08-06"})
    assert not note(job(), "came from")


def test_verdicts_of_another_model_than_requested_are_noted_with_their_count(
    serve: Serve, job: Job, workspace: Path
) -> None:
    verdict = completion('{"correctness": 1, "faithfulness": 1, "reasoning": "same"}') | {"model": "j-mini"}
    serve(lambda body: verdict if body["model"] == "j" else completion("Pelle") | {"model": "m"})
    (workspace / "configs/benchmarks/judged.yaml").write_text(JUDGED + "  judge: {model: local/j}\n")
    found = job(benchmark="judged")
    assert note(found, '4 of 4 verdicts came from "j-mini", but "local/j" was requested')
    assert not note(found, "answers came from")
