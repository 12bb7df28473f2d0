"""Rules for statuses, missing responses, limits and waits, as tables without a server."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import AuthError, CallError, MappingError, QuotaError, RateLimited, Rejected, Unavailable
from bench.http import Endpoint, Limits, Request, Response, Retry, Timeouts
from bench.http.adaptive_concurrency import Slots
from bench.http.call_log import CallState
from bench.http.errors import (
    AttemptFailed,
    PauseTooLong,
    RequestNotSent,
    ResponseLost,
    ResponseTooLarge,
    failure_of_body,
    failure_of_silence,
    failure_of_status,
)
from bench.http.message import AttemptTimes, Timings
from bench.http.rate_limiter import RateLimiter
from bench.http.retry import wait_s
from tests.rows import each_row

ENDPOINT = Endpoint(name="p.search", role="provider", key_variable="P_KEY")


def answer(status: int, body: str = "", **headers: str) -> Response:
    return Response(status=status, headers=headers, body=body.encode(), timings=Timings(), request="POST /v1/search")


def failed(
    status: int, body: str = "", *, repeatable: bool = True, wait_s: float | None = None, endpoint: Endpoint = ENDPOINT
) -> AttemptFailed:
    return failure_of_status(endpoint, answer(status, body), repeatable=repeatable, wait_s=wait_s)


# ------------------------------------------------------------------------ statuses


@each_row(
    ("status", "error", "repeat", "repeat_if_lost_harms"),
    [
        (300, Rejected, False, False),
        (304, Rejected, False, False),
        (400, Rejected, False, False),
        (401, AuthError, False, False),
        (402, QuotaError, False, False),
        (403, AuthError, False, False),
        (404, Rejected, False, False),
        (408, Unavailable, True, False),
        (409, Rejected, False, False),
        (413, Rejected, False, False),
        (422, Rejected, False, False),
        (425, Unavailable, True, False),
        (429, RateLimited, True, True),
        (451, Rejected, False, False),
        (500, Unavailable, True, False),
        (501, Unavailable, True, False),
        (503, Unavailable, True, False),
        (529, Unavailable, True, False),
        (599, Unavailable, True, False),
    ],
)
def test_each_http_status_maps_to_one_error_class_and_retry_rule(
    status: int, error: type[CallError], repeat: bool, repeat_if_lost_harms: bool
) -> None:
    signal = failed(status)
    assert (type(signal.error), signal.repeat, signal.status) == (error, repeat, status)
    assert signal.refused is (status == 429)
    assert failed(status, repeatable=False).repeat is repeat_if_lost_harms
    assert signal.error.message.startswith(f"p.search: POST /v1/search -> {status}")


@given(status=st.integers(300, 999), wait=st.none() | st.floats(0, 100), repeatable=st.booleans())
def test_only_429_counts_as_refused_and_a_retry_keeps_the_wait_of_the_server(
    status: int, wait: float | None, repeatable: bool
) -> None:
    signal = failed(status, wait_s=wait, repeatable=repeatable)
    assert signal.refused == (status == 429)
    assert signal.wait_s in (None, wait)
    if signal.repeat:
        assert signal.wait_s == wait
        assert status == 429 or repeatable


@each_row("action", ["retry", "fail", "stop"])
@each_row("status", [400, 401, 404, 409, 429, 500])
def test_a_config_can_override_the_action_of_a_status(status: int, action: str) -> None:
    endpoint = replace(ENDPOINT, statuses={status: action})  # type: ignore[dict-item]
    signal = failed(status, endpoint=endpoint)
    stopping = AuthError if status == 401 else QuotaError
    expected = {"retry": RateLimited if status == 429 else Unavailable, "fail": Rejected, "stop": stopping}[action]
    assert type(signal.error) is expected
    assert signal.repeat is (action == "retry")


@each_row(
    ("status", "body", "error"),
    [
        (429, '{"error": {"code": "insufficient_quota"}}', QuotaError),
        (429, '{"error": {"code": "rate_limit_exceeded"}}', RateLimited),
        (400, "Your credit balance is too low to access the API", QuotaError),
        (403, "BILLING_HARD_LIMIT_REACHED", QuotaError),
        (500, "insufficient_quota", Unavailable),
        (404, "insufficient_quota", Rejected),
        (429, "x" * 5000 + "insufficient_quota", RateLimited),
    ],
)
def test_a_used_up_quota_is_recognized_in_the_response_body(status: int, body: str, error: type[CallError]) -> None:
    assert type(failed(status, body).error) is error


def test_a_configured_action_of_a_status_wins_over_quota_words_in_the_body() -> None:
    endpoint = replace(ENDPOINT, statuses={429: "retry"})
    signal = failed(429, "insufficient_quota", endpoint=endpoint)
    assert (type(signal.error), signal.repeat) == (RateLimited, True)


@pytest.mark.parametrize(
    ("key_variable", "text", "hint"),
    [
        ("P_KEY", "p.search: POST /v1/search -> 401: no (key: P_KEY)", "check the key in P_KEY, then resume"),
        (None, "p.search: POST /v1/search -> 401: no", AuthError.default_hint),
    ],
)
def test_the_error_for_a_refused_key_names_its_variable(key_variable: str | None, text: str, hint: str) -> None:
    error = failed(401, "no", endpoint=replace(ENDPOINT, key_variable=key_variable)).error
    assert (error.message, error.hint) == (text, hint)


def test_an_error_shows_the_response_body_shortened_on_one_line() -> None:
    text = failed(400, "a\n\n  b\t" + "x" * 2000).error.message
    assert text.startswith("p.search: POST /v1/search -> 400: a b xxx")
    assert len(text) == len("p.search: POST /v1/search -> 400: ") + 500


def test_the_error_for_a_redirect_that_is_not_followed_names_its_target() -> None:
    response = answer(307, Location="https://elsewhere.invalid/x")
    error = failure_of_status(ENDPOINT, response, repeatable=True, wait_s=None).error
    assert error.message == (
        "p.search: POST /v1/search -> 307, a redirect to https://elsewhere.invalid/x that is not followed"
    )


# ------------------------------------------------------------------------ errors in bodies and missing responses


@each_row(
    ("error", "repeatable", "repeat", "refused"),
    [
        (RateLimited("slow down", retry_after_s=3.0), False, True, True),
        (Unavailable("busy"), True, True, False),
        (Unavailable("busy"), False, False, False),
        (Rejected("wrong"), True, False, False),
        (MappingError("no field"), True, False, False),
    ],
)
def test_an_error_in_a_200_body_has_the_retry_rule_of_its_error_class(
    error: CallError, repeatable: bool, repeat: bool, refused: bool
) -> None:
    signal = failure_of_body(error, answer(200), repeatable=repeatable)
    assert signal.error is error
    assert (signal.repeat, signal.refused, signal.status) == (repeat, refused, 200)
    assert signal.wait_s == (3.0 if refused else None)


@each_row(
    ("signal", "error", "repeat", "repeat_if_lost_harms", "kind", "text"),
    [
        (RequestNotSent("refused"), Unavailable, True, True, "unavailable", "p.search: POST /x: refused"),
        (RequestNotSent("slow", timed_out=True), Unavailable, True, True, "timeout", "p.search: POST /x: slow"),
        (RequestNotSent("bad URL", final=True), Rejected, False, False, "rejected", "p.search: POST /x: bad URL"),
        (ResponseLost("reset"), Unavailable, True, False, "unavailable", "p.search: POST /x: reset"),
        (ResponseLost("late", timed_out=True), Unavailable, True, False, "timeout", "p.search: POST /x: late"),
        (ResponseTooLarge(), MappingError, False, False, "mapping",
         "p.search: POST /x: the answer is larger than 8388608 bytes"),
        (PauseTooLong(90.4), RateLimited, False, False, "rate_limited",
         "p.search: POST /x: the service allows no request for another 90 s (Retry-After), longer than a call "
          "may wait"),
    ],
)  # fmt: skip
def test_a_call_without_response_is_repeated_only_if_it_cannot_take_effect_twice(
    signal: RequestNotSent | ResponseLost | ResponseTooLarge | PauseTooLong,
    error: type[CallError],
    repeat: bool,
    repeat_if_lost_harms: bool,
    kind: str,
    text: str,
) -> None:
    safe = failure_of_silence(ENDPOINT, "POST /x", signal, repeatable=True)
    assert (type(safe.error), safe.repeat, safe.error.kind, safe.error.message) == (error, repeat, kind, text)
    assert failure_of_silence(ENDPOINT, "POST /x", signal, repeatable=False).repeat is repeat_if_lost_harms


@each_row(
    ("method", "idempotent", "repeatable"),
    [
        ("GET", None, True),
        ("HEAD", None, True),
        ("OPTIONS", None, True),
        ("PUT", None, True),
        ("DELETE", None, True),
        ("POST", None, False),
        ("PATCH", None, False),
        ("POST", True, True),
        ("GET", False, False),
    ],
)
def test_a_request_is_repeatable_by_its_method_or_its_idempotent_setting(
    method: str, idempotent: bool | None, repeatable: bool
) -> None:
    assert Request(method, "http://p.invalid", idempotent=idempotent).repeatable is repeatable


# ------------------------------------------------------------------------ bodies as JSON


@each_row(
    ("body", "tree"),
    [(b"{}", {}), (b" [1, 2] ", [1, 2]), (b"null", None), (b'"x"', "x"), ("\u00e9".join('""').encode(), "\u00e9")],
)
def test_response_json_parses_the_body_once(body: bytes, tree: object) -> None:
    response = Response(status=200, headers={}, body=body, timings=Timings())
    assert response.json() == tree
    assert response.json() is response.json()


@each_row(
    ("body", "text"),
    [
        ("", "POST /v1/search -> 200: expected JSON, but the body is empty"),
        (" \n", "POST /v1/search -> 200: expected JSON, but the body is empty"),
        ("<html>oops", "POST /v1/search -> 200: the body is HTML, not JSON: <html>oops"),
        ("  <p>", "POST /v1/search -> 200: the body is HTML, not JSON:   <p>"),
        ("plain", "POST /v1/search -> 200: the body is not JSON: plain"),
        ('{"a": 1', 'POST /v1/search -> 200: the body is not JSON: {"a": 1'),
        ("[" * 100_000, f"POST /v1/search -> 200: the body is not JSON: {'[' * 300}"),
    ],
)
def test_a_body_that_is_not_json_is_a_mapping_error_with_a_short_excerpt(body: str, text: str) -> None:
    with pytest.raises(MappingError) as caught:
        answer(200, body).json()
    assert caught.value.message == text


def test_response_text_replaces_bytes_that_are_not_utf8() -> None:
    assert Response(status=200, headers={}, body=b"a\xff", timings=Timings()).text == "a\ufffd"


# ------------------------------------------------------------------------ limits


LIMITS = st.builds(
    Limits,
    rps=st.none() | st.floats(0.1, 100),
    burst=st.none() | st.floats(1, 10),
    tpm=st.none() | st.floats(1, 1000),
    concurrency=st.none() | st.integers(1, 50),
    min_interval_s=st.floats(0, 5),
)


@given(own=LIMITS, run=LIMITS)
def test_limits_of_the_run_win_and_a_rate_of_the_run_brings_its_own_pace(own: Limits, run: Limits) -> None:
    found = own.under(run)
    assert own.under(None) == own
    assert found.rate == (own.rate if run.rate is None else run.rate)
    assert found.burst == (own.burst if run.rate is None else run.burst)
    assert found.tpm == (run.tpm or own.tpm)
    assert found.concurrency == (run.concurrency or own.concurrency)
    if run.rate is not None and not run.min_interval_s:
        assert found.min_interval_s == 0


@each_row(
    ("limits", "rate", "burst"),
    [
        (Limits(), None, 1.0),
        (Limits(rps=10), 10.0, 1.0),
        (Limits(rps=200), 200.0, 5.0),
        (Limits(rpm=600), 10.0, 1.0),
        (Limits(rps=200, burst=2), 200.0, 2),
    ],
)
def test_the_default_burst_is_a_fortieth_of_the_rate_and_at_least_one(
    limits: Limits, rate: float | None, burst: float
) -> None:
    assert (limits.rate, limits.burst_size) == (rate, burst)


def test_rps_and_rpm_together_are_rejected() -> None:
    with pytest.raises(ValueError, match='"rps" and "rpm" exclude each other'):
        Limits(rps=1, rpm=60)


@each_row(
    ("timeouts", "retries", "call_s"),
    [
        (Timeouts(), 3, 180.0),
        (Timeouts(attempt_s=100), 3, 400.0),
        (Timeouts(attempt_s=100), 0, 180.0),
        (Timeouts(attempt_s=100, call_s=5), 3, 5),
    ],
)
def test_the_default_call_deadline_is_three_minutes_or_the_time_of_all_attempts(
    timeouts: Timeouts, retries: int, call_s: float
) -> None:
    assert replace(ENDPOINT, timeouts=timeouts, retry=Retry(max_retries=retries)).call_s == call_s


# ------------------------------------------------------------------------ waiting for the next attempt


def state(retry: Retry, *, refused: int = 0, lost: int = 0) -> CallState:
    endpoint = replace(ENDPOINT, retry=retry)
    found = CallState(
        endpoint=endpoint,
        request=Request("GET", "http://p.invalid/x"),
        limiter=RateLimiter(Limits(), Slots(1), adaptive=False),
        body=None,
        since=0.0,
    )
    found.refused, found.lost = refused, lost
    return found


@given(count=st.integers(1, 40), delay_s=st.floats(0.01, 10), most_s=st.floats(0.1, 100), seed=st.integers(0, 99))
async def test_the_retry_wait_is_within_a_span_that_doubles_up_to_max_delay_s(
    count: int, delay_s: float, most_s: float, seed: int
) -> None:
    retry = Retry(delay_s=delay_s, max_delay_s=most_s)
    lost = AttemptFailed(Unavailable("x"), repeat=True)
    pause_s = wait_s(state(retry, lost=count, refused=1), lost, random.Random(seed))
    assert 0 <= pause_s <= min(most_s, delay_s * 2 ** (count - 1))
    refused = AttemptFailed(RateLimited("x"), repeat=True, refused=True)
    assert wait_s(state(retry, lost=40, refused=1), refused, random.Random(seed)) <= min(most_s, delay_s)


@given(wait_s_of_server=st.floats(0, 100), seed=st.integers(0, 99))
async def test_the_retry_wait_is_at_least_the_wait_of_the_server(wait_s_of_server: float, seed: int) -> None:
    refused = AttemptFailed(RateLimited("x"), repeat=True, refused=True, wait_s=wait_s_of_server)
    pause_s = wait_s(state(Retry(delay_s=0.5), refused=3), refused, random.Random(seed))
    assert wait_s_of_server <= pause_s <= wait_s_of_server + 1.0


# ------------------------------------------------------------------------ feedback of headers


@each_row(
    ("headers", "at_least_s", "at_most_s"),
    [
        ({}, 0.0, 0.0),
        ({"left": "many"}, 0.0, 0.0),
        ({"left": "-1", "again": "10"}, 0.0, 0.0),
        ({"left": "10", "again": "10"}, 0.5, 1.0),
        ({"left": "0", "again": "10"}, 9.0, 10.0),
        ({"left": "1", "again": "1m30s"}, 80.0, 90.0),
        ({"left": "5"}, 0.0, 0.0),
        ({"left": "0"}, 0.5, 1.0),
        ({"left": " 0 ", "again": "soon"}, 0.5, 1.0),
    ],
)
async def test_the_remaining_quota_is_spread_over_the_time_until_its_reset(
    headers: dict[str, str], at_least_s: float, at_most_s: float
) -> None:
    from bench.http import Feedback

    limiter = RateLimiter(Limits(feedback=Feedback(remaining="left", reset="again")), Slots(1), adaptive=False)
    limiter.note_quota(headers)
    assert at_least_s <= limiter.closed_for() <= at_most_s
    silent = RateLimiter(Limits(), Slots(1), adaptive=False)
    silent.note_quota(headers)
    assert silent.closed_for() == 0


def test_close_for_never_shortens_a_pause() -> None:
    limiter = RateLimiter(Limits(), Slots(1), adaptive=False)
    limiter.close_for(50)
    limiter.close_for(1)
    assert limiter.closed_for() > 40


# ------------------------------------------------------------------------ times of an attempt


@each_row(
    ("stamps", "provider_s"),
    [
        (AttemptTimes(), 0.0),
        (AttemptTimes(begun=1, sent=2, first_byte=5, ended=6), 3.0),
        (AttemptTimes(begun=1, sent=2, ended=6), 0.0),
        (AttemptTimes(begun=1, first_byte=5, ended=6), 0.0),
        (AttemptTimes(begun=1, sent=5, first_byte=4, ended=6), 0.0),
    ],
)
def test_provider_time_is_from_the_request_sent_to_the_first_byte(stamps: AttemptTimes, provider_s: float) -> None:
    assert stamps.provider_s() == provider_s


def test_latency_excludes_the_time_in_queue_and_rate_limiter() -> None:
    assert Timings(queue_us=1, limiter_us=2, network_us=30, provider_us=400).latency_us == 430
