"""The static page, driven in a real browser from a file:// address."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.canonical import dumps
from bench.receipt.signing.keyring import Keyring
from bench.receipt.signing.keys import new_key, revoke
from tests.canonical.test_canonical_vectors import input_bytes
from tests.web.browser import CHROMIUM, Browser, browsing

PAGE = Path("docs/verify.html")
VERDICT = "document.getElementById('verdict').textContent"
MEANS = "document.getElementById('means').textContent"
FORBIDDEN = (
    "innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "fetch(", "XMLHttp", "localStorage",
    "sessionStorage", "indexedDB", "document.cookie", "WebSocket", "sendBeacon", "src=", "href=",
)  # fmt: skip
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="CHROMIUM IS NOT INSTALLED: the page was not tested")


# ------------------------------------------------------------------ without browser


def test_the_page_allows_only_its_own_inline_script_and_style(root: Path) -> None:
    text = (root / PAGE).read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None and policy[1].startswith("default-src 'none'")
    for name in ("script", "style"):
        inline = re.findall(rf"<{name}>(.*?)</{name}>", text, re.DOTALL)
        assert len(inline) == 1
        digest = base64.b64encode(sha256(inline[0].encode()).digest()).decode()
        assert f"{name}-src 'sha256-{digest}'" in policy[1], f"{name}: 'sha256-{digest}'"


def test_the_page_uses_no_network_no_storage_and_no_markup_from_text(root: Path) -> None:
    text = (root / PAGE).read_text(encoding="utf-8")
    for name in FORBIDDEN:
        assert name not in text, name


# --------------------------------------------------------------------- with browser


class Page(Browser):
    """The page that verifies receipts."""

    async def check(self, *files: Path) -> str:
        """Give files to the page and return its verdict."""
        await self.value(f"{VERDICT} = 'waiting'")
        await self.give("#files", *files)
        with anyio.fail_after(60):
            while (text := await self.value("document.getElementById('verdict').textContent")) in (
                "waiting",
                "Checking…",
            ):
                await anyio.sleep(0.02)
        return str(text)

    async def cpu_s(self) -> float:
        """CPU seconds of the page's thread so far; a busy machine does not count."""
        metrics = (await self.call("Performance.getMetrics"))["metrics"]
        return next(float(one["value"]) for one in metrics if one["name"] == "TaskDuration")


@asynccontextmanager
async def driven(page: Path) -> AsyncIterator[Page]:
    async with browsing(Page) as browser:
        await browser.open(page.as_uri())
        yield browser


@pytest.fixture
def key_file(desk: Any) -> Path:
    path = desk.folder / "tester.pub"
    path.write_text(desk.key.public.pem)
    return path  # type: ignore[no-any-return]


@needs_browser
async def test_the_page_checks_valid_tampered_and_hostile_receipts(
    root: Path, desk: Any, make: Any, key_file: Path, tmp_path: Path
) -> None:
    good = desk.good()
    items = good.with_name(f"{make.RECEIPT_ID}.items.jsonl")
    whole = good.read_bytes()
    bad = tmp_path / "bad.json"
    async with driven(root / PAGE) as browser:
        assert await browser.value("isSecureContext") is True
        assert await browser.check(good, items, key_file) == "VALID"
        assert await browser.value("document.getElementById('rows').children.length") == 5
        assert await browser.value("document.getElementById('checks').textContent.includes('fail')") is False
        assert "stated exactly these bytes. The 10 rows" in await browser.value(MEANS)
        about = await browser.value("document.getElementById('about').textContent")
        assert "demo 1" in about and "judge acme/judge-1" in about and "10 planned, 0 failed" in about

        bad.write_bytes(whole.replace(b'"demo"', b'"demO"'))
        assert (await browser.check(bad)).startswith("INVALID signature_invalid")
        assert await browser.value("document.getElementById('scores').hidden") is True
        assert await browser.value("document.getElementById('told').textContent") == "What the receipt claims"
        assert await browser.value(MEANS) == "Do not rely on any number of this document."
        items_kept = items.read_bytes()
        items.write_bytes(items_kept.replace(b'"mrr":0.5', b'"mrr":0.6'))
        assert (await browser.check(good, items)).startswith("INVALID items_sha256")
        items.write_bytes(items_kept)

        await browser.open((root / PAGE).as_uri())
        assert (await browser.check(good)).startswith("UNTRUSTED key_unknown: signed by an unknown key")
        assert await browser.check(key_file) == "VALID (items file not given, scores not recomputed)"

        hostile = desk.good(provider__name="<img src=x onerror=\"document.title='taken'\">", benchmark__name="<script>")
        assert await browser.check(hostile, items) == "VALID"
        assert await browser.value("document.title") == "Verify a receipt"
        assert await browser.value("document.querySelectorAll('img').length") == 0
        assert "<img src=x" in await browser.value("document.getElementById('about').textContent")
        assert [url for url in browser.requests if not url.startswith("file:")] == []


@needs_browser
async def test_the_page_shows_the_reason_codes_of_the_command_line(
    root: Path, desk: Any, make: Any, key_file: Path, tmp_path: Path, shared: Path
) -> None:
    good = desk.good()
    whole = good.read_bytes()
    document = json.loads(whole)
    cases: list[tuple[str, bytes]] = [
        ("bom", b"\xef\xbb\xbf" + whole),
        ("not_utf8", whole.replace(b'"demo"', b'"\xff"')),
        ("syntax", whole[:-3]),
        ("duplicate_key", whole.replace(b'"kind"', b'"kind": "run", "ki\\u006ed"', 1)),
        ("duplicate_key", b'{"__proto__": 1, "__proto__": 2}'),
        ("number_not_finite", b'{"a": NaN}'),
        ("integer_out_of_range", b'{"a": 9007199254740992}'),
        ("lone_surrogate", b'{"a": "\\ud800"}'),
        ("too_deep", b"[" * 65 + b"]" * 65),
        ("schema_missing", b"{}"),
        ("schema_unknown", b'{"schema": "bench.receipt/2"}'),
        ("field_unknown", dumps({**document, "__proto__": 1})),
        ("field_missing", dumps({name: document[name] for name in document if name != "run"})),
        ("signature_missing", dumps({name: document[name] for name in document if name != "signature"})),
        ("algorithm_unsupported", dumps({**document, "signature": {**document["signature"], "algorithm": "x"}})),
        ("bad_signature_encoding", whole.replace(document["signature"]["value"].encode(), b"AA==")),
        ("config_digest", desk.write({**document, "configDigest": "00" * 32}, None).read_bytes()),
        ("invariant_times", desk.good(issuedAt="2026-11-01T10:59:00Z").read_bytes()),
        ("invariant_percentiles", desk.good(scores__measured__search_us__p50=9).read_bytes()),
        ("invariant_counts", desk.good(counts__scored=1).read_bytes()),
    ]
    path = tmp_path / "case.json"
    wrong = []
    async with driven(root / PAGE) as browser:
        await browser.check(key_file)
        for code, data in cases:
            path.write_bytes(data)
            shown = await browser.check(path)
            if not shown.startswith(f"INVALID {code}"):
                wrong.append((code, shown))
            assert code in make.codes(desk.verify(path)), code
        page_codes = await browser.value(f"({ADMISSION})({json.dumps(admission(shared))})")
    assert wrong == []
    assert page_codes == []


ADMISSION = """(tests) => tests.filter((test) => {
  const bytes = Uint8Array.from(atob(test.data), (unit) => unit.charCodeAt(0));
  let outcome;
  try { outcome = canonical(parse(bytes)); } catch (error) { outcome = error.code ?? String(error); }
  return outcome !== test.expected;
}).map((test) => test.name)"""


def admission(shared: Path) -> list[dict[str, str]]:
    """Return the vectors of strict JSON in a format for the page."""
    vectors = json.loads((shared / "vectors/receipts/strict-json-admission.json").read_text("utf-8"))["tests"]
    return [
        {
            "name": test["name"],
            "data": base64.b64encode(input_bytes(test)).decode(),
            "expected": test.get("canonical", test.get("code")),
        }
        for test in vectors
    ]


@needs_browser
async def test_the_page_shows_the_codes_of_the_golden_receipts(root: Path, tmp_path: Path) -> None:
    golden = root / "tests/receipt/golden"
    expected = json.loads((golden / "index.json").read_text("utf-8"))
    items = next(golden.glob("*.items.jsonl"))
    good = next(path for path in golden.glob("*.json") if path.name != "index.json")
    found = {}
    async with driven(root / PAGE) as browser:
        assert (await browser.check(good, items, golden / "key.pub")).startswith("VALID")
        for name in expected:
            await browser.check(golden / "bad" / f"{name}.json")
            found[name] = await browser.value(FAILURES)
    assert {name: set(codes) for name, codes in found.items()} == {name: set(codes) for name, codes in expected.items()}


FAILURES = """[...document.querySelectorAll('#checks tr')]
  .filter((line) => line.children[1].textContent === 'fail').map((line) => line.children[2].textContent)"""


@needs_browser
async def test_the_page_uses_the_roles_and_status_of_trusted_json(
    root: Path, desk: Any, make: Any, tmp_path: Path
) -> None:
    ring = Keyring(workspace=tmp_path / "work", environ={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    new_key(ring, "one", ("receipt", "log"))
    new_key(ring, "two", ("log",))
    path = tmp_path / "receipt.json"
    desk.key = ring.private_key_of("one")
    path.write_bytes(desk.good().read_bytes())
    other = tmp_path / "other.json"
    desk.key = ring.private_key_of("two")
    other.write_bytes(desk.good().read_bytes())
    weak = tmp_path / "weak.pub"
    point = "MCowBQYDK2VwAyEA7P///////////////////////////////////////38="
    weak.write_text(f"-----BEGIN PUBLIC KEY-----\n{point}\n-----END PUBLIC KEY-----\n")
    async with driven(root / PAGE) as browser:
        assert (await browser.check(path, ring.trusted_path)).startswith("VALID")
        assert (await browser.check(other)).startswith("UNTRUSTED key_role")
        revoke(ring, "one", from_index=0, reason="lost", at="2027-01-01T00:00:00Z")
        assert (await browser.check(path, ring.trusted_path)).startswith("UNTRUSTED key_revoked")
        assert (await browser.check(weak)).startswith("INVALID weak_public_key")


@needs_browser
async def test_the_page_checks_ten_thousand_rows_in_three_cpu_seconds(
    root: Path, desk: Any, make: Any, key_file: Path, tmp_path: Path
) -> None:
    rows = [make.row(n, n % 9 + 1 if n % 4 else None, "correct" if n % 4 else "incorrect") for n in range(10_000)]
    path = desk.good(rows)
    items = path.with_name(f"{make.RECEIPT_ID}.items.jsonl")
    async with driven(root / PAGE) as browser:
        await browser.check(key_file)
        await browser.call("Performance.enable", timeDomain="threadTicks")
        began = await browser.cpu_s()
        assert await browser.check(path, items) == "VALID"
        took = await browser.cpu_s() - began
        print(f"{took:.2f} s")
        assert took < 3
