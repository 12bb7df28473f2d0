"""From a real run to signed receipts: sign, verify, reproduce, announce and sign again."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.config.catalog import Catalog
from bench.config.run import RunRequest
from bench.engine import execute
from bench.engine.run_metadata import CodeState, run_meta
from bench.errors import Locked, UsageError
from bench.events import redactor
from bench.journal import Journal, JournaledPhase, Key, Reader, RunState
from bench.model import Phase, State, Verdict
from bench.plan import make_plan
from bench.plan.job_record import ModelNames
from bench.receipt.build import ReceiptSettings, learn_secrets, refusal
from bench.receipt.log.log_check import check_log
from bench.receipt.log.log_store import read_log
from bench.receipt.log.publish import announce_in_child, announcement_of, publish
from bench.receipt.signing.keyring import Keyring
from bench.receipt.signing.sign import SigningRequest, SignOutcome, sign_run
from bench.receipt.signing.signature import SigningKey
from bench.receipt.verification.diff import diff, load
from bench.receipt.verification.findings import ReceiptVerdict
from bench.receipt.verification.reproduce import CannotReproduce, NotVerified, ReproductionSettings, reproduce
from bench.receipt.verification.verify import VerificationRequest, verify_file
from bench.report import fold
from bench.settings import Environment
from tests.full_journal import ItemData, write_run
from tests.receipt.receipt_making import run_demo
from tests.small_journal import record

AT = "2027-01-01T00:00:00Z"


async def signed(ring: Keyring, run: Path, **request: Any) -> SignOutcome:
    request.setdefault("output", ring.workspace / "results" / run.name / "receipts")
    request.setdefault("environment", Environment())
    return await sign_run(run, ring.signing_key("receipt"), SigningRequest(**request))


def settings_of(ring: Keyring, key: SigningKey | None = None) -> ReproductionSettings:
    request = VerificationRequest(trust=ring.trusted())
    environment = Environment.load(ring.workspace)
    return ReproductionSettings(workspace=ring.workspace, request=request, environment=environment, key=key)


async def test_each_job_gets_a_receipt_that_verifies(ring: Keyring) -> None:
    run = await run_demo(ring.workspace, "r1", providers=("bm25", "no-memory", "oracle"))
    outcome = await signed(ring, run)
    assert (outcome.exit_code, outcome.refused) == (0, ())
    assert [made.provider for made in outcome.receipts] == ["bm25", "no-memory", "oracle"]
    for made in outcome.receipts:
        text = made.file.read_text(encoding="utf-8")
        assert text == json.dumps(json.loads(text), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        checked = verify_file(made.file, VerificationRequest(trust=ring.trusted()))
        assert checked.verdict is ReceiptVerdict.VALID
        assert checked.receipt is not None and checked.receipt.kind == "run"
        assert checked.receipt.counts.planned == 8
        assert checked.receipt.reproducibility.class_ == "exact"
        assert checked.receipt.environment.python != "unknown"
        assert checked.receipt.benchmark.dataset.bytes > 0


async def test_two_runs_of_one_config_agree_on_the_result_digest_at_any_concurrency(ring: Keyring) -> None:
    digests = set()
    for run_id, concurrency in (("r1", 1), ("r2", 10)):
        run = await run_demo(ring.workspace, run_id, concurrency=concurrency)
        digests.add((await signed(ring, run)).receipts[0].result_digest)
    assert len(digests) == 1


async def test_a_receipt_contains_no_texts_home_folder_or_host_name(ring: Keyring) -> None:
    import platform

    run = await run_demo(ring.workspace, "r1")
    made = (await signed(ring, run)).receipts[0]
    document = json.loads(made.file.read_text())
    del document["signature"]  # random letters, which can contain a short name
    both = json.dumps(document) + made.items_file.read_text()
    for private in (str(Path.home()), str(ring.workspace), platform.node()):
        assert private not in both
    assert '"answer":"' not in both
    with_answers = (await signed(ring, run, with_answers=True)).receipts[0]
    assert '"answer":"' in with_answers.items_file.read_text()
    assert verify_file(with_answers.file, VerificationRequest(trust=ring.trusted())).verdict is ReceiptVerdict.VALID


async def test_a_partial_job_is_signed_only_with_allow_partial_and_has_kind_partial(ring: Keyring) -> None:
    run = await run_demo(ring.workspace, "r1", start=1, end=4, limit=None)
    outcome = await signed(ring, run)
    assert [refused.code for refused in outcome.refused] == ["job_partial"]
    assert outcome.exit_code == 4
    assert list((ring.workspace / "results" / "r1" / "receipts").iterdir()) == []
    made = (await signed(ring, run, allow_partial=True)).receipts[0]
    receipt = load(made.file)
    assert receipt.kind == "partial"
    assert [(shard.from_, shard.to) for shard in receipt.run.shards] == [(1, 4)]


async def test_a_receipt_that_contains_a_secret_is_refused(ring: Keyring) -> None:
    run = await run_demo(ring.workspace, "r1")
    item = load((await signed(ring, run)).receipts[0].file).per_query.merkle_root
    assert item
    outcome = await signed(ring, run, environment=Environment(values={"SOME_API_KEY": "single-session"}))
    assert [refused.code for refused in outcome.refused] == ["secret_in_receipt"]


def test_a_variable_that_a_provider_config_uses_as_its_key_is_a_secret_with_any_name(ring: Keyring, root: Path) -> None:
    folder = ring.workspace / "configs" / "providers"
    folder.mkdir(parents=True)
    text = (root / "configs" / "providers" / "mem0.yaml").read_text()
    (folder / "odd.yaml").write_text(text.replace("MEM0_API_KEY", "MY_DOOR").replace("name: mem0", "name: odd"))
    (ring.workspace / ".env").write_text("MY_DOOR=open-sesame-1\n")
    environment = Environment.load(ring.workspace)
    for providers, known in [(["bm25", "gone"], False), (["odd@fast"], True)]:
        learn_secrets(environment, ring.workspace, providers)
        assert redactor.holds_secret("a text with open-sesame-1 inside") is known


async def add_failures(run: Path, **entry: Any) -> None:
    """Replace the ends of three items."""
    async with Reader.open(run) as reader:
        job = reader.meta.extra["jobs"][0]["key"]  # type: ignore[index]
        ends = [
            record
            async for batch in reader.values(job)
            for record in zip(batch.corpora, batch.items, strict=True)
        ]  # fmt: skip
    async with Journal.resume(run) as journal:
        for corpus, item in ends[:3]:
            key = Key(owner=job, phase=Phase.EVALUATE, corpus=corpus, unit=item)
            journal.append(JournaledPhase(key=key, generation=1, **entry))
        await journal.flush()


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"outcome": "timeout", "state": State.ERROR}, "job_invalid"),
        ({"outcome": "contaminated", "state": State.ERROR}, "isolation_failed"),
    ],
)
async def test_an_invalid_or_contaminated_job_gets_no_receipt(ring: Keyring, entry: dict[str, Any], code: str) -> None:
    run = await run_demo(ring.workspace, "r1")
    await add_failures(run, **entry)
    outcome = await signed(ring, run)
    assert [refused.code for refused in outcome.refused] == [code]


async def test_a_job_without_items_gets_no_receipt(ring: Keyring, tmp_path: Path) -> None:
    run = await run_demo(ring.workspace, "r1")
    async with Reader.open(run) as reader:
        job = (await fold(reader)).jobs[0]
    order = ReceiptSettings(receipt_id="0" * 26, folder=tmp_path, issued_at=AT)
    found = [refusal(one, order) for one in (replace(job, n_planned=0), replace(job, counts={}), job)]
    assert [one.code if one else None for one in found] == ["zero_items", "zero_items", None]


async def test_repeats_of_an_item_are_separate_rows(ring: Keyring) -> None:
    run = await run_demo(ring.workspace, "r1", epochs=2, limit=3)
    receipt = load((await signed(ring, run)).receipts[0].file)
    assert (receipt.run.epochs, receipt.counts.planned, receipt.per_query.count) == (2, 6, 6)


async def test_the_note_on_missing_verdicts_counts_repeats_like_the_report(ring: Keyring) -> None:
    missing = Verdict(evaluator="judge", judged=True, value=None, correct=None, reason="no_verdict")
    item = ItemData(item="q1", state=State.UNSCORED, verdicts=(missing,), values={})
    repeats = [item, replace(item, epoch=2), ItemData(item="q1", epoch=3)]
    models = ModelNames(embedding=None, answering="acme/m1", judge="other/j")
    digests = {"benchmark": "b" * 64, "provider": "c" * 64}
    judged = record("bm25", epochs=3, evaluators=("judge",), models=models, config_sha256=digests, prompts={})
    settings: dict[str, Any] = {"planned": 2, "state": RunState.PARTIAL, "request": {"max_error_rate": 1}}
    run = await write_run(ring.workspace, "r1", [(judged, repeats)], **settings)
    made = (await signed(ring, run, allow_partial=True)).receipts[0]
    note = "2 of 6 items have no verdict of the judge; the most common reason: no_verdict, 2 times"
    assert note in load(made.file).reproducibility.reasons
    async with Reader.open(run) as reader:
        assert note in (await fold(reader)).jobs[0].notes


async def test_sign_overwrites_nothing_and_an_output_file_needs_a_single_job(ring: Keyring, tmp_path: Path) -> None:
    run = await run_demo(ring.workspace, "r1", providers=("bm25", "random"))
    target = tmp_path / "out" / "one.json"
    with pytest.raises(UsageError, match="2 jobs"):
        await signed(ring, run, output=target)
    with pytest.raises(UsageError, match="no job of "):
        await signed(ring, run, provider="chroma")
    made = (await signed(ring, run, output=target, provider="random")).receipts[0]
    assert (made.file, made.items_file.parent) == (target, target.parent)
    with pytest.raises(UsageError, match="already exists"):
        await signed(ring, run, output=target, provider="bm25")


async def test_an_active_run_is_not_signed(ring: Keyring) -> None:
    run = await run_demo(ring.workspace, "r1")
    async with Journal.resume(run):
        with pytest.raises(Locked):
            await signed(ring, run)


# ------------------------------------------------------------- reproduce and diff


async def test_reproducing_an_exact_receipt_gives_its_digest_and_a_signed_rerun(ring: Keyring) -> None:
    run = await run_demo(ring.workspace, "r1", sample=6, limit=None, seed=3)
    made = (await signed(ring, run)).receipts[0]
    found = await reproduce(made.file, settings_of(ring, ring.signing_key("receipt")))
    assert (found.same, found.exit_code, found.items) == (True, 0, ())
    assert found.signed is not None
    again = load(found.signed.file)
    assert (again.reproduces, again.result_digest) == (made.receipt_id, made.result_digest)
    publish(made.file, ring, at=AT)
    publish(found.signed.file, ring, at=AT)
    place = ring.workspace / "results" / "published"
    from bench.receipt.log.public_log import CheckedLog

    question = VerificationRequest(trust=ring.trusted(), log=place)
    outcome = verify_file(made.file, question, CheckedLog.open(place, question.trust))
    assert outcome.checklist["rerun_identical"] == "yes"


async def test_a_rerun_with_another_result_lists_the_different_fields_and_items(
    ring: Keyring, desk: Any, make: Any
) -> None:
    run = await run_demo(ring.workspace, "r1")
    made = (await signed(ring, run)).receipts[0]
    document = json.loads(made.file.read_text())
    lines = [json.loads(line) for line in made.items_file.read_text().splitlines()]
    for line in lines:
        line["retrieved"], line["metrics"] = [], dict.fromkeys(line["metrics"], 0.0)
        line["state"], line["verdicts"] = "incorrect", []
    desk.key = ring.signing_key("receipt")
    forged = forge(document, lines, desk, make)
    found = await reproduce(forged, settings_of(ring))
    assert (found.same, found.exit_code) == (False, 8)
    assert any("score" in text for text in found.differs)
    assert len(found.items) == 8
    difference = diff(forged, made.file)
    assert (difference.equal, difference.exit_code, difference.like_for_like) == (False, 8, True)


def forge(document: dict[str, Any], lines: list[dict[str, Any]], desk: Any, make: Any) -> Path:
    """Return a consistent receipt with other rows than the measured ones."""
    totals = make.body(lines)
    document["counts"], document["perQuery"] = totals["counts"], totals["perQuery"]
    document["perQuery"]["file"] = f"{make.RECEIPT_ID}.items.jsonl"
    document["receiptId"] = make.RECEIPT_ID
    document["memoryCost"]["usdMicrosPerCorrect"] = None
    for name, score in document["scores"]["deterministic"].items():
        made = make.score(lines, lambda line, name=name: line["metrics"][name], score["definition"], len(lines))
        groups = score["breakdown"].pop("group", {})
        score.update(made)
        for label in groups.values():
            label["value"] = 0.0
        score["breakdown"]["group"] = groups
    return desk.write(make.with_digests(document), lines)  # type: ignore[no-any-return]


async def test_a_receipt_that_cannot_be_reproduced_is_refused_with_the_reason(
    ring: Keyring, desk: Any, make: Any
) -> None:
    run = await run_demo(ring.workspace, "r1")
    made = (await signed(ring, run)).receipts[0]
    document = json.loads(made.file.read_text())
    setting = settings_of(ring)
    desk.key, desk.folder = ring.signing_key("receipt"), made.file.parent

    async def refused(path: str, value: Any) -> str:
        changed = json.loads(json.dumps(document))
        make.change(changed, path, value)
        target = made.file.parent / "other.json"
        from bench.receipt.signing.signature import sign

        target.write_text(json.dumps(sign(make.with_digests(changed), desk.key)))
        with pytest.raises(CannotReproduce) as caught:
            await reproduce(target, setting)
        target.unlink()
        return str(caught.value)

    assert "datasetSha256" in await refused("benchmark.dataset.sha256", "00" * 32)
    assert "configSha256" in await refused("provider.configSha256", "00" * 32)
    assert "statistical" in await refused("reproducibility", {"class": "statistical", "reasons": ["a judge"]})
    made.file.write_text(made.file.read_text().replace('"seed": 0', '"seed": 1'))
    with pytest.raises(NotVerified) as caught:
        await reproduce(made.file, setting)
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    "flag", [{"on_end": "touch pwned"}, {"allow_code_execution": True}, {"output": "/tmp"}, {"download": True}]
)
async def test_a_receipt_cannot_set_flags_of_its_rerun(ring: Keyring, desk: Any, flag: dict[str, object]) -> None:
    desk.key = ring.signing_key("receipt")
    path = desk.good(
        benchmark__selection__filter={"question_type": ["temporal"], **flag}, models=[],
        reproducibility={"class": "exact", "reasons": []},
    )  # fmt: skip
    with pytest.raises(CannotReproduce, match=next(iter(flag))):
        await reproduce(path, settings_of(ring))


# --------------------------------------------------------------- announce, publish


@pytest.mark.usefixtures("forked_children")
async def test_an_announced_run_is_preregistered_in_its_receipt(ring: Keyring) -> None:
    environment = Environment.load(ring.workspace)
    request = RunRequest(benchmarks=("demo",), providers=("bm25",), limit=4, run_id="r1")
    plan = make_plan(Catalog.load(ring.workspace), request, environment)
    announcement = announcement_of(plan, run_meta(plan, "r1", CodeState.read(environment), environment))
    index = announce_in_child(ring.workspace, announcement, environment)
    run = (await execute(plan, environment=environment)).folder
    folder = ring.workspace / "results" / "published"
    made = (await signed(ring, run, log=folder)).receipts[0]
    receipt = load(made.file)
    assert receipt.run.preregistration is not None and receipt.run.log is not None
    assert receipt.run.preregistration.log_index == index
    assert receipt.config_digest in announcement.config_digests
    publish(made.file, ring, at=AT)
    assert check_log(read_log(folder), ring.trusted()).verdict is ReceiptVerdict.VALID


@pytest.mark.usefixtures("forked_children")
async def test_without_a_log_key_nothing_is_announced(ring: Keyring) -> None:
    shutil.rmtree(ring.key_folder)
    environment = Environment.load(ring.workspace)
    plan = make_plan(Catalog.load(ring.workspace), RunRequest(benchmarks=("demo",), limit=2), environment)
    announcement = announcement_of(plan, run_meta(plan, "r1", CodeState.read(environment), environment))
    with pytest.raises(UsageError, match='no active private key has the role "log"'):
        announce_in_child(ring.workspace, announcement, environment)


# ------------------------------------------------------------------------ sign again


async def test_signing_an_unchanged_run_again_makes_no_second_receipt(ring: Keyring) -> None:
    run = await run_demo(ring.workspace, "r1", providers=("bm25", "no-memory"))
    first = await signed(ring, run)
    files = {path: path.read_bytes() for path in first.receipts[0].file.parent.iterdir()}
    again = await signed(ring, run)
    assert [one.is_new for one in first.receipts] == [True, True] and [one.is_new for one in again.receipts] == [
        False
    ] * 2
    assert again.value() == first.value()
    assert {path: path.read_bytes() for path in first.receipts[0].file.parent.iterdir()} == files


async def test_a_run_is_signed_again_if_its_receipt_differs_or_cannot_be_verified(ring: Keyring) -> None:
    run = await run_demo(ring.workspace, "r1", answering_model="builtin/extractive")
    (first,) = (await signed(ring, run)).receipts
    (answers,) = (await signed(ring, run, with_answers=True)).receipts
    assert answers.is_new and answers.receipt_id != first.receipt_id
    answers.items_file.unlink()
    (whole,) = (await signed(ring, run, with_answers=True)).receipts
    assert whole.is_new and whole.receipt_id != answers.receipt_id
    first.file.write_text("{}")
    assert (await signed(ring, run)).receipts[0].is_new


async def test_signing_to_the_same_output_again_makes_no_receipt_and_overwrites_nothing(ring: Keyring) -> None:
    run = await run_demo(ring.workspace, "r1")
    path = ring.workspace / "one.json"
    (first,) = (await signed(ring, run, output=path)).receipts
    (again,) = (await signed(ring, run, output=path)).receipts
    assert (again.is_new, again.receipt_id) == (False, first.receipt_id)
    path.write_text("{}")
    with pytest.raises(UsageError, match="already exists"):
        await signed(ring, run, output=path)
    assert path.read_text() == "{}"
    assert len(list(ring.workspace.glob("*.items.jsonl"))) == 1
