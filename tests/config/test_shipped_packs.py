"""Packs of the shipped benchmarks: with all texts of its pack, a run has fidelity official."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bench.config.benchmark.config import BenchmarkConfig
from bench.config.catalog import Catalog
from bench.errors import ConfigError
from bench.evaluators import packs
from bench.plan.benchmark import pack_of, scoring_problems
from bench.plan.prompts import Prompts
from tests.rows import each_row

LONG = ["longmemeval", "longmemeval-m", "longmemeval-oracle"]


def prompts_of(config: BenchmarkConfig, folder: Path, **given: object) -> Prompts:
    flags: dict[str, object] = {"answer_prompt": None, "judge_prompts": (), **given}
    return Prompts.of(config, pack=pack_of(config, folder), folder=folder, **flags)  # type: ignore[arg-type]


@each_row(
    ("name", "pack"),
    [
        *[(name, "longmemeval@1") for name in (*LONG, *(f"{name}-turns" for name in LONG))],
        ("locomo", "locomo@1"),
        ("locomo-turns", "locomo@1"),
        ("longmemeval-official-retrieval", None),
    ],
)
def test_a_shipped_benchmark_names_its_pack_and_has_fidelity_adapted(root: Path, name: str, pack: str | None) -> None:
    config = Catalog.load(root).benchmark(name)
    assert config.evaluation.pack == pack
    assert scoring_problems(config, root) == []
    assert prompts_of(config, root).fidelity == (None if pack is None else "adapted")


def test_shipped_benchmarks_with_a_pack_define_no_prompts(root: Path) -> None:
    for name in ("locomo", "longmemeval"):
        evaluation = Catalog.load(root).benchmark(name).evaluation
        assert (evaluation.answer_prompt.default, evaluation.answer_prompt.by_question_type) == (None, {})
        assert (evaluation.judge_prompts.default, evaluation.judge_prompts.by_question_type) == (None, {})


def test_longmemeval_uses_the_judge_prompts_of_its_pack_unchanged(root: Path) -> None:
    pack = packs.load_pack("longmemeval@1")
    judges = prompts_of(Catalog.load(root).benchmark("longmemeval"), root).judges
    texts = {name: prompt.template.text for name, prompt in judges.by_type.items()}
    assert texts == {name: text for name, text in pack.judge.items() if name not in ("default", "abstention")}
    assert (judges.default.template.text, judges.abstention.template.text) == (
        pack.judge["default"],
        pack.judge["abstention"],
    )


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a workspace with the texts of a shipped pack, whose digests are replaced by theirs."""
    shipped = tmp_path / "shipped" / "longmemeval@1"
    placed = tmp_path / "packs" / "longmemeval@1"
    placed.mkdir(parents=True)
    shipped.mkdir(parents=True)
    rules = (packs.ROOT / "longmemeval@1" / "pack.yaml").read_text(encoding="utf-8")
    lines = []
    for line in rules.splitlines():
        file, colon, _ = line.strip().partition(": ")
        if line.startswith("  ") and file.endswith(".txt") and colon:
            text = f"{file}: question {{}} answer {{}} response {{}}\n"
            (placed / file).write_text(text, encoding="utf-8")
            line = f"  {file}: {hashlib.sha256(text.encode()).hexdigest()}"
        lines.append(line)
    (shipped / "pack.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for path in (packs.ROOT / "longmemeval@1").glob("*.txt"):
        (shipped / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(
        packs.load_pack, "__kwdefaults__", {**packs.load_pack.__kwdefaults__, "root": tmp_path / "shipped"}
    )
    return tmp_path


def test_placing_every_text_of_a_pack_gives_fidelity_official(published: Path) -> None:
    config = Catalog.load(published).benchmark("longmemeval")
    prompts = prompts_of(config, published)
    assert prompts.fidelity == "official"
    judge = prompts.judges.by_type["temporal-reasoning"]
    assert judge.template.text == "judge_temporal.txt: question ${question} answer ${answer} response ${response}\n"


def test_a_pack_with_one_missing_text_has_fidelity_adapted(published: Path) -> None:
    (published / "packs" / "longmemeval@1" / "judge_update.txt").unlink()
    assert prompts_of(Catalog.load(published).benchmark("longmemeval"), published).fidelity == "adapted"


def test_a_changed_text_of_a_pack_is_refused(published: Path) -> None:
    (published / "packs" / "longmemeval@1" / "judge.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"judge\.txt is not the official text: its SHA-256 is "):
        pack_of(Catalog.load(published).benchmark("longmemeval"), published)


@pytest.mark.parametrize(
    "flags", [{"answer_prompt": "${question} now"}, {"judge_prompts": ("${answer} and ${response}",)}]
)
def test_a_prompt_from_the_command_line_gives_fidelity_custom(published: Path, flags: dict[str, object]) -> None:
    config = Catalog.load(published).benchmark("longmemeval")
    assert prompts_of(config, published, **flags).fidelity == "custom"


def child(folder: Path, text: str, parent: str) -> BenchmarkConfig:
    path = folder / "configs" / "benchmarks" / "mine.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"extends: {parent}\nname: mine\n{text}", encoding="utf-8")
    return Catalog.load(folder).benchmark("mine")


@each_row(
    ("parent", "text", "key"),
    [
        ("longmemeval", "evaluation: {judgePrompts: {default: x}}\n", "evaluation.judgePrompts"),
        ("longmemeval", "evaluation: {answer_prompt: {default: x}}\n", "evaluation.answerPrompt"),
        ("longmemeval", "evaluation: {method: exact-match}\n", "evaluation.method"),
        (
            "longmemeval",
            "questionTypes: [{name: temporal-reasoning, allowOffByOne: true}]\n",
            "evaluation.judgePrompts.allowOffByOne",
        ),
        ("locomo", "evaluation: {method: exact-match}\n", "evaluation.method"),
    ],
)
def test_a_child_may_not_change_keys_that_its_pack_fixes(tmp_path: Path, parent: str, text: str, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pack_of(child(tmp_path, text, parent), tmp_path)
    assert caught.value.message == f'"{key}" is fixed by the pack {parent}@1'
    assert caught.value.where is not None and "mine.yaml:3:" in caught.value.where
    assert caught.value.hint == "remove the key, or remove the pack and use your own prompts"


def test_a_child_without_the_pack_may_change_every_key(tmp_path: Path) -> None:
    config = child(
        tmp_path, "evaluation: {pack: null, method: exact-match, judgePrompts: {default: x}}\n", "longmemeval"
    )
    assert pack_of(config, tmp_path) is None
    assert prompts_of(config, tmp_path).fidelity == "custom"


def test_an_answer_prompt_added_to_a_pack_gives_fidelity_custom(tmp_path: Path) -> None:
    config = child(
        tmp_path, "evaluation: {answerPrompt: {byQuestionType: {temporal: 'When? ${question}'}}}\n", "locomo"
    )
    prompts = prompts_of(config, tmp_path)
    assert prompts.fidelity == "custom"
    assert prompts.answer("temporal").template.text == "When? ${question}"
    assert prompts.answer("multi-hop").template.text == packs.load_pack("locomo@1").answer["default"]
