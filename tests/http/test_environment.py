"""Proxies and certificates that the process environment names are used."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bench.http import Endpoint, Http, Request

Serve = Callable[[Callable[[web.Request], Awaitable[web.StreamResponse]]], Awaitable[str]]
ENDPOINT = Endpoint(name="p.search", role="provider")

CALL = """
import anyio, sys
from bench.http import Endpoint, Http, Request, Retry
async def main():
    async with Http() as http:
        where = Endpoint(name="p", role="provider", retry=Retry(max_retries=0))
        print((await http.call(where, Request("GET", sys.argv[1]))).text)
anyio.run(main)
"""


async def test_a_proxy_from_the_environment_is_used_with_its_credentials(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[tuple[str, str | None]] = []

    async def proxy(request: web.Request) -> web.Response:
        requests.append((str(request.url), request.headers.get("Proxy-Authorization")))
        return web.json_response({"through": "proxy"})

    url = await serve(proxy)
    monkeypatch.setenv("http_proxy", url.replace("http://", "http://user:word@"))
    monkeypatch.setenv("no_proxy", "direct.invalid")
    async with Http() as http:
        response = await http.call(ENDPOINT, Request("GET", "http://memory.invalid/v1/search"))
    assert response.json() == {"through": "proxy"}
    assert requests[0][0] == "http://memory.invalid/v1/search"
    assert (requests[0][1] or "").startswith("Basic ")


async def test_a_host_in_no_proxy_is_called_directly(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    async def direct(_request: web.Request) -> web.Response:
        return web.json_response({"through": "nothing"})

    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    async with Http() as http:
        response = await http.call(ENDPOINT, Request("GET", f"{await serve(direct)}/"))
    assert response.json() == {"through": "nothing"}


async def test_a_netrc_entry_does_not_replace_the_authorization_header(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.json_response({"auth": request.headers.get("Authorization")})

    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    async with Http() as http:
        headers = {"Authorization": "Bearer k"}
        response = await http.call(ENDPOINT, Request("GET", await serve(echo), headers=headers))
    assert response.json() == {"auth": "Bearer k"}


def self_signed(folder: Path) -> tuple[Path, Path]:
    """Return the files of a certificate for 127.0.0.1 and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    chain, secret = folder / "cert.pem", folder / "key.pem"
    chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return chain, secret


async def test_ssl_cert_file_decides_which_certificates_are_trusted(tmp_path: Path) -> None:
    import asyncio

    chain, secret = self_signed(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(chain, secret)

    async def handler(_request: web.BaseRequest) -> web.Response:
        return web.Response(text="trusted")

    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    assert site._server is not None
    url = f"https://127.0.0.1:{site._server.sockets[0].getsockname()[1]}/"

    def call(**extra: str) -> subprocess.CompletedProcess[str]:
        environment = {key: value for key, value in os.environ.items() if key != "SSL_CERT_FILE"} | extra
        return subprocess.run([sys.executable, "-c", CALL, url], capture_output=True, text=True, env=environment)

    trusted = await asyncio.to_thread(call, SSL_CERT_FILE=str(chain))
    refused = await asyncio.to_thread(call)
    await runner.cleanup()
    assert trusted.stdout.strip() == "trusted", trusted.stderr
    assert "Unreachable" in refused.stderr and "set SSL_CERT_FILE to the CA's PEM file" in refused.stderr
    assert "CERTIFICATE_VERIFY_FAILED" in refused.stderr.upper()
