"""Every reason code for a receipt with exactly that fault; verdicts and their order."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.canonical import dumps
from bench.errors import UsageError, VerificationError
from bench.receipt.signing.signature import SigningKey
from bench.receipt.signing.trust_store import TrustStore
from bench.receipt.verification.findings import ReceiptVerdict
from bench.receipt.verification.verify import VerificationRequest, export, verify
from tests.rows import each_row


def test_a_good_receipt_is_valid_and_every_check_is_ok(desk: Any) -> None:
    outcome = desk.verify(desk.good())
    assert [f for f in outcome.findings if f.status in ("fail", "warn") and f.check != "policy"] == []
    assert outcome.verdict is ReceiptVerdict.VALID
    assert {f.check for f in outcome.findings if f.status == "ok"} >= {
        "parse", "schema", "signature", "trust", "items", "recompute", "digest", "invariants",
    }  # fmt: skip
    assert outcome.value()["exitCode"] == 0


def test_failed_pending_and_excluded_items_are_recomputed_too(desk: Any, make: Any) -> None:
    rows = [*make.default_rows(), make.failed_row(20), make.row(21, None, "unscored", verdicts=[])]
    rows[3]["metrics"] = {**rows[3]["metrics"], "mrr": None}
    rows[3]["gold"] = []
    rows[3]["metrics"] = dict.fromkeys(rows[3]["metrics"])
    outcome = desk.verify(desk.good(rows, pending=2))
    assert make.codes(outcome) == set()


ITEM_FAULTS: list[tuple[str, Callable[[list[dict[str, Any]]], Any]]] = [
    ("items_sha256", lambda rows: rows[0].update(attempts=2)),
    ("items_root", lambda rows: rows[0].update(attempts=2)),
    ("deterministic_root", lambda rows: rows[0]["labels"].update(question_type="x")),
    ("breakdown_mismatch", lambda rows: rows[0]["labels"].update(question_type="x")),
    ("items_count", lambda rows: rows.pop()),
    ("items_order", lambda rows: rows.reverse()),
    ("items_order", lambda rows: rows.append(dict(rows[-1]))),
    ("items_row", lambda rows: rows[0].update(extra=1)),
    ("items_row", lambda rows: rows[0].update(gold=["b", "a"])),
    ("items_row", lambda rows: rows[0].update(errorKind="timeout")),
    ("items_row", lambda rows: rows[0].update(answer="not what was hashed")),
    ("count_mismatch", lambda rows: rows[0].update(state="incorrect")),
    ("score_mismatch", lambda rows: rows[0].update(retrieved=[])),
    ("score_mismatch", lambda rows: rows[0]["metrics"].update(recall_at_5=0)),
]


@each_row(("code", "damage"), ITEM_FAULTS)
def test_each_fault_of_the_items_file_has_its_code(
    tmp_path: Path, make: Any, code: str, damage: Callable[[list[dict[str, Any]]], Any]
) -> None:
    desk = make.desk_in(tmp_path)
    path, rows = desk.good(), make.default_rows()
    damage(rows)
    items = path.with_name(f"{make.RECEIPT_ID}.items.jsonl")
    items.write_bytes(b"".join(dumps(r) + b"\n" for r in rows))
    outcome = desk.verify(path)
    assert code in make.codes(outcome)
    assert outcome.verdict is ReceiptVerdict.INVALID


def test_a_receipt_without_items_file_is_valid_and_lists_what_was_not_checked(desk: Any, make: Any) -> None:
    path = desk.good()
    path.with_name(f"{make.RECEIPT_ID}.items.jsonl").unlink()
    outcome = desk.verify(path)
    assert outcome.verdict is ReceiptVerdict.VALID
    assert "items_missing" in make.codes(outcome, "warn")
    assert "the items file is missing, so scores were not recomputed" in outcome.unchecked


INTERVAL = {"low": 0.9, "high": 0.95, "level": 0.95, "method": "cluster_t"}
BODY_FAULTS: list[tuple[str, str, Any]] = [
    ("invariant_counts", "counts.planned", 11),
    ("invariant_counts", "counts.scored", 3),
    ("invariant_counts", "counts.byState.measured", 1),
    ("invariant_counts", "counts.errorKinds", {"timeout": 1}),
    ("invariant_counts", "perQuery.count", 9),
    ("invariant_counts", "scores.judged.accuracy.nExcluded", 4),
    ("invariant_counts", "scores.judged.accuracy.breakdown.question_type.single.n", 1),
    ("invariant_rate_range", "scores.deterministic.mrr.value", 1.01),
    ("invariant_rate_range", "scores.judged.accuracy.breakdown.question_type.single.value", -0.1),
    ("invariant_interval", "scores.deterministic.mrr.interval", INTERVAL),
    ("interval_mismatch", "scores.deterministic.mrr.interval", INTERVAL),
    ("invariant_isolation", "run.isolationProof.failed", 1),
    ("invariant_recall_monotone", "scores.deterministic.recall_at_5.value", 0.95),
    ("invariant_ndcg_le_hit", "scores.deterministic.ndcg_at_10.value", 0.95),
    ("invariant_mrr_le_hit", "scores.deterministic.mrr.value", 0.95),
    ("invariant_percentiles", "scores.measured.search_us.p50", 9),
    ("invariant_percentiles", "scores.measured.search_us.max", None),
    ("invariant_times", "issuedAt", "2026-11-01T10:59:00Z"),
    ("invariant_times", "ranAt", "2026-11-01T11:00:00.6Z"),
    ("invariant_over_k", "run.k", 9),
    ("score_mismatch", "scores.deterministic.recall_at_10.value", 0.8),
    ("score_mismatch", "scores.deterministic.recall_at_10.valueFailuresAsZero", 0.8),
    ("score_mismatch", "scores.judged.accuracy.value", 0.8),
    ("count_mismatch", "counts.byState.incorrect", 2),
    ("breakdown_mismatch", "scores.deterministic.mrr.breakdown.question_type.single.value", 0.5),
    ("items_sha256", "perQuery.bytes", 5),
    ("items_sha256", "perQuery.sha256", "00" * 32),
    ("items_root", "perQuery.merkleRoot", "00" * 32),
    ("deterministic_root", "perQuery.deterministicRoot", "00" * 32),
]


@each_row(("code", "place", "value"), BODY_FAULTS)
def test_each_false_field_has_its_code_although_it_was_signed(
    tmp_path: Path, make: Any, code: str, place: str, value: Any
) -> None:
    desk = make.desk_in(tmp_path)
    outcome = desk.verify(desk.good(**{place.replace(".", "__"): value}))
    assert code in make.codes(outcome)
    assert outcome.verdict is ReceiptVerdict.INVALID


@pytest.mark.parametrize(("code", "field"), [("config_digest", "configDigest"), ("result_digest", "resultDigest")])
def test_a_config_or_result_digest_that_does_not_match_has_its_code(
    desk: Any, make: Any, code: str, field: str
) -> None:
    rows = make.default_rows()
    document = make.with_digests(make.body(rows))
    document[field] = "11" * 32
    assert code in make.codes(desk.verify(desk.write(document, rows)))


SCHEMA_FAULTS: list[tuple[str, str, Any]] = [
    ("schema_unknown", "schema", "bench.receipt/2"),
    ("field_unknown", "run.extra", 1),
    ("field_unknown", "environment.git.extra", 1),
    ("field_type", "run.seed", "0"),
    ("field_type", "run.seed", 1.5),
    ("field_type", "run.seed", True),
    ("field_type", "scores.deterministic.mrr.value", "0.5"),
    ("field_type", "models", {}),
    ("field_value", "receiptId", "b12b9a56-ea15-4f73-a6c8-89552129fd54"),
    ("field_value", "kind", "whole"),
    ("field_value", "ranAt", "2026-11-01T10:00:00+00:00"),
    ("field_value", "ranAt", "2026-02-30T10:00:00Z"),
    ("field_value", "configDigest", "AB" * 32),
    ("field_value", "configDigest", "ab" * 32 + "\n"),
    ("field_value", "perQuery.file", "../evil.jsonl"),
    ("field_value", "scores.measured", {}),
    ("field_value", "metrics", [{"name": "b", "definition": "b/1"}, {"name": "a", "definition": "a/1"}]),
    ("field_value", "counts.retries", -1),
]


@each_row(("code", "place", "value"), SCHEMA_FAULTS)
def test_schema_violations_have_their_codes_and_skip_the_later_checks(
    tmp_path: Path, make: Any, code: str, place: str, value: Any
) -> None:
    desk = make.desk_in(tmp_path)
    rows = make.default_rows()
    document = make.with_digests(make.body(rows))
    make.change(document, place, value)
    outcome = desk.verify(desk.write(document, rows))
    assert make.codes(outcome) >= {code}
    assert {f.check for f in outcome.findings if f.status == "skip"} >= {"signature", "items", "policy"}
    assert outcome.verdict is ReceiptVerdict.INVALID


def test_each_top_level_field_is_required(desk: Any, make: Any) -> None:
    rows = make.default_rows()
    document = make.with_digests(make.body(rows))
    for name in list(document):
        cut = {key: value for key, value in document.items() if key != name}
        outcome = desk.verify(desk.write(cut, rows))
        expected = "schema_missing" if name == "schema" else "field_missing"
        assert make.codes(outcome) == {expected}, name


def test_a_receipt_of_a_key_that_is_not_trusted_is_untrusted_with_its_code(desk: Any, make: Any) -> None:
    path = desk.good()
    no_keys = TrustStore(origin=None, keys=())
    for store, code in [
        (no_keys, "key_unknown"),
        (TrustStore.pin([SigningKey.generate().public]), "key_unknown"),
        (desk.store(roles=("log",)), "key_role"),
        (desk.store(status="retired", valid_to_index=5), "key_retired"),
        (desk.store(status="revoked", revoked_from_index=5, reason="lost"), "key_revoked"),
    ]:
        outcome = desk.verify(path, trust=store)
        assert (outcome.verdict, make.codes(outcome)) == (ReceiptVerdict.UNTRUSTED, {code})
    assert desk.verify(path, trust=TrustStore.pin([desk.key.public])).verdict is ReceiptVerdict.VALID
    path.write_bytes(path.read_bytes().replace(b'"demo"', b'"demO"'))
    assert "signature" not in {f.check for f in desk.verify(path, trust=no_keys).findings if f.status == "fail"}


POLICY_FAULTS: list[tuple[str, dict[str, Any]]] = [
    ("dirty", {"environment__git__dirty": True}),
    ("commit_unknown", {"environment__git__commit": None}),
    ("not_preregistered", {}),
    ("reproducibility_none", {"reproducibility__class": "none"}),
]


@pytest.mark.parametrize(("code", "changes"), POLICY_FAULTS)
def test_policy_findings_are_warnings_and_fail_only_with_strict(
    desk: Any, make: Any, code: str, changes: dict[str, Any]
) -> None:
    path = desk.good(**changes)
    assert code in make.codes(desk.verify(path), "warn")
    assert desk.verify(path).verdict is ReceiptVerdict.VALID
    outcome = desk.verify(path, policy="strict")
    assert code in make.codes(outcome)
    assert outcome.verdict is ReceiptVerdict.POLICY


def test_partial_runs_and_high_error_rates_are_policy_warnings(desk: Any, make: Any) -> None:
    assert "partial" in make.codes(desk.verify(desk.good(pending=1)), "warn")
    rows = [*make.default_rows(), make.failed_row(99)]
    assert "error_rate" in make.codes(desk.verify(desk.good(rows)), "warn")
    rows[-1].update(state="not_ready", errorKind=None)
    assert "error_rate" in make.codes(desk.verify(desk.good(rows)), "warn")


def test_duplicate_hits_are_a_warning_and_fail_with_strict(desk: Any, make: Any) -> None:
    rows = make.default_rows()
    rows[0]["retrieved"][3] = rows[0]["retrieved"][4]
    path = desk.good(rows)
    assert "duplicate_retrieved" in make.codes(desk.verify(path), "warn")
    assert "duplicate_retrieved" in make.codes(desk.verify(path, policy="strict"))


def test_a_given_dataset_file_is_compared_by_its_bytes(desk: Any, make: Any, tmp_path: Path) -> None:
    data = tmp_path / "data.json"
    data.write_bytes(b"[]")
    path = desk.good(benchmark__dataset__sha256="4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945")
    good = desk.verify(path, dataset=data)
    assert (good.verdict, good.checklist["dataset_matches"]) == (ReceiptVerdict.VALID, "yes")
    data.write_bytes(b"[1]")
    bad = desk.verify(path, dataset=data)
    assert ("dataset_mismatch" in make.codes(bad), bad.checklist["dataset_matches"]) == (True, "no")


def test_the_digest_of_several_data_files_must_match_their_digests(desk: Any, make: Any, tmp_path: Path) -> None:
    data = tmp_path / "data.json"
    data.write_bytes(b"[]")
    digest = "4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"
    files = {"data.json": digest, "more.json": "0" * 64}
    bad = desk.verify(desk.good(benchmark__dataset__files=files), dataset=data)
    assert ("dataset_files" in make.codes(bad), bad.checklist["dataset_matches"]) == (True, "no")
    assert "dataset_partial" in make.codes(bad, "skip")


def test_the_checklist_has_yes_no_and_unknown(desk: Any) -> None:
    outcome = desk.verify(desk.good())
    assert outcome.checklist == {
        "tagged_commit": "yes", "clean_tree": "yes", "container_image": "no", "dataset_matches": "unknown",
        "signature": "yes", "rerun_identical": "unknown",
    }  # fmt: skip
    assert not outcome.defensible
    unknown = desk.verify(desk.good(environment__git={"commit": None, "tag": None, "dirty": None}))
    assert (unknown.checklist["tagged_commit"], unknown.checklist["clean_tree"]) == ("unknown", "unknown")


def test_the_worst_receipt_of_a_folder_decides_the_verdict(desk: Any, tmp_path: Path) -> None:
    question = VerificationRequest(trust=desk.store())
    path = desk.good()
    assert verify([tmp_path], question).verdict is ReceiptVerdict.VALID
    (tmp_path / "zz.json").write_text("{}")
    found = verify([tmp_path, path], question)
    assert found.verdict is ReceiptVerdict.INVALID
    assert [one["exitCode"] for one in found.value()["receipts"]] == [0, 5, 0]  # type: ignore[attr-defined]
    for missing in (tmp_path / "nothing.json", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(UsageError):
            verify([missing], question)


def test_openssl_verifies_the_export(desk: Any, tmp_path: Path) -> None:
    import shutil

    outcome, question = desk.verify(desk.good()), VerificationRequest(trust=desk.store())
    command = export(outcome, question, tmp_path / "out")
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"canonical.bin", "sig.bin", "pub.pem"}
    if shutil.which("openssl"):
        subprocess.run(command.split(), cwd=tmp_path / "out", check=True, capture_output=True)


def test_nothing_is_exported_from_a_bad_receipt(desk: Any, tmp_path: Path) -> None:
    path = desk.good()
    path.write_bytes(path.read_bytes().replace(b'"demo"', b'"demO"'))
    with pytest.raises(VerificationError):
        export(desk.verify(path), VerificationRequest(trust=desk.store()), tmp_path / "out")
    assert not (tmp_path / "out").exists()
