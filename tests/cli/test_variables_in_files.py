"""A value in a file that ``NAME_FILE`` names has the effect of the variable, in every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Bench
from tests.reality.chat_stub import completion, serving
from tests.small_world import World

VALUES = {
    "FAULT_URL": "http://127.0.0.1:9",
    "LOCAL_BASE": "",
    "LOCAL_API_KEY": "sk-walrus-7734-aa",
    "FAULT_MODE": "eu-1",
}


def given(kind: str, folder: Path, values: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the values by variable or by file."""
    for name, value in values.items():
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(f"{name}_FILE", raising=False)
        if kind == "variable":
            monkeypatch.setenv(name, value)
        else:
            (folder / name).write_text(value + "\n")
            monkeypatch.setenv(f"{name}_FILE", str(folder / name))


def test_a_value_from_NAME_FILE_gives_the_same_plan_run_and_output_as_the_variable(
    tmp_path: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World.make(tmp_path, corpora=1, items=2)
    world.provider("faulty", extra='\nvars: {mode: "${FAULT_MODE}"}\n')
    asked: list[str] = []
    with serving(lambda body: completion("x")) as stub:
        file = {"name": "local", "dialect": "openai", "base_url": "${LOCAL_BASE}",
                "auth": {"type": "bearer", "env_var": "LOCAL_API_KEY"}}  # fmt: skip
        world.write("configs/models/local.yaml", json.dumps(file))
        seen = []
        for kind in ("variable", "file"):
            given(kind, tmp_path, {**VALUES, "LOCAL_BASE": stub.url}, monkeypatch)
            flags = ("--benchmarks", "facts", "--answering-model", "local/m")
            plan = json.loads(bench("--json", "plan", *flags, "--providers", "faulty").stdout)
            output = bench("validate", "configs/providers/faulty.yaml")
            doctor = bench("doctor", "faulty", check=None)
            failed = bench(
                "run", *flags, "--providers", "faulty", "--run-id", f"f-{kind}", "--retries", "0", check=None
            )
            bench("run", *flags, "--providers", "bm25", "--run-id", f"r-{kind}")
            everything = "".join(
                path.read_text("utf-8", "replace") for path in (tmp_path / "results").rglob("*") if path.is_file()
            )
            assert VALUES["LOCAL_API_KEY"] not in everything + failed.stderr + doctor.stdout + plan["plan_digest"]
            seen.append(
                (plan["plan_digest"], plan["unset"], output.stdout, doctor.returncode,
                 failed.returncode, failed.stderr.replace(f"f-{kind}", "r"))
            )  # fmt: skip
        asked += stub.paths
    assert seen[0] == seen[1]
    assert len(asked) == 4
