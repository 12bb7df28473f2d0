"""Answer prompts that contain the answer or the question type are reported, others are not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from bench.config.catalog import Catalog
from bench.datasets import open_benchmark
from bench.evaluators.packs import load_pack, pack_names
from bench.plan.benchmark import pack_of
from bench.plan.prompt_leaks import KNOWS_ANSWER, KNOWS_TYPE, leaks
from bench.plan.prompts import Prompts
from tests.rows import each_row

ROOT = Path(__file__).parents[2]
ASK = "Facts: ${retrievedContext}\nQuestion: ${question}\n"
FACTS = [
    ("Where does Mira work?", "the harbour office in Aarhus", "place", "Mira started at the harbour office in Aarhus."),
    ("What does Jonas play?", "the double bass", "thing", "Jonas plays the double bass every Thursday evening."),
    ("Where is Lena now?", "Trondheim", "place", "Lena moved to Trondheim in the spring of that year."),
    ("What did Kofi sell?", "his motorcycle", "thing", "Kofi sold his motorcycle to a neighbour in May."),
]
CONFIG: dict[str, Any] = {
    "name": "seeded",
    "version": "1",
    "data": {"type": "local", "path": "./datasets/seeded.jsonl", "format": "jsonl"},
    "schema": {
        "itemId": "id",
        "question": "q",
        "answer": "a",
        "context": {
            "field": "sessions",
            "type": "array",
            "sessionIdField": "session_ids",
            "itemSchema": {"role": "$.role", "content": "$.content", "id": "$.id"},
        },
        "metadata": {
            name: name
            for name in ("answer", "gold_answer", "expected", "evidence", "ability", "category", "note", "source",
                         "rule", "code", "topic", "clue", "group", "speaker")
        } | {"questionType": "kind"},
    },
    "questionTypes": [{"name": "place"}, {"name": "thing"}],
    "evidence": {"turnIdsField": "ev"},
    "evaluation": {"method": "contains"},
    "metrics": ["accuracy"],
}  # fmt: skip


def seeded(tmp_path: Path, prompt: dict[str, Any], **columns: Any) -> tuple[str, ...]:
    """Return the findings for one prompt; a column is a text or a function of (number, fact)."""
    rows = []
    for number, fact in enumerate([*FACTS, *FACTS]):
        q, a, kind, text = fact
        row = {
            "id": f"q{number}",
            "q": f"{q} ({number})",
            "a": a,
            "kind": kind,
            "session_ids": [f"s{number}"],
            "ev": [f"t{number}"],
        }
        row["sessions"] = [[{"role": "user", "content": text, "id": f"t{number}"}]]
        given = {name: value(number, fact) if callable(value) else value for name, value in columns.items()}
        rows.append({**dict.fromkeys(CONFIG["schema"]["metadata"], "-"), **given, **row})
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets/seeded.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    folder = tmp_path / "configs/benchmarks"
    folder.mkdir(parents=True)
    config = {**CONFIG, "evaluation": {"method": "contains", "answerPrompt": prompt}}
    (folder / "seeded.yaml").write_text(json.dumps(config))
    opened = Catalog.load(tmp_path).benchmark("seeded")
    dataset = open_benchmark(opened, tmp_path)
    given_types = dataset.known_types()
    found = Prompts.of(opened, pack=None, answer_prompt=None, judge_prompts=(), types=given_types, folder=tmp_path)
    return leaks(found, dataset)


def shows(*names: str, text: str = "") -> dict[str, Any]:
    return {"default": ASK + text + "".join(f"${{{name}}}\n" for name in names), "promptFields": list(names)}


ANSWERS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (shows("answer"), {"answer": lambda n, f: f[1]}),
    (shows("gold_answer"), {"gold_answer": lambda n, f: f[1]}),
    (shows("expected"), {"expected": lambda n, f: f[1].upper()}),
    (shows("evidence"), {"evidence": lambda n, f: f"t{n}"}),
    (shows("note"), {"note": lambda n, f: f[1]}),
    (shows("note"), {"note": lambda n, f: f"The record says: {f[1]}."}),
    (shows("clue"), {"clue": lambda n, f: f[3]}),
    (shows("clue"), {"clue": lambda n, f: [f[3], "and more"]}),
    (shows("note"), {"note": lambda n, f: f[1] if n % 3 == 0 else "nothing"}),
    (shows("source", "clue"), {"source": "import", "clue": lambda n, f: f"hint: {f[1].upper()}!"}),
    (shows(text="Remember: he plays the double bass.\n"), {}),
    (shows(text="Example. Question: Where is Lena now? (2) Answer: Trondheim\n"), {}),
    (shows(text="Context: Kofi sold his motorcycle to a neighbour in May.\n"), {}),
]
TYPES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (shows("ability"), {"ability": lambda n, f: f[2]}),
    (shows("category"), {"category": lambda n, f: f[2]}),
    (shows("rule"), {"rule": lambda n, f: "Name a town." if f[2] == "place" else "Name an object."}),
    (shows("code"), {"code": lambda n, f: 1 if f[2] == "place" else 2}),
    (shows("topic"), {"topic": lambda n, f: f[2].upper()}),
    ({"default": ASK, "byQuestionType": {"place": ASK + "Answer with a town.\n"}}, {}),
    ({"default": ASK, "byQuestionType": {"place": ASK + "A town.\n", "thing": ASK + "An object.\n"}}, {}),
]


@each_row(("prompt", "columns"), ANSWERS)
def test_a_prompt_that_contains_the_answer_or_evidence_is_reported(
    tmp_path: Path, prompt: dict[str, Any], columns: dict[str, Any]
) -> None:
    found = seeded(tmp_path, prompt, **columns)
    assert found and all(text.startswith(f"{KNOWS_ANSWER}: the answer prompt") for text in found), found


@each_row(("prompt", "columns"), TYPES)
def test_a_prompt_that_depends_on_the_question_type_is_reported(
    tmp_path: Path, prompt: dict[str, Any], columns: dict[str, Any]
) -> None:
    found = seeded(tmp_path, prompt, **columns)
    assert found and all(text.startswith(f"{KNOWS_TYPE}: ") for text in found), found


def test_there_are_twenty_seeded_cases() -> None:
    assert len(ANSWERS) + len(TYPES) == 20


@each_row(
    ("prompt", "columns"),
    [
        (shows(), {}),
        (shows("speaker"), {"speaker": lambda n, f: f[0].split()[2]}),
        (shows("group"), {"group": lambda n, f: f"group {n % 3}"}),
        (shows(text="Answer with a few words, for example a place or a thing.\n"), {}),
        ({"default": ASK, "byQuestionType": {"place": ASK}}, {}),
    ],
)
def test_a_prompt_without_gold_or_type_is_not_reported(
    tmp_path: Path, prompt: dict[str, Any], columns: dict[str, Any]
) -> None:
    assert seeded(tmp_path, prompt, **columns) == ()


def test_no_shipped_prompt_is_reported() -> None:
    catalog = Catalog.load(ROOT)
    checked = set()
    for entry in catalog.benchmarks():
        config = catalog.benchmark(entry.name)
        pack = pack_of(config, ROOT)
        checked.add(config.name)
        own = config.evaluation.answer_prompt
        assert not own.by_question_type and not own.prompt_fields, config.name
        if (ROOT / config.data.path).is_file():
            dataset = open_benchmark(config, ROOT)
            found = Prompts.of(config, pack=pack, answer_prompt=None, judge_prompts=(), folder=ROOT)
            assert leaks(found, dataset) == (), config.name
    assert {"demo", "locomo", "longmemeval", "nolima"} <= checked
    for name in pack_names():
        for text in load_pack(name).answer.values():
            assert not set(re.findall(r"\$\{(\w+)", text)) & {
                "answer",
                "gold",
                "evidence",
                "questionType",
                "category",
            }, name
