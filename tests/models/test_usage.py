"""Usage has the same meaning for every vendor (S12)."""

from __future__ import annotations

from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from bench.model import Usage
from bench.models.usage import is_usage_unreadable, normalise
from bench.tokens import count_tokens, token_quarters
from tests.rows import each_row

COUNT = st.integers(0, 10**9)
DIALECTS: tuple[Literal["openai", "anthropic", "google"], ...] = ("openai", "anthropic", "google")


def anthropic(plain: int, read: int, written: int, received: int) -> dict[str, object]:
    return {
        "usage": {
            "input_tokens": plain,
            "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written,
            "output_tokens": received,
        }
    }


def openai(sent: int, read: int, received: int, reasoning: int) -> dict[str, object]:
    return {
        "usage": {
            "prompt_tokens": sent,
            "completion_tokens": received,
            "total_tokens": sent + received,
            "prompt_tokens_details": {"cached_tokens": read},
            "completion_tokens_details": {"reasoning_tokens": reasoning},
        }
    }


def google(sent: int, read: int, shown: int, thoughts: int) -> dict[str, object]:
    return {
        "usageMetadata": {
            "promptTokenCount": sent,
            "cachedContentTokenCount": read,
            "candidatesTokenCount": shown,
            "thoughtsTokenCount": thoughts,
        }
    }


@given(plain=COUNT, read=COUNT, written=COUNT, shown=COUNT, reasoning=COUNT)
def test_s12_usage_of_one_call_is_equal_for_every_vendor(
    plain: int, read: int, written: int, shown: int, reasoning: int
) -> None:
    one = normalise("openai", openai(plain + read, read, shown + reasoning, reasoning))
    two = normalise("google", google(plain + read, read, shown, reasoning))
    three = normalise("anthropic", anthropic(plain, read, 0, shown + reasoning))
    assert one == two
    assert (three.input_tokens, three.cache_read_tokens) == (one.input_tokens, one.cache_read_tokens)
    assert (three.output_tokens, three.total_tokens) == (one.output_tokens, one.total_tokens)


@given(plain=COUNT, read=COUNT, written=COUNT, received=COUNT)
def test_total_tokens_is_input_plus_output_and_cache_tokens_are_part_of_input(
    plain: int, read: int, written: int, received: int
) -> None:
    used = normalise("anthropic", anthropic(plain, read, written, received))
    assert used.total_tokens == used.input_tokens + used.output_tokens
    assert used.cache_read_tokens + used.cache_write_tokens <= used.input_tokens
    assert not used.estimated


def test_reasoning_tokens_are_part_of_output_for_every_vendor() -> None:
    assert normalise("openai", openai(5, 0, 30, 20)).output_tokens == 30
    assert normalise("google", google(5, 0, 10, 20)).output_tokens == 30
    body = {"usage": {"input_tokens": 5, "output_tokens": 30, "output_tokens_details": {"thinking_tokens": 20}}}
    assert normalise("anthropic", body) == normalise("openai", openai(5, 0, 30, 20))


def test_tool_use_tokens_of_google_are_input() -> None:
    body = {"usageMetadata": {"promptTokenCount": 5, "toolUsePromptTokenCount": 3, "candidatesTokenCount": 1}}
    assert normalise("google", body).input_tokens == 8


def test_cache_writes_of_openai_dialects_are_counted() -> None:
    details = {"cached_tokens": 2, "cache_write_tokens": 3}
    body = {"usage": {"prompt_tokens": 9, "completion_tokens": 1, "prompt_tokens_details": details}}
    used = normalise("openai", body)
    assert (used.input_tokens, used.cache_read_tokens, used.cache_write_tokens) == (9, 2, 3)


@each_row(
    "extra, cached",
    [
        ({"prompt_cache_hit_tokens": 60, "prompt_cache_miss_tokens": 140}, (60, 0)),
        ({"cached_tokens": 60}, (60, 0)),
        ({"cache_creation_input_tokens": 60, "cache_read_input_tokens": 20}, (20, 60)),
        ({"prompt_tokens_details": {"cached_tokens": 20}, "cache_creation_input_tokens": 60}, (20, 60)),
        ({"prompt_tokens_details": {"cached_tokens": 20, "cache_creation_tokens": 60}}, (20, 60)),
    ],
)
def test_cached_tokens_are_read_from_the_fields_of_every_gateway(
    extra: dict[str, object], cached: tuple[int, int]
) -> None:
    used = normalise("openai", {"usage": {"prompt_tokens": 200, "completion_tokens": 10, "total_tokens": 210} | extra})
    assert (used.cache_read_tokens, used.cache_write_tokens) == cached
    assert (used.input_tokens, used.output_tokens) == (200, 10)


@each_row(
    "extra",
    [
        {"total_tokens": 250},
        {"total_tokens": 250, "reasoning_tokens": 40},
        {"total_tokens": 250, "completion_tokens_details": {"reasoning_tokens": 40}},
        {"completion_tokens_details": {"reasoning_tokens": 40}},
    ],
)
def test_reasoning_that_the_completion_tokens_exclude_is_added_to_the_output(extra: dict[str, object]) -> None:
    used = normalise("openai", {"usage": {"prompt_tokens": 200, "completion_tokens": 10} | extra})
    assert used == Usage(input_tokens=200, output_tokens=50, reasoning_tokens=40, total_tokens=250)


def test_cached_tokens_that_the_prompt_tokens_exclude_are_added_to_the_input() -> None:
    counts = {"prompt_tokens": 40, "completion_tokens": 10, "total_tokens": 210}
    used = normalise("openai", {"usage": counts | {"cache_read_input_tokens": 100, "cache_creation_input_tokens": 60}})
    assert used == Usage(
        input_tokens=200, cache_read_tokens=100, cache_write_tokens=60, output_tokens=10, total_tokens=210
    )


@each_row("dialect", DIALECTS)
@each_row("body", [{}, {"usage": None, "usageMetadata": None}, {"usage": {}, "usageMetadata": {}}])
def test_without_usage_tokens_are_estimated_from_characters(
    dialect: Literal["openai", "anthropic", "google"], body: dict[str, object]
) -> None:
    used = normalise(dialect, body, prompt="a" * 9, reply="b" * 4)
    assert used == Usage(input_tokens=3, output_tokens=1, total_tokens=4, estimated=True)


def test_missing_usage_details_count_as_none() -> None:
    body = {"usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": None}}
    assert normalise("openai", body) == Usage(input_tokens=3, output_tokens=2, total_tokens=5)


@each_row("count", [-1, 1.5, "3", True, [1], float("nan"), float("inf"), 1e300, 10**40])
@each_row("dialect", DIALECTS)
def test_a_count_that_is_not_a_whole_number_makes_the_usage_an_estimate(
    dialect: Literal["openai", "anthropic", "google"], count: object
) -> None:
    body = {
        "usage": {"prompt_tokens": count, "input_tokens": count},
        "usageMetadata": {"promptTokenCount": count},
    }
    assert normalise(dialect, body, prompt="a" * 9, reply="b" * 4).estimated
    assert is_usage_unreadable(dialect, body)


def test_a_whole_number_written_as_float_is_accepted() -> None:
    body = {"usage": {"prompt_tokens": 50.0, "completion_tokens": 3.0}}
    assert normalise("openai", body) == Usage(input_tokens=50, output_tokens=3, total_tokens=53)
    assert not is_usage_unreadable("openai", body)


@given(st.text(max_size=200))
def test_count_tokens_is_token_quarters_rounded_up(text: str) -> None:
    assert token_quarters(text) <= 4 * count_tokens(text) < token_quarters(text) + 4


@given(st.lists(st.tuples(COUNT, COUNT, COUNT, COUNT), min_size=2, max_size=5))
def test_usages_add_up_in_any_order(counts: list[tuple[int, int, int, int]]) -> None:
    usages = [normalise("anthropic", anthropic(*each)) for each in counts]
    forward, backward = usages[0], usages[-1]
    for each in usages[1:]:
        forward = forward + each
    for each in reversed(usages[:-1]):
        backward = backward + each
    assert forward == backward
    assert forward.total_tokens == sum(each.total_tokens for each in usages)
