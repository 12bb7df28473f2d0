"""Packs: adapted prompts by default, official ones if a workspace contains the unchanged texts."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from bench.errors import ConfigError
from bench.evaluators import JudgePrompts
from bench.evaluators.packs import check_sealed, generic_answer_prompt, load_pack, pack_names
from tests.evaluators.judge_double import item

OFFICIAL = {
    "judge.txt": "fba020ba3d57982efdc9a937c1c01f897b789a608c7f88e60244121f6505e5bc",
    "judge_temporal.txt": "8d33a5fdd83afeeb4592454a965eab43d1fcb2dedc042d1d3892f4254be6c273",
    "judge_update.txt": "183a9b3a6197ec620940f610cdc1207201ec98c1113dd633ea685cfc322fafac",
    "judge_preference.txt": "741ee3bcbea7ff5e8ed359acef61d2f8ded3de021bbcff6ee13de455f2e2aa9b",
    "judge_abstention.txt": "5c0b365a1e1d06db36377c735432b56e122ca3c428f89faf61d43a0d5a7e050b",
    "answer.txt": "9e2b3110622929ab896696dd8937231c7436740ec3b9586f653f97346e19ab2c",
    "answer_direct.txt": "e427ff913456e51a132ec865b1b5038d562bdc36890976943ad421cc9b365c9d",
}


def test_every_shipped_pack_loads_and_its_judge_prompts_render() -> None:
    assert pack_names() == ["generic@1", "locomo@1", "longmemeval@1"]
    for name in pack_names():
        pack = load_pack(name)
        assert pack.id == name
        assert pack.fidelity == "adapted"
        for prompt in JudgePrompts.of(pack.judge).all:
            assert prompt.render(item(rubric=("x",)), "Rome")


def test_longmemeval_has_a_judge_prompt_for_each_kind() -> None:
    pack = load_pack("longmemeval@1")
    assert (pack.judge_model, pack.temperature, pack.parse) == ("openai/gpt-4o-2024-08-06", 0.0, "auto")
    assert set(pack.judge) == {
        "default", "abstention", "temporal-reasoning", "knowledge-update", "single-session-preference",
    }  # fmt: skip
    texts = set(pack.judge.values())
    assert len(texts) == 5


def test_pack_digests_are_of_the_exact_text() -> None:
    pack = load_pack("longmemeval@1")
    assert pack.sha256["judge.default"] == hashlib.sha256(pack.judge["default"].encode()).hexdigest()
    assert pack.sha256["judge.default"] != OFFICIAL["judge.txt"]


def test_a_changed_official_text_is_refused_with_both_digests(tmp_path: Path) -> None:
    folder = tmp_path / "packs" / "longmemeval@1"
    folder.mkdir(parents=True)
    (folder / "judge_update.txt").write_text("my own words {} {} {}", encoding="utf-8")
    with pytest.raises(ConfigError, match=OFFICIAL["judge_update.txt"]) as caught:
        load_pack("longmemeval@1", workspace=tmp_path)
    assert hashlib.sha256(b"my own words {} {} {}").hexdigest() in str(caught.value)


def test_official_texts_are_filled_in_order_and_give_fidelity_official(tmp_path: Path) -> None:
    shipped = tmp_path / "shipped" / "paper@1"
    shipped.mkdir(parents=True)
    official = "Is {} answered by {}? Costs ${{5}}: {}"
    digest = hashlib.sha256(official.encode()).hexdigest()
    rules = f"name: paper\nversion: '1'\njudge: {{default: judge.txt}}\nofficial: {{judge.txt: {digest}}}\n"
    (shipped / "pack.yaml").write_text(rules, encoding="utf-8")
    (shipped / "judge.txt").write_text("ours ${question}", encoding="utf-8")
    placed = tmp_path / "packs" / "paper@1"
    placed.mkdir(parents=True)
    (placed / "judge.txt").write_text(official, encoding="utf-8")
    assert load_pack("paper@1", root=tmp_path / "shipped").fidelity == "adapted"
    pack = load_pack("paper@1", workspace=tmp_path, root=tmp_path / "shipped")
    assert pack.fidelity == "official"
    rendered = JudgePrompts.of(pack.judge).default.render(item(), "Rome")
    assert rendered == "Is Which city? answered by Paris? Costs ${{5}}: Rome"


def test_an_unknown_pack_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError) as caught:
        load_pack("longmemval@1", where="b.yaml:3:1")
    assert caught.value.where == "b.yaml:3:1"
    assert "longmemeval@1" in caught.value.hint


def test_a_sealed_key_may_not_be_changed() -> None:
    pack = load_pack("longmemeval@1")
    check_sealed(pack, {"evaluation.judge.model": "b.yaml:4:1"})
    with pytest.raises(ConfigError, match=r'"evaluation\.judgePrompts\.default" is fixed by the pack longmemeval@1'):
        check_sealed(pack, {"evaluation.judgePrompts.default": "b.yaml:5:1"})


def test_the_generic_answer_prompt_contains_context_and_question() -> None:
    assert "${retrievedContext" in generic_answer_prompt() and "${question}" in generic_answer_prompt()
