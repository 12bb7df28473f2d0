"""Which prompts a benchmark is asked with: pack, config, command line, and what no item can fill."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.errors import BenchError, ConfigError, UsageError
from bench.evaluators.packs import PromptPack, generic_answer_prompt, load_pack
from bench.plan.benchmark import data_problems, pack_of
from bench.plan.prompts import Prompts, read_prompt
from tests.rows import each_row
from tests.small_world import World

ASK = "Answer ${question} from ${retrievedContext}"
PACK = PromptPack(name="acme", version="1", answer={"default": f"pack {ASK}", "one": f"pack one {ASK}"},
            judge={"default": "pack ${response}", "two": "pack two ${response}"})  # fmt: skip


def configured(world: World, evaluation: str = "", more: str = "") -> World:
    path = world.workspace / "configs/benchmarks/facts.yaml"
    text = path.read_text().replace("evaluation: {method: contains}", f"evaluation: {{method: contains{evaluation}}}")
    path.write_text(text + more)
    return world


def prompts(
    world: World,
    *,
    pack: PromptPack | None = None,
    answer: str | None = None,
    judges: tuple[str, ...] = (),
    types: tuple[str, ...] = (),
) -> Prompts:
    config = Catalog.load(world.workspace).benchmark("facts")
    return Prompts.of(
        config, pack=pack, answer_prompt=answer, judge_prompts=judges, types=types, folder=world.workspace
    )


def answers(found: Prompts) -> dict[str, str]:
    return {name: prompt.template.text for name, prompt in found.answers.items()}


def judges(found: Prompts) -> dict[str, str]:
    by_type = {kind: prompt.template.text for kind, prompt in found.judges.by_type.items()}
    return {"default": found.judges.default.template.text, **by_type}


# ------------------------------------------------------------------------ which one


def test_without_a_prompt_of_its_own_a_benchmark_is_asked_with_the_generic_ones(world: World) -> None:
    found = prompts(world)
    assert answers(found) == {"default": generic_answer_prompt()}
    assert found.fidelity is None
    assert found.digests == {
        "answer": {"default": found.answer(None).sha256},
        "judge": {"default": found.judges.default.sha256, "abstention": found.judges.abstention.sha256},
    }


def test_a_pack_stands_over_the_generic_ones_and_a_config_over_the_pack(world: World) -> None:
    of_pack = prompts(world, pack=PACK)
    assert answers(of_pack) == {"default": f"pack {ASK}", "one": f"pack one {ASK}"}
    assert judges(of_pack) == {"default": "pack ${response}", "two": "pack two ${response}"}
    assert of_pack.fidelity == "adapted"
    configured(
        world,
        f", answerPrompt: {{default: '{ASK}', byQuestionType: {{two: 'two {ASK}'}}}}"
        ", judgePrompts: {default: 'mine ${response}', abstention: 'none ${response}'}",
    )
    own = prompts(world, pack=PACK)
    assert answers(own) == {"default": ASK, "one": f"pack one {ASK}", "two": f"two {ASK}"}
    assert judges(own) == {"default": "mine ${response}", "two": "pack two ${response}"}
    assert own.judges.abstention.template.text == "none ${response}"
    assert own.fidelity == "custom"


def test_the_command_line_takes_the_place_of_every_answer_prompt_and_of_one_judge_prompt(world: World) -> None:
    found = prompts(world, pack=PACK, answer=f"flag {ASK}", judges=("two=flag ${response}",))
    assert answers(found) == {"default": f"flag {ASK}"}
    assert judges(found) == {"default": "pack ${response}", "two": "flag ${response}"}
    assert found.fidelity == "custom"
    default = prompts(world, pack=PACK, judges=("flag ${response} = ?",))
    assert judges(default) == {"default": "flag ${response} = ?", "two": "pack two ${response}"}
    assert prompts(world, judges=("abstention=a ${response}",)).judges.abstention.template.text == "a ${response}"


def test_an_answer_prompt_is_chosen_by_type_and_else_the_default(world: World) -> None:
    found = prompts(world, pack=PACK)
    chosen = {kind: found.answer(kind).name for kind in ("one", "two", "", None)}
    assert chosen == {"one": "one", "two": "default", "": "default", None: "default"}
    assert found.answer("one").sha256 != found.answer("two").sha256


def test_a_type_that_is_nearly_one_is_not_taken_for_the_beginning_of_a_text(world: World) -> None:
    with pytest.raises(UsageError) as caught:
        prompts(world, pack=PACK, judges=("twoo=is ${response} right?",))
    assert caught.value.message == '--judge-prompt: facts has no question type "twoo"; did you mean "two"?'


def test_a_type_that_only_the_data_has_takes_a_judge_prompt(world: World) -> None:
    found = prompts(world, judges=("three hops=is ${response} right?",), types=("three hops",))
    assert judges(found)["three hops"] == "is ${response} right?"


def test_an_unknown_type_is_refused_with_those_that_there_are(world: World) -> None:
    (world.workspace / "strict.txt").write_text("strict ${response}")
    with pytest.raises(UsageError) as caught:
        prompts(world, pack=PACK, judges=("temporal=strict.txt",), types=("one",))
    assert caught.value.message == '--judge-prompt: facts has no question type "temporal"'
    assert (caught.value.hint or "").startswith("types: abstention, default, one, two; ")


def test_a_text_or_file_with_an_equals_sign_in_it_is_no_type(world: World) -> None:
    (world.workspace / "a=b.txt").write_text("from a file ${response}")
    for given, text in {"a=b.txt": "from a file ${response}", "default=n=1 ${response}": "n=1 ${response}"}.items():
        assert judges(prompts(world, judges=(given,)))["default"] == text


@pytest.mark.parametrize(
    ("evaluation", "flags", "flag"),
    [
        (", answerPrompt: {userOverride: false}", {"answer": ASK}, "--answer-prompt"),
        (", judgePrompts: {userOverride: false}", {"judges": ("x ${response}",)}, "--judge-prompt"),
    ],
)
def test_a_benchmark_may_allow_no_other_prompt(
    world: World, evaluation: str, flags: dict[str, object], flag: str
) -> None:
    configured(world, evaluation)
    assert prompts(world)
    with pytest.raises(UsageError) as caught:
        prompts(world, **flags)  # type: ignore[arg-type]
    assert (caught.value.message, caught.value.hint) == (
        f"facts does not allow {flag}",
        "remove the flag: its config has userOverride: false",
    )


@pytest.mark.parametrize(
    ("flags", "message", "where"),
    [
        ({"answer": "Say ${gold}"}, 'unknown name "gold"', "facts: answer prompt 'default'"),
        ({"answer": "Say ${answer}"}, 'unknown name "answer"', "facts: answer prompt 'default'"),
        ({"judges": ("Say ${retrievedContext}",)}, 'unknown name "retrievedContext"', "judge prompt 'default'"),
    ],
)
def test_a_prompt_knows_its_own_names_and_no_gold(
    world: World, flags: dict[str, object], message: str, where: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        prompts(world, **flags)  # type: ignore[arg-type]
    assert message in caught.value.message
    assert caught.value.where is not None and caught.value.where.startswith(where)


# ------------------------------------------------------------------------ where a text comes from


def test_a_prompt_is_a_text_or_a_file_of_the_workspace(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes(b"\xef\xbb\xbffrom ${question}")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "deep one.txt").write_text("deep", encoding="utf-8")
    for named in ("@mine.txt", "mine.txt", "@./mine.txt"):
        assert read_prompt(named, tmp_path) == "from ${question}"
    assert read_prompt("@prompts/deep one.txt", tmp_path) == "deep"
    for text in ("Say it.", "${question}", "two\nlines", "x" * 5000 + " y", "a\0b c"):
        assert read_prompt(text, tmp_path) == text


@each_row("named", ["@absent.txt", "@two words.txt", "absent.txt", "word", "@", "@a\nb"])
def test_what_looks_like_a_file_and_is_none_is_said(tmp_path: Path, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_prompt(named, tmp_path)
    assert caught.value.message == f"no such prompt file: {named.removeprefix('@')}"
    assert caught.value.hint == "correct the path, which is relative to the workspace"


def test_a_file_that_is_no_text_is_said(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(ConfigError, match=r"prompt file picture.png is not UTF-8 text"):
        read_prompt("@picture.png", tmp_path)


# ------------------------------------------------------------------------ names that no item fills


def refused(world: World) -> list[tuple[str, str | None]]:
    """What the planning of a run refuses, without the folder."""
    with pytest.raises(ConfigError) as caught:
        world.plan(providers="bm25", evaluators="llm-judge")
    problems = caught.value.problems or (caught.value,)
    root = f"{world.workspace}/configs/benchmarks/"
    return [(one.message, one.where and one.where.removeprefix(root)) for one in problems]


def test_a_name_that_no_item_fills_is_refused_before_a_run(world: World) -> None:
    configured(world, f", answerPrompt: {{default: '{ASK} at ${{questionDate}}'}}")
    ((message, where),) = refused(world)
    assert message == 'the answer prompt "default" needs ${questionDate}, which no item of facts has'
    assert where is not None and where.startswith("facts.yaml:13:")


def test_a_name_with_a_default_is_never_missing(world: World) -> None:
    configured(world, f""", answerPrompt: {{default: "{ASK} at ${{questionDate|default:'some time'}}"}}""")
    assert world.plan(providers="bm25")


def test_a_judge_prompt_counts_only_where_a_judge_is_asked(world: World) -> None:
    configured(world, ", judgePrompts: {default: '${response} by ${rubric}'}")
    ((message, _),) = refused(world)
    assert message == 'the judge prompt "default" needs ${rubric}, which no item of facts has'
    assert world.plan(providers="bm25", evaluators="contains")


def test_a_prompt_that_no_item_gets_may_ask_for_anything(world: World) -> None:
    prompt = f"answerPrompt: {{byQuestionType: {{nobody: '{ASK} ${{questionDate}}', one: '{ASK} ${{choices}}'}}}}"
    configured(world, f", {prompt}")
    ((message, _),) = refused(world)
    assert message == 'the answer prompt "one" needs ${choices}, which no item of facts has'


def test_validate_finds_what_a_run_would_refuse(world: World) -> None:
    configured(world, f", answerPrompt: {{default: '{ASK} ${{questionDate}} ${{choices}}'}}")
    from bench.datasets import open_benchmark

    dataset = open_benchmark(Catalog.load(world.workspace).benchmark("facts"), world.workspace)
    found = [problem.message for problem in data_problems(dataset, world.workspace)]
    assert found == [message for message, _ in refused(world)] != []


# ------------------------------------------------------------------------ packs of a config


@pytest.mark.parametrize(
    ("evaluation", "sealed"),
    [
        ("method: llm-judge, pack: longmemeval@1", None),
        ("method: llm-judge, pack: longmemeval@1, answeringModel: {model: gpt-4o}", None),
        ("method: llm-judge, pack: longmemeval@1, judge: {model: gpt-4o}", None),
        ("method: contains, pack: longmemeval@1", "evaluation.method"),
        ("method: llm-judge, pack: longmemeval@1, judgePrompts: {default: 'x'}", "evaluation.judgePrompts"),
        ("method: llm-judge, pack: longmemval@1", 'unknown pack "longmemval@1"'),
    ],
)
def test_a_pack_seals_what_makes_it_comparable(world: World, evaluation: str, sealed: str | None) -> None:
    path = world.workspace / "configs/benchmarks/facts.yaml"
    path.write_text(path.read_text().replace("method: contains", evaluation))
    config = Catalog.load(world.workspace).benchmark("facts")
    if sealed is None:
        assert pack_of(config, world.workspace) == load_pack("longmemeval@1")
        return
    with pytest.raises(BenchError) as caught:
        pack_of(config, world.workspace)
    assert caught.value.message.startswith(sealed)
    assert caught.value.where is not None and "facts.yaml:13:" in caught.value.where
