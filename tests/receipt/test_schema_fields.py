"""Every field of a receipt, as the specification lists it: valid values, and the path and code of each rejection."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

import tests.receipt.receipt_making as make
from bench.receipt.base_model import SchemaMismatch, json_of, validate
from bench.receipt.schema import SignedReceipt, read_receipt
from tests.rows import each_row

HEX = "ab" * 32
OTHER_ID = "01HZZZZZZZZZZZZZZZZZZZZZZ9"


def whole() -> dict[str, Any]:
    """A receipt in which no field is null."""
    document: dict[str, Any] = json.loads(whole_text())
    return document


@cache
def whole_text() -> str:
    document = make.body(make.default_rows())
    document["run"].update(
        contextBudgetTokens=2000,
        preregistration={"logIndex": 1, "entrySha256": HEX},
        log={"origin": "bench.local/log", "size": 2, "rootHash": HEX},
        resumes=[{"at": "2026-11-01T10:30:00Z", "codeCommit": "0" * 40, "benchVersion": "0.1.0"}],
        shards=[{"index": 1, "of": 1, "from": 1, "to": 10}],
    )
    document["benchmark"].update(
        split="test", selection={"filter": {"a": 1}, "limit": 10, "sample": 5, "order": "seeded"}
    )
    document["benchmark"]["dataset"]["files"] = {"a.csv": HEX}
    document["provider"].update(endpointHost="localhost", imageDigest="sha256:00")
    document["models"][0].update(reported="judge-1-2026", params={"temperature": 0}, seed=7)
    document["environment"].update(containerImage="bench:1", containerDigest="sha256:00", lockSha256=HEX)
    document["counts"]["errorKinds"] = {"timeout": 0}
    document["scores"]["judged"]["accuracy"]["interval"] = {"low": 0.1, "high": 0.9, "level": 0.95, "method": "wilson"}
    document["scores"]["cost"]["priceTable"] = "2026-11"
    document.update(supersedes=OTHER_ID, reproduces=OTHER_ID)
    totals = {"calls": 8, "tokens": 640, "usdMicros": 4_000_000, "timeUs": 120_000}
    document["memoryCost"] = {
        "build": {
            "fingerprint": HEX, "paidBy": "r1", "lane": "demo/acme", "corpora": 2, "memories": 40,
            "paid": {"calls": 0, "tokens": 0, "usdMicros": 0, "timeUs": 0}, "price": dict(totals),
        },
        "questions": 10, "query": totals, "usdMicrosPerCorrect": 0.5,
        "context": {"answers": 10, "tokens": 700, "corpusTokens": 7000, "corpora": 2, "share": 0.1},
        "breakEven": {"questions": 13, "never": False, "reason": ""},
    }  # fmt: skip
    document["signer"] = {"algorithm": "Ed25519", "publicKeyFingerprint": "sha256:" + HEX}
    document["signature"] = {**document["signer"], "value": "A" * 86}
    return json.dumps(document)


# One line per field with its kind in the specification. ``?`` = may be null.
FIELDS = """
schema                                      =bench.receipt/1
receiptId                                   ulid
kind                                        =run|partial
benchVersion                                name
ranAt                                       time
finishedAt                                  time
issuedAt                                    time
timeSource                                  =self-asserted
run                                         object
run.runId                                   name
run.planDigest                              hex64
run.seed                                    integer
run.epochs                                  positive
run.concurrency                             positive
run.k                                       positive?
run.contextBudgetTokens                     positive?
run.track                                   =uniform|vendor
run.isolation                               =off|probe|full
run.isolationProof                          object
run.isolationProof.probed                   natural
run.isolationProof.passed                   natural
run.isolationProof.failed                   natural
run.preregistration                         object?
run.preregistration.logIndex                natural
run.preregistration.entrySha256             hex64
run.log                                     object?
run.log.origin                              name
run.log.size                                natural
run.log.rootHash                            hex64
run.resumes                                 list
run.resumes[0].at                           time
run.resumes[0].codeCommit                   hex40?
run.resumes[0].benchVersion                 name
run.shards                                  list
run.shards[0].index                         positive
run.shards[0].of                            positive
run.shards[0].from                          positive
run.shards[0].to                            positive
benchmark                                   object
benchmark.name                              name
benchmark.version                           text
benchmark.split                             text?
benchmark.configSha256                      hex64
benchmark.dataset                           object
benchmark.dataset.sha256                    hex64
benchmark.dataset.bytes                     natural
benchmark.dataset.items                     natural
benchmark.dataset.source                    text
benchmark.dataset.license                   text
benchmark.dataset.files                     object?
benchmark.selection                         object
benchmark.selection.filter                  object
benchmark.selection.limit                   natural?
benchmark.selection.sample                  natural?
benchmark.selection.order                   =dataset|seeded
provider                                    object
provider.name                               name
provider.version                            text
provider.versionSource                      =api|image|package|declared
provider.kind                               =hosted|local|docker|mcp
provider.configSha256                       hex64
provider.endpointHost                       text?
provider.imageDigest                        text?
models                                      list
models[0].role                              =embedding|answering|judge|provider-internal
models[0].provider                          text
models[0].requested                         name
models[0].reported                          text?
models[0].params                            object
models[0].seed                              integer?
prompts                                     list
prompts[0].role                             name
prompts[0].sha256                           hex64
prompts[0].source                           =default|benchmark|custom|vendor
metrics                                     list
metrics[0].name                             name
metrics[0].definition                       name
environment                                 object
environment.python                          text
environment.implementation                  text
environment.platform                        text
environment.cpu                             text
environment.cpuCount                        natural
environment.memoryBytes                     natural
environment.containerImage                  text?
environment.containerDigest                 text?
environment.lockSha256                      hex64?
environment.packages                        object
environment.packages.pydantic               text
environment.git                             object
environment.git.commit                      hex40?
environment.git.tag                         text?
environment.git.dirty                       flag?
environment.codeTreeSha256                  hex64
environment.hostHash                        hex16
counts                                      object
counts.planned                              natural
counts.pending                              natural
counts.scored                               natural
counts.byState                              object
counts.byState.correct                      natural
counts.byState.incorrect                    natural
counts.byState.partial                      natural
counts.byState.abstained                    natural
counts.byState.error                        natural
counts.byState.not_ready                    natural
counts.byState.unsupported                  natural
counts.byState.unscored                     natural
counts.byState.measured                     natural
counts.errorKinds                           object
counts.errorKinds.timeout                   natural
counts.retries                              natural
scores                                      object
scores.deterministic                        object
scores.deterministic.mrr                    object
scores.judged                               object
scores.judged.accuracy                      object
scores.judged.accuracy.definition           name
scores.judged.accuracy.value                number?
scores.judged.accuracy.valueFailuresAsZero  number?
scores.judged.accuracy.n                    natural
scores.judged.accuracy.nExcluded            natural
scores.judged.accuracy.nFailed              natural
scores.judged.accuracy.aggregate            aggregate
scores.judged.accuracy.interval             object?
scores.judged.accuracy.interval.low         number
scores.judged.accuracy.interval.high        number
scores.judged.accuracy.interval.level       number
scores.judged.accuracy.interval.method      name
scores.judged.accuracy.breakdown            object
scores.judged.accuracy.breakdown.question_type              object
scores.judged.accuracy.breakdown.question_type.single       object
scores.judged.accuracy.breakdown.question_type.single.value number?
scores.judged.accuracy.breakdown.question_type.single.n     natural
scores.measured                             object
scores.cost                                 object
scores.cost.calls                           natural
scores.cost.promptTokens                    natural
scores.cost.completionTokens                natural
scores.cost.usdMicros                       natural?
scores.cost.priceTable                      text?
scores.cost.byRole                          object
scores.cost.byRole.judge                    object
scores.cost.byRole.judge.calls              natural
scores.cost.byRole.judge.promptTokens       natural
scores.cost.byRole.judge.completionTokens   natural
scores.cost.byRole.judge.usdMicros          natural?
perQuery                                    object
perQuery.format                             =jcs-lines/1
perQuery.file                               name
perQuery.count                              natural
perQuery.bytes                              natural
perQuery.sha256                             hex64
perQuery.merkleRoot                         hex64
perQuery.deterministicRoot                  hex64
configDigest                                hex64
resultDigest                                hex64
reproducibility                             object
reproducibility.class                       =exact|statistical|none
reproducibility.reasons                     list
reproducibility.reasons[0]                  text
supersedes                                  ulid?
reproduces                                  ulid?
memoryCost                                  object?
memoryCost.build                            object
memoryCost.build.fingerprint                hex64?
memoryCost.build.paidBy                     name
memoryCost.build.lane                       name
memoryCost.build.corpora                    natural?
memoryCost.build.memories                   natural
memoryCost.build.paid                       object
memoryCost.build.paid.calls                 natural
memoryCost.build.paid.tokens                natural
memoryCost.build.paid.usdMicros             natural?
memoryCost.build.paid.timeUs                natural
memoryCost.build.price                      object
memoryCost.build.price.calls                natural
memoryCost.build.price.tokens               natural
memoryCost.build.price.usdMicros            natural?
memoryCost.build.price.timeUs               natural
memoryCost.query                            object
memoryCost.query.calls                      natural
memoryCost.query.tokens                     natural
memoryCost.query.usdMicros                  natural?
memoryCost.query.timeUs                     natural
memoryCost.questions                        natural
memoryCost.usdMicrosPerCorrect              number?
memoryCost.context                          object?
memoryCost.context.answers                  natural
memoryCost.context.tokens                   natural
memoryCost.context.corpusTokens             natural?
memoryCost.context.corpora                  natural
memoryCost.context.share                    number?
memoryCost.breakEven                        object?
memoryCost.breakEven.questions              natural?
memoryCost.breakEven.never                  flag
memoryCost.breakEven.reason                 text
signer                                      object
signer.algorithm                            text
signer.publicKeyFingerprint                 text
signature.algorithm                         text
signature.publicKeyFingerprint              text
signature.value                             text
"""
KINDS = dict(line.split(maxsplit=1) for line in FIELDS.strip().splitlines())
PARTS: dict[str, list[str]] = {}
"""the first key of each path, and the paths that begin with it"""
for path in KINDS:
    PARTS.setdefault(re.split(r"[.\[]", path)[0], []).append(path)
OPEN = (
    "benchmark.selection.filter",
    "models[0].params",
    "environment.packages",
    "counts.errorKinds",
    "scores.measured",
)
"""maps with arbitrary keys"""
MAPS = (*OPEN, "benchmark.dataset.files", "scores.deterministic", "scores.judged", "scores.cost.byRole")

T, V = "field_type", "field_value"
NOT_TEXT = [(1, T), (True, T), (["a"], T), ({}, T)]
NOT_WHOLE = [("1", T), (1.5, T), (True, T), ([], T)]
BAD: dict[str, list[tuple[object, str]]] = {
    "text": NOT_TEXT,
    "name": [*NOT_TEXT, ("", V)],
    "integer": NOT_WHOLE,
    "natural": [*NOT_WHOLE, (-1, V)],
    "positive": [*NOT_WHOLE, (0, V), (-5, V)],
    "flag": [(0, T), (1, T), ("true", T), ([], T)],
    "number": [("0.5", T), (True, T), ([], T), ({}, T)],
    "object": [([], T), ("{}", T), (1, T), (True, T)],
    "list": [({}, T), ("[]", T), (1, T)],
    "hex64": [*NOT_TEXT, ("AB" * 32, V), ("ab" * 31, V), ("ab" * 33, V), (HEX + "\n", V), ("\u0661" + HEX[1:], V)],
    "hex40": [*NOT_TEXT, ("0" * 39, V), ("F" * 40, V), ("0" * 40 + "\n", V)],
    "hex16": [*NOT_TEXT, ("0" * 15, V), ("0x" + "0" * 14, V), ("\uff10" + "0" * 15, V)],
    "ulid": [
        *NOT_TEXT, ("8" + "0" * 25, V), (OTHER_ID.lower(), V), (OTHER_ID[:-1] + "U", V), (OTHER_ID + "\n", V),
        ("b12b9a56-ea15-4f73-a6c8-89552129fd54", V),
    ],
    "time": [
        *NOT_TEXT, ("2026-11-01T10:00:00+00:00", V), ("2026-11-01 10:00:00Z", V), ("2026-11-01T10:00:00z", V),
        ("2026-02-30T10:00:00Z", V), ("2026-11-01T24:00:01Z", V), ("2026-11-01T10:00:60Z", V),
        ("0000-01-01T00:00:00Z", V),
        ("2026-11-01T10:00Z", V), ("2026-11-01T10:00:00.Z", V), ("2026-11-01T10:00:00.0123456789Z", V),
        ("2026-11-01T10:00:00Z\n", V), ("\u0662026-11-01T10:00:00Z", V), ("12026-11-01T10:00:00Z", V),
    ],
    "aggregate": [*NOT_TEXT, ("median", V), ("macro:", V), ("mean\n", V), ("Mean", V)],
}  # fmt: skip
SCHEMA_CODES = {"schema": "schema_unknown"}


def bad_values(kind: str) -> Iterator[tuple[object, str]]:
    plain = kind.removesuffix("?")
    if plain.startswith("="):
        words = plain[1:].split("|")
        yield from [
            (1, T),
            (None, T),
            (True, T),
            ("", V),
            (words[0].upper(), V),
            (words[0] + " ", V),
            ("|".join(words) + "|x", V),
        ]
        return
    yield from BAD[plain]
    if not kind.endswith("?"):
        yield None, T


def steps(path: str) -> list[str | int]:
    """``a[0].b`` as a, 0, b."""
    parts = path.replace("[", ".").replace("]", "").split(".")
    return [int(part) if part.isdigit() else part for part in parts]


def put(document: Any, path: str, change: Callable[[Any, str | int], object]) -> None:
    *parents, last = steps(path)
    for step in parents:
        document = document[step]
    change(document, last)


def refusals(document: Any) -> list[tuple[str, str]]:
    with pytest.raises(SchemaMismatch) as caught:
        read_receipt(document)
    assert caught.value.code == caught.value.problems[0].code
    return [(problem.code, problem.path) for problem in caught.value.problems]


def set_to(value: object) -> Callable[[Any, str | int], None]:
    return lambda parent, key: parent.__setitem__(key, value)


def places(value: Any, path: str = "") -> Iterator[str]:
    """The path of every node of a document, map entries and list entries too."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list) and value:
        yield from places(value[0], f"{path}[0]")


def test_the_table_lists_every_field_and_a_complete_receipt_is_read() -> None:
    document = whole()
    assert read_receipt(document).receipt_id == make.RECEIPT_ID
    unlisted = {
        place
        for place in places(document)
        if not place.startswith(
            (
                "scores.deterministic.",
                "scores.measured.",
                "benchmark.selection.filter.",
                "models[0].params.",
                "benchmark.dataset.files.",
            )
        )
        and not place.endswith("[0]")
        and place not in KINDS
    }
    assert unlisted - {"signature", "scores.judged.accuracy.breakdown.question_type.temporal",
                     "scores.judged.accuracy.breakdown.question_type.temporal.value",
                     "scores.judged.accuracy.breakdown.question_type.temporal.n"} == set()  # fmt: skip


@each_row("part", PARTS)
def test_each_invalid_field_value_is_rejected_with_its_path(part: str) -> None:
    for path, value, code in ((one, *bad) for one in PARTS[part] for bad in bad_values(KINDS[one])):
        document = whole()
        put(document, path, set_to(value))
        found = refusals(document)
        if path == "schema":
            code = "schema_missing" if value is None else "schema_unknown"
        assert (code, path) in found, (path, value, found)
        assert len(found) == 1, (path, value, found)


@each_row("part", PARTS)
def test_each_missing_field_is_rejected_with_its_path(part: str) -> None:
    for path in (path for path in PARTS[part] if not path.endswith("[0]")):
        document = whole()
        put(document, path, lambda parent, key: parent.pop(key))
        parent = path.rpartition(".")[0]
        if path == "schema":
            assert refusals(document) == [("schema_missing", "schema")]
        elif path in ("memoryCost", "benchmark.dataset.files"):
            assert read_receipt(document), "receipts of older versions do not have it"
        elif parent in MAPS or path.startswith("scores.judged.accuracy.breakdown.question_type"):
            if path.endswith((".value", ".n")):
                assert refusals(document) == [("field_missing", path)]
            else:
                assert read_receipt(document), f"{path}: an entry of a map may be missing"
        else:
            assert refusals(document) == [("field_missing", path)]


@each_row("path", [path for path, kind in KINDS.items() if kind.startswith("object") and path not in MAPS])
def test_an_unknown_field_of_an_object_is_rejected_with_its_path(path: str) -> None:
    if path.startswith("scores.judged.accuracy.breakdown") and not path.endswith("single"):
        return  # dimensions and labels are names that the benchmark chooses
    for name in ("extra", "Schema", "run_id", "value ", "__proto__", ""):
        document = whole()
        put(document, path, lambda parent, key, name=name: parent[key].__setitem__(name, 1))
        assert refusals(document) == [("field_unknown", f"{path}.{name}")]


@each_row("path", [path for path, kind in KINDS.items() if kind.endswith("?")])
def test_each_nullable_field_may_be_null(path: str) -> None:
    document = whole()
    put(document, path, set_to(None))
    assert read_receipt(document)


def test_only_the_json_names_of_fields_are_accepted() -> None:
    document = whole()
    document["bench_version"] = document.pop("benchVersion")
    assert refusals(document) == [("field_missing", "benchVersion"), ("field_unknown", "bench_version")]


@each_row("document", [None, [], "receipt", 1, True])
def test_a_document_that_is_not_an_object_is_rejected(document: object) -> None:
    assert refusals(document) == [("field_type", "")]


@each_row("schema", ["bench.receipt/2", "bench.receipt/1 ", "BENCH.RECEIPT/1", "", 1, ["bench.receipt/1"]])
def test_an_unknown_schema_is_reported_before_any_field(schema: object) -> None:
    assert refusals({"schema": schema}) == [("schema_unknown", "schema")]


# ------------------------------------------------------------------ rules between fields


def sorted_wrongly(path: str, *entries: dict[str, Any]) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.__setitem__(path, list(entries))


MODEL = {"role": "judge", "provider": "acme", "requested": "judge-1", "reported": None, "params": {}, "seed": None}
PROMPT = {"role": "judge", "sha256": HEX, "source": "default"}
BETWEEN: list[tuple[Callable[[dict[str, Any]], object], str, str]] = [
    (sorted_wrongly("models", MODEL, {**MODEL, "role": "answering"}), "models", "not sorted by role, requested"),
    (sorted_wrongly("models", MODEL, {**MODEL, "requested": "a"}), "models", "not sorted by role, requested"),
    (sorted_wrongly("prompts", PROMPT, {**PROMPT, "role": "answer"}), "prompts", "not sorted by role"),
    (lambda d: d["metrics"].reverse(), "metrics", "not sorted by name"),
    (lambda d: d["metrics"].append(dict(d["metrics"][-1])), "metrics", 'the name "recall_at_5" occurs twice'),
    (lambda d: d["metrics"].pop(0), "scores.judged.accuracy.definition", "differs from the definition under metrics"),
    (lambda d: d["metrics"].pop(1), "scores.deterministic.mrr.definition", "differs from the definition under metrics"),
    (lambda d: d["metrics"][1].update(definition="mrr/2"), "scores.deterministic.mrr.definition",
     "differs from the definition under metrics"),
    (lambda d: d["scores"]["judged"]["accuracy"].update(definition="accuracy/2"), "scores.judged.accuracy.definition",
     "differs from the definition under metrics"),
    (lambda d: d["run"]["shards"][0].update({"index": 2}), "run.shards[0]",
     'expected "index" <= "of" and "from" <= "to", got 2 of 1, 1 to 10'),
    (lambda d: d["run"]["shards"][0].update({"from": 11}), "run.shards[0]",
     'expected "index" <= "of" and "from" <= "to", got 1 of 1, 11 to 10'),
    (lambda d: d["scores"]["measured"].pop("ingest_us"), "scores.measured", "ingest_us is missing"),
    (lambda d: d["scores"]["measured"].pop("search_us"), "scores.measured", "search_us is missing"),
    (lambda d: d["scores"]["measured"].pop("ingest_to_searchable_us"), "scores.measured",
     "ingest_to_searchable_us is missing"),
    (lambda d: d["scores"]["measured"].update(answer_ms=d["scores"]["measured"]["search_us"]), "scores.measured",
     "the name answer_ms must end with _us, the unit of its fields"),
    (lambda d: d["scores"]["measured"].update(pace_us={"n": 1, "value": 1.0}), "scores.measured",
     "the name pace_us must end with _per_s, the unit of its fields"),
    (lambda d: d["perQuery"].update(file="../x.items.jsonl"), "perQuery.file",
     "the name of the items file does not match the receipt id"),
    (lambda d: d["perQuery"].update(file=f"{OTHER_ID}.items.jsonl"), "perQuery.file",
     "the name of the items file does not match the receipt id"),
    (lambda d: d["perQuery"].update(file=f"/{make.RECEIPT_ID}.items.jsonl"), "perQuery.file",
     "the name of the items file does not match the receipt id"),
    (lambda d: d.update(receiptId=OTHER_ID), "perQuery.file",
     "the name of the items file does not match the receipt id"),
]  # fmt: skip


@each_row(("change", "path", "message"), BETWEEN)
def test_fields_that_contradict_each_other_are_rejected_with_a_message(
    change: Callable[[dict[str, Any]], object], path: str, message: str
) -> None:
    document = whole()
    change(document)
    with pytest.raises(SchemaMismatch) as caught:
        read_receipt(document)
    (problem,) = caught.value.problems
    assert (problem.code, problem.path) == ("field_value", path)
    assert problem.message.removeprefix("Value error, ") == message
    assert str(caught.value) == f"{path}: {problem.message}"


def test_a_model_or_prompt_may_occur_twice_in_one_role() -> None:
    document = whole()
    document["models"], document["prompts"] = [MODEL, dict(MODEL)], [PROMPT, dict(PROMPT)]
    assert len(read_receipt(document).models) == 2


@each_row("name", ["search_us", "ingest_memories_per_s"])
@each_row("value", [None, 1, [], {}, {"n": 1}, {"n": -1, "value": 1}, {"n": 1, "value": "fast"}])
def test_a_measurement_that_is_neither_times_nor_a_pace_is_rejected(name: str, value: object) -> None:
    document = whole()
    document["scores"]["measured"][name] = value
    assert all(path.startswith(f"scores.measured.{name}") for _, path in refusals(document))


def test_all_schema_problems_are_returned_and_the_text_names_the_first_five() -> None:
    document = whole()
    for name in ("runId", "planDigest", "seed", "epochs", "concurrency", "k"):
        document["run"][name] = []
    with pytest.raises(SchemaMismatch) as caught:
        read_receipt(document)
    assert [problem.path for problem in caught.value.problems] == [
        "run.runId", "run.planDigest", "run.seed", "run.epochs", "run.concurrency", "run.k",
    ]  # fmt: skip
    assert "run.concurrency" in str(caught.value) and "run.k" not in str(caught.value)


def test_a_complete_receipt_is_read_and_written_back_unchanged() -> None:
    document = whole()
    assert json_of(validate(SignedReceipt, document)) == document
    without_signature = copy.deepcopy(document)
    del without_signature["signature"]
    assert read_receipt(without_signature) == read_receipt(document), (
        "a missing signature is reported by the signature check"
    )
    document["signature"]["more"] = 1
    assert refusals(document) == [("field_unknown", "signature.more")]
