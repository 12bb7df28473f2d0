"""``local/NAME``: texts are embedded in this process from a folder of weights, without key or call."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest

from bench.cli import run
from bench.config.model import ModelFile, ModelSettings, with_settings
from bench.config.provider.sections import ClientEmbeddings
from bench.errors import ConfigError, UsageError
from bench.http import Http, recording
from bench.models import check_model, open_embedder, open_model
from bench.models.local import weights
from bench.models.names import is_local
from bench.processor_time import cpu_timer
from bench.settings import Environment
from tests.fakes.static_weights import DIMENSION, write_weights

if find_spec("fastembed") is None:
    pytest.skip("fastembed is not installed", allow_module_level=True)

NAME = "local/potion-base-8M"
NOTHING = Environment(values={})
Files = dict[str, ModelFile]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    words = "the train to lund left at nine my dog is called biscuit"
    folder = write_weights(tmp_path / "weights", words.split(" "))
    return with_settings({}, {NAME: ModelSettings(path=str(folder))})


async def test_local_embeddings_are_computed_in_order_without_calls(files: Files) -> None:
    texts = ["the train left", "my dog", "at nine", "my dog"]
    async with Http() as http:
        options = ClientEmbeddings(model="m", batch=2, normalize=True)
        embedder = open_embedder(NAME, http=http, environment=NOTHING, files=files, options=options)
        with recording() as calls, cpu_timer() as work:
            found = await embedder.embed(texts, kind="document")
            near = (await embedder.embed(["dog"], kind="query"))[0]
    assert embedder.name == NAME and calls == [] and work.us
    assert [len(vector) for vector in found] == [DIMENSION] * 4 and found[1] == found[3]
    scores = [sum(a * b for a, b in zip(near, vector, strict=True)) for vector in found]
    assert max(scores) == scores[1] and all(abs(sum(a * a for a in vector) - 1) < 1e-6 for vector in found)


async def test_a_text_is_embedded_once_for_simultaneous_requests(files: Files) -> None:
    async with Http() as http:
        embedder: Any = open_embedder(NAME, http=http, environment=NOTHING, files=files)
        embedded: list[str] = []
        computed = embedder._vectors
        embedder._vectors = lambda texts: (embedded.extend(texts), computed(texts))[1]
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(lambda: embedder.embed(["my dog", "the train"], kind="document"))
    assert sorted(embedded) == ["my dog", "the train"]


def test_an_unknown_model_or_missing_folder_is_refused_before_the_run() -> None:
    with pytest.raises(ConfigError, match=r'did you mean "local/bge-small-en-v1\.5"'):
        check_model("local/bge-smal-en-v1.5", NOTHING)
    absent = with_settings({}, {NAME: ModelSettings(path="/nowhere/weights")})
    with pytest.raises(ConfigError, match="/nowhere/weights is not a folder"):
        check_model(NAME, NOTHING, absent)


def test_a_folder_without_weights_is_an_error_with_its_path(tmp_path: Path) -> None:
    empty = with_settings({}, {NAME: ModelSettings(path=str(tmp_path))})
    with pytest.raises(ConfigError, match=f"cannot be loaded in {tmp_path}"):
        open_embedder(NAME, http=Http(), environment=NOTHING, files=empty)


def test_an_unreachable_hub_is_an_error_that_names_the_config_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    values = {"HF_ENDPOINT": "http://127.0.0.1:1", "FASTEMBED_CACHE_PATH": str(tmp_path)}
    with pytest.raises(ConfigError, match=r"cannot be loaded from the hub: .*refused") as caught:
        open_embedder(NAME, http=Http(), environment=Environment(values=values))
    assert caught.value.hint is not None and "configs/models/local.yaml" in caught.value.hint
    assert capfd.readouterr().err == "", "the attempts of the library are not printed"


def test_the_library_downloads_from_the_mirror_that_dotenv_names(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("HF_ENDPOINT=http://127.0.0.1:1\n")
    program = (
        "from pathlib import Path; from bench.models import check_model; from bench.settings import Environment\n"
        f"check_model({NAME!r}, Environment.load(Path()))\n"
        "import huggingface_hub.constants; print(huggingface_hub.constants.ENDPOINT)"
    )
    variables = {name: value for name, value in os.environ.items() if name != "HF_ENDPOINT"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tmp_path, env=variables, stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "http://127.0.0.1:1\n"


def test_without_fastembed_the_error_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.models import local

    monkeypatch.setitem(sys.modules, "fastembed", None)
    local._library_models.cache_clear()
    with pytest.raises(ConfigError) as caught:
        check_model(NAME, NOTHING)
    local._library_models.cache_clear()
    assert caught.value.hint == "pip install 'memorybench[embed]'"


def test_an_embedding_model_cannot_answer(files: Files) -> None:
    with pytest.raises(ConfigError, match="cannot answer"):
        open_model(NAME, http=Http(), environment=NOTHING, role="answering", files=files)


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("openai/gpt-4o", ModelSettings(path="weights"), '"path" has no effect for a model of an endpoint'),
        (NAME, ModelSettings(stream=True), '"stream" has no effect for a model that runs in this process'),
    ],
)
def test_a_model_setting_without_effect_is_refused(name: str, settings: ModelSettings, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        with_settings({}, {name: settings})


def test_a_local_model_file_with_base_url_is_an_endpoint() -> None:
    own = ModelFile(name="local", dialect="openai", base_url="http://127.0.0.1:1/v1")
    assert is_local(NAME, {}) and not is_local(NAME, {"local": own})


RUN = """
benchmarks: [demo]
providers: [vector, bm25]
answering_model: none
embedding_model: local/potion-base-8M
models: {local/potion-base-8M: {path: weights}}
limit: 6
"""


def test_a_run_with_local_embeddings_needs_no_key_and_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], root: Path
) -> None:
    def bench(*arguments: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert run(arguments) == code, capsys.readouterr().err
        return capsys.readouterr()

    monkeypatch.chdir(tmp_path)
    text = " ".join(path.read_text("utf-8") for path in (root / "datasets/demo").rglob("*.json*"))
    write_weights(tmp_path / "weights", re.findall(r"[A-Za-z]{4,}", text))
    (tmp_path / "run.yaml").write_text(RUN)
    planned = json.loads(bench("plan", "--config", "run.yaml", "--json").out)
    assert planned["cost_usd"] == "0", "nothing is paid for"
    bench("run", "--config", "run.yaml", "--run-id", "r", "-q")
    jobs = {job["provider"]: job for job in json.loads(bench("results", "r", "--json").out)["jobs"]}
    assert jobs["vector"]["models"]["embedding"] == NAME
    assert jobs["vector"]["metrics"]["hit_at_10"]["value"] > 0


def test_different_weights_give_a_different_identity(tmp_path: Path, files: Files) -> None:
    folder = Path(files["local"].models["potion-base-8M"].path or "")
    known = weights(NAME, files, NOTHING).identity()
    assert known["model"] == "minishlab/potion-base-8M" and str(tmp_path) not in json.dumps(known)
    assert weights(NAME, files, NOTHING).identity() == known
    write_weights(folder, ["other", "words"])
    assert weights(NAME, files, NOTHING).identity() != known


async def test_texts_longer_than_the_model_accepts_are_counted(files: Files) -> None:
    async with Http() as http:
        embedder: Any = open_embedder(NAME, http=http, environment=NOTHING, files=files)
        await embedder.embed(["my dog " * 50], kind="document")
        assert embedder.cut_note is None
        await embedder.embed(["the train left at nine " * 4000], kind="document")
        assert embedder.cut_note.startswith(f"{NAME} read only the beginning of 1 of 2 texts")
