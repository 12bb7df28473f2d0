"""An independent reader of receipts: node's crypto and the npm package ``canonicalize``."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

PACKAGE = "canonicalize@4.0.0"
SCRIPT = """
import { createHash, createPublicKey, verify } from 'node:crypto';
import { readFileSync } from 'node:fs';
import canonicalize from 'canonicalize';
const pick = (from, ...names) => Object.fromEntries(names.map((name) => [name, from[name]]));
const hash = (value) => createHash('sha256').update(value).digest('hex');
const [receiptFile, itemsFile, keyFile] = process.argv.slice(2);
const receipt = JSON.parse(readFileSync(receiptFile, 'utf8'));
const { signature, ...body } = receipt;
const key = createPublicKey(readFileSync(keyFile));
const { benchmark, provider, run, counts } = receipt;
const config = {
  schema: 'bench.config/1',
  benchmark: {
    ...pick(benchmark, 'name', 'version', 'split', 'configSha256'), datasetSha256: benchmark.dataset.sha256,
  },
  provider: pick(provider, 'name', 'version', 'configSha256'),
  models: receipt.models.map((model) => pick(model, 'role', 'provider', 'requested', 'params')),
  prompts: receipt.prompts.map((prompt) => pick(prompt, 'role', 'sha256')),
  metrics: receipt.metrics,
  settings: pick(run, 'seed', 'epochs', 'k', 'contextBudgetTokens', 'track'),
};
const scores = Object.entries(receipt.scores.deterministic)
  .map(([name, score]) => [name, pick(score, 'value', 'valueFailuresAsZero', 'n', 'nExcluded')]);
const result = {
  schema: 'bench.result/1', configDigest: receipt.configDigest, selection: benchmark.selection,
  ...pick(counts, 'planned', 'pending', 'byState'),
  scores: Object.fromEntries(scores), deterministicRoot: receipt.perQuery.deterministicRoot,
};
const rows = readFileSync(itemsFile, 'utf8').split('\\n').slice(0, -1);
console.log(JSON.stringify({
  signature: verify(null, Buffer.from(canonicalize(body)), key, Buffer.from(signature.value, 'base64url')),
  fingerprint: `sha256:${hash(key.export({ type: 'spki', format: 'der' }))}` === signature.publicKeyFingerprint,
  configDigest: hash(canonicalize(config)) === receipt.configDigest,
  resultDigest: hash(canonicalize(result)) === receipt.resultDigest,
  items: hash(readFileSync(itemsFile)) === receipt.perQuery.sha256,
  rows: rows.every((line) => canonicalize(JSON.parse(line)) === line),
}));
"""


@pytest.fixture
def reader(tmp_path: Path) -> Path:
    """A folder with the script and its one package."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("NODE OR NPM IS NOT INSTALLED: receipts were not checked by another reader")
    folder = tmp_path / "node"
    folder.mkdir()
    (folder / "read.mjs").write_text(SCRIPT, encoding="utf-8")
    (folder / "package.json").write_text("{}", encoding="utf-8")
    command = ["npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--ignore-scripts", PACKAGE]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if made.returncode:
        pytest.skip(f"{PACKAGE} CANNOT BE INSTALLED: receipts were not checked by another reader")
    return folder


def test_node_computes_the_same_bytes_signature_and_digests(reader: Path, desk: Any, make: Any) -> None:
    rows = make.default_rows()
    rows[0]["corpusId"], rows[1]["metrics"]["mrr"] = "ключ \u20ac \U0001f600", 1e-7
    key, items = desk.folder / "key.pub", desk.folder / f"{make.RECEIPT_ID}.items.jsonl"
    key.write_text(desk.key.public.pem, encoding="utf-8")
    odd = {"provider__name": "é\u2028\x7f", "benchmark__selection__filter": {"\ufb33": 1, "\U0001f600": 2}}
    for made, changes in ((make.default_rows(), {}), (rows, odd)):
        receipt = desk.good(made, **changes)
        command = ["node", "read.mjs", str(receipt), str(items), str(key)]
        done = subprocess.run(command, cwd=reader, capture_output=True, text=True, timeout=60, check=True)
        found = json.loads(done.stdout)
        assert all(found.values()) and len(found) == 6, found
