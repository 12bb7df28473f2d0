"""Estimates of calls, tokens, cost and time; unknown values stay unknown.

The world has 3 conversations of 3 sessions and 4 questions each; a session is one memory.
"""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.plan import Estimate, estimate
from bench.plan.cost_estimate import ANSWER_TOKENS, JUDGE_TOKENS, PROMPT_TOKENS, EndpointEstimate
from tests.small_world import PROVIDER, World

EMBEDDER = "openai/text-embedding-3-small"
FREE = {"openai/m": {"input": 0, "output": 0}, "openai/j": {"input": 0, "output": 0}}


def found(world: World, **flags: object) -> Estimate:
    """Estimate without isolation probes, unless the flags enable them."""
    return estimate(world.plan(**{"isolation": "off", **flags}))


def calls(world: World, **flags: object) -> dict[str, int]:
    return {one.endpoint: one.calls for one in found(world, **flags).endpoints}


def only(estimated: Estimate, endpoint: str) -> EndpointEstimate:
    (one,) = [one for one in estimated.endpoints if one.endpoint == endpoint]
    return one


# ------------------------------------------------------------------------ calls


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"providers": "bm25"}, {}),
        ({"providers": "faulty"}, {"faulty.add": 9, "faulty.search": 12}),
        ({"providers": "faulty", "limit": 1}, {"faulty.add": 3, "faulty.search": 1}),
        ({"providers": "faulty", "start": 5, "end": 8}, {"faulty.add": 3, "faulty.search": 4}),
        ({"providers": "faulty", "epochs": 3}, {"faulty.add": 9, "faulty.search": 36}),
        ({"providers": "faulty@a faulty@b"}, {"faulty.add": 18, "faulty.search": 24}),
        ({"providers": "bm25", "answering_model": "openai/m"}, {"openai/m.answering": 12}),
        ({"providers": "bm25", "answering_model": ["openai/m", "none"]}, {"openai/m.answering": 12}),
        ({"providers": "bm25 oracle", "answering_model": "openai/m"}, {"openai/m.answering": 24}),
    ],
)
def test_calls_are_counted_per_endpoint(world: World, flags: dict[str, object], expected: dict[str, int]) -> None:
    assert calls(world, **flags) == expected


def test_batches_are_counted_per_conversation(world: World) -> None:
    """Three memories in batches of two are two calls per conversation, not five for all nine."""
    path = world.workspace / "configs/benchmarks/facts.yaml"
    path.write_text(path.read_text().replace("batchSize: 1", "batchSize: 2"))
    one = 'body: {id: "$.id", content: "$.content", namespace: "$.runTag", metadata: "$.metadata"}'
    text = PROVIDER.replace("name: faulty", "name: pairs").replace("ingest: {", "ingest: {batch: {max_items: 2}, ")
    world.write("configs/providers/pairs.yaml", text.replace(one, 'body: {items: "$.items", namespace: "$.runTag"}'))
    assert calls(world, providers="pairs")["pairs.add"] == 6


def test_isolation_probes_are_counted_as_searches(world: World) -> None:
    counted = calls(world, providers="faulty", isolation="probe")
    assert counted == {"faulty.add": 9, "faulty.search": 12 + 3 * 4 + 2 * 6}, "emptiness is a count"
    world.provider("blind", base="".join(line for line in PROVIDER.splitlines(True) if "count:" not in line))
    searches = calls(world, providers="blind", isolation="full")["blind.search"]
    assert searches == 12 + 3 * (5 + 1) + 2 * 6, "and a canary"


def test_each_evaluator_with_a_judge_counts_one_call_per_item(world: World) -> None:
    flags = {"providers": "bm25", "answering_model": "openai/m", "judge_model": "openai/j"}
    assert calls(world, **flags, evaluators="contains") == {"openai/m.answering": 12}
    assert calls(world, **flags, evaluators="llm-judge")["openai/j.judge"] == 12
    assert calls(world, **flags, evaluators="llm-judge faithfulness contains")["openai/j.judge"] == 24
    two = flags | {"judge_model": ["openai/j", "openai/k"]}
    assert calls(world, **two, evaluators="llm-judge") == {
        "openai/m.answering": 12, "openai/j.judge": 12, "openai/k.judge": 12,
    }  # fmt: skip


@pytest.mark.parametrize("flag", ["judge_calibration", "publishable"])
def test_judge_calibration_counts_each_probe_with_each_prompt(world: World, flag: str) -> None:
    path = world.workspace / "configs/benchmarks/facts.yaml"
    path.write_text(path.read_text().replace("  questions:", "  rubric: a\n  questions:"))
    flags = {"providers": "bm25 oracle", "answering_model": "openai/m", "judge_model": "openai/j", flag: True}
    plain = {name: value for name, value in flags.items() if name != flag}
    more = calls(world, **flags, evaluators="llm-judge")["openai/j.judge"]
    assert more - calls(world, **plain, evaluators="llm-judge")["openai/j.judge"] == 2 * 72  # default and abstention
    assert calls(world, **flags, evaluators="rubric")["openai/j.judge"] == 24  # its prompt is not calibrated


def test_embedding_calls_are_counted_for_memories_and_questions(world: World) -> None:
    estimated = only(found(world, providers="vector", embedding_model=EMBEDDER), f"{EMBEDDER}.embedding")
    assert estimated.calls == 3 + 12  # one batch per conversation, one question per item
    memory_tokens = (estimated.tokens_in - 12 * 30) / 9
    assert 15 < memory_tokens < 40 and estimated.tokens_out == 0
    assert estimated.cost_usd is not None and Decimal("0.000001") < estimated.cost_usd < Decimal("0.001")


def test_semantic_similarity_counts_one_embedding_per_answer(world: World) -> None:
    flags = {"providers": "bm25", "evaluators": "semantic-similarity", "embedding_model": EMBEDDER}
    assert calls(world, **flags) == {}  # without an answering model there is no answer to compare
    assert calls(world, **flags, answering_model=["openai/m", "openai/n"])[f"{EMBEDDER}.embedding"] == 24


def test_calls_of_a_model_that_enriches_chunks_are_counted(world: World) -> None:
    by_questions = found(world, providers="aqrag")
    written = only(by_questions, "openai/gpt-4o-mini.provider")
    assert (written.calls, written.tokens_out) == (9, 9 * 480)
    assert only(by_questions, f"{EMBEDDER}.embedding").calls == 9 + 12
    smaller = found(world, providers="aqrag", set={"aqrag.local.chunking.size": 10, "aqrag.local.chunking.overlap": 1})
    assert only(smaller, "openai/gpt-4o-mini.provider").calls == 27  # a session has about 24 tokens
    off = found(world, providers="aqrag", set={"aqrag.local.enhancement.enabled": False})
    assert "openai/gpt-4o-mini.provider" not in [one.endpoint for one in off.endpoints]


# ------------------------------------------------------------------------ tokens and money


def test_context_tokens_follow_k_and_the_context_budget(world: World) -> None:
    def tokens_in(**flags: object) -> int:
        return only(found(world, providers="bm25", answering_model="openai/m", **flags), "openai/m.answering").tokens_in

    one, three = tokens_in(k=1), tokens_in(k=3)
    assert three - one == 2 * (one - 12 * PROMPT_TOKENS)
    assert tokens_in(k=3, context_budget=1) == 12 * (PROMPT_TOKENS + 1)
    answered = only(found(world, providers="bm25", answering_model="openai/m"), "openai/m.answering")
    assert answered.tokens_out == 12 * ANSWER_TOKENS


def test_judge_tokens_are_calls_times_JUDGE_TOKENS(world: World) -> None:
    flags = {"providers": "bm25", "answering_model": "openai/m", "judge_model": "openai/j", "evaluators": "llm-judge"}
    judged = only(found(world, **flags, epochs=2), "openai/j.judge")
    assert (judged.tokens_in, judged.tokens_out) == (24 * JUDGE_TOKENS[0], 24 * JUDGE_TOKENS[1])


@pytest.mark.parametrize(
    ("flags", "cost"),
    [
        ({"providers": "bm25"}, Decimal(0)),
        ({"providers": "bm25", "answering_model": "builtin/extractive"}, Decimal(0)),
        ({"providers": "bm25", "answering_model": "ollama/llama3"}, Decimal(0)),
        ({"providers": "faulty"}, None),
        ({"providers": "faulty", "prices": {"faulty": {"add": 0.5}}}, None),
        ({"providers": "faulty", "prices": {"faulty": {"add": 0.5, "search": "0.25"}}}, Decimal("7.5")),
        ({"providers": "faulty", "prices": {"faulty": {"add": 0, "search": 0}}}, Decimal(0)),
        ({"providers": "bm25", "answering_model": "openai/nobody-knows"}, None),
        ({"providers": "bm25", "answering_model": "openai/m", "prices": FREE}, Decimal(0)),
        ({"providers": "bm25", "answering_model": "openai/m", "prices": {"openai/m": {"input": 1}}}, None),
        ({"providers": "bm25", "answering_model": ["openai/m", "openai/nobody"], "prices": FREE}, None),
    ],
)
def test_the_cost_is_unknown_if_a_part_has_no_price(
    world: World, flags: dict[str, object], cost: Decimal | None
) -> None:
    assert found(world, **flags).cost_usd == cost


def test_prices_of_models_are_per_million_tokens(world: World) -> None:
    prices = {"openai/m": {"input": 1_000_000, "output": 0}}
    priced = only(found(world, providers="bm25", answering_model="openai/m", prices=prices), "openai/m.answering")
    assert priced.cost_usd == priced.tokens_in


def test_a_self_hosted_service_costs_nothing_without_a_price(world: World) -> None:
    address = 'connection: {baseUrl: "${FAULT_URL}", timeout: 2000}'
    service = 'docker: {compose: ./compose.yaml, service: memory, base_url: "${FAULT_URL}", healthcheck: /health}'
    world.write("configs/providers/compose.yaml", "services: {memory: {image: none}}\n")
    text = PROVIDER.replace("name: faulty", "name: local").replace("type: hosted", "type: docker")
    world.write("configs/providers/local.yaml", text.replace(address, service))
    assert found(world, providers="local").cost_usd == 0
    assert found(world, providers="local", prices={"local": {"search": 0.5}}).cost_usd == 6


# ------------------------------------------------------------------------ time


def test_without_rate_limits_there_is_no_minimum_time(world: World) -> None:
    estimated = found(world, providers="faulty", answering_model="openai/m")
    assert estimated.least_s is None
    assert [one.least_s for one in estimated.endpoints] == [None, None, None]
    assert found(world, providers="bm25").least_s is None


@pytest.mark.parametrize(
    ("rates", "least_s"),
    [
        (["faulty.search=2/s"], 6.0),
        (["faulty=3/s"], 4.0),
        (["faulty.add=1/s", "faulty.search=2/s"], 9.0),
        (["faulty=1/s", "faulty.search=4/s"], 9.0),
        (["openai/m=60/m"], 12.0),
        (["openai/m.answering=120/m"], 6.0),
    ],
)
def test_the_minimum_time_is_that_of_the_slowest_endpoint(world: World, rates: list[str], least_s: float) -> None:
    assert found(world, providers="faulty", answering_model="openai/m", rate=rates).least_s == least_s


@pytest.mark.parametrize(
    ("block", "least_s"),
    [
        ("limits: {search: {rps: 4}}", 3.0),
        ("limits: {search: {rpm: 120}, add: {rps: 100}}", 6.0),
        ("limits: {search: {rps: 100}}\nrateLimit: {searchDelayMs: 500}", 6.0),
        ("rateLimit: {addDelayMs: 1000}", 9.0),
        ("rateLimit: {addDelayMs: 100, batchDelayMs: 2000}", 18.0),
    ],
)
def test_rate_limits_of_a_config_apply_unless_the_run_sets_a_rate(world: World, block: str, least_s: float) -> None:
    path = world.workspace / "configs/providers/faulty.yaml"
    kept = [line for line in path.read_text().splitlines() if not line.startswith("rateLimit")]
    path.write_text("\n".join([*kept, block]))
    assert found(world, providers="faulty").least_s == pytest.approx(least_s)
    faster = found(world, providers="faulty", rate=["faulty=1200/s"]).least_s
    assert faster == pytest.approx(0.01)


def test_rate_limits_of_a_model_file_apply_to_its_models(world: World) -> None:
    world.write("configs/models/openai.yaml", "name: openai\nlimits: {rpm: 30}\n")
    assert found(world, providers="bm25", answering_model="openai/m").least_s == 24.0


# ------------------------------------------------------------------------ the whole


def test_skipped_lanes_are_not_counted(world: World) -> None:
    world.write(
        "configs/benchmarks/forgetting.yaml",
        'name: forgetting\nversion: "1"\nextends: facts\nrequiredCapabilities: [delete_memory]\n',
    )
    both = found(world, benchmarks=["facts", "forgetting"], providers="faulty")
    alone = found(world, providers="faulty")
    assert both == alone


def test_items_are_counted_per_job_and_conversations_per_lane(world: World) -> None:
    flags = {"providers": "bm25 oracle", "answering_model": ["openai/m", "none"]}
    estimated = found(world, **flags)
    assert (estimated.items, estimated.corpora) == (2 * 2 * 12, 2 * 3)
    assert (found(world, **flags, limit=5).items, found(world, **flags, limit=5).corpora) == (20, 4)


COSTS = st.none() | st.decimals(0, 100, places=2)
TRAFFIC = st.builds(
    EndpointEstimate,
    endpoint=st.just("e"),
    calls=st.integers(0, 1000),
    tokens_in=st.integers(0, 1000),
    tokens_out=st.integers(0, 1000),
    cost_usd=COSTS,
    rate_per_s=st.just(2.0),
)


@given(first=TRAFFIC, second=TRAFFIC, third=TRAFFIC)
def test_estimates_add_up_in_any_order_and_an_unknown_cost_stays_unknown(
    first: EndpointEstimate, second: EndpointEstimate, third: EndpointEstimate
) -> None:
    assert (first + second) + third == first + (second + third) == (third + first) + second
    total = first + second
    assert total.calls == first.calls + second.calls
    assert (total.cost_usd is None) == (None in (first.cost_usd, second.cost_usd))
    assert total.least_s == total.calls / 2
