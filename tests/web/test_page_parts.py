"""Parts of all pages: ids, texts, times, tokens, accepted requests, scales and charts."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import BenchError, ConfigError, DiskFull, IdentityError, JournalError, Locked, UsageError
from bench.metrics.latency import attempt_us
from bench.settings import Environment
from bench.visible_text import HIDDEN, visible
from bench.web import formatting as text
from bench.web.admission import admit
from bench.web.app import is_loopback, redact_secrets
from bench.web.cache import SMALL_ITEMS, max_wait_s, stamp_of
from bench.web.charts import LABEL_CHARS, ChartValue, intervals, latencies, progress_chart, scatter
from bench.web.documents.run_documents import PARTS, histogram, latency_spread
from bench.web.errors import (
    BadId,
    Busy,
    NotFound,
    RequestRefused,
    check_path,
    check_run_id,
    item_of,
    slug_of,
    status_of,
)
from bench.web.formatting import nice_top, plain, scale_from_zero, scale_over
from bench.web.rendering import query_of
from bench.web.security import equal_texts
from bench.web.token_file import MIN_CHARACTERS, ServiceToken
from tests.rows import each_row

# ------------------------------------------------------------------------------ ids

ANY = st.text(st.characters(exclude_categories=[]), max_size=40)


@given(ANY)
def test_an_item_id_is_encoded_as_one_path_segment_and_decoded_unchanged(item: str) -> None:
    slug = slug_of(item)
    assert item_of(slug) == item
    assert quote(slug, safe="") == slug.replace("~", "~") and "/" not in slug
    check_path(f"/runs/r1/items/{slug}")


@each_row("slug", ["~A", "~AAAAA", "~_w", "~ä", "~wCA", "~//79"])
def test_an_invalid_slug_raises_BadId(slug: str) -> None:
    with pytest.raises(BadId) as refused:
        item_of(slug)
    assert str(refused.value) == "the path contains a text that is not an item id"
    assert refused.value.hint == "use letters, digits, dot, dash and underscore"


@each_row("name", ["", ".", "..", ".x", "a/b", "a b", "ä", "a" * 101, "a\n", "C:"])
def test_check_run_id_rejects_an_unsafe_path_segment(name: str) -> None:
    with pytest.raises(BadId, match="the path contains a text that is not a run id"):
        check_run_id(name)


@each_row("name", ["a", "20261128-4f9c", "A.b_c-d", "x" * 100, "7"])
def test_check_run_id_accepts_a_safe_path_segment(name: str) -> None:
    assert check_run_id(name) == name


@each_row(
    "path",
    ["/..", "/a/../b", "/a/./b", "//", "/a//b", "/a/", "/%2e%2e/x", "/a%2fb", "/a%5cb", "/%00", "/a%0a", "/%7f",
     "/C:/x", "/c:%5cx", "/%252e", "/a%25b", "", "a", "http://x/", "*", "/a/%2e"],
)  # fmt: skip
def test_check_path_rejects_traversal_and_encoded_separators(path: str) -> None:
    with pytest.raises(BadId):
        check_path(path)


@each_row("path", ["/", "/runs", "/runs/a.b", "/x?a=../../b&c=%2e%2e/%00", "/%C3%A4", "/..."])
def test_check_path_accepts_a_plain_path_with_any_query(path: str) -> None:
    check_path(path)


# ------------------------------------------------------------------------------ texts


@given(ANY)
def test_visible_escapes_hidden_characters_and_keeps_all_others(value: str) -> None:
    shown = visible(value)
    assert not HIDDEN.search(shown)
    assert visible(shown) == shown
    kept = HIDDEN.sub("", value)
    assert [sign for sign in kept if sign not in shown] == []


def test_visible_shows_codes_of_hidden_characters_and_keeps_tabs_and_newlines() -> None:
    assert visible("a\x1b[1m\tb\nc\u202e\ud800\r") == "a\\x1b[1m\tb\nc\\u202e\\ud800\\x0d"


NUMBERS = {
    "1,234": (1234, "1,234"), "zero": (0, "0"), "share": (0.23125, "0.2313"), "large": (123456.7, "123,457"),
    "true": (True, "–"), "none": (None, "–"), "text": ("7", "–"), "negative": (-0.5, "-0.5000"),
    "edge": (1000.0, "1,000"),
}  # fmt: skip


@each_row("case", NUMBERS)
def test_number_rounds_and_groups_digits_and_shows_a_dash_for_other_values(case: str) -> None:
    value, shown = NUMBERS[case]
    assert text.number(value) == shown


@each_row(
    ("value", "shown"),
    [(0.5, "50%"), (0, "0%"), (1, "100%"), (None, "–"), ("x", "–"), (0.005, "0%"), (0.126, "13%")],
)
def test_share_shows_a_percentage(value: object, shown: str) -> None:
    assert text.share(value) == shown


@each_row(
    ("value", "shown"),
    [
        (None, "–"),
        ("0", "0"),
        ("1.50000", "1.5"),
        (2, "2"),
        ("0.00012", "0.00012"),
        ("1234.5", "1234.5"),
        ("3.666E-7", "0.00000037"),
        ("0.0000015", "0.0000015"),
    ],
)
def test_usd_shows_a_dash_for_an_unknown_cost(value: object, shown: str) -> None:
    assert text.usd(value) == shown


@each_row(
    ("value", "shown"),
    [(None, "–"), (0.0, "0"), (0.0002, "0.0002"), (0.006, "0.006"), (1.4961, "1.50"), (137400.0, "137,400")],
)
def test_the_cost_of_many_questions_has_at_least_two_correct_digits(value: object, shown: str) -> None:
    assert text.usd_rounded(value) == shown


@each_row(
    ("us", "shown"),
    [(0, "0 µs"), (999, "999 µs"), (1000, "1 ms"), (1500, "1.5 ms"), (999_499, "999 ms"), (999_500, "1 s"),
     (999_999, "1 s"), (1_500_000, "1.5 s"), (119_000_000, "119 s"), (120_000_000, "2.0 min"), (None, "–"), ("x", "–")],
)  # fmt: skip
def test_duration_shows_three_digits_in_a_suitable_unit(us: object, shown: str) -> None:
    assert text.duration(us) == shown


@given(st.integers(0, 10**12))
def test_duration_never_uses_scientific_notation(us: int) -> None:
    assert "e" not in text.duration(us)


@each_row(("value", "shown"), [(0.25, "250 ms"), (90, "90 s"), (None, "–"), ("x", "–"), (600, "10.0 min")])
def test_seconds_shows_a_duration(value: object, shown: str) -> None:
    assert text.seconds(value) == shown


def test_instant_shows_utc_to_the_second() -> None:
    assert text.instant(datetime(2026, 1, 2, 3, 4, 5, 999, tzinfo=UTC)) == "2026-01-02 03:04:05 UTC"
    assert (text.instant("2026"), text.instant(None), text.instant("")) == ("2026", "–", "–")


@each_row(
    ("past", "shown"),
    [("2026-01-10T12:00:00+00:00", "now"), ("2026-01-10T11:59:01Z", "now"), ("2026-01-10T11:59:00Z", "1 min"),
     ("2026-01-10T10:00:00Z", "2 h"), ("2026-01-07T12:00:00Z", "3 d"), ("2026-01-10T13:00:00Z", "now")],
)  # fmt: skip
def test_age_shows_the_largest_unit(past: str, shown: str) -> None:
    assert text.age(past, datetime(2026, 1, 10, 12, tzinfo=UTC)) == shown


def test_age_of_none_is_a_dash() -> None:
    assert text.age(None, datetime(2026, 1, 10, tzinfo=UTC)) == "–"


def test_query_of_omits_empty_values() -> None:
    assert query_of({"a": "x y", "b": "", "c": None, "d": 0}, a="<&>", e="é") == "a=%3C%26%3E&d=0&e=%C3%A9"
    assert query_of({"cursor": "x"}, cursor="") == ""


# ------------------------------------------------------------------------------ times


@given(st.lists(st.dictionaries(st.sampled_from(PARTS), st.integers(0, 10**10)), min_size=1, max_size=30))
def test_latency_spread_returns_quantiles_of_the_sample(sample: list[dict[str, int]]) -> None:
    found = latency_spread(sample, count=1000)
    assert (found["n"], found["n_sampled"]) == (1000, len(sample))
    for part in PARTS:
        column = [times.get(part, (attempt_us(times) or 0) if part == "latency" else 0) for times in sample]
        half, slow = found["p50"][part], found["p95"][part]  # type: ignore[index]
        assert half in column and slow in column and half <= slow
        assert sum(value <= half for value in column) >= len(column) / 2


@given(st.lists(st.integers(0, 10**11), max_size=60))
def test_histogram_bins_are_contiguous_and_count_their_values(column: list[int]) -> None:
    bins = histogram(column)
    assert all(one[1] == other[0] for one, other in pairwise(bins))
    for start, end, count in bins[:-1]:
        assert sum(start <= value < end for value in column) == count
    assert not bins or (bins[0][2] > 0 and bins[-1][2] > 0)


def test_histogram_of_no_values_has_no_bins() -> None:
    assert histogram([]) == []


# ------------------------------------------------------------------------------ tokens


def test_a_token_is_created_once_and_readable_only_by_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "token"
    made, read = ServiceToken.load_or_create(path), ServiceToken.load_or_create(path)
    assert made.fresh and not read.fresh and made.token == read.token and len(made.token) >= MIN_CHARACTERS
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert made.token not in repr(made)
    assert len({made.token, made.cookie, made.csrf, made.cookie_name}) == 4
    assert (
        read.matches(made.token)
        and not read.matches(made.token[:-1])
        and not read.matches("")
        and not read.matches("\ud800")
    )


TOO_SHORT = "the token has {} characters, expected at least 43"


@each_row(
    ("content", "message"),
    [
        (b"", TOO_SHORT.format(0)),
        (b"x" * 42, TOO_SHORT.format(42)),
        (b" " * 50, TOO_SHORT.format(0)),
        (b"\xff" * 50, "the token file cannot be read"),
    ],
)
def test_an_invalid_token_file_is_a_config_error_and_unchanged(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as refused:
        ServiceToken.load_or_create(path)
    assert (refused.value.message, refused.value.where) == (message, str(path))
    assert path.read_bytes() == content


def test_a_token_file_that_cannot_be_created_or_read_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ConfigError, match="the token file cannot be created: Not a directory"):
        ServiceToken.load_or_create(tmp_path / "file" / "deep" / "token")
    with pytest.raises(ConfigError, match="the token file cannot be read"):
        ServiceToken.load_or_create(tmp_path)


def test_equal_texts_compares_any_value_with_a_text(tmp_path: Path) -> None:
    assert equal_texts("x", "x")
    for other in (None, "", "y", b"x", 7, "\ud800", ["x"]):
        assert not equal_texts(other, "x")


def test_values_of_secret_variables_are_redacted_but_not_file_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.events import redact

    monkeypatch.setenv("OTHER_PASSWORD", "hunter-two-and-more")
    monkeypatch.setenv("SHORT_KEY", "abc")
    monkeypatch.setenv("X_API_KEY", "")
    values = {"X_API_KEY": "value-of-the-api-key", "Y_KEY_FILE": "/run/place-of-the-key", "PLAIN": "plain-old-value"}
    redact_secrets(Environment(values=values))
    for secret in ("hunter-two-and-more", "value-of-the-api-key"):
        assert secret not in redact(f"see {secret}!")
    assert redact("abc /run/place-of-the-key plain-old-value") == "abc /run/place-of-the-key plain-old-value"
    assert "SHORT_KEY" in os.environ


@each_row(
    ("host", "own"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("LocalHost", True),
     ("0.0.0.0", False), ("::", False), ("192.168.1.1", False), ("example.org", False), ("", False),
     ("localhost.evil", False)],
)  # fmt: skip
def test_is_loopback_accepts_only_loopback_hosts(host: str, own: bool) -> None:
    assert is_loopback(host) is own


# ------------------------------------------------------------------------------ errors as answers


@each_row(
    ("error", "status"),
    [
        (UsageError("x"), 400), (ConfigError("x"), 400), (BadId("x"), 400), (NotFound("x"), 404), (Busy("x"), 503),
        (RequestRefused(418, "k", "m", "h"), 418), (IdentityError("x"), 409), (Locked("x"), 409), (DiskFull("x"), 507),
        (JournalError("x"), 500), (BenchError("x"), 500),
    ],
)  # fmt: skip
def test_each_kind_of_error_has_its_http_status(error: BenchError, status: int) -> None:
    assert status_of(error) == status


# ------------------------------------------------------------------------------ admitted requests

REFUSED = {
    "an unknown flag": ({"nope": 1}, "nope"),
    "fields of a model's request": (
        {"models": {"openai/m": {"body": {"a": 1}}}},
        "models can be set only on the command line",
    ),
    "a command": ({"on_end": "rm -rf /"}, "on_end can be set only on the command line"),
    "a command, in another case": ({"onEnd": "rm"}, "on_end can be set only on the command line"),
    "and with dashes": ({"on-end": "rm"}, "on_end can be set only on the command line"),
    "a key": ({"key": "/root/key"}, "key can be set only on the command line"),
    "calibration": ({"judge_calibration": True}, "judge_calibration can be set only on the command line"),
    "a download": ({"download": True}, "download can be set only on the command line"),
    "shards": ({"shards": 4}, "shards can be set only on the command line"),
    "a file for a provider": ({"providers": ["./x.yaml"]}, "providers must be names of known configs, not files"),
    "a hidden name": ({"benchmarks": [".x"]}, "benchmarks must be names of known configs, not files"),
    "code for an evaluator": ({"evaluators": ["a.py:B"]}, "evaluators must be names of known configs, not files"),
    "a metric from a file": ({"metrics": ["./m.py:M"]}, "metrics must be names of known metrics, not files"),
    "a metric that climbs": ({"metrics": ["..x"]}, "metrics must be names of known metrics, not files"),
    "a metric's method": ({"metrics": [{"name": "a", "method": "m.py:M"}]}, "metrics must be names of known metrics"),
    "an address": ({"set": {"x.connection.baseUrl": "y"}}, "set cannot change x.connection.baseUrl"),
    "an adapter inside a part": ({"set": {"x.vars.adapter": "y"}}, "set cannot change x.vars.adapter"),
    "a constant of its calls": ({"set": {"x.vars.a": "b"}}, "set cannot change x.vars.a"),
    "a call": ({"set": {"x.wait.request": {"path": "/"}}}, "set cannot change x.wait.request"),
    "no part at all": ({"set": {"x": "y"}}, "x"),
    "a prompt's file": ({"answer_prompt": "prompts/a.txt"}, "prompts must be texts with placeholders"),
    "a prompt by at": ({"answer_prompt": "@a\n${question}"}, "prompts must be texts with placeholders"),
    "a judge's prompt of a kind": ({"judge_prompt": ["temporal=a.txt"]}, "prompts must be texts with placeholders"),
    "a judge's prompt": ({"judge_prompt": ["a.txt"]}, "prompts must be texts with placeholders"),
}


@each_row("case", REFUSED)
def test_admit_rejects_a_setting_reserved_for_the_command_line_and_names_it(case: str) -> None:
    flags, output = REFUSED[case]
    with pytest.raises(UsageError) as refused:
        admit(flags)
    assert output in str(refused.value)
    if "nope" not in flags and case != "no part at all":
        assert refused.value.hint == "start this run with bench run"


ADMITTED: dict[str, dict[str, object]] = {
    "nothing": {},
    "names": {"benchmarks": ["demo"], "providers": ["bm25", "vector@big"], "evaluators": ["exact-match"]},
    "metrics": {"metrics": ["accuracy", "ndcg@10", {"name": "accuracy", "method": "llm_judge"}]},
    "settings": {"set": {"x.ingest.batch.max_items": 4, "x.wait.timeout_s": 3, "x.rateLimit.maxRetries": 1}},
    "a prompt in two lines": {"answer_prompt": "Say:\nyes"},
    "a prompt with a placeholder": {"answer_prompt": "Answer ${question}"},
    "a judge's prompts": {"judge_prompt": ["temporal=Is ${answer} right?", "Is\n${answer} = ${expected}?"]},
    "numbers": {"limit": 3, "concurrency": 4, "k": 5, "seed": 7},
}


@each_row("case", ADMITTED)
def test_admit_accepts_settings_of_the_form(case: str) -> None:
    given_names = set(ADMITTED[case])
    assert admit(ADMITTED[case]).model_fields_set >= given_names


# ------------------------------------------------------------------------------ scales and charts


@each_row(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.625, "0.625"),
        (12.5, "12.5"),
        (2500.0, "2500"),
        (9999.4, "9999"),
        (9999.6, "10,000"),
        (12345.0, "12,345"),
    ],
)
def test_plain_writes_ticks_without_scientific_notation(value: float, shown: str) -> None:
    assert plain(value) == shown


@given(st.floats(1e-3, 1e7))
def test_no_tick_of_a_scale_is_in_scientific_notation(value: float) -> None:
    for scale in (scale_from_zero(value), scale_over([value, value * 3])):
        assert all("e" not in tick.text for tick in scale.ticks)


@each_row("value", [0.0, -1.0, float("inf"), float("nan")])
def test_nice_top_of_an_invalid_size_is_one(value: float) -> None:
    assert nice_top(value) == 1.0


def test_a_scale_limits_values_to_its_ends() -> None:
    scale = scale_from_zero(1.0)
    assert (scale.at(-5.0), scale.at(0.5), scale.at(7.0)) == (0, 50, 100)


def test_intervals_beyond_the_values_are_limited_and_a_value_without_bounds_is_a_dot() -> None:
    rows = [ChartValue(name="a", value=0.5, low=-0.5, high=2.0, group="g", n=7), ChartValue(name="b", value=0.0)]
    chart = intervals(rows, title="t")
    assert chart is not None
    one, other = chart.rows
    assert (one.low, one.dot, one.high) == (0, 25, 100)
    assert one.about == "a, g: 0.5000 [-0.500, 2.000], n = 7"
    assert (other.low, other.high, other.about) == (None, None, "b: 0.0000")


def test_scatter_shortens_long_labels_and_keeps_full_names_in_the_description() -> None:
    name = "x" * (LABEL_CHARS + 5)
    chart = scatter([(name, 12_345.0, 0.5), ("b", 1.0, 0.25)], title="t", takes="ms")
    assert chart is not None and chart.logarithmic
    point = next(one for one in chart.points if one.label != "b")
    assert point.label == "x" * (LABEL_CHARS - 1) + "…" and point.about == f"{name}: 0.5000 at 12,345"


def test_the_frontier_path_goes_in_steps_from_the_cheapest_point() -> None:
    chart = scatter([("a", 1.0, 0.2), ("b", 2.0, 0.4), ("c", 3.0, 0.1)], title="t", takes="ms")
    assert chart is not None
    assert [point.label for point in sorted(chart.points, key=lambda one: one.x) if point.best] == ["a", "b"]
    assert chart.path.startswith("M") and chart.path.count("H") == chart.path.count("V") == 1


def test_latencies_and_progress_chart_return_none_without_data() -> None:
    assert latencies([], title="t") is None and latencies([("a", {"histogram": []})], title="t") is None
    assert progress_chart([], title="t") is None and progress_chart([("a", 0, [(1.0, 1)])], title="t") is None


def test_latencies_of_any_range_have_few_ticks_and_bars_inside_the_chart() -> None:
    sample = [{"total": 10**power} for power in range(1, 10)]
    chart = latencies([("a", latency_spread(sample, 9))], title="t")
    assert chart is not None and 2 <= len(chart.ticks) <= 5
    (row,) = chart.rows
    assert all(bar.left >= 0 and bar.left + bar.width <= 100.01 and 0 < bar.height <= 100 for bar in row.bars)
    assert row.about == "a: median 100 ms, 95th percentile 16.7 min, n = 9"


# ------------------------------------------------------------------------------ stamps and waiting


def test_max_wait_s_is_short_for_large_runs() -> None:
    assert max_wait_s(SMALL_ITEMS) > 1 > max_wait_s(SMALL_ITEMS + 1)


def test_stamp_of_a_missing_or_empty_file_is_zero(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert stamp_of(tmp_path / "nope", tmp_path / "empty") == ((0, 0), (0, 0))
    (tmp_path / "full").write_text("x")
    ((at, size),) = stamp_of(tmp_path / "full")
    assert at > 0 and size == 1
