"""Multiple choice in the answers of models: a stated option counts, a mentioned option does not."""

from __future__ import annotations

from bench.metrics.answers.choices import choice_index, chosen_index, lettered_options, same_option
from tests.rows import each_row

DRINKS = ("Green tea", "Black coffee", "Oat milk", "Cider")
CITIES = ("Rome", "Paris", "New York")


@each_row(
    ("answer", "options", "place"),
    [
        ("I considered (A), but that was her old habit. Final answer: D", DRINKS, 3),
        ("The answer is B because she rows there every Sunday.", DRINKS, 1),
        ("My final answer is (c).", DRINKS, 2),
        ("(D) Cider", DRINKS, 3),
        ("The answer is $A$.", DRINKS, 0),
        ("\\boxed{B}", DRINKS, 1),
        ("**B**", CITIES, 1),
        ("B.", CITIES, 1),
        ("B)", CITIES, 1),
        ("b", CITIES, 1),
        ("Ｂ", CITIES, 1),
        ("（Ｂ）", CITIES, 1),
        ("Answer: B) Paris", CITIES, 1),
        ("The answer is A. The answer is B.", CITIES, None),
        ("Answer: A\nAnswer: B", CITIES, None),
        ("Answer: A\nFinal answer: B", CITIES, 1),
        ("A boat on the river", CITIES, None),
        ("A new day in Athens", CITIES, None),
        ("The answer is a boat", CITIES, None),
        ("The answer is a.", CITIES, 0),
        ("The answer is A boat", CITIES, None),
        ("The correct option is C.", CITIES, 2),
        ("Option B is correct.", CITIES, 1),
        ("I would choose option C.", CITIES, 2),
        ("I'd go with B", CITIES, 1),
        ("Let me think about (A) and (B).\n\nC", CITIES, 2),
        ("C\n\nBecause (A) is old.", CITIES, 2),
        ("Paris", CITIES, 1),
        ("The answer is Paris", CITIES, 1),
        ("It is Paris, though Rome was planned", CITIES, 1),
        ("The answer is **C**", CITIES, 2),
        ("**Answer: C**", CITIES, 2),
        ("**Answer:** C", CITIES, 2),
        ("Answer: **(C) New York**", CITIES, 2),
        ("$\\boxed{\\text{C}}$", CITIES, 2),
        ("\\boxed{\\text{(C)}}", CITIES, 2),
        ("\\boxed{Paris}", CITIES, 1),
        ("So the answer is \\boxed{C}.", CITIES, 2),
        ("A) Rome\nB) Paris\nC) New York", CITIES, None),
        ("(A) because she said so", CITIES, 0),
        ("The answer isn't A but C", CITIES, 2),
        ("The best choice is B, since she said so", CITIES, 1),
        ("Correct answer: c", CITIES, 2),
        ("Answer - B", CITIES, 1),
        ('The answer is: "B"', CITIES, 1),
        ("answer=B", CITIES, 1),
        ("ANSWER: B", CITIES, 1),
        ("Final Answer: The final answer is $\\boxed{B}$. I hope it is correct.", CITIES, 1),
        ("She said A, then B", CITIES, None),
        ("I think it's B", CITIES, 1),
        ("B is the right answer", CITIES, 1),
        ("I am not sure, I would guess A", CITIES, 0),
        ("A is the right answer", CITIES, 0),
        ("It is I.", CITIES, None),
        ("She orders **C**, not (A).", CITIES, 2),
        ("- B", CITIES, 1),
        ("1. B", CITIES, 1),
        ("> B", CITIES, 1),
        ("The answer is (B) Paris.", CITIES, 1),
        ("Answer: none of the above", CITIES, None),
        ("The answer is New York City", ("New York", "New York City"), 1),
        ("Choice: B", CITIES, 1),
        ("The answer is option B", CITIES, 1),
        ("The answer is Option (B).", CITIES, 1),
        ("Answer:\nB", CITIES, 1),
        ("Answer:\n\n**B**", CITIES, 1),
        ("### Answer\nB", CITIES, 1),
        ("答案是B", CITIES, 1),
        ("答案：B", CITIES, 1),
        ("Antwort: B", CITIES, 1),
        ("Réponse : B", CITIES, 1),
        ("The user asks. A is about Rome. B is about Paris. Therefore the answer is B.", CITIES, 1),
        ("b) Paris", CITIES, 1),
        ("(b)", ("(a) x", "(b) y"), 1),
        ("(b) y", ("(b) y", "(a) x"), 0),
        ("a", ("(b) y", "(a) x"), 1),
        ("Both A and B", CITIES, None),
        ("Rome or Paris", CITIES, 0),
        ("The answer is B, not A.", CITIES, 1),
        ("Answer: B or C", CITIES, 1),
    ],
)
def test_chosen_index_finds_the_option_that_an_answer_states(
    answer: str, options: tuple[str, ...], place: int | None
) -> None:
    assert chosen_index(answer, options) == place


@each_row(
    "answer",
    [
        "Paris", "paris.", "The answer is Paris.", "It is Paris, though Rome was planned", "Not Rome. Paris.",
        "The best is **Paris**", "Final answer: Paris", "\\boxed{Paris}", "B", "(b)", "(B) Paris", "b: Paris",
        "Rome is wrong, so Paris", "The correct answer is B) Paris", "A: no. B: yes.", "Rome or New York", "A/B",
        "A new day in Athens", "none of the above", "A) Rome\nB) Paris\nC) New York",
    ],
)  # fmt: skip
def test_an_answer_chooses_the_same_option_whether_the_options_carry_their_letters_or_not(answer: str) -> None:
    labeled = tuple(f"({letter}) {city}" for letter, city in zip("abc", CITIES, strict=True))
    assert chosen_index(answer, labeled) == chosen_index(answer, CITIES)


def test_a_gold_answer_may_be_the_text_of_an_option_without_its_letter() -> None:
    options = ("(a) 5 km", "(b) 8 km", "(c) 5 km")
    assert choice_index("8 km", options) == 1
    assert same_option(0, 2, options)
    assert chosen_index("Jones", ("A. Smith", "B. Jones")) == 1
    assert chosen_index("B", ("A", "B")) == 1


def test_lettered_options_adds_letters_unless_the_options_have_them() -> None:
    assert lettered_options(DRINKS) == ("(A) Green tea", "(B) Black coffee", "(C) Oat milk", "(D) Cider")
    assert lettered_options(("(a) tea", "(b) milk")) == ("(a) tea", "(b) milk")
    assert lettered_options(("B", "A")) == ("B", "A")
    assert lettered_options(()) == ()
    assert chosen_index("(b)", ("(b) milk", "(a) tea")) == 0
