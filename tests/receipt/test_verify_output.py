"""The exact output of ``bench verify`` and related commands: no line claims more than was checked."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tests.receipt.receipt_making as make
from bench.cli import run as command_line
from bench.errors import UsageError
from bench.receipt.log.log_store import RunAbandoned
from bench.receipt.log.public_log import append
from bench.receipt.signing.keyring import Keyring
from bench.receipt.verification.findings import CHECKS, ReceiptVerdict
from bench.receipt.verification.verify import CHECKLIST, VerificationRequest, verify
from tests.rows import each_row

Call = Callable[..., tuple[int, list[str]]]
NO_LOG = "there is no public log, so publication and other runs were not checked"
NO_ROWS = "the items file is missing, so scores were not recomputed"


@pytest.fixture
def bench(ring: Keyring, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    monkeypatch.chdir(ring.workspace)

    def call(*arguments: str | Path) -> tuple[int, list[str]]:
        capsys.readouterr()
        code = command_line([str(one) for one in arguments])
        printed = capsys.readouterr()
        return code, (printed.out + printed.err).splitlines()

    return call


@pytest.fixture
def signed(ring: Keyring, desk: Any) -> Callable[..., Path]:
    """A function that signs receipts with the key of the workspace, in their own folder."""
    desk.key = ring.signing_key("receipt")
    desk.folder = ring.workspace / "out"
    desk.folder.mkdir()
    return desk.good  # type: ignore[no-any-return]


def lose_rows(path: Path) -> None:
    path.with_name(f"{path.stem}.items.jsonl").unlink()


def test_verify_prints_the_complete_text_for_a_valid_receipt(
    bench: Call, signed: Callable[..., Path], ring: Keyring
) -> None:
    path = signed()
    code, lines = bench("verify", path)
    fingerprint = ring.trusted().keys[0].fingerprint
    assert (code, lines) == (0, [
        f"VALID  {path}  NOT CHECKED: {NO_LOG}",
        "  measured  demo 1 x bm25 1",
        "  models    judge acme/judge-1",
        "  ran       2026-11-01T10:00:00Z to 2026-11-01T11:00:00.5Z, run run-1 (stated by the signer)",
        "  items     10 planned, 0 failed, 0 pending (whole run)",
        f"  key       {fingerprint}",
        "  signature good: this key signed exactly these bytes",
        "  warn  policy  not_preregistered: the run was not announced before it began",
        "  judged by a model",
        "    accuracy     = 0.9000 (n 10, accuracy/1)",
        "  deterministic, recomputed from the rows",
        "    mrr          = 0.5326 (n 10, mrr/1)",
        "    ndcg_at_10   = 0.6184 (n 10, ndcg@10/1)",
        "    recall_at_10 = 0.9000 (n 10, recall_any@10/1)",
        "    recall_at_5  = 0.7000 (n 10, recall_any@5/1)",
        "  defensible: no (tagged_commit yes, clean_tree yes, container_image no, dataset_matches unknown, "
        "signature yes, rerun_identical unknown; "
        'see "A result is defensible when" in docs/methodology.md)',
    ])  # fmt: skip


def test_verify_of_an_items_file_is_a_usage_error_that_names_its_receipt(
    signed: Callable[..., Path], ring: Keyring
) -> None:
    path = signed()
    rows = path.with_name(f"{path.stem}.items.jsonl")
    question = VerificationRequest(trust=ring.trusted())
    with pytest.raises(UsageError) as caught:
        verify([rows], question)
    assert str(caught.value) == f"{rows}: this file contains the rows of a receipt, not the receipt"
    assert caught.value.hint == f"verify the receipt with: bench verify {path}"
    path.unlink()
    with pytest.raises(UsageError) as caught:
        verify([rows], question)
    assert caught.value.hint == "name the receipt of these rows"


def test_verify_without_items_file_prints_that_no_score_was_recomputed(
    bench: Call, signed: Callable[..., Path]
) -> None:
    path = signed()
    lose_rows(path)
    code, lines = bench("verify", path)
    assert (code, lines[0]) == (0, f"VALID  {path}  NOT CHECKED: {NO_ROWS}; {NO_LOG}")
    detail = f"{path.stem}.items.jsonl is missing: without this file, no score can be checked (--items FILE)"
    assert f"  warn  items  items_missing: {detail}" in lines
    heads = [line for line in lines if "recomputed" in line.lower()][1:]
    assert heads == [
        "  judged by a model, NOT RECOMPUTED: stated by the signer",
        "  deterministic, NOT RECOMPUTED: stated by the signer",
    ]
    code, lines = bench("verify", path, "--policy", "strict")
    assert code == 7 and lines[0].startswith("POLICY  ") and not [line for line in lines if " = " in line]
    code, lines = bench("verify", path, "--json")
    (receipt,) = json.loads("\n".join(lines))["receipts"]
    assert (receipt["verdict"], receipt["exitCode"]) == ("VALID", 0)
    assert [c for c in receipt["checks"] if c["id"] in ("items", "recompute")] == [
        {"id": "items", "status": "warn", "detail": detail, "code": "items_missing"},
        {"id": "recompute", "status": "skip", "detail": NO_ROWS},
    ]
    code, lines = bench("publish", path)
    assert (code, lines) == (5, [
        f"error: {path}: the items file of the receipt is missing",
        "hint: put the items file next to the receipt",
    ])  # fmt: skip


def test_verify_lists_scores_that_rows_cannot_show_in_the_first_line(bench: Call, signed: Callable[..., Path]) -> None:
    rows = make.default_rows()
    listed = sorted({**make.DEFINITIONS, "faithfulness": "faithfulness/1"}.items())
    path = signed(
        rows,
        scores__judged={"faithfulness": make.score(rows, lambda r: 0.7, "faithfulness/1", 10)},
        metrics=[{"name": name, "definition": definition} for name, definition in listed],
    )
    code, lines = bench("verify", path)
    taken = "not recomputed, stated by the signer: faithfulness"
    assert (code, lines[0]) == (0, f"VALID  {path}  NOT CHECKED: {taken}; {NO_LOG}")


SCORES: list[tuple[dict[str, Any], str]] = [
    ({"value": 0.123456, "interval": {"low": 0.1, "high": 0.25, "level": 0.95, "method": "wilson"}},
     "accuracy = 0.1235 [0.1000, 0.2500] (n 10, accuracy/1)"),
    ({"value": None, "n": 0, "nExcluded": 10}, "accuracy = none (n 0, accuracy/1)"),
    ({"value": 0.5, "valueFailuresAsZero": 0.25, "n": 5, "nFailed": 5},
     "accuracy = 0.5000, 0.2500 if the 5 failed items count as 0 (n 5, accuracy/1)"),
    ({"value": 0.5, "valueFailuresAsZero": None, "n": 5, "nFailed": 5}, "accuracy = 0.5000 (n 5, accuracy/1)"),
]  # fmt: skip


@each_row(("changes", "line"), SCORES)
def test_a_score_is_shown_with_interval_count_definition_and_failures(changes: dict[str, Any], line: str) -> None:
    from bench.cli.commands.verify import _score_lines
    from bench.receipt.base_model import validate
    from bench.receipt.schema import Receipt

    document = make.body(make.default_rows())
    document["scores"]["deterministic"] = {}
    document["scores"]["judged"]["accuracy"].update(changes)
    document["signer"] = {"algorithm": "Ed25519", "publicKeyFingerprint": "x"}
    assert list(_score_lines(validate(Receipt, document), recomputed=True)) == [
        "  judged by a model", f"    {line}",
    ]  # fmt: skip


SUBJECTS: list[tuple[dict[str, Any], int, str]] = [
    ({"benchmark__split": "test"}, 1, "  measured  demo 1 (test) x bm25 1"),
    ({"models": []}, 2, "  models    none"),
    ({"provider__version": "1\x1b[2K"}, 1, "  measured  demo 1 x bm25 1\\x1b[2K"),
    ({"provider__name": "a\u202eb\u2066c"}, 1, "  measured  demo 1 x a\\u202eb\\u2066c 1"),
    ({"provider__name": "a\r\nVALID"}, 1, "  measured  demo 1 x a\\x0d\\x0aVALID 1"),
    ({"benchmark__name": "\u2028VALID\u0085"}, 1, "  measured  \\u2028VALID\\x85 1 x bm25 1"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "number", "line"), SUBJECTS)
def test_control_characters_of_a_receipt_are_escaped_in_the_output(
    bench: Call, signed: Callable[..., Path], changes: dict[str, Any], number: int, line: str
) -> None:
    code, lines = bench("verify", signed(**changes))
    assert (code, lines[number]) == (0, line)


def test_verify_prints_pending_and_failed_items_of_a_partial_run(bench: Call, signed: Callable[..., Path]) -> None:
    rows = [*make.default_rows(), make.failed_row(20)]
    code, lines = bench("verify", signed(rows, pending=4))
    assert (code, lines[4]) == (0, "  items     15 planned, 1 failed, 4 pending (part of a run)")
    assert "  warn  policy  partial: not every item of the selection has ended" in lines
    assert "  warn  policy  error_rate: 1 of 15 items failed" in lines


def test_verify_prints_an_altered_receipt_as_claims_without_scores(
    bench: Call, signed: Callable[..., Path], tmp_path: Path
) -> None:
    path = signed()
    path.write_bytes(path.read_bytes().replace(b'"demo"', b'"demO"'))
    code, lines = bench("verify", path)
    assert (code, lines[0].split("  ")[0], lines[1]) == (5, "INVALID", "  claims    demO 1 x bm25 1")
    assert "  signature bad: this key did not sign these bytes" in lines
    detail = "signature_invalid: the signature does not match the document, so the document was altered"
    assert f"  fail  signature  {detail}" in lines
    assert not [line for line in lines if " = " in line]
    (tmp_path / "bad.json").write_bytes(b"{]")
    code, lines = bench("verify", tmp_path / "bad.json")
    assert code == 5 and lines[0].startswith(
        f"INVALID  {tmp_path / 'bad.json'}  NOT CHECKED: not checked, because parse failed"
    )
    assert lines[1].startswith("  fail  parse  syntax: the text is not JSON: Expecting property")


def test_verify_json_lists_every_check_in_order(bench: Call, signed: Callable[..., Path]) -> None:
    path = signed()
    code, lines = bench("verify", path, "--json")
    detail = json.loads("\n".join(lines))
    (receipt,) = detail["receipts"]
    assert (code, detail["verdict"], detail["exitCode"]) == (0, "VALID", 0)
    assert list(dict.fromkeys(check["id"] for check in receipt["checks"])) == list(CHECKS)
    assert set(receipt) == {
        "file",
        "receiptId",
        "fingerprint",
        "verdict",
        "exitCode",
        "checks",
        "defensible",
        "checklist",
    }
    assert tuple(receipt["checklist"]) == CHECKLIST and receipt["defensible"] is False
    path.write_bytes(b"[]")
    (receipt,) = json.loads("\n".join(bench("verify", path, "--json")[1]))["receipts"]
    assert "receiptId" not in receipt and "fingerprint" not in receipt
    assert [c["status"] for c in receipt["checks"]] == ["ok", "fail", *["skip"] * 9]


USAGE: list[tuple[tuple[str, ...], list[str]]] = [
    (("verify",),
     ["error: no receipt was given", "hint: name a receipt or a folder of receipts: bench verify RECEIPT.json"]),
    (("verify", "none.json"),
     ["error: none.json: No such file or directory", "hint: name a receipt file, or a folder of receipts"]),
    (("verify", "keys/rotations"),
     ["error: there is no receipt in keys/rotations", "hint: name a receipt file, or a folder of receipts"]),
    (("verify", "x.json", "--items", "none"), ["error: no such file: none", "hint: name an existing file"]),
    (("verify", "x.json", "--dataset", "none"), ["error: no such file: none", "hint: name an existing file"]),
    (("verify", "x.json", "--pubkey", "none"),
     ["error: none: No such file or directory",
      "hint: name a key file that can be read, or create a key with: bench keys new NAME"]),
    (("verify", "x.json", "--trusted", "none"),
     ["error: none: No such file or directory", "hint: name the trusted.json of a workspace"]),
    (("verify", "x.json", "--log", "keys"),
     ["error: there is no entries.jsonl in keys", "hint: name the folder of a log, such as results/published"]),
    (("log", "verify", "keys"),
     ["error: there is no entries.jsonl in keys", "hint: name the folder of a log, such as results/published"]),
    (("diff", "none.json", "x.json"), ["error: none.json: No such file or directory", "hint: name a receipt file"]),
]  # fmt: skip


@pytest.mark.parametrize(("words", "expected"), USAGE)
def test_a_missing_file_is_an_error_line_and_a_hint_line(
    bench: Call, ring: Keyring, words: tuple[str, ...], expected: list[str]
) -> None:
    (ring.workspace / "keys" / "rotations").mkdir()
    (ring.workspace / "x.json").write_text("{}")
    assert bench(*words) == (2, expected)


def test_verify_of_a_run_folder_checks_the_receipts_in_it(
    bench: Call, signed: Callable[..., Path], ring: Keyring
) -> None:
    path = signed()
    run = ring.workspace / "results" / "a-run"
    run.mkdir(parents=True)
    (run / "report.json").write_text("{}", encoding="utf-8")
    assert bench("verify", "results/a-run") == (
        2,
        ["error: there is no receipt in results/a-run", "hint: create the receipts with: bench sign a-run"],
    )
    path.parent.rename(run / "receipts")
    code, lines = bench("verify", "results/a-run")
    assert code == 0 and lines[0].startswith(f"VALID  results/a-run/receipts/{path.name}")


def test_items_can_be_used_with_a_single_receipt_only(bench: Call, signed: Callable[..., Path]) -> None:
    path = signed()
    items = path.with_name(f"{path.stem}.items.jsonl")
    assert bench("verify", path, "--items", items)[0] == 0
    assert bench("verify", path.parent, "--items", items)[0] == 0, "a folder with one receipt"
    (path.parent / "other.json").write_bytes(path.read_bytes())
    for words in ((path, path), (path.parent,)):
        code, lines = bench("verify", *words, "--items", items)
        assert (code, lines) == (2, [
            "error: --items can be used with one receipt only, but 2 receipts were checked",
            "hint: name one receipt file",
        ])  # fmt: skip


def test_export_accepts_one_good_receipt_and_prints_the_openssl_command(
    bench: Call, signed: Callable[..., Path], tmp_path: Path
) -> None:
    path, out = signed(), tmp_path / "out"
    openssl = "openssl pkeyutl -verify -rawin -in canonical.bin -sigfile sig.bin -pubin -inkey pub.pem"
    code, lines = bench("verify", path, "--export", out)
    assert (code, lines[-1]) == (0, f"cd {out} && {openssl}")
    assert (out / "sig.bin").stat().st_size == 64
    code, lines = bench("verify", path, path, "--export", tmp_path / "two")
    assert (code, lines[-2:]) == (
        2,
        ["error: --export can be used with one receipt only", "hint: name one receipt file"],
    )
    path.write_bytes(path.read_bytes().replace(b'"demo"', b'"demO"'))
    code, lines = bench("verify", path, "--export", tmp_path / "bad")
    detail = "nothing was exported: the receipt must pass the checks parse, schema and signature with a known key"
    assert (code, lines[-2]) == (5, f"error: {path}: {detail}")
    assert not (tmp_path / "two").exists() and not (tmp_path / "bad").exists()


def test_verify_of_a_folder_with_a_log_checks_the_log(bench: Call, ring: Keyring, signed: Callable[..., Path]) -> None:
    folder = ring.workspace / "results" / "published"
    draft = RunAbandoned(index=0, at="2026-11-02T00:00:00Z", run_id="r", reason="x")
    append(folder, [draft], ring.trusted(), ring.signing_key("log"), draft.at)
    code, lines = bench("verify", folder)
    assert code == 0 and lines[0].startswith(f"VALID  {folder}: log of 2 entries, root ")
    detail = json.loads("\n".join(bench("verify", folder, "--json")[1]))
    assert (detail["receipts"], detail["logs"][0]["folder"], detail["logs"][0]["size"]) == ([], str(folder), 2)
    (folder / "entries.jsonl").write_bytes(b"{}\n")
    code, lines = bench("verify", folder, signed())
    assert code == 5 and "  fail  log  log_entry: entry 0: the schema is not bench.log-entry/1" in lines
    assert bench("log", "verify")[1][0].startswith("INVALID  ")


def test_publish_prints_the_log_index(bench: Call, signed: Callable[..., Path]) -> None:
    path = signed()
    log = "results/published"
    for text in ("logged at index 1", "already logged at index 1"):
        assert bench("publish", path) == (0, [f"{text} of {log}"])
    code, lines = bench("publish", "--retract", path.stem, "--reason", "a wrong prompt", "--json")
    assert (code, json.loads("\n".join(lines))) == (0, {"logIndex": 2, "fresh": True, "log": log})
    code, lines = bench("verify", path)
    assert (code, lines[0]) == (4, f"RETRACTED  {path}")
    assert "  fail  log  retracted: a wrong prompt" in lines


def test_the_worst_verdict_and_the_policy_decide_the_exit_code_for_several_receipts(
    bench: Call, signed: Callable[..., Path], desk: Any
) -> None:
    good = signed()
    odd = good.with_name("odd.json")
    odd.write_bytes(good.read_bytes().replace(b'"demo"', b'"demO"'))
    assert bench("verify", good, odd)[0] == 5
    assert bench("verify", good, good, "--policy", "strict")[0] == ReceiptVerdict.POLICY.exit_code
    outcome = desk.verify(good, policy="strict")
    assert VerificationRequest(trust=desk.store()).policy == "default" and outcome.verdict is ReceiptVerdict.POLICY
    assert {f.status for f in outcome.findings if f.check == "policy"} == {"fail"}


# ------------------------------------------------------------------------- errors name the target file


def test_the_error_for_an_unwritable_place_names_the_target_and_not_a_temporary_file(
    bench: Call, signed: Callable[..., Path], ring: Keyring, tmp_path: Path
) -> None:
    path = signed()
    (tmp_path / "out" / "canonical.bin").mkdir(parents=True, exist_ok=True)
    code, lines = bench("verify", path, "--export", tmp_path / "out")
    assert (code, lines[-2]) == (2, f"error: {tmp_path / 'out' / 'canonical.bin'}: Is a directory")
    assert [p.name for p in (tmp_path / "out").iterdir() if p.name.startswith(".")] == []
    blocked = tmp_path / "file"
    blocked.write_text("")
    code, lines = bench("verify", path, "--export", blocked / "x")
    assert (code, lines[-2]) == (2, f"error: {blocked / 'x' / 'canonical.bin'}: Not a directory")
    log = ring.workspace / "results" / "published"
    log.mkdir(parents=True)
    (log / "checkpoint").mkdir()
    code, lines = bench("publish", path)
    assert (code, lines[0]) == (2, "error: results/published/checkpoint: Is a directory")
    assert list(log.glob(".checkpoint*")) == []
