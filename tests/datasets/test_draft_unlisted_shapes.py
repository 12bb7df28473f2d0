"""``bench new benchmark --from`` on other forms: fields are found by name and value, gold is never history."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.datasets.draft.config_draft import draft_benchmark
from tests.datasets.test_draft_recognition import drafted, written
from tests.rows import each_row

PLACE = "The mill stood by the weir, and old Tam kept the sluice."
TURNS = [{"speaker": "Ann", "clean_text": "I run a mill.", "dia_id": "D1:1"},
         {"speaker": "Bo", "clean_text": "Nice.", "dia_id": "D1:2"}]  # fmt: skip


@each_row(
    ("rows", "answers", "memories"),
    [
        ([{"Prompt": "Who kept the sluice?", "Answer": "Tam", "article": PLACE}], [("Tam",)], 1),
        ([{"question": "Who?", "answer1": "Tam", "answer2": "Old Tam", "story": PLACE}], [("Tam", "Old Tam")], 1),
        ([{"idx": "1", "question": "Who?", "targets": ["Tam"], "context": PLACE}], [("Tam",)], 1),
        ([{"ask": "Who kept it?", "reply": "Tam", "diary": [{"when": "2024-03-02", "entry": PLACE}]}], [("Tam",)], 1),
        ([{"input": [{"speaker": "user", "text": "A mill?"}, {"speaker": "user", "text": "Who keeps it?"}],
           "targets": [{"speaker": "agent", "text": "Tam"}], "contexts": [{"title": "Mill", "text": PLACE}]}],
         [("Tam",)], 1),
        ([{"log": {"2024-03-02": [PLACE], "2024-03-05": ["It burned."]}, "checks": [{"ask": "Who?", "want": "Tam"}]}],
         [("Tam",)], 2),
        ([{"general_list": [{"query": "Who?", "answer": "Tam"}], "list": [{"query": "What?", "answer": "a mill"}],
           "transcript": [{"speaker": "Ann", "content": PLACE}]}], [("Tam",), ("a mill",)], 1),
        ([{"story": PLACE, "questions": [{"input_text": "Who?", "turn_id": 1}],
           "answers": [{"input_text": "Tam", "span_start": 5, "turn_id": 1}]}], [("Tam",)], 1),
        ([{"session_1": TURNS, "session_1_date_time": "29.12.2023, 12:56:44", "session_2": TURNS[:1],
           "session_2_date_time": "02.01.2024, 10:00:00", "events_session_1": {"Ann": []},
           "qa": [{"question": "What does Ann run?", "answer": "a mill", "evidence": ["D1:1"], "category": 1}]}],
         [("a mill",)], 3),
        ([{"talk": TURNS, "questions": [{"text": "What does Ann run?"}], "answers": ["a mill"]}], [("a mill",)], 2),
        ([{"talk": TURNS, "qa": {"What does Ann run?": "a mill", "Who is glad?": "Bo"}}], [("a mill",), ("Bo",)], 2),
        ([{"talk": TURNS, "qa": [["What does Ann run?", "a mill"], ["Who is glad?", "Bo"]]}],
         [("a mill",), ("Bo",)], 2),
        ([{"talk": TURNS, "one_hop": [{"q": "What does Ann run?", "a": "a mill"}],
           "two_hop": [{"question": "Who is glad?", "answer": "Bo"}]}], [("a mill",), ("Bo",)], 2),
        ([{"context": PLACE, "probes": [{"stem": "Who kept the sluice?", "truth": "Tam"}]}], [("Tam",)], 1),
    ],
)  # fmt: skip
def test_questions_answers_and_history_are_found_in_unlisted_shapes(
    tmp_path: Path, rows: list[dict[str, object]], answers: list[tuple[str, ...]], memories: int
) -> None:
    _, dataset = drafted(tmp_path, written(tmp_path, "d.jsonl", rows))
    assert [item.answers for item in map(dataset.item, dataset.items())] == answers
    texts = [one.memory.content for corpus in dataset.corpora() for one in dataset.memories(corpus)]
    assert len(texts) == memories
    assert not any(answer == text for text in texts for several in answers for answer in several)


@pytest.mark.parametrize("with_id", [True, False])
def test_a_map_of_questions_has_one_item_per_key(tmp_path: Path, with_id: bool) -> None:
    rows = {
        f"k{n}": {"question": f"Who kept mill {n}?", "answer": f"Tam {n}", "context": f"Tam {n} kept mill {n}."}
        | ({"id": f"q{n}"} if with_id else {})
        for n in range(4)
    }
    (tmp_path / "map.json").write_text(json.dumps(rows))
    _, dataset = drafted(tmp_path, tmp_path / "map.json")
    items = list(map(dataset.item, dataset.items()))
    assert [item.id for item in items] == [f"{'q' if with_id else 'k'}{n}" for n in range(4)]
    assert all(item.question_type is None for item in items)
    assert [dataset.memories(item.corpus)[0].memory.content.endswith(f"{n}.") for n, item in enumerate(items)] == (
        [True] * 4
    )


def test_an_empty_list_of_questions_leaves_the_questions_of_the_row(tmp_path: Path) -> None:
    rows = [{"id": "t", "talk": TURNS, "qa": [], "question": "What does Ann run?", "answer": "a mill"}]
    _, dataset = drafted(tmp_path, written(tmp_path, "d.jsonl", rows))
    assert [item.answers for item in map(dataset.item, dataset.items())] == [("a mill",)]


def test_rows_in_a_list_of_a_document_have_separate_histories(tmp_path: Path) -> None:
    row = {"sid": "1", "dialog": [["Ann", "I run a mill."], ["Bo", "Nice."]], "question": "What does Ann run?",
           "gold_answer": "a mill"}  # fmt: skip
    data = {"about": {"name": "x"}, "samples": [row, {**row, "sid": "2"}]}
    _, dataset = drafted(tmp_path, written(tmp_path, "d.json", data))
    assert [item.answers for item in map(dataset.item, dataset.items())] == [("a mill",)] * 2
    assert [len(dataset.memories(corpus)) for corpus in dataset.corpora()] == [2, 2]


QRELS = {
    "qrels.json": {"q1": {"d1": 2, "d2": 0}, "q2": {"d2": 3}},
    "qrels.csv": "qid,docid,relevance\nq1,d1,2\nq1,d2,0\nq2,d2,3\n",
    "qrels.tsv": "q1\td1\t2\nq1\td2\t0\nq2\td2\t3\n",
    "judged.jsonl": [{"qid": query, "docid": name, "rel": grade} for query, name, grade in
                     (("q1", "d1", 2), ("q1", "d2", 0), ("q2", "d2", 3))],
}  # fmt: skip


@each_row("name", QRELS)
def test_relevance_judgments_become_evidence_with_grades(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "d"
    written(folder, "topics.jsonl", [{"_id": "q1", "text": "Who kept the sluice?"}, {"_id": "q2", "text": "When?"}])
    written(folder, "docs.jsonl", [{"_id": "d1", "text": PLACE}, {"_id": "d2", "text": "The fair is in May."}])
    written(folder, name, QRELS[name])
    _, dataset = drafted(tmp_path, folder)
    gold = [dataset.item(ref).evidence for ref in dataset.items()]
    assert [(one.turns, one.grades.get(one.turns[0])) for one in gold] == [(("d1",), 2.0), (("d2",), 3.0)]
    assert len(dataset.memories("all")) == 2


@pytest.mark.parametrize(
    "gold",
    [{"relevance": {"d1": 2, "d2": 1}}, {"relevant": [{"doc_id": "d1", "grade": 2}, {"doc_id": "d2", "grade": 1}]}],
)
def test_grades_in_a_row_become_evidence_grades(tmp_path: Path, gold: dict[str, object]) -> None:
    docs = [{"doc_id": "d1", "text": PLACE}, {"doc_id": "d2", "text": "The fair is in May."}]
    row = {"qid": "1", "query": "Who kept the sluice?", "docs": docs, **gold}
    _, dataset = drafted(tmp_path, written(tmp_path, "d.jsonl", [row]))
    (item,) = map(dataset.item, dataset.items())
    assert (item.evidence.turns, item.evidence.grades["d1"]) == (("d1", "d2"), 2.0)


def test_a_pair_of_numbers_is_a_range_of_evidence_turns(tmp_path: Path) -> None:
    talk = [{"speaker": "Ann", "content": f"Part {number}."} for number in range(4)]
    asked = {"query": "Which parts?", "answer": "one to three", "relevant_text_span": [["1", "3"]]}
    _, dataset = drafted(
        tmp_path, written(tmp_path, "d.jsonl", [{"special_list": [asked], "meeting_transcripts": talk}])
    )
    (item,) = map(dataset.item, dataset.items())
    assert item.evidence.turns == ("1", "2", "3")


def test_positive_passages_are_evidence_and_each_passage_is_a_memory(tmp_path: Path) -> None:
    row = {"query": "Who?", "answers": ["Tam"], "positive_passages": [{"docid": "p1", "title": "Mill", "text": PLACE}],
           "negative_passages": [{"docid": "p2", "title": "Fair", "text": "The fair is in May."}]}  # fmt: skip
    _, dataset = drafted(tmp_path, written(tmp_path, "d.jsonl", [row]))
    (item,) = map(dataset.item, dataset.items())
    assert item.evidence.turns == ("p1",)
    assert sum(len(dataset.memories(corpus)) for corpus in dataset.corpora()) == 2


def test_a_question_may_follow_earlier_messages(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Is there a mill?"}, {"role": "user", "content": "Who keeps it?"}]
    _, dataset = drafted(tmp_path, written(tmp_path, "d.jsonl", [{"input": turns, "answer": "Tam", "context": PLACE}]))
    assert [dataset.item(ref).question for ref in dataset.items()] == ["Who keeps it?"]


@pytest.mark.parametrize(
    ("label", "right"), [([1, 4], ["Tam", "Una"]), ([0, 3], ["Tam", "Una"]), (["B", "A"], ["Ned", "Tam"])]
)
def test_a_choice_label_is_counted_from_the_smallest_label(
    tmp_path: Path, label: list[object], right: list[str]
) -> None:
    asked = [{"question": f"Who {one}?", "options": ["Tam", "Ned", "Ida", "Una"], "gold_label": one} for one in label]
    _, dataset = drafted(tmp_path, written(tmp_path, "d.jsonl", [{"article": PLACE, "questions": asked}]))
    items = [dataset.item(ref) for ref in dataset.items()]
    assert [item.choices["ABCD".index(str(item.choice_answer))] for item in items] == right


def test_passages_of_a_document_have_their_section_name(tmp_path: Path) -> None:
    paper = {"full_text": [{"section_name": "Results", "paragraphs": ["Weirs break.", "They leak."]}],
             "qas": [{"question": "Do they leak?", "answers": [{"answer": {"free_form_answer": "yes"}}]}]}  # fmt: skip
    made, dataset = drafted(tmp_path, written(tmp_path, "d.json", {"p1": paper}))
    (corpus,) = dataset.corpora()
    assert [one.memory.content for one in dataset.memories(corpus)] == ["Results: Weirs break. They leak."]
    assert any(text.startswith('"answers" contains objects, and no field') for text in made.unmapped)


def test_sections_with_questions_are_rows_and_others_are_not(tmp_path: Path) -> None:
    one = {"ID": "q1", "news1": PLACE, "questions": "Who?", "answers": "Tam"}
    data = {
        "summary": [{"ID": "e1", "text": PLACE}],
        "one": [one],
        "two": [{**one, "ID": "q2", "questions": "What?"}],
    }
    _, dataset = drafted(tmp_path, written(tmp_path, "d.json", data))
    assert [dataset.item(ref).question for ref in dataset.items()] == ["Who?", "What?"]


def test_files_keyed_by_name_are_joined_by_the_name(tmp_path: Path) -> None:
    written(tmp_path / "d", "qa.json", [{name: {"profile": [{"Question": f"What is {name}?", "Answer": "a miller",
            "Reference Memory": "x"}]}} for name in ("Ann", "Bo")])  # fmt: skip
    written(tmp_path / "d", "memory.json", {name: {"events": {"0": {"content": f"{name} runs a mill."},
            "1": {"content": f"{name} sold a boat."}}} for name in ("Ann", "Bo")})  # fmt: skip
    _, dataset = drafted(tmp_path, tmp_path / "d")
    assert {one.memory.content for one in dataset.memories("Ann")} == {"Ann runs a mill.", "Ann sold a boat."}


def test_rows_without_answers_give_a_hint_on_abstention(tmp_path: Path) -> None:
    rows = [
        {"id": str(number), "question": "Who?", "answer": None if number else "Tam", "context": PLACE}
        for number in range(3)
    ]
    made = draft_benchmark("mine", written(tmp_path, "d.jsonl", rows), tmp_path)
    assert any(
        "2 of 3 questions have no answer" in text and "abstention: {where: {answer: {present: false}}}" in text
        for text in made.unmapped
    )
    expected = [{**row, "Answerability": ["UNANSWERABLE" if row["answer"] is None else "ANSWERABLE"]} for row in rows]
    _, dataset = drafted(tmp_path, written(tmp_path, "e.jsonl", expected))
    assert [dataset.item(ref).abstention for ref in dataset.items()] == [False, True, True]


def test_questions_of_an_unknown_form_are_reported_as_candidates(tmp_path: Path) -> None:
    row = {"id": "1", "messages": [{"role": "user", "content": "A mill."}],
           "extra": {"deep": {"stem": "Who kept it?", "other": "Where is it?"}}}  # fmt: skip
    made = draft_benchmark("mine", written(tmp_path, "d.jsonl", [row]), tmp_path)
    assert not any("has no questions" in text for text in made.unmapped)
    assert any("$.extra.deep.stem, $.extra.deep.other" in text for text in made.unmapped)


def test_an_outputs_field_is_read_as_answers_and_not_as_history(tmp_path: Path) -> None:
    row = {"index": 0, "input": "The number is 77. " * 80 + "What is the number?", "outputs": ["77"]}
    made = draft_benchmark("mine", written(tmp_path, "d.jsonl", [row, {**row, "index": 1}]), tmp_path)
    assert "field: outputs" not in made.text
    assert any("a config cannot separate the two" in text for text in made.unmapped)


def test_mapped_lists_every_key_that_reads_the_data(tmp_path: Path) -> None:
    made = draft_benchmark(
        "mine",
        written(tmp_path, "d.jsonl", [{"id": "1", "question": "Who?", "answer": "Tam", "context": PLACE}]),
        tmp_path,
    )
    assert made.mapped == (
        "itemId: id",
        "question: question",
        "answer: answer",
        "context.field: context",
        "context.type: string",
    )
    assert json.dumps(made.mapped)


def test_a_list_of_session_ids_is_recognized_under_any_name(tmp_path: Path) -> None:
    talk = [[{"speaker": "Ann", "text": f"I keep mill {number}."}] for number in range(3)]
    rows = [
        {"id": f"q{at}", "question": "Which mill?", "answer": "mill 1", "gold": ["s1"], "ids": ["s0", "s1", "s2"],
         "dates": ["2024-01-02", "2024-02-02", "2024-03-02"], "sessions": talk}
        for at in range(2)
    ]  # fmt: skip
    config, dataset = drafted(tmp_path, written(tmp_path, "d.jsonl", rows))
    assert [item.evidence.sessions for item in map(dataset.item, dataset.items())] == [("s1",), ("s1",)]
    assert "hit_at_5" in config.text and "accuracy" in config.text


@pytest.mark.parametrize(
    ("column", "place", "level"),
    [
        ("where", "{}-s1", "sessions"),
        ("proof", "{}-t1", "turns"),
        ("note", "in {}-s1", ""),
        ("session_id", "{}-s1", ""),
    ],
)
def test_a_column_of_ids_is_evidence_under_any_name(tmp_path: Path, column: str, place: str, level: str) -> None:
    names = ("ann", "bo")
    chats = [
        {"person": name, "sessions": [{"sid": f"{name}-s1", "lines": [
            {"id": f"{name}-t1", "who": name, "text": f"I run mill {name}."},
            {"id": f"{name}-t2", "who": "bot", "text": "Noted, thank you."}]}]}
        for name in names
    ]  # fmt: skip
    written(tmp_path / "d", "chats.jsonl", chats)
    rows = [f"q-{name},{name},Which mill?,mill {name},{place.format(name)},en" for name in names]
    rows += [f"n-{name},{name},Which boat?,none,,de" for name in names]
    lines = [f"qid,person,ask,expected,{column},lang", *rows]
    (tmp_path / "d" / "questions.csv").write_text("\n".join(lines), encoding="utf-8")
    config, dataset = drafted(tmp_path, tmp_path / "d")
    found = [getattr(dataset.item(ref).evidence, level) if level else () for ref in dataset.items()]
    expected = [(place.format(name),) for name in names] if level else [(), ()]
    assert found == [*expected, (), ()]
    assert any(f'the values of "{column}" are ids of {level}, so' in text for text in config.guesses) is bool(level)
    retrieval = "; no field of the data is used as evidence, so there are no retrieval metrics"
    assert any(retrieval in text for text in config.unmapped) is not bool(level)
    assert ("hit_at_5" in config.text) is bool(level)


def test_evidence_of_nested_questions_adds_a_retrieval_metric(tmp_path: Path) -> None:
    sessions = [{"session_id": f"s{at}", "turns": [{"speaker": "Ann", "text": f"Mill {at}."}]} for at in range(2)]
    asked = [{"id": "q1", "question": "Which mill?", "answer": "Mill 1", "evidence": ["s1"]}]
    config, _ = drafted(tmp_path, written(tmp_path, "d.jsonl", [{"sessions": sessions, "questions": asked}]))
    assert "evidenceField: evidence" in config.text and "hit_at_5" in config.text


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(
    ("references", "turns", "guess"),
    [
        (["d1", "d2", "d9"], [("d1",), ("d2",), ()], '2 of 3 values of "evidence" are ids of turns'),
        (["d1", "", "d3,d1"], [("d1",), (), ("d1", "d3")], ""),
    ],
)
def test_evidence_is_mapped_if_an_id_is_unknown_or_a_text_has_several_ids(
    tmp_path: Path, references: list[str], turns: list[tuple[str, ...]], guess: str, nested: bool
) -> None:
    docs = [{"doc_id": f"d{number}", "text": f"Part {number}: {PLACE}"} for number in (1, 2, 3)]
    asked = [{"question": f"Who {name}?", "answer": "Tam", "evidence": name} for name in references]
    rows: list[dict[str, object]] = [{"id": str(at), "docs": docs, **one} for at, one in enumerate(asked)]
    data = written(tmp_path, "d.jsonl", [{"id": "c", "docs": docs, "qa": asked}] if nested else rows)
    made, dataset = drafted(tmp_path, data)
    assert [dataset.item(ref).evidence.turns for ref in dataset.items()] == turns
    assert guess in " ".join(made.guesses) and not any("evidence" in text for text in made.unmapped)


def test_evidence_that_hardly_matches_is_reported_with_its_counts(tmp_path: Path) -> None:
    rows = [{"question": f"Who {one}?", "answer": "Tam", "evidence": one, "docs": [{"id": 101 + at, "text": PLACE}]}
            for at, one in enumerate((101, 7, 8))]  # fmt: skip
    made = draft_benchmark("mine", written(tmp_path, "d.jsonl", rows), tmp_path)
    assert any("only 1 of its 3 values match an id of a session or turn" in text for text in made.unmapped)


@each_row(
    ("answers", "golds"),
    [
        (["Tam", ["Tam", "Ned"]], [("Tam",), ("Tam", "Ned")]),
        ([["Tam", None], 3], [("Tam",), ("3",)]),
        ([True, [2.5]], [("true",), ("2.5",)]),
    ],
)
def test_answers_are_read_as_a_value_or_a_list_of_values(
    tmp_path: Path, answers: list[object], golds: list[tuple[str, ...]]
) -> None:
    rows = [{"id": str(at), "question": f"Who {at}?", "answer": one, "story": PLACE} for at, one in enumerate(answers)]
    _, dataset = drafted(tmp_path, written(tmp_path, "d.jsonl", rows))
    assert [item.answers for item in map(dataset.item, dataset.items())] == golds


@each_row(
    ("answer", "note"),
    [
        ({"text": "Ned"}, "write both paths, for example [[$.answer.text, answer]]"),
        ([{"text": "Ned"}], "write both paths, for example [[$.answer[*].text, answer]]"),
        ([["Ned"]], "contains lists inside lists in some questions only"),
        ([{"who": "Ned"}], "contains objects, and no field in them has a usual name"),
    ],
)
def test_answers_of_several_kinds_are_reported_with_a_remedy(tmp_path: Path, answer: object, note: str) -> None:
    rows = [
        {"id": str(at), "question": "Who?", "answer": one, "story": PLACE} for at, one in enumerate(["Tam", answer])
    ]
    made = draft_benchmark("mine", written(tmp_path, "d.jsonl", rows), tmp_path)
    assert any(note in text for text in made.unmapped)


@each_row(
    ("dates", "when", "note"),
    [
        (["03/04/2024", "07/28/2024"], "2024-03-04T00:00", "dates such as 03/04/2024 begin with the month"),
        (["3/4/24", "7/28/24, 3:15 PM"], "2024-03-04T00:00", "dates such as 3/4/24 begin with the month"),
        (["04/03/2024 09:15", "28/07/2024 10:00:01"], "2024-03-04T09:15", "begin with the day"),
        (["04-03-2024", "28-07-2024"], "2024-03-04T00:00", "dates such as 04-03-2024 begin with the day"),
        (["04.03.2024", "28.07.2024"], "2024-03-04T00:00", "dates such as 01.02.2026 begin with the day"),
    ],
)
def test_the_order_of_day_and_month_is_known_from_a_day_above_twelve(
    tmp_path: Path, dates: list[str], when: str, note: str
) -> None:
    sessions = [{"date": one, "messages": [{"role": "user", "content": f"{PLACE} {one}"}]} for one in dates]
    row = {"id": "a", "question": "Who?", "answer": "Tam", "sessions": sessions}
    made, dataset = drafted(tmp_path, written(tmp_path, "d.json", [row]))
    (corpus,) = dataset.corpora()
    known = [one.memory.when for one in dataset.memories(corpus)]
    assert known[0] is not None and known[0].isoformat().startswith(when)
    assert note in " ".join(made.guesses)


def test_an_unknown_order_of_day_and_month_is_reported_and_not_guessed(tmp_path: Path) -> None:
    sessions = [{"date": "03/04/2024", "messages": [{"role": "user", "content": PLACE}]}]
    row = {"id": "a", "question": "Who?", "answer": "Tam", "sessions": sessions}
    made = draft_benchmark("mine", written(tmp_path, "d.json", [row]), tmp_path)
    assert "dateFormats" not in made.text and "date: date" in made.text
    assert any('write dateFormats: ["%m/%d/%Y"] or ["%d/%m/%Y"]' in text for text in made.unmapped)


def test_a_text_named_date_gets_no_advice_for_the_template(tmp_path: Path) -> None:
    sessions = [{"date": "last May", "topic": "The mill", "messages": [{"role": "user", "content": PLACE}]}]
    row = {"id": "a", "question": "Who?", "answer": "Tam", "sessions": sessions}
    made = draft_benchmark("mine", written(tmp_path, "d.json", [row]), tmp_path)
    notes = " ".join(made.unmapped)
    assert '"${topic} ${session}"' in notes and "name it in context.session.date" in notes
