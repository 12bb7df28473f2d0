"""Responses become hits: every response key, and every kind of invalid body."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import (
    AuthError,
    CallError,
    IngestFailed,
    MappingError,
    QuotaError,
    RateLimited,
    Rejected,
    Unavailable,
)
from bench.model import Found, Hit, Memory
from bench.providers import Lists
from bench.providers.declarative.response import as_ids
from bench.untyped_values import instant, number, whole_number
from tests.providers.declared import playing
from tests.rows import each_row

R = "endpoints.search.response"


async def search_result(changes: dict[str, object], answer: object, k: int = 3, sent: int = 1) -> Found:
    """Add ``sent`` memories m0, m1, ... and return the result of a search."""
    async with playing(changes, {"POST /search": answer}) as play:
        for index in range(sent):
            from bench.model import Memory

            await play.ingest(Memory(id=f"m{index}", content=f"text {index}"))
        found = await play.search(k=k)
        assert isinstance(found, Found)
        return found


async def hits(changes: dict[str, object], *rows: object, **more: int) -> tuple[Hit, ...]:
    return (await search_result(changes, {"results": list(rows)}, **more)).hits


# ------------------------------------------------------------------ rows


async def test_more_hits_than_k_are_cut_and_counted() -> None:
    found = await search_result({}, {"results": [{"text": str(i)} for i in range(30)]}, k=10)
    assert (found.requested, found.returned, len(found.hits)) == (10, 30, 10)
    assert [hit.content for hit in found.hits] == [str(i) for i in range(10)]


async def test_an_empty_list_has_no_hits_and_a_missing_list_is_a_MappingError() -> None:
    assert (await search_result({}, {"results": []})).hits == ()
    for body, message in (
        ({"hits": []}, "nothing there"),
        ({"results": {}}, "expected a list, found an object"),
        ({"results": None}, "null"),
    ):
        with pytest.raises(MappingError, match=rf'search.response.results "\$.results": .*{message}'):
            await search_result({}, body)
    assert (await search_result({f"{R}.missing_is_empty": True}, {})).hits == ()
    assert (await search_result({f"{R}.missing_is_empty": True}, {"results": None})).hits == ()


async def test_a_path_with_star_collects_rows() -> None:
    found = await search_result(
        {f"{R}.results": "$.groups[*].text", f"{R}.contentField": "$"}, {"groups": [{"text": "a"}, {"text": "b"}]}
    )
    assert [hit.content for hit in found.hits] == ["a", "b"]


async def test_zip_joins_parallel_arrays_and_a_null_array_gives_nulls() -> None:
    changes: dict[str, object] = {
        f"{R}.results": ...,
        f"{R}.zip": {"id": "$.ids[0]", "text": "$.docs[0]", "d": "$.dist[0]"},
        f"{R}.score": {"field": "$.d", "transform": "1-x"},
    }
    body: dict[str, object] = {"ids": [["a", "b"]], "docs": [["x", "y"]], "dist": [[0.25, 1]]}
    found = await search_result(changes, body)
    assert [(hit.id, hit.content, hit.score) for hit in found.hits] == [("a", "x", 0.75), ("b", "y", 0.0)]
    found = await search_result(changes, {**body, "dist": [None]})
    assert [hit.score for hit in found.hits] == [None, None]
    with pytest.raises(MappingError, match="lengths differ"):
        await search_result(changes, {**body, "docs": [["x"]]})
    with pytest.raises(MappingError, match=r'zip.d "\$.dist\[0\]": nothing there'):
        await search_result(changes, {"ids": [["a"]], "docs": [["x"]]})


async def test_flatten_returns_children_with_fields_of_the_parent() -> None:
    changes: dict[str, object] = {
        f"{R}.flatten": {"path": "$.chunks", "keep": {"file": "$.id"}},
        f"{R}.id_from": [{"field": "$.file"}],
    }
    rows = [{"id": "m0", "chunks": [{"text": "a"}, {"text": "b"}]}, {"id": "m1", "chunks": [{"text": "c"}]}]
    found = await hits(changes, *rows, sent=2)
    assert [(hit.content, hit.source_ids) for hit in found] == [("a", ("m0",)), ("b", ("m0",)), ("c", ("m1",))]


async def test_flatten_without_children_is_a_MappingError_but_empty_lists_are_not() -> None:
    changes: dict[str, object] = {f"{R}.flatten": {"path": "$.chunks[*]"}, f"{R}.id_from": "none"}
    assert await hits(changes, {"id": "m0", "chunks": []}, {"id": "m1"}) == ()
    assert await hits(changes) == ()
    with pytest.raises(MappingError, match=r'search.response.flatten.path "\$.chunks\[\*\]": nothing there'):
        await hits(changes, {"id": "m0", "parts": [{"text": "a"}]})


async def test_pages_are_requested_until_k_hits() -> None:
    changes: dict[str, object] = {"endpoints.search.page": {"cursor": "$.next", "param": "after", "max_pages": 3}}
    pages = [
        {"results": [{"text": "a"}], "next": "p2"},
        {"results": [{"text": "b"}], "next": "p3"},
        {"results": [{"text": "c"}], "next": "p4"},
    ]
    async with playing(changes, {"POST /search": pages}) as play:
        found = await play.search(k=5)
        assert [hit.content for hit in found.hits] == ["a", "b", "c"]
        assert [one.query for one in play.service.seen] == [[], [("after", "p2")], [("after", "p3")]]
    async with playing(changes, {"POST /search": [*pages]}) as play:
        await play.search(k=1)
        assert len(play.service.seen) == 1
    pages = [{"results": [{"text": "a"}, {"text": "b"}], "next": "p2"}, {"results": [{"text": "c"}, {"text": "d"}]}]
    async with playing(changes, {"POST /search": pages}) as play:
        found = await play.search(k=3)
        assert found.returned == 3 == len(found.hits), "the last page brought more than was left to ask for"


async def test_hits_without_ids_are_numbered_over_all_pages_and_a_repeated_hit_keeps_its_number() -> None:
    changes: dict[str, object] = {
        "endpoints.search.page": {"cursor": "$.next", "param": "after"},
        f"{R}.id_from": "none",
    }
    a, b, c = ({"text": text, "score": 0.5} for text in "abc")
    pages = [{"results": [a, b], "next": "p2"}, {"results": [b, c]}]
    async with playing(changes, {"POST /search": pages}) as play:
        found = await play.search(k=5)
    assert [(hit.id, hit.content) for hit in found.hits] == [("0", "a"), ("1", "b"), ("1", "b"), ("3", "c")]


# --------------------------------------------------------------- content


async def test_contentField_uses_the_first_path_with_text() -> None:
    changes: dict[str, object] = {f"{R}.contentField": ["$.memory", "$.chunk"]}
    found = await hits(
        changes, {"memory": "", "chunk": "b"}, {"chunk": "c"}, {"memory": "a", "chunk": "x"}, {"memory": ""}, k=9
    )
    assert [hit.content for hit in found] == ["b", "c", "a", ""]
    with pytest.raises(MappingError, match=r'contentField "\$.memory", "\$.chunk": nothing there'):
        await hits(changes, {"memory": None})


async def test_several_matches_of_contentField_are_joined() -> None:
    rows = [{"content": [{"text": "a"}, {"text": "b"}]}]
    assert (await hits({f"{R}.contentField": "$.content[*].text"}, *rows))[0].content == "a\nb"
    joined: dict[str, object] = {f"{R}.contentField": "$.content[*].text", f"{R}.content_join": " | "}
    assert (await hits(joined, *rows))[0].content == "a | b"


async def test_a_renamed_field_is_a_MappingError_with_path_and_body() -> None:
    with pytest.raises(MappingError) as caught:
        await hits({}, {"id": "x1", "txet": "us"})
    assert str(caught.value).startswith(
        'search.response.contentField "$.text": nothing there; body: {"results": [{"id"'
    )


async def test_the_body_in_an_error_is_shortened_and_without_keys() -> None:
    key = "sk-0123456789abcdefghijklmnop"
    with pytest.raises(MappingError) as caught:
        await hits({}, {"note": key + "x" * 5000})
    assert key not in str(caught.value)
    assert len(str(caught.value)) < 420


async def test_an_object_as_content_is_a_MappingError() -> None:
    with pytest.raises(MappingError, match="expected text, found an object"):
        await hits({}, {"text": {"a": 1}})


# ----------------------------------------------------------------- score


async def test_a_missing_score_is_None_and_numeric_text_is_a_number() -> None:
    changes: dict[str, object] = {f"{R}.scoreField": "$.s"}
    found = await hits(
        changes, {"text": "a", "s": 0.7}, {"text": "b", "s": "0.6"}, {"text": "c", "s": None}, {"text": "d"}, k=9
    )
    assert [hit.score for hit in found] == [0.7, 0.6, None, None]


@each_row("score", ["NaN", "high", "inf", 10**400])
async def test_a_score_that_is_not_finite_is_None_and_flagged(score: object) -> None:
    found = await search_result({f"{R}.scoreField": "$.s"}, {"results": [{"text": "a", "s": score}]})
    assert ([hit.score for hit in found.hits], found.flags) == ([None], ("unreadable_values",))
    with pytest.raises(MappingError, match="because hits are sorted by score"):
        await search_result({f"{R}.score": {"field": "$.s", "order": "desc"}}, {"results": [{"text": "a", "s": score}]})


@pytest.mark.parametrize("score", [True, [1], {}])
async def test_a_score_of_another_type_is_a_MappingError(score: object) -> None:
    with pytest.raises(MappingError, match=r'scoreField "\$.s": expected a finite number'):
        await hits({f"{R}.scoreField": "$.s"}, {"text": "a", "s": score})


async def test_NaN_as_JSON_number_is_None() -> None:
    answer: Callable[[object], web.Response] = lambda _: web.Response(text='{"results": [{"text": "a", "s": NaN}]}')  # noqa: E731
    assert (await search_result({f"{R}.scoreField": "$.s"}, answer)).hits[0].score is None


@each_row(
    ("transform", "wanted"),
    [("none", [0.25, 1.0]), ("1-x", [0.75, 0.0]), ("-x", [-0.25, -1.0]), ("1/(1+x)", [0.8, 0.5])],
)
async def test_transform_changes_the_score_but_not_the_order(transform: str, wanted: list[float]) -> None:
    changes: dict[str, object] = {f"{R}.score": {"field": "$.s", "kind": "distance", "transform": transform}}
    found = await hits(changes, {"text": "a", "s": 0.25}, {"text": "b", "s": 1})
    assert [hit.score for hit in found] == wanted


async def test_score_order_sorts_hits_stably() -> None:
    rows = [{"text": "a", "s": 1}, {"text": "b", "s": 3}, {"text": "c"}, {"text": "d", "s": 3}]

    async def order(rule: str) -> str:
        found = await hits({f"{R}.score": {"field": "$.s", "order": rule}}, *rows, k=9)
        return "".join(hit.content for hit in found)

    assert [await order(rule) for rule in ("as_returned", "desc", "asc")] == ["abcd", "bdac", "abdc"]


async def test_score_kind_rank_gives_no_scores() -> None:
    assert (await hits({f"{R}.score": {"field": "$.s", "kind": "rank"}}, {"text": "a", "s": 1}))[0].score is None


# ---------------------------------------------------------- dates, chunks


@each_row("value", ["2023-05-08T13:56:00Z", "2023-05-08T13:56:00", 1683554160, 1683554160000, "1683554160"])
async def test_hit_dates_are_read_in_every_format(value: object) -> None:
    (hit,) = await hits({f"{R}.when": "$.at"}, {"text": "a", "at": value})
    assert hit.when == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)


async def test_a_missing_date_is_None_and_an_unreadable_one_is_flagged() -> None:
    rows = [{"text": "a"}, {"text": "b", "at": None}, {"text": "c", "at": ""}]
    found = await search_result({f"{R}.when": "$.at"}, {"results": rows})
    assert ([hit.when for hit in found.hits], found.flags) == ([None] * 3, ())
    found = await search_result({f"{R}.when": "$.at"}, {"results": [{"text": "a", "at": "soon"}]})
    assert ([hit.when for hit in found.hits], found.flags) == ([None], ("unreadable_values",))
    with pytest.raises(MappingError, match=r'when "\$.at": expected a date, found an object'):
        await hits({f"{R}.when": "$.at"}, {"text": "a", "at": {}})


async def test_chunks_are_part_of_the_hit() -> None:
    found = await hits(
        {f"{R}.chunksField": "$.chunks"}, {"text": "a", "chunks": ["x", {"content": "y"}, {"n": 1}]}, {"text": "b"}
    )
    assert [hit.chunks for hit in found] == [("x", "y", '{"n":1}'), ()]


# --------------------------------------------------------------- sources


@each_row(
    ("form", "row"),
    [
        ({"field": "$.id"}, {"id": "m1"}),
        ({"field": "$.ids"}, {"ids": ["zz", "m1", "m1"]}),
        ({"metadata": "bench_id"}, {"metadata": {"bench_id": "m1"}}),
        ({"tag_prefix": "bench:", "field": "$.tags"}, {"tags": ["a", "bench:m1"]}),
        ({"content_hash": True}, {"text": "text 1"}),
    ],
)
async def test_each_id_from_form_maps_a_hit_to_its_memory(form: dict[str, object], row: dict[str, object]) -> None:
    found = await hits({f"{R}.id_from": [form]}, {"text": "other", **row}, sent=2)
    assert found[0].source_ids == ("m1",)


async def test_a_captured_map_maps_ids_of_the_service_to_memories() -> None:
    changes: dict[str, object] = {
        "endpoints.add.response": {"id_map": {"name": "episodes", "key": "$.uuid", "value": "sent"}},
        f"{R}.id_from": [{"captured": "episodes", "field": "$.episode_uuids"}],
    }
    answers: dict[str, object] = {
        "POST /add": [{"uuid": "u0"}, {"uuid": "u1"}],
        "POST /search": {"results": [{"text": "fact", "episode_uuids": ["u1", "u0"]}]},
    }
    async with playing(changes, answers) as play:
        first = await play.add("a")
        assert first.ids == {"m0": ("u0",)}
        assert first.captures["episodes"] == {"u0": "m0"}
        await play.ingest(Memory(id="m1", content="b"))
        found = await play.search()
        assert found.hits[0].source_ids == ("m1", "m0")


async def test_id_map_needs_one_id_per_memory_unless_there_is_one_memory() -> None:
    id_map = {"name": "e", "key": "$.uuids", "value": "sent"}
    changes: dict[str, object] = {
        "endpoints.add.response": {"id_map": id_map},
        "endpoints.add.body": {"docs": {"$column": "content"}},
        "ingest.batch": {"max_items": 9},
    }
    async with playing(changes, {"POST /add": {"uuids": ["a", "b", "c"]}}) as play:
        with pytest.raises(MappingError, match="3 ids for 2 memories"):
            await play.add("x", "y")
        assert (await play.add("x")).captures["e"] == {"a": "m0", "b": "m0", "c": "m0"}


async def test_the_first_id_from_form_with_a_sent_id_is_used() -> None:
    forms = [{"metadata": "bench_id"}, {"field": "$.id"}]
    found = await hits({f"{R}.id_from": forms}, {"text": "a", "id": "m0", "metadata": {"bench_id": "foreign"}}, sent=2)
    assert found[0].source_ids == ("m0",)


async def test_id_from_that_maps_no_hit_is_a_MappingError_and_unmapped_hits_are_counted() -> None:
    changes: dict[str, object] = {f"{R}.id_from": [{"field": "$.id"}]}
    with pytest.raises(MappingError, match=r"search\.response\.id_from: no hit has the id"):
        await hits(changes, {"text": "a", "id": "zz"})
    found = await search_result(changes, {"results": [{"text": "a", "id": "zz"}, {"text": "b", "id": "m0"}]})
    assert (found.unmapped, found.ids_available) == (1, True)


async def test_hits_with_a_sent_id_that_no_rule_reads_are_a_MappingError_at_once() -> None:
    changes: dict[str, object] = {f"{R}.id_from": [{"content_hash": True}]}
    memory = Memory(id="m0123456789abcdef", content="a dog")
    for found_id, fails in ((memory.id, True), ("mfedcba9876543210", False)):
        answers: dict[str, object] = {"POST /search": {"results": [{"text": "A dog.", "id": found_id}]}}
        async with playing(changes, answers) as play:
            await play.ingest(memory)
            if fails:
                with pytest.raises(MappingError, match=r"search\.response\.id_from: no hit is mapped.*with field"):
                    await play.search()
            else:  # an id of another namespace: the check of the isolation reports it
                assert (await play.search()).unmapped == 1


async def test_before_ingest_an_unknown_hit_is_not_a_MappingError() -> None:
    found = await search_result({f"{R}.id_from": [{"field": "$.id"}]}, {"results": [{"text": "a", "id": "zz"}]}, sent=0)
    assert (len(found.hits), found.unmapped) == (1, 1)


async def test_without_id_from_hits_map_only_by_the_ids_of_the_service() -> None:
    found = await search_result({}, {"results": [{"text": "a", "id": "own"}]})
    assert (found.ids_available, found.unmapped) == (False, 1)
    assert (await search_result({}, {"results": [{"text": "a", "id": "m0"}]})).ids_available
    assert not (await search_result({f"{R}.id_from": "none"}, {"results": [{"text": "a", "id": "m0"}]})).ids_available
    short: dict[str, object] = {f"{R}.idField": "$.key"}
    assert (await hits(short, {"text": "a", "key": "m0"}))[0].source_ids == ("m0",)


# ---------------------------------------------------------------- errors


@each_row(
    ("rule", "body", "error"),
    [
        ({"path": "$.errno", "not_equals": 0}, {"errno": 5}, Rejected),
        ({"path": "$.code", "not_in": [200, 201]}, {"code": 500}, Rejected),
        ({"path": "$.code", "in": [402], "kind": "quota"}, {"code": 402}, QuotaError),
        ({"path": "$.status", "equals": "denied", "kind": "auth"}, {"status": "denied"}, AuthError),
        ({"path": "$.errors", "non_empty": True}, {"errors": ["x"]}, Rejected),
        ({"path": "$.error", "exists": True, "kind": "ingest_failed"}, {"error": None}, IngestFailed),
        ({"path": "$.error", "exists": True, "kind": "unavailable"}, {"error": 1}, Unavailable),
        ({"path": "$.error", "exists": True, "kind": "rate_limited"}, {"error": 1}, RateLimited),
    ],
)
async def test_error_when_turns_a_good_response_into_an_error(
    rule: dict[str, object], body: dict[str, object], error: type[CallError]
) -> None:
    changes: dict[str, object] = {"errors.error_when": [{**rule, "message": "$.reason"}]}
    with pytest.raises(error, match=r"errors.error_when\[0\].*no luck"):
        await search_result(changes, {**body, "reason": "no luck"}, sent=0)


async def test_a_temporary_error_when_error_is_retried() -> None:
    changes: dict[str, object] = {"errors.error_when": [{"path": "$.busy", "equals": True, "kind": "unavailable"}]}
    async with playing(changes, {"POST /search": [{"busy": True}, {"results": []}]}) as play:
        await play.search()
        assert len(play.service.seen) == 2


async def test_a_good_body_matches_no_error_when_rule() -> None:
    rules = [
        {"path": "$.errno", "not_equals": 0},
        {"path": "$.errors", "non_empty": True},
        {"path": "$.e", "exists": True},
    ]
    changes: dict[str, object] = {"errors.error_when": rules}
    assert (await search_result(changes, {"results": [], "errno": 0, "errors": []}, sent=0)).hits == ()


async def test_partial_failures_are_matched_by_id() -> None:
    changes: dict[str, object] = {
        "ingest.batch": {"max_items": 9},
        "endpoints.add.body": {"docs": {"$column": "content"}},
        "endpoints.add.partial": {
            "items": "$.r",
            "id": "$.id",
            "failed_when": {"$.status": ["failed"]},
            "message": "$.error",
        },
    }
    body = {"r": [{"id": "m1", "status": "ok"}, {"id": "m0", "status": "failed", "error": "too long"}]}
    async with playing(changes, {"POST /add": body}) as play:
        got = await play.add("a", "b")
        assert dict(got.rejected) == {"m0": "too long"}
        assert set(got.ids) == {"m1"}
        assert play.space.captures["$sent"] == ["m1"]
    async with playing(changes, {"POST /add": {"r": [{"id": "??", "status": "failed"}]}}) as play:
        with pytest.raises(MappingError, match="the service refused a memory whose id was never sent"):
            await play.add("a", "b")


async def test_a_response_above_max_response_bytes_is_a_MappingError() -> None:
    changes: dict[str, object] = {"connection.max_response_bytes": 2000}
    with pytest.raises(MappingError, match="larger than 2000"):
        await search_result(changes, {"results": [], "pad": "x" * 5000}, sent=0)


@each_row("body", ["<html>busy</html>", "", '{"results": [', "null"])
async def test_a_body_that_is_not_a_JSON_object_is_a_MappingError(body: str) -> None:
    with pytest.raises(MappingError):
        await search_result({}, lambda _: web.Response(text=body), sent=0)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(value=json_values)
def test_as_ids_number_and_instant_accept_any_value(value: object) -> None:
    assert all(isinstance(one, str) for one in as_ids(value))
    assert (number(value) or 0.0) < math.inf and (whole_number(value) or 0) >= 0
    found = instant(value)
    assert found is None or found.astimezone(UTC).tzinfo is UTC


async def test_an_assumed_batch_can_be_mapped_and_cleared() -> None:
    from bench.model import Memory
    from bench.providers import Assumes

    changes: dict[str, object] = {f"{R}.id_from": [{"field": "$.id"}]}
    async with playing(changes, {"POST /search": {"results": [{"text": "a", "id": "m7"}]}}) as play:
        assert isinstance(play.provider, Assumes)
        got = play.provider.assumed(play.space, [Memory(id="m7", content="a")], {})
        assert got.captures == {"$sent": ["m7"], "$stored": ["m7"]}
        play.take(got.captures)
        assert (await play.search()).hits[0].source_ids == ("m7",)
        assert play.service.calls() == ["POST /search"]


@pytest.mark.parametrize("beside", [{"total": 9}, {"next_cursor": "c2"}])
async def test_a_list_of_only_the_first_page_is_a_MappingError(beside: dict[str, object]) -> None:
    response = {"results": "$.results", "contentField": "$.text"}
    changes: dict[str, object] = {"endpoints.list": {"method": "GET", "path": "/memories", "response": response}}
    rows = [{"text": "one"}, {"text": "two"}]
    pages = [{"results": rows, "total": 2}, {"results": rows, **beside}]
    async with playing(changes, {"GET /memories": pages}) as play:
        assert isinstance(play.provider, Lists) and len(await play.provider.list(play.space)) == 2
        with pytest.raises(MappingError, match="but reports that its list is longer"):
            await play.provider.list(play.space)
