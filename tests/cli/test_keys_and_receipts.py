"""``bench keys``, ``sign``, ``verify``, ``diff``, ``reproduce``, ``publish``, ``log``: their output."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.cli.commands.keys import cell_text, read_roles
from bench.errors import UsageError
from docs.site.variablespage import OURS
from tests.rows import each_row

Bench = Callable[..., Any]
PRINT = re.compile(r"sha256:[0-9a-f]{64}")


@pytest.fixture
def keys(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a key with both roles and return the folder of its private half."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    bench("keys", "new", "-q")
    (private,) = tmp_path.rglob("default.key")
    return private.parent


@pytest.fixture
def receipt(bench: Bench, keys: Path) -> str:
    """Sign a run of three items and return the path of the receipt."""
    flags = ("--providers", "bm25", "--limit", "3", "--answering-model", "none")
    bench("run", "-q", *flags, "--run-id", "r")
    (line,) = bench("sign", "r").stdout.splitlines()
    assert line.startswith("signed   demo x bm25  ")
    return str(line.rpartition("  ")[2])


# ----------------------------------------------------------------------------- keys


def test_sign_of_an_unchanged_job_keeps_the_receipt_and_reports_it(bench: Bench, receipt: str) -> None:
    again = bench("sign", "r")
    assert again.stdout == f"kept     demo x bm25  {receipt}\n"
    assert again.stderr == "kept: this key has already signed this job, and nothing has changed since\n"
    bench("rescore", "r", "--metrics", "mrr")
    assert bench("sign", "r").stdout.startswith("signed   demo x bm25  ")


def test_the_key_file_that_dotenv_names_signs(bench: Bench, keys: Path, tmp_path: Path) -> None:
    bench("keys", "new", "other", "-q")  # of two active keys, one must be named
    fingerprint = bench("keys", "list", "--json").stdout.partition("sha256:")[2][:64]
    flags = ("--providers", "bm25", "--limit", "3", "--answering-model", "none")
    assert "several active keys" in bench("run", "-q", *flags, "--sign", check=2).stderr
    (tmp_path / ".env").write_text(f"MEMORYBENCH_SIGNING_KEY_FILE={keys / 'default.key'}\n")
    done = bench("run", *flags, "--run-id", "r", "--sign", "--publishable")
    assert f"the receipts will be signed with sha256:{fingerprint}\n" in done.stderr
    (receipt,) = (tmp_path / "results/r/receipts").glob("*[!s].json")
    assert json.loads(receipt.read_text())["signer"]["publicKeyFingerprint"] == f"sha256:{fingerprint}"
    assert bench("sign", "r").stdout.startswith("kept ")
    (tmp_path / ".env").rename(tmp_path / "my.env")
    bench("sign", "r", check=2)
    (tmp_path / "one-line.env").write_text("MEMORYBENCH_SIGNING_KEY=MC4CAQAwBQYDK2VwBCIEIA\n")
    refused = bench("sign", "r", "--env-file", "one-line.env", check=2).stderr
    assert "error: MEMORYBENCH_SIGNING_KEY: this is not a PEM private key" in refused
    assert "MEMORYBENCH_SIGNING_KEY" in OURS, "the page lists it as a variable that .env can set"
    bench("run", *flags, "--run-id", "other", "--sign", "--env-file", "my.env")
    assert bench("reproduce", str(receipt), "--sign", "--env-file", "my.env").stdout.startswith("same ")


@each_row(
    ("names", "roles"),
    [
        (None, ("receipt", "log")),
        ([], ("receipt", "log")),
        (["log"], ("log",)),
        (["log", "receipt"], ("receipt", "log")),
        (["log,receipt"], ("receipt", "log")),
        (["receipt,receipt"], ("receipt",)),
    ],
)
def test_roles_are_separated_by_spaces_or_commas(names: list[str] | None, roles: tuple[str, ...]) -> None:
    assert read_roles(names) == roles


@pytest.mark.parametrize(("names", "word"), [(["signer"], "signer"), (["log", "x"], "x"), ([","], "")])
def test_an_unknown_role_is_rejected_with_the_known_ones(names: list[str], word: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_roles(names)
    assert (str(caught.value), caught.value.hint) == (f'unknown role "{word}"', 'use the role "receipt" or "log"')


@each_row(("value", "text"), [(None, ""), (0, "0"), ("x", "x"), (["a", "b"], "a, b"), ([], "")])
def test_cell_text_joins_lists_and_shows_none_as_empty(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_keys_new_prints_fingerprint_and_files(bench: Bench, keys: Path) -> None:
    first, *files = bench("keys", "new", "log-key", "--roles", "log").stdout.splitlines()
    assert re.fullmatch(rf"made log-key: {PRINT.pattern}", first)
    assert any(line.strip().endswith("log-key.key") for line in files)
    assert any(line.strip().endswith("keys/log-key.pub") for line in files)


def test_keys_list_shows_status_roles_and_range(bench: Bench, keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    bench("keys", "new", "log-key", "--roles", "log")
    table = [line.split() for line in bench("keys", "list").stdout.splitlines() if line.strip()]
    assert table[0] == ["name", "status", "roles", "from", "to", "revoked", "from", "fingerprint"]
    assert [row[:2] for row in table[2:]] == [["default", "active"], ["log-key", "active"]]
    listed = json.loads(bench("keys", "list", "--json").stdout)["keys"]
    assert [(key["name"], key["roles"]) for key in listed] == [("default", ["receipt", "log"]), ("log-key", ["log"])]
    assert not any("publicKey" in key for key in listed)


def test_keys_list_of_a_workspace_without_keys_is_empty(bench: Bench) -> None:
    assert json.loads(bench("keys", "list", "--json").stdout) == {"keys": []}


def test_keys_rotate_names_the_new_key_and_retires_the_old_one(bench: Bench, keys: Path) -> None:
    (old,) = json.loads(bench("keys", "list", "--json").stdout)["keys"]
    first = bench("keys", "rotate").stdout.splitlines()[0]
    assert first.startswith("default-2 is the new key: sha256:") and old["fingerprint"] not in first
    status = {key["name"]: key["status"] for key in json.loads(bench("keys", "list", "--json").stdout)["keys"]}
    assert status == {"default": "retired", "default-2": "active"}


def test_keys_revoke_names_the_first_index_that_is_not_accepted(bench: Bench, keys: Path) -> None:
    bench("keys", "rotate", "-q")
    done = bench("keys", "revoke", "default-2", "--from-index", "7", "--reason", "lost")
    assert done.stdout.splitlines()[0].startswith("default-2 is revoked from index 7 on: sha256:")
    found = {key["name"]: key for key in json.loads(bench("keys", "list", "--json").stdout)["keys"]}
    assert found["default-2"]["revokedFromIndex"] == 7


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("keys", "new", "default"), "default"),
        (("keys", "revoke", "nobody", "--from-index", "0", "--reason", "x"), "nobody"),
        (("keys", "revoke", "default", "--from-index", "-1", "--reason", "x"), "expected 0 or more"),
        (("keys", "rotate", "--old", "nobody"), "nobody"),
    ],
)
def test_a_rejected_keys_command_changes_no_key(bench: Bench, keys: Path, words: tuple[str, ...], text: str) -> None:
    before = bench("keys", "list", "--json").stdout
    assert text in bench(*words, check=2).stderr
    assert bench("keys", "list", "--json").stdout == before


# ------------------------------------------------------------------- sign and verify


def test_sign_of_a_job_without_ended_items_exits_4_with_reason_and_hint(bench: Bench, keys: Path) -> None:
    bench("run", "-q", "--providers", "no-memory", "--limit", "3", "--run-id", "r", "--phases", "ingest,index,search")
    done = bench("sign", "r", check=None)
    assert done.returncode != 0
    assert done.stdout == "refused  demo x no-memory  zero_items: no item has ended yet\n"
    assert (done.returncode, done.stderr) == (4, "hint: show the state of the job with: bench results RUN_ID\n")


def test_sign_with_provider_signs_only_the_jobs_of_that_provider(bench: Bench, keys: Path) -> None:
    bench("run", "-q", "--providers", "bm25", "oracle", "--limit", "2", "--answering-model", "none", "--run-id", "r")
    assert [line.split()[3] for line in bench("sign", "r", "--provider", "oracle").stdout.splitlines()] == ["oracle"]
    signed = json.loads(bench("sign", "r", "--json").stdout)["receipts"]
    assert sorted(one["provider"] for one in signed) == ["bm25", "oracle"]


def test_sign_with_output_writes_receipt_and_items_file_there(bench: Bench, receipt: str, tmp_path: Path) -> None:
    bench("sign", "r", "--output", "mine.json")
    assert bench("verify", "mine.json").stdout.startswith("VALID  mine.json")
    assert [path.name for path in tmp_path.glob("*.items.jsonl")], "its rows lie beside it"


@each_row(
    ("words", "text"),
    [
        (("sign",), "this workspace has no run yet"),
        (("sign", "gone"), 'there is no run "gone"'),
        (("reproduce", "gone.json", "--sign"), "no such file: gone.json"),
    ],
)
def test_a_missing_run_or_receipt_is_reported_before_a_missing_key(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], text: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert text in bench(*words, check=2).stderr


def test_verify_of_a_valid_receipt_prints_measurement_items_and_signature(bench: Bench, receipt: str) -> None:
    lines = [line.strip() for line in bench("verify", receipt).stdout.splitlines()]
    assert lines[0].startswith(f"VALID  {receipt}")
    assert lines[1].startswith("measured  demo 1.0.0 x bm25 ")
    assert any(line.startswith("items     3 planned, 0 failed, 0 pending (whole run)") for line in lines)
    assert "signature good: this key signed exactly these bytes" in lines
    assert lines[-1].startswith("defensible: ")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("verify",), "no receipt was given"),
        (("verify", "RECEIPT", "--items", "gone"), "no such file: gone"),
        (("verify", "RECEIPT", "--dataset", "gone"), "no such file: gone"),
        (("verify", "RECEIPT", "RECEIPT", "--export", "x"), "--export can be used with one receipt only"),
        (("publish",), "expected either a receipt to publish or --retract ID"),
        (("publish", "RECEIPT", "--retract", "X"), "expected either a receipt to publish or --retract ID"),
        (("sign", "nobody"), 'no run "nobody"'),
        (("diff", "RECEIPT", "gone.json"), "gone.json"),
    ],
)
def test_a_missing_argument_or_file_of_verify_publish_sign_and_diff_is_named(
    bench: Bench, receipt: str, words: tuple[str, ...], text: str
) -> None:
    given = [receipt if word == "RECEIPT" else word for word in words]
    assert text in bench(*given, check=2).stderr


TALK = '{"who": "anna", "says": "The key is blue."}\n'
ASK = "qid,ask,expected,who\nq1,Which key?,blue,anna\n"
ROW = '{"qid": "q1", "ask": "Which key?", "expected": "blue", "talk": [' + TALK.strip() + "]}\n"
BY_WHO = "key: who, by: who, many: true"
LAYOUTS = {
    "one file": ({"in/ask.jsonl": ROW}, "path: ./in/ask.jsonl"),
    "joined files": (
        {"in/ask.csv": ASK, "in/talk.jsonl": TALK},
        f"path: ./in/ask.csv, with: {{talk: {{file: talk.jsonl, {BY_WHO}}}}}",
    ),
    "several files and a joined file": (
        {"in/a/ask.csv": ASK, "in/b/ask.csv": ASK.replace("q1", "q2"), "in/talk.jsonl": TALK},
        f"files: [in/*/ask.csv], with: {{talk: {{file: in/talk.jsonl, {BY_WHO}}}}}",
    ),
    "a joined file per row": (
        {"in/ask.csv": ASK, "in/anna.json": f"[{TALK}]"},
        'path: ./in/ask.csv, with: {talk: {file: "${who}.json"}}',
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_verify_accepts_the_correct_data_of_each_layout(bench: Bench, keys: Path, layout: str) -> None:
    files, data = LAYOUTS[layout]
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    path = Path("configs/benchmarks/mine.yaml")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"name: mine\nversion: '1'\ndata: {{type: local, {data}}}\n"
        "schema: {itemId: qid, question: ask, answer: expected, context: {field: '$.talk[*]', "
        "itemSchema: {content: says, speaker: who}}}\ncorpus: {field: qid}\n"
        "ingestion: {mode: incremental}\nevaluation: {method: contains}\nmetrics: [accuracy]\n",
        encoding="utf-8",
    )
    bench("run", "-q", "--benchmarks", "mine", "--providers", "bm25", "--run-id", "r")
    receipt = bench("sign", "r").stdout.rpartition("  ")[2].strip()
    several = len(files) > 1
    for given in ("in", *files):
        (outcome,) = json.loads(bench("verify", receipt, "--dataset", given, "--json").stdout)["receipts"]
        partial = several and given != "in"
        assert (outcome["verdict"], outcome["checklist"]["dataset_matches"]) == (
            "VALID",
            "unknown" if partial else "yes",
        )
        assert any(one.get("code") == "dataset_partial" for one in outcome["checks"]) is partial
    changed = list(files)[-1]
    Path(changed).write_text(files[changed] + "\n", encoding="utf-8")
    for given, text in (("in", "no file in in has the sha256 of"), (changed, "its sha256 differs")):
        done = bench("verify", receipt, "--dataset", given, check=5)
        assert "dataset_mismatch" in done.stdout
        assert text in done.stdout


def test_verify_export_writes_the_files_and_prints_the_openssl_command(
    bench: Bench, receipt: str, tmp_path: Path
) -> None:
    done = bench("verify", receipt, "--export", "out")
    assert done.stdout.splitlines()[-1].startswith("cd out && openssl pkeyutl ")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"canonical.bin", "sig.bin", "pub.pem"}
    as_json = bench("verify", receipt, "--export", "out2", "--json")
    json.loads(as_json.stdout)
    assert as_json.stderr.startswith("cd out2 && openssl")


def test_verify_of_a_changed_receipt_exits_5_and_prints_no_measurement(bench: Bench, receipt: str) -> None:
    path = Path(receipt)
    path.write_text(path.read_text().replace('"bm25"', '"bm26"'))
    done = bench("verify", receipt, check=5)
    assert done.stdout.startswith(f"INVALID  {receipt}")
    assert "signature bad: this key did not sign these bytes" in done.stdout
    assert "measured" not in done.stdout


# -------------------------------------------------------------- diff and reproduce


def test_diff_of_a_receipt_with_itself_is_equal(bench: Bench, receipt: str) -> None:
    lines = bench("diff", receipt, receipt).stdout.splitlines()
    assert lines[:2] == ["same result digest", "like for like"]
    assert json.loads(bench("diff", receipt, receipt, "--json").stdout)["equal"] is True


def test_diff_of_different_experiments_exits_8_and_names_the_differing_items(bench: Bench, receipt: str) -> None:
    flags = ("--providers", "bm25", "--limit", "3", "--answering-model", "none", "-k", "1")
    bench("run", "-q", *flags, "--run-id", "other")
    other = bench("sign", "other").stdout.splitlines()[0].rpartition("  ")[2]
    done = bench("diff", receipt, other, check=8)
    assert done.stdout.splitlines()[:2] == ["the result digests differ", "not like for like"]
    assert "items that differ: irena-q0" in done.stdout


def test_diff_without_an_items_file_reports_that_items_were_not_compared(bench: Bench, receipt: str) -> None:
    Path(receipt.replace(".json", ".items.jsonl")).unlink()
    assert bench("diff", receipt, receipt).stdout.splitlines()[-1] == ("items not compared: an items file is missing")


def test_reproduce_repeats_the_run_with_the_same_result_digest(bench: Bench, receipt: str) -> None:
    done = bench("reproduce", receipt, "--sign")
    first, *rest = done.stdout.splitlines()
    assert re.fullmatch(rf"same  {re.escape(receipt)}  rerun \S+", first)
    assert rest[-1].startswith("signed  ")
    found = json.loads(bench("reproduce", receipt, "--json").stdout)
    assert found["same"] is True
    assert found["resultDigest"] == json.loads(Path(receipt).read_text())["resultDigest"]


def test_reproduce_accepts_a_receipt_that_was_logged_before_its_key_was_retired(bench: Bench, receipt: str) -> None:
    bench("publish", receipt)
    bench("keys", "rotate", "-q")
    bench("verify", receipt)
    assert bench("reproduce", receipt).stdout.startswith("same  ")
    receipt_id = json.loads(Path(receipt).read_text())["receiptId"]
    bench("publish", "--retract", receipt_id, "--reason", "a wrong prompt")
    assert "RETRACTED" in bench("reproduce", receipt, check=4).stderr


# ------------------------------------------------------------------ publish and log


def test_publish_logs_a_receipt_once(bench: Bench, receipt: str) -> None:
    assert bench("publish", receipt).stdout == "logged at index 1 of results/published\n"
    assert bench("publish", receipt).stdout == "already logged at index 1 of results/published\n"
    checked = bench("log", "verify").stdout.splitlines()[0]
    assert re.match(r"\w+  results/published: log of 2 entries, root ", checked)


def test_verify_of_a_retracted_receipt_exits_4_with_the_reason(bench: Bench, receipt: str) -> None:
    bench("publish", receipt)
    receipt_id = json.loads(Path(receipt).read_text())["receiptId"]
    assert bench("publish", "--retract", receipt_id, "--reason", "a wrong prompt").stdout.startswith(
        "logged at index 2"
    )
    assert "a wrong prompt" in bench("verify", receipt, check=4).stdout
