"""Prompts of a benchmark: from pack, config and command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.config.catalog import Catalog
from bench.errors import BenchError, ConfigError, UsageError
from bench.evaluators.packs import PromptPack, generic_answer_prompt, load_pack
from bench.plan.benchmark import pack_of
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


# ------------------------------------------------------------------------ precedence


def test_a_benchmark_without_prompts_uses_the_generic_ones(world: World) -> None:
    found = prompts(world)
    assert answers(found) == {"default": generic_answer_prompt()}
    assert found.fidelity is None
    assert found.digests == {
        "answer": {"default": found.answer(None).sha256},
        "judge": {"default": found.judges.default.sha256, "abstention": found.judges.abstention.sha256},
    }


def test_a_pack_overrides_generic_prompts_and_a_config_overrides_the_pack(world: World) -> None:
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


def test_flags_override_all_answer_prompts_and_the_named_judge_prompt(world: World) -> None:
    found = prompts(world, pack=PACK, answer=f"flag {ASK}", judges=("two=flag ${response}",))
    assert answers(found) == {"default": f"flag {ASK}"}
    assert judges(found) == {"default": "pack ${response}", "two": "flag ${response}"}
    assert found.fidelity == "custom"
    default = prompts(world, pack=PACK, judges=("flag ${response} = ?",))
    assert judges(default) == {"default": "flag ${response} = ?", "two": "pack two ${response}"}
    assert prompts(world, judges=("abstention=a ${response}",)).judges.abstention.template.text == "a ${response}"


def test_the_answer_prompt_is_selected_by_question_type(world: World) -> None:
    found = prompts(world, pack=PACK)
    chosen = {kind: found.answer(kind).name for kind in ("one", "two", "", None)}
    assert chosen == {"one": "one", "two": "default", "": "default", None: "default"}
    assert found.answer("one").sha256 != found.answer("two").sha256


def test_a_misspelled_question_type_of_a_judge_prompt_is_rejected(world: World) -> None:
    with pytest.raises(UsageError) as caught:
        prompts(world, pack=PACK, judges=("twoo=is ${response} right?",))
    assert caught.value.message == '--judge-prompt: facts has no question type "twoo"; did you mean "two"?'


def test_a_judge_prompt_can_name_a_question_type_of_the_data(world: World) -> None:
    found = prompts(world, judges=("three hops=is ${response} right?",), types=("three hops",))
    assert judges(found)["three hops"] == "is ${response} right?"


def test_an_unknown_question_type_is_rejected_with_the_known_ones(world: World) -> None:
    (world.workspace / "strict.txt").write_text("strict ${response}")
    with pytest.raises(UsageError) as caught:
        prompts(world, pack=PACK, judges=("temporal=strict.txt",), types=("one",))
    assert caught.value.message == '--judge-prompt: facts has no question type "temporal"'
    assert (caught.value.hint or "").startswith("types: abstention, default, one, two; ")


def test_a_judge_prompt_text_or_path_can_contain_an_equals_sign(world: World) -> None:
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
def test_a_benchmark_with_userOverride_false_rejects_prompt_flags(
    world: World, evaluation: str, flags: dict[str, object], flag: str
) -> None:
    configured(world, evaluation)
    assert prompts(world)
    with pytest.raises(UsageError) as caught:
        prompts(world, **flags)  # type: ignore[arg-type]
    assert (caught.value.message, caught.value.hint) == (
        f"facts does not allow {flag}",
        "remove the flag: the config of the benchmark forbids it (userOverride: false)",
    )


@pytest.mark.parametrize(
    ("flags", "message", "where"),
    [
        ({"answer": "Say ${gold}"}, 'unknown name "gold"', "facts: answer prompt 'default'"),
        ({"answer": "Say ${answer}"}, 'unknown name "answer"', "facts: answer prompt 'default'"),
        ({"judges": ("Say ${retrievedContext}",)}, 'unknown name "retrievedContext"', "judge prompt 'default'"),
    ],
)
def test_an_unknown_placeholder_of_a_prompt_is_rejected(
    world: World, flags: dict[str, object], message: str, where: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        prompts(world, **flags)  # type: ignore[arg-type]
    assert message in caught.value.message
    assert caught.value.where is not None and caught.value.where.startswith(where)


# ------------------------------------------------------------------------ where a text comes from


def test_read_prompt_returns_a_text_or_the_content_of_a_workspace_file(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes(b"\xef\xbb\xbffrom ${question}")
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "deep one.txt").write_text("deep", encoding="utf-8")
    for named in ("@mine.txt", "mine.txt", "@./mine.txt"):
        assert read_prompt(named, tmp_path) == "from ${question}"
    assert read_prompt("@prompts/deep one.txt", tmp_path) == "deep"
    for text in ("Say it.", "${question}", "two\nlines", "x" * 5000 + " y", "a\0b c"):
        assert read_prompt(text, tmp_path) == text


@each_row("named", ["@absent.txt", "@two words.txt", "absent.txt", "word", "@", "@a\nb"])
def test_a_missing_prompt_file_is_an_error(tmp_path: Path, named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_prompt(named, tmp_path)
    assert caught.value.message == f"no such prompt file: {named.removeprefix('@')}"
    assert caught.value.hint == "correct the path, which is relative to the workspace"


def test_a_prompt_file_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(ConfigError, match=r"prompt file picture.png is not UTF-8 text"):
        read_prompt("@picture.png", tmp_path)


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
def test_a_pack_rejects_settings_that_it_fixes(world: World, evaluation: str, sealed: str | None) -> None:
    path = world.workspace / "configs/benchmarks/facts.yaml"
    path.write_text(path.read_text().replace("method: contains", evaluation))
    config = Catalog.load(world.workspace).benchmark("facts")
    if sealed is None:
        assert pack_of(config, world.workspace) == load_pack("longmemeval@1")
        return
    with pytest.raises(BenchError) as caught:
        pack_of(config, world.workspace)
    assert caught.value.message.replace('"', "").startswith(sealed.replace('"', ""))
    assert caught.value.where is not None and "facts.yaml:13:" in caught.value.where
