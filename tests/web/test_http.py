"""HTTP: HEAD, methods, caching, invalid headers and bodies, and request metrics."""

from __future__ import annotations

import io
import json
import re
import socket
from pathlib import Path

import anyio
import pytest

from bench.errors import UsageError
from bench.web.api import ENDPOINTS
from bench.web.app import Settings, open_site
from bench.web.openapi import openapi_document
from tests.full_journal import ItemData, write_run
from tests.small_journal import record
from tests.web.workspaces import Visit, visiting

READABLE = (
    "/", "/runs/r1", "/runs/r1/items", "/runs/r1/items/q1", "/compare", "/leaderboard", "/receipts", "/configs",
    "/verify.html", "/favicon.ico", "/healthz", "/readyz", "/api/v1/runs", "/api/v1/runs/r1", "/api/v1/runs/r1/items",
    "/api/v1/runs/r1/results", "/api/v1/openapi.json", "/static/site.css",
)  # fmt: skip


@pytest.fixture
async def workspace(tmp_path: Path) -> Path:
    """A run of two jobs with two items each."""
    items = [ItemData(item="q1"), ItemData(item="q2")]
    await write_run(tmp_path, "r1", [(record("x"), items), (record("y"), items)])
    return tmp_path


@pytest.mark.parametrize("path", READABLE)
async def test_head_has_the_status_and_headers_of_get_without_a_body(workspace: Path, path: str) -> None:
    async with visiting(workspace) as visit:
        status, body, got = await visit.ask("GET", path)
        head, nothing, head_headers = await visit.ask("HEAD", path)
    assert (status, head, nothing) == (200, 200, "")
    assert body
    assert head_headers["Content-Type"] == got["Content-Type"]
    assert head_headers["Content-Security-Policy"] == got["Content-Security-Policy"]


WRONG_METHODS = {
    "/api/v1/runs": (("PUT", "DELETE", "PATCH", "OPTIONS"), {"GET", "HEAD", "POST"}),
    "/api/v1/runs/r1": (("POST", "PUT", "DELETE", "PATCH"), {"GET", "HEAD"}),
    "/api/v1/runs/r1/pause": (("GET", "PUT", "DELETE"), {"POST"}),
    "/api/v1/compare": (("POST",), {"GET", "HEAD"}),
    "/runs": (("GET", "PUT"), {"POST"}),
    "/": (("POST", "DELETE"), {"GET", "HEAD"}),
    "/login": (("PUT",), {"GET", "HEAD"}),
}


@pytest.mark.parametrize("path", WRONG_METHODS)
async def test_a_wrong_method_is_405_with_the_allowed_ones(workspace: Path, path: str) -> None:
    methods, allowed = WRONG_METHODS[path]
    async with visiting(workspace, runs=True) as visit:
        for method in methods:
            status, text, headers = await visit.ask(method, path)
            assert status == 405, (method, path)
            assert set(re.split(r",\s*", headers["Allow"])) == allowed
            if path.startswith("/api/"):
                assert json.loads(text)["error"] == {
                    "kind": "method_not_allowed",
                    "message": "Method Not Allowed",
                    "hint": "the API is described at /api/v1/openapi.json",
                }


async def test_static_files_are_cached_with_an_etag_and_other_responses_are_not_stored(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        for path in READABLE:
            _, _, headers = await visit.ask("GET", path)
            assert headers.get("Cache-Control") == ("no-cache" if path.startswith("/static/") else "no-store"), path
        _, _, headers = await visit.ask("GET", "/static/site.css")
        status, body, again = await visit.ask("GET", "/static/site.css", headers={"If-None-Match": headers["ETag"]})
        assert (status, body, again["ETag"]) == (304, "", headers["ETag"])
        status, body, _ = await visit.ask("GET", "/static/site.css", headers={"If-None-Match": '"other"'})
        assert status == 200 and body


async def test_static_serves_only_files_of_the_package(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        for path in (
            "/static/",
            "/static",
            "/static/vendor",
            "/static/nope.css",
            "/static/site.css/x",
            "/static/~root",
        ):
            status, text, headers = await visit.ask("GET", path)
            assert status in (403, 404, 400), path
            assert "Index of" not in text and headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    ("headers", "status", "kind"),
    [
        ({"Host": ""}, 403, "host"),
        ({"Host": "evil.example"}, 403, "host"),
        ({"Host": "[::1"}, 403, "host"),
        ({"Host": "localhost:port"}, 403, "host"),
        ({"Host": "user@localhost"}, 403, "host"),
        ({"Host": "localhost/path"}, 403, "host"),
        ({"Origin": "null"}, 403, "origin"),
        ({"Origin": "http://["}, 403, "origin"),
        ({"Origin": ""}, 403, "origin"),
        ({"Origin": "http://evil.example"}, 403, "origin"),
    ],
)
async def test_a_foreign_or_invalid_host_or_origin_is_403(
    workspace: Path, headers: dict[str, str], status: int, kind: str
) -> None:
    async with visiting(workspace) as visit:
        found, text, _ = await visit.ask("GET", "/api/v1/runs", headers=headers)
    assert (found, json.loads(text)["error"]["kind"]) == (status, kind)


async def test_a_site_on_all_addresses_accepts_ip_addresses_and_rejects_foreign_names(workspace: Path) -> None:
    token = workspace / "token"
    async with visiting(workspace, host="0.0.0.0", token_file=token) as visit:
        for host, status in (
            ("192.168.7.9:3000", 200), ("[fe80::1]:3000", 200), ("localhost", 200), ("0.0.0.0", 200),
            ("evil.example", 403), ("1.2.3.4.evil.example", 403), ("999.1.1.1", 403),
        ):  # fmt: skip
            found, _ = await visit.get("/api/v1/runs", headers={**visit.token, "Host": host})
            assert found == status, host
        assert visit.site.url.startswith("http://127.0.0.1:")


async def raw(visit: Visit, *lines: str) -> str:
    """Send raw lines as a request and return the status line of the response."""
    host, port = visit.site.url.removeprefix("http://").split(":")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        await stream.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
        return (await stream.receive()).decode("latin-1").splitlines()[0]


async def test_malformed_request_lines_are_rejected(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        host = f"Host: {visit.site.url.removeprefix('http://')}"
        assert "200" in await raw(visit, "GET /healthz HTTP/1.1", host)
        for line, wanted in (
            ("GET http://evil.example/ HTTP/1.1", ("400",)),
            ("GET //evil.example/ HTTP/1.1", ("400",)),
            ("GET /runs/../../etc/passwd HTTP/1.1", ("400",)),
            ("GET /runs/r1/./items HTTP/1.1", ("400",)),
            ("GET /runs/%00 HTTP/1.1", ("400",)),
            ("GET /runs/r1\x01 HTTP/1.1", ("400",)),
            ("GET * HTTP/1.1", ("400",)),
            ("OPTIONS * HTTP/1.1", ("400", "405")),
            ("nonsense", ("400",)),
        ):
            first = await raw(visit, line, host)
            assert any(code in first for code in wanted), (line, first)
        assert "400" in await raw(visit, "GET /healthz HTTP/1.1", f"X: {'x' * 20_000}", host)
        assert (await raw(visit, "GET /healthz HTTP/1.1")).endswith(("400 Bad Request", "403 Forbidden")), "no Host"


FILE_FIELD = b'--b\r\nContent-Disposition: form-data; name="csrf_token"; filename="f"\r\n\r\nx\r\n--b--\r\n'


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/x-www-form-urlencoded; charset=nope", b"csrf_token=x"),
        ("application/x-www-form-urlencoded", b"csrf_token=%ff%fe"),
        ("application/x-www-form-urlencoded", b"csrf_token=\xff\xfe"),
        ("multipart/form-data", b"x"),
        ("multipart/form-data; boundary=b", b"--c\r\n"),
        ("multipart/form-data; boundary=b", FILE_FIELD),
        ("text/plain", b"csrf_token=x"),
        ("application/json", b'{"csrf_token": "x"}'),
    ],
)  # fmt: skip
async def test_a_form_that_cannot_be_parsed_is_rejected_and_pauses_no_run(
    workspace: Path, kind: str, body: bytes
) -> None:
    async with visiting(workspace, runs=True) as visit:
        headers = {**visit.cookie, "Content-Type": kind}
        status, _, _ = await visit.ask("POST", "/runs/r1/pause", headers=headers, data=body)
    assert status in (400, 403)
    assert not (workspace / "checkpoints" / "r1" / "pause").exists()


async def test_a_form_body_above_the_limit_is_413(workspace: Path) -> None:
    async with visiting(workspace, runs=True) as visit:
        headers = {**visit.cookie, "Content-Type": "application/x-www-form-urlencoded"}
        status, _, _ = await visit.ask("POST", "/runs", headers=headers, data=io.BytesIO(b"x=" * 2**20))
    assert status == 413


async def test_the_csrf_token_is_accepted_as_a_header(workspace: Path) -> None:
    async with visiting(workspace, runs=True) as visit:
        assert visit.site.secret is not None
        good = {**visit.cookie, "X-CSRF-Token": visit.site.secret.csrf}
        assert (await visit.ask("POST", "/api/v1/runs/r1/pause", headers=good))[0] == 202
        for wrong in ("", "x", "ä" * 3):
            status, text, _ = await visit.ask("POST", "/api/v1/runs/r1/pause", headers={**good, "X-CSRF-Token": wrong})
            assert (status, json.loads(text)["error"]) == (
                403,
                {
                    "kind": "csrf",
                    "message": 'the "csrf_token" of the form is missing or wrong',
                    "hint": "load the page again, then send the form",
                },
            )


@pytest.mark.parametrize(
    "header", ["Bearer", "Bearer ", "bearer wrong", "Basic dTpw", "Token x", "Bearer \u00e4", "Bearer x y"]
)
async def test_a_wrong_authorization_header_is_401_even_with_a_valid_cookie(workspace: Path, header: str) -> None:
    async with visiting(workspace, runs=True) as visit:
        raw_header = {"Authorization": header, **visit.cookie}
        status, text, headers = await visit.ask("GET", "/api/v1/runs", headers=raw_header)
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    assert json.loads(text)["error"]["message"] == "the token is wrong", "a valid cookie does not replace a wrong token"


async def test_the_scheme_of_the_authorization_header_is_case_insensitive(workspace: Path) -> None:
    async with visiting(workspace, runs=True) as visit:
        assert visit.site.secret is not None
        for scheme in ("Bearer", "bearer", "BEARER"):
            status, _ = await visit.get(
                "/api/v1/runs", headers={"Authorization": f"{scheme} {visit.site.secret.token}"}
            )
            assert status == 200


async def test_login_exchanges_the_token_for_a_cookie_and_rejects_a_wrong_one(workspace: Path) -> None:
    async with visiting(workspace, runs=True) as visit:
        assert visit.site.secret is not None
        status, text = await visit.get("/login", headers={})
        assert status == 200 and "The token is wrong" not in text and 'type="password"' in text
        status, text = await visit.get("/login?token=nope", headers={})
        assert status == 401 and "The token is wrong" in text
        status, _, headers = await visit.ask("GET", f"/login?token={visit.site.secret.token}", headers={})
        assert (status, headers["Location"]) == (303, "/")
        assert visit.site.secret.token not in headers["Set-Cookie"]
        assert "HttpOnly" in headers["Set-Cookie"] and "SameSite=Strict" in headers["Set-Cookie"]
        cookie = headers["Set-Cookie"].split(";")[0]
        assert (await visit.get("/", headers={"Cookie": cookie}))[0] == 200
    async with visiting(workspace) as visit:
        status, _, headers = await visit.ask("GET", "/login?token=x")
        assert (status, headers["Location"]) == (303, "/"), "nothing to log in to"


async def test_request_metrics_count_each_response_by_route_and_status(workspace: Path) -> None:
    async with visiting(workspace, runs=True) as visit:
        await visit.get("/runs/r1")
        await visit.get("/runs/nope")
        await visit.get("/nothing/here")
        await visit.get("/", headers={})
        await visit.get(f"/login?token={visit.site.secret.token}")  # type: ignore[union-attr]
        _, text = await visit.get("/api/v1/metrics")
    counted = dict(re.findall(r"bench_http_requests_total\{(.*?)\} (\S+)", text))
    assert counted == {
        'method="GET",route="/runs/{run_id}",status="200"': "1.0",
        'method="GET",route="/runs/{run_id}",status="404"': "1.0",
        'method="GET",route="none",status="404"': "1.0",
        'method="GET",route="/",status="401"': "1.0",
        'method="GET",route="/login",status="303"': "1.0",
    }


async def test_readyz_is_503_if_the_workspace_was_removed(workspace: Path) -> None:
    async with visiting(workspace) as visit:
        assert await visit.document("/readyz") == {"status": "ready", "problem": None}
        workspace.rename(workspace.with_name("elsewhere"))
        status, text = await visit.get("/api/v1/readyz")
        assert (status, json.loads(text)) == (
            503,
            {"status": "not ready", "problem": "the workspace does not exist any more"},
        )
        assert (await visit.get("/healthz"))[0] == 200


async def test_readyz_is_503_if_journals_cannot_be_written(workspace: Path) -> None:
    async with visiting(workspace, runs=True) as visit:
        assert (await visit.document("/readyz"))["status"] == "ready"
        assert not list((workspace / "checkpoints").glob(".ready-*")), "the check leaves no file"
        (workspace / "checkpoints").rename(workspace / "moved")
        (workspace / "checkpoints").write_text("no folder")
        status, text = await visit.get("/readyz", headers={})
        (workspace / "checkpoints").unlink()
        (workspace / "moved").rename(workspace / "checkpoints")
    assert status == 503
    assert json.loads(text)["problem"] == "the journal folder cannot be written: FileExistsError"


async def test_a_port_in_use_raises_UsageError(workspace: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ExceptionGroup) as refused:
            async with open_site(Settings(workspace=workspace, port=port)):
                pass
    (error,) = refused.value.exceptions
    assert isinstance(error, UsageError)
    assert str(error) == f"cannot listen on 127.0.0.1:{port}: Address already in use"
    assert error.hint == "choose another --port"


def test_the_openapi_document_describes_each_route_with_parameters_and_body() -> None:
    from bench.web.api import routes

    document = openapi_document(ENDPOINTS)
    paths = document["paths"]
    assert isinstance(paths, dict)
    served = {(route.method.lower(), route.path) for route in routes() if route.path.startswith("/api/")}
    described = {(method, path) for path, methods in paths.items() for method in methods}
    assert described == served
    for path, methods in paths.items():
        for method, operation in methods.items():
            named = {one["name"] for one in operation["parameters"] if one["in"] == "path"}
            assert named == set(re.findall(r"{(\w+)}", path))
            assert "default" in operation["responses"]
            assert ("requestBody" in operation) is ((method, path) == ("post", "/api/v1/runs"))
            assert (operation.get("security") == []) is path.endswith(("/healthz", "/readyz"))
    ids = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(ids) == len(set(ids))


def test_each_reference_of_the_openapi_document_resolves() -> None:
    document = openapi_document(ENDPOINTS)
    text = json.dumps(document)
    components = document["components"]
    assert isinstance(components, dict)
    for name in set(re.findall(r'"#/components/schemas/([^"]+)"', text)):
        assert name in components["schemas"], name
    assert "$defs" not in text
