"""Several judges and prompts over the same answers: agreement, majority, ``bench dispute``, ``bench review``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.evaluators.judge_prompts import JudgePrompt
from bench.report.judges.panel import AnswerKey, Panel, PanelCell, agreement_grid, differing_grid
from tests.reality.chat_stub import Reply, Stub, completion, serving
from tests.rows import each_row

Bench = Callable[..., Any]
STRICT = "STRICT json: question ${question} expected ${answer} response ${response}"
LENIENT = "LENIENT json: question ${question} expected ${answer} response ${response}"
RIGHT = {"correctness": 1, "faithfulness": 1, "reasoning": ""}


REFUSED: dict[str, str] = {}
"""judge -> an answer on which its endpoint fails"""


def judged(body: dict[str, Any]) -> Reply:
    """Accept all for the lenient prompt, even numbers for the strict one, and multiples of 4 for judge "hard"."""
    text = body["messages"][-1]["content"]
    if REFUSED.get(body["model"], "\0") in text:
        return 400, {"error": {"message": "refused"}}
    number = int(text.rpartition("response")[2].split()[-1].strip("."))
    right = "LENIENT" in text or number % (4 if body["model"] == "hard" else 2) == 0
    return completion(json.dumps({**RIGHT, "correctness": int(right)}))


@pytest.fixture(scope="module")
def served() -> Iterator[Stub]:
    with serving(judged) as found:
        yield found


@pytest.fixture
def stub(served: Stub, monkeypatch: pytest.MonkeyPatch, bench: Bench) -> Stub:
    monkeypatch.setenv("OPENAI_BASE_URL", served.url)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    return served


@pytest.fixture
def answered(tmp_path: Path, stub: Stub, ran: Callable[..., None]) -> Stub:
    """A run of eight answers "The code is N." in two question types."""
    folder = tmp_path / "configs/benchmarks"
    folder.mkdir(parents=True)
    rows = [
        {
            "id": f"c{n}",
            "content": f"The code is {n}.",
            "q": f"Code {n}?",
            "a": str(n),
            "kind": "low" if n < 4 else "high",
        }
        for n in range(8)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "codes.yaml").write_text(
        "name: codes\nversion: '1'\ndata: {type: local, path: ./rows.jsonl, format: jsonl}\n"
        "schema: {itemId: id, question: q, answer: a, context: {field: content, type: string}, "
        "metadata: {questionType: kind}}\nquestionTypes: [{name: low}, {name: high}]\n"
        "evaluation: {method: llm-judge}\nmetrics: [accuracy]\n"
    )
    (tmp_path / "strict.txt").write_text(STRICT)
    (tmp_path / "lenient.txt").write_text(LENIENT)
    flags = ("--answering-model", "builtin/extractive", "--judge-model", "openai/soft", "--judge-prompt", "lenient.txt")
    ran("--run-id", "r", "--benchmarks", "codes", "--providers", "bm25", *flags)
    return stub


TWO = ("--judge-model", "openai/soft", "openai/hard", "--judge-prompt", "lenient.txt", "--judge-prompt", "strict.txt")


def test_rescore_with_two_judges_and_prompts_judges_each_pair_without_answering_again(
    answered: Stub, bench: Bench
) -> None:
    before = len(answered.asked)
    lines = [json.loads(line) for line in bench("rescore", "r", *TWO, "--json").stdout.splitlines()]
    assert len(answered.asked) == before + 24, "soft has judged all with the lenient prompt before"
    (panel,) = next(line for line in lines if line["event"] == "judges")["panels"]
    cells = {(cell["judge"], cell["prompt"]): cell for cell in panel["cells"]}
    assert {name: cell["value"] for name, cell in cells.items()} == {
        ("openai/soft", "lenient"): 1.0, ("openai/hard", "lenient"): 1.0,
        ("openai/soft", "strict"): 0.5, ("openai/hard", "strict"): 0.25,
    }  # fmt: skip
    assert all(cell["class"] == "judged" and len(cell["prompt_sha256"][0]) == 64 for cell in cells.values())
    assert panel["agreement"]["n"] == 8 and panel["agreement"]["unanimous"] == 2
    assert set(panel["agreement_by_question_type"]) == {"low", "high"}
    kappa = {(one["a"], one["b"]): one for one in panel["agreement"]["cohen_kappa"]}
    strict = kappa["openai/soft, strict", "openai/hard, strict"]
    assert (strict["flips"], strict["kappa"]) == (2, pytest.approx(0.5))  # (6/8 - 1/2) / (1 - 1/2)
    assert panel["majority"] == {
        "value": pytest.approx(1.0), "interval": panel["majority"]["interval"], "n": 4, "ties": 4,
    }  # fmt: skip
    assert [one["item"] for one in panel["differ"]][:4] == ["c1", "c3", "c5", "c7"]
    assert panel["differ"][0]["expected"] == "1"


def test_rescore_tables_show_class_digest_and_agreement_only_for_several_judges(answered: Stub, bench: Bench) -> None:
    text = bench("rescore", "r", *TWO).stdout
    assert "Judge prompt lenient" in text and "Judge openai/hard: bm25 answers 25%" in " ".join(text.split())
    assert "is best" not in text and "like for like" not in text, "judges are not ranked"
    assert "left to right by openai/soft, lenient; openai/hard, lenient; openai/soft, strict" in " ".join(text.split())
    assert "Agreement of the judges: codes x bm25" in text and "Krippendorff alpha" in text
    assert "class" in text and "(majority)" in text and "Items on which the judges differ" in text
    alone = bench("rescore", "r", "--judge-model", "openai/soft", "--judge-prompt", "strict.txt").stdout
    assert "Agreement" not in alone


@each_row(
    ("text", "scale"),
    [
        ("Rate it from 1 (wrong) to 5 (right).", "1 to 5"), ("Score the answer 0-10.", "0 to 10"),
        ("Give a score between 1 and 5.", "1 to 5"), ("Return a grade out of 10.", "0 to 10"),
    ],
)  # fmt: skip
def test_a_judge_prompt_whose_scores_would_be_misread_is_an_error_before_the_first_call(
    answered: Stub, bench: Bench, text: str, scale: str
) -> None:
    before, top = len(answered.asked), scale.split()[-1]
    refused = bench("rescore", "r", "--judge-model", "openai/soft", "--judge-prompt", f"{text} ${{response}}", check=2)
    assert f"asks for a score of {scale}" in refused.stderr and f"1/{top}" in refused.stderr
    assert len(answered.asked) == before


@each_row(
    "text",
    [
        "Rate it from 1 to 5, as N/5.", 'Reply {"score": N, "max_score": 5} with a score of 1 to 5.',
        "Score it from 0 to 1.", "Score 0.0 to 1.0.", "Rate answers of 1 to 3 sentences: yes or no.", "1 or 0?",
    ],
)  # fmt: skip
def test_a_judge_prompt_may_ask_for_a_word_for_0_to_1_or_for_a_score_with_its_scale(text: str) -> None:
    assert JudgePrompt.of("default", f"{text} ${{response}}").name == "default"


def panel(*columns: str) -> Panel:
    keys = [AnswerKey("c", f"{n:02}", 1) for n in range(len(columns[0]))]
    cells = [
        PanelCell(judge=f"j{at}", prompt="p", sha256=(), verdicts={
            key: {"1": True, "0": False, "-": None}[sign] for key, sign in zip(keys, column, strict=True)
        })
        for at, column in enumerate(columns)
    ]  # fmt: skip
    return Panel(side="s", benchmark="b", cells=tuple(cells), types=dict.fromkeys(keys, "t"))


def test_tables_count_omitted_rows_and_skip_the_row_of_a_single_question_type() -> None:
    found = panel("1" * 25, "0" * 25)
    assert [row[0] for row in agreement_grid(found).rows] == ["(all)"], "one type needs no row of its own"
    assert (
        "differ on 25 of 25 answers, the most divided first; 20 are shown, --json has all"
        in differing_grid(found).notes[0]
    )


def test_alpha_and_kappa_equal_a_published_example() -> None:
    """Two coders, ten units, binary: alpha = 0.095, as in Krippendorff's introduction of binary data."""
    found = panel("0100000000", "1110010010").agreement()
    assert found.alpha == pytest.approx(0.095, abs=5e-4)
    assert found.pairs[0].flips == 4
    assert found.pairs[0].kappa == pytest.approx(0.2)  # by hand: chance is 0.9 * 0.5 + 0.1 * 0.5


def test_a_missing_verdict_is_excluded_from_pairs_and_a_tie_from_the_majority() -> None:
    found = panel("11-0", "10-1", "1--0")
    agreement = found.agreement()
    assert [(pair.n, pair.flips) for pair in agreement.pairs] == [(3, 2), (2, 0), (2, 1)]
    assert agreement.n == 2 and agreement.unanimous == 1
    value, _, n, ties = found.majority()
    assert (value, n, ties) == (0.5, 2, 1)
    assert [key.item for key in found.differing()] == ["01", "03"]


# ------------------------------------------------------------------------ bench dispute


def dispute(bench: Bench, *targets: str, flags: tuple[str, ...] = TWO) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bench("dispute", *targets, *flags, "--json").stdout)
    return found


def test_dispute_shows_a_run_in_one_table_and_reuses_paid_verdicts(answered: Stub, bench: Bench) -> None:
    found = dispute(bench, "r")
    asked = len(answered.asked)
    assert dispute(bench, "r") == found and len(answered.asked) == asked
    (side,) = found["sides"]
    assert [(cell["judge"], cell["prompt"], cell["value"]) for cell in side["cells"]] == [
        ("openai/soft", "lenient", 1.0), ("openai/hard", "lenient", 1.0),
        ("openai/soft", "strict", 0.5), ("openai/hard", "strict", 0.25),
    ]  # fmt: skip
    assert side["leak_check"].startswith("contains neither") and "of the corpus" in side["context_share"]
    assert (
        "1.0000 (openai/soft, lenient)" in found["conclusions"][0]
        and "the judges differ on 6 of 8 answers" in found["conclusions"][0]
    )
    text = bench("dispute", "r", *TWO).stdout
    assert "Dispute: codes" in text and "(majority)" in text and "flips" in text
    assert bench("dispute", "r", *TWO, "--markdown").stdout.startswith("### Dispute: codes")
    bench("dispute", "r", *TWO, "--html", "d.html")
    assert "Items on which the judges differ" in Path("d.html").read_text()


def test_dispute_shows_the_error_of_each_judge_against_human_labels(answered: Stub, bench: Bench) -> None:
    assert "judge_error" not in dispute(bench, "r")["sides"][0]
    bench("review", "r", "--n", "8")
    fill_in_labels(lambda n: n % 2 == 0)
    bench("review", "r", "--labels", "review.tsv")
    found = dispute(bench, "r")
    (side,) = found["sides"]
    assert [one["value"] for one in side["judge_error"]] == [0.5, 0.5, 0.0, 0.25]
    assert (side["corrected"]["value"], side["corrected"]["labelled"]) == (0.5, 8)
    assert "accuracy 0.5000 [0.5000, 0.5000] from 8 labels" in found["conclusions"][1]
    assert "openai/soft, strict has the lowest judge error: 0.0000" in found["conclusions"][1]
    assert "0.2500 [0.2500, 0.2500]" in bench("dispute", "r", *TWO).stdout


def test_dispute_requests_only_verdicts_that_are_not_stored(answered: Stub, bench: Bench) -> None:
    bench("rescore", "r", *TWO)
    asked = len(answered.asked)
    done = bench("dispute", "r", *TWO, "--json")
    assert "32 verdicts: 32 are reused, 0 are requested" in done.stderr and len(answered.asked) == asked
    three = ("--judge-model", "openai/soft", "openai/hard", "openai/third", *TWO[3:])
    done = bench("dispute", "r", *three, "--json")
    assert "48 verdicts: 32 are reused, 16 are requested" in done.stderr
    assert "8 of openai/third, lenient; 8 of openai/third, strict" in done.stderr
    assert len(answered.asked) == asked + 16


def test_dispute_names_a_failed_call_and_the_next_dispute_repeats_it(
    answered: Stub, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(REFUSED, "hard", "The code is 3.")
    done = bench("dispute", "r", *TWO, "--json")
    assert "1 verdict of openai/hard, strict on r:bm25:builtin/extractive failed" in done.stderr
    assert [cell["n"] for cell in json.loads(done.stdout)["sides"][0]["cells"]] == [8, 7, 8, 7]
    monkeypatch.delitem(REFUSED, "hard")
    asked = len(answered.asked)
    done = bench("dispute", "r", *TWO, "--json")
    assert "32 verdicts: 30 are reused, 2 are requested" in done.stderr and len(answered.asked) == asked + 2
    assert [cell["n"] for cell in json.loads(done.stdout)["sides"][0]["cells"]] == [8, 8, 8, 8]


def row(n: int, **names: str) -> dict[str, Any]:
    return {names["question"]: f"Code {n}?", names["answer"]: f"The code is {n}.", names["gold"]: str(n)}


SHAPES: dict[str, Callable[[int], dict[str, Any]]] = {
    "mem0": lambda n: {**row(n, question="question", answer="response", gold="answer"), "category": 1},
    "mem0 at several k": lambda n: {
        "question_id": f"conv0_q{n}", "question": f"Code {n}?", "ground_truth_answer": str(n),
        "cutoff_results": {
            "top_20": {"generated_answer": "no idea 1", "score": 0.0},
            "top_200": {"generated_answer": f"The code is {n}.", "score": 1.0, "judgment": "CORRECT"},
        },
    },
    "zep": lambda n: row(n, question="question", answer="answer", gold="golden_answer"),
    "memorybench": lambda n: {
        "questionId": f"c{n}", **row(n, question="question", answer="hypothesis", gold="groundTruth"), "score": 1,
    },
    "amb": lambda n: {
        "query_id": f"x{n}", "query": f"Code {n}?", "answer": f"The code is {n}.", "gold_answers": [str(n)],
    },
    "evermemos": lambda n: {
        "question_id": f"locomo_{n}", **row(n, question="question", answer="answer", gold="golden_answer"),
    },
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_dispute_maps_rows_of_a_published_file_and_counts_the_unmapped(
    answered: Stub,
    bench: Bench,
    shape: str,
) -> None:
    rows = [SHAPES[shape](n) for n in range(3)]
    Path("theirs.json").write_text(json.dumps({"0": rows, "1": [SHAPES[shape](99), SHAPES[shape](0)]}))
    found = dispute(bench, "theirs.json", flags=(*TWO, "--benchmark", "codes"))
    (side,) = found["sides"]
    assert side["source"].startswith(f"{shape.split()[0]}: 3 of 5 rows mapped to items, 1 not mapped")
    assert side["source"].endswith("1 for an item that already has a row")
    assert [cell["value"] for cell in side["cells"]][2:] == [pytest.approx(2 / 3), pytest.approx(1 / 3)]
    assert side["leak_check"] == side["context_share"] == "unknown"


def test_dispute_of_two_sides_names_the_leader_and_accepts_a_receipt(
    answered: Stub,
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    bench("keys", "new", "-q")
    receipt = bench("sign", "r", "--with-answers").stdout.split()[-1]
    Path("even.jsonl").write_text(
        "".join(json.dumps({"item": f"c{n}", "answer": f"It is {n}."}) + "\n" for n in (0, 2, 4))
    )
    found = dispute(bench, receipt, "even.jsonl")
    assert [side["source"].split(",")[0] for side in found["sides"]] == [
        "receipt of bm25", "answers: 3 of 3 rows mapped to items",
    ]  # fmt: skip
    assert found["leaders"][0]["side"] is None and found["leaders"][2]["side"] == "even"
    assert found["conclusions"][-1] == "which side is ahead depends on judge and prompt"
    assert found["sides"][0]["context_share"] != "unknown"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ("r", "--judge-model", "openai/soft", "--judge-prompt", "a.txt", "b.txt"),
            "needs at least 2 values of --judge-model, got 1",
        ),
        (("r", *TWO[:3]), "needs at least 2 values of --judge-prompt, got 0"),
        (TWO, "no answers were given"),
        (("x.json", *TWO), "does not name its benchmark"),
        (("x.json", *TWO, "--benchmark", "demo"), "no row has the fields of a known format"),
    ],
)
def test_dispute_names_the_missing_argument(bench: Bench, arguments: tuple[str, ...], text: str) -> None:
    Path("x.json").write_text('{"rows": [{"a": 1}]}')
    assert text in bench("dispute", *arguments, check=2).stderr


# ------------------------------------------------------------------------- bench review


def fill_in_labels(right: Callable[[int], bool], *, only: int = 99) -> None:
    """Label the drawn answers as a person who knows which codes are right."""
    head, *rows = Path("review.tsv").read_text().splitlines()
    done = []
    for at, cells in enumerate(line.split("\t") for line in rows):
        label = ("right" if right(int(cells[3])) else "wrong") if at < only else ""
        done.append("\t".join([*cells[:-1], label]))
    Path("review.tsv").write_text("\n".join([head, *done]) + "\n")


def test_human_labels_correct_the_score_and_measure_the_judge_error(answered: Stub, bench: Bench) -> None:
    asked = len(answered.asked)
    bench("review", "r", "--n", "8")
    text = Path("review.tsv").read_text()
    assert "bm25" not in text and "lenient" not in text and text.count("\n") == 9
    fill_in_labels(lambda n: n % 2 == 0)
    (job,) = json.loads(bench("review", "r", "--labels", "review.tsv", "--json").stdout)["jobs"]
    assert job["corrected"]["value"] == 0.5 and job["corrected"]["interval"]["method"] == "ppi_stratified_mover"
    assert job["corrected"]["interval"]["low"] == job["corrected"]["interval"]["high"] == 0.5
    assert job["judge_error"]["value"] == 0.5 and job["accepted_wrong"] == {"count": 4, "n": 8}
    assert set(job["kappa_by_question_type"]) == {"low", "high"}
    (results,) = json.loads(bench("results", "r", "--json").stdout)["jobs"]
    assert any(note.startswith("human review, openai/soft: corrected accuracy 0.5000") for note in results["notes"])
    assert "human review" in bench("sheet", "r").stdout
    assert "Human review: codes x bm25" in bench("review", "r").stdout
    assert len(answered.asked) == asked, "no judge is asked"
    assert json.loads(bench("status", "r", "--json").stdout)["state"] == "complete"


def test_labels_that_differ_from_those_of_the_run_are_refused_and_replaced_only_on_request(
    answered: Stub, bench: Bench
) -> None:
    bench("review", "r", "--n", "8")
    fill_in_labels(lambda n: n % 2 == 0)
    ids = {cells[3]: cells[0] for cells in (line.split("\t") for line in Path("review.tsv").read_text().splitlines())}
    refused = bench("review", "r", "--n", "4", "--seed", "3", check=2).stderr
    assert "review.tsv has 8 labels that run r does not have" in refused
    load = ("review", "r", "--labels", "review.tsv")
    bench(*load)
    before = bench("review", "r", "--json").stdout
    other = [int(number) for number in ids if number.isdigit()][:3]
    fill_in_labels(lambda n: (n % 2 == 0) is not (n in other))
    refused = bench(*load, check=2).stderr
    assert "3 labels differ from the labels of run r" in refused and "--replace" in refused
    assert all(ids[str(number)] in refused for number in other)
    assert not any(one in refused for number, one in ids.items() if number.isdigit() and int(number) not in other)
    assert bench("review", "r", "--json").stdout == before
    assert "8 labels are in the journal of run r, 3 of them replace another label" in bench(*load, "--replace").stderr
    assert bench("review", "r", "--json").stdout != before
    assert "replace" not in bench(*load).stderr, "the same labels again"
    text = Path("review.tsv").read_text(encoding="utf-8")
    Path("review.tsv").write_text(text, encoding="utf-16")
    for flags in (("--n", "8"), ("--labels", "review.tsv")):
        assert "not a TSV file in UTF-8" in bench("review", "r", *flags, check=2).stderr
    bench("review", "r", "--replace", check=2)


def test_a_file_with_two_labels_for_one_answer_is_refused(answered: Stub, bench: Bench) -> None:
    bench("review", "r", "--n", "8")
    fill_in_labels(lambda n: n % 2 == 0)
    sheet = Path("review.tsv")
    row = sheet.read_text().splitlines()[1]
    words, label = row.rsplit("\t", 1)
    sheet.write_text(sheet.read_text() + f"{words}\t{'wrong' if label == 'right' else 'right'}\n")
    refused = bench("review", "r", "--labels", "review.tsv", check=2).stderr
    assert "review.tsv:10: " in refused and f"{row[:12]} is right and wrong" in refused


def test_all_judges_share_one_sample_and_each_output_shows_the_same_error(
    answered: Stub, bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    bench("keys", "new", "-q")
    bench("rescore", "r", *TWO)
    assert "6 answers;" in bench("review", "r", "--n", "6").stderr
    assert len(Path("review.tsv").read_text().splitlines()) == 1 + 6
    fill_in_labels(lambda n: n % 2 == 0)
    jobs = json.loads(bench("review", "r", "--labels", "review.tsv", "--json").stdout)["jobs"]
    (side,) = dispute(bench, "r")["sides"]
    assert [one["judge_error"] for one in jobs] == side["judge_error"][2:], "the strict prompt was the last"
    assert {json.dumps(one["corrected"]) for one in jobs} == {json.dumps(
        {name: side["corrected"][name] for name in ("value", "interval")}
    )}  # fmt: skip
    shown = {"results": bench("results", "r", "--json").stdout, "report": bench("results", "r", "--markdown").stdout}
    shown["sheet"] = bench("sheet", "r").stdout
    shown["receipts"] = "".join(
        Path(name).read_text() for name in bench("sign", "r").stdout.split() if name[-5:] == ".json"
    )
    for job in jobs:
        error = job["judge_error"]
        low, high = error["interval"]["low"], error["interval"]["high"]
        text = f"the judge is wrong on {error['value']:.4f} [{low:.4f}, {high:.4f}] of the answers"
        for where, output in shown.items():
            assert text in output, where


def test_a_larger_sample_keeps_the_labels_of_a_smaller_one(answered: Stub, bench: Bench) -> None:
    bench("review", "r", "--n", "4")
    fill_in_labels(lambda n: n % 2 == 0)
    bench("review", "r", "--labels", "review.tsv")
    assert "7 answers, 4 of them have a label" in bench("review", "r", "--n", "7").stderr
    labels = [line.rpartition("\t")[2] for line in Path("review.tsv").read_text().splitlines()[1:]]
    assert labels.count("") == 3 and set(labels) == {"", "right", "wrong"}


def test_an_answer_that_two_judges_scored_is_labeled_once(answered: Stub, bench: Bench) -> None:
    bench("rescore", "r", *TWO)
    bench("review", "r", "--n", "8")
    assert len(Path("review.tsv").read_text().splitlines()) == 9
    fill_in_labels(lambda n: n % 2 == 0)
    soft, hard = json.loads(bench("review", "r", "--labels", "review.tsv", "--json").stdout)["jobs"]
    assert (soft["judge"], soft["judge_error"]["value"]) == ("openai/soft", 0.0)
    assert (hard["judge"], hard["judge_error"]["value"]) == ("openai/hard", 0.25)
    assert soft["corrected"]["value"] == hard["corrected"]["value"] == 0.5


def test_partial_labels_give_an_interval_and_apply_to_the_next_rescore(answered: Stub, bench: Bench) -> None:
    bench("review", "r", "--n", "4")
    before = Path("review.tsv").read_text()
    bench("review", "r", "--n", "4")
    assert Path("review.tsv").read_text() == before, "the same draw again"
    fill_in_labels(lambda n: True, only=3)
    bench("review", "r", "--labels", "review.tsv")
    (job,) = json.loads(bench("review", "r", "--json").stdout)["jobs"]
    assert job["labelled"] == 3 and job["corrected"]["value"] == 1.0 and 0 < job["corrected"]["interval"]["low"] < 1
    bench("rescore", "r", "--judge-model", "openai/soft", "--judge-prompt", "strict.txt")
    (job,) = json.loads(bench("review", "r", "--json").stdout)["jobs"]
    labelled = [int(row.split("\t")[3]) for row in Path("review.tsv").read_text().splitlines()[1:4]]
    assert job["accepted_wrong"]["n"] == sum(n % 2 == 0 for n in labelled), "the verdicts of the strict prompt"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id\tlabel\n", "the header line must be"),
        ("HEAD\nabc\tt\tq\te\ta\tright\n", '"abc" is not the id of an answer that was drawn from this run'),
        ("HEAD\nID\tt\tq\te\ta\tmaybe\n", '"maybe" is not a valid label: expected right or wrong'),
        ("HEAD\nID\tright\n", "has 2 cells, but the header has 6 columns"),
    ],
)
def test_review_rejects_a_label_file_that_does_not_match(answered: Stub, bench: Bench, text: str, message: str) -> None:
    bench("review", "r", "--n", "2")
    head, row, *_ = Path("review.tsv").read_text().splitlines()
    Path("bad.tsv").write_text(text.replace("HEAD", head).replace("ID", row.split("\t")[0]))
    assert message in bench("review", "r", "--labels", "bad.tsv", check=2).stderr
    assert "has no labels" in bench("review", "r", check=2).stderr
