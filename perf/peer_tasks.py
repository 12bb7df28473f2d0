"""The same work for each program of ``peers.py``: N questions, one chat completion per question, an exact-match score.

An entrant is one of these programs. It writes its task into an empty folder and is started there by one command;
afterwards its finished samples are counted from the files in this folder. Run as a script, this file is the floor: a
bare aiohttp loop without a score, a log or a file: ``peer_tasks.py URL ITEMS CONCURRENCY``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from workspace import MODELS, write_benchmark

HERE = Path(__file__).resolve().parent
HOME = Path(os.environ.get("MEMORYBENCH_PEERS", HERE.parent / "build" / "peers"))
CHECKOUT = {"PYTHONPATH": str(HERE.parent)}
GOLD = "so"
"""the answer of the stub, which each question expects"""

INSPECT_TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import json_dataset
from inspect_ai.scorer import exact
from inspect_ai.solver import generate

@task
def peers():
    return Task(dataset=json_dataset("items.jsonl"), solver=generate(), scorer=exact())
"""
INSPECT_KEPT = """
import sys
from pathlib import Path
from inspect_ai.log import read_eval_log, recover_eval_log

path = next(iter(Path("logs").glob("*.eval")))
log = read_eval_log(str(path), header_only=True)
if log.status == "started":
    recover_eval_log(str(path), output="recovered.eval", cleanup=False)
    path = Path("recovered.eval")
print(sum(bool(sample.scores) for sample in read_eval_log(str(path)).samples or []))
"""
LM_EVAL_TASK = """
task: peers
dataset_path: json
dataset_kwargs: {data_files: {test: items.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{input}}"
doc_to_target: "{{target}}"
generation_kwargs: {until: ["STOP"], max_gen_toks: 256, do_sample: false}
metric_list: [{metric: exact_match, aggregation: mean, higher_is_better: true}]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The settings of one run: an empty folder, the URL of the stub, number of items and concurrency."""

    folder: Path
    url: str
    items: int
    concurrency: int

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.lstrip(), encoding="utf-8")

    def questions(self) -> list[dict[str, str]]:
        return [{"input": f"Which fact is number {at}?", "target": GOLD} for at in range(self.items)]

    def variables(self) -> dict[str, str]:
        """Return the environment variables of a run: its files stay in the folder, and it reaches only this machine."""
        closed = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), "http://127.0.0.1:9")
        local = dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")
        quiet = ("PROMPTFOO_DISABLE_TELEMETRY", "PROMPTFOO_DISABLE_UPDATE", "PROMPTFOO_DISABLE_REMOTE_GENERATION")
        offline = dict.fromkeys((*quiet, "HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "DO_NOT_TRACK"), "1")
        own = {
            "HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_CACHE_HOME": str(self.folder / "cache"),
            "PROMPTFOO_CONFIG_DIR": str(self.folder / "promptfoo"),
            "OPENAI_API_KEY": "sk-of-this-machine-only",
            "PYTHONDONTWRITEBYTECODE": "",
        }
        kept = {name: value for name, value in os.environ.items() if name in ("PATH", "LANG", "LC_ALL", "TMPDIR")}
        return {**kept, **closed, **local, **offline, **own}


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """One program: its packages, its command, and the count of its finished samples."""

    name: str
    environment: str = ""
    """name of its folder below ``HOME``"""
    packages: tuple[str, ...] = ()
    """packages with exact versions, the program first; empty = this checkout"""
    npm: bool = False
    command: Callable[[Work], list[str]]
    kept: Callable[[Work], int] | None = None
    """function that counts the finished samples in the folder of a run"""
    durable: str = ""
    """description of these samples"""
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> str:
        return self.packages[0].rpartition("@" if self.npm else "==")[2] if self.packages else "this commit"


def script(environment: str, name: str) -> str:
    """Return the path of an installed command."""
    return str(HOME / environment / "bin" / name)


def floor_command(work: Work) -> list[str]:
    return [sys.executable, str(HERE / "peer_tasks.py"), work.url, str(work.items), str(work.concurrency)]


def bench_command(work: Work) -> list[str]:
    work.write("configs/models/stub.yaml", MODELS.replace("URL", work.url))
    write_benchmark(
        work.folder, "peers", items=work.items, corpora=4, turns=4, evaluation="exact-match", metrics="accuracy"
    )
    command = [sys.executable, "-m", "bench", "run", "--benchmarks", "peers", "--providers", "no-memory"]
    command += ["--answering-model", "stub/reader", "--run-id", "peers", "--display", "none"]
    return [*command, "--concurrency", str(work.concurrency)]


def bench_kept(work: Work) -> int:
    """Count the items whose score is in the journal, with ``bench status``."""
    command = [sys.executable, "-m", "bench", "status", "peers", "--json"]
    return int(json.loads(_output(command, work, **CHECKOUT))["completed"])


def inspect_command(work: Work) -> list[str]:
    work.write("peers.py", INSPECT_TASK)
    work.write("items.jsonl", "\n".join(json.dumps(one) for one in work.questions()))
    command = [script("inspect", "inspect"), "eval", "peers.py", "--model", "openai/stub", "-M", "responses_api=false"]
    command += ["--model-base-url", f"{work.url}/v1", "--display", "none", "--log-dir", "logs"]
    return [*command, "--max-connections", str(work.concurrency), "--max-samples", str(work.concurrency)]


def inspect_kept(work: Work) -> int:
    """Count the scored samples of the log; the log of a killed run is first recovered by Inspect itself."""
    work.write("kept.py", INSPECT_KEPT)
    return int(_output([script("inspect", "python"), "kept.py"], work))


def promptfoo_command(work: Work) -> list[str]:
    model = {"id": "openai:chat:stub", "config": {"apiBaseUrl": f"{work.url}/v1"}}
    config = {
        "prompts": ["{{input}}"],
        "providers": [model],
        "defaultTest": {"assert": [{"type": "equals", "value": GOLD}]},
        "tests": [{"vars": {"input": one["input"]}} for one in work.questions()],
    }
    work.write("promptfooconfig.json", json.dumps(config))
    scripts = HOME / "promptfoo" / "node_modules" / ".bin"
    command = [str(scripts / "node"), str(scripts / "promptfoo"), "eval", "-c", "promptfooconfig.json"]
    return [*command, "--no-cache", "--no-table", "--no-progress-bar", "-j", str(work.concurrency)]


def promptfoo_kept(work: Work) -> int:
    return _rows(work.folder / "promptfoo" / "promptfoo.db", "SELECT count(*) FROM eval_results WHERE success")


def lm_eval_command(work: Work) -> list[str]:
    work.write("tasks/peers.yaml", LM_EVAL_TASK)
    work.write("items.jsonl", "\n".join(json.dumps(one) for one in work.questions()))
    model = f"model=stub,base_url={work.url}/v1/chat/completions,num_concurrent={work.concurrency},max_retries=3"
    command = [script("lm-eval", "lm_eval"), "--model", "local-chat-completions", "--model_args", model]
    command += ["--tasks", "peers", "--include_path", "tasks", "--apply_chat_template"]
    return [*command, "--output_path", "out", "--log_samples"]


def lm_eval_kept(work: Work) -> int:
    """Count the samples of the output, which lm-eval writes when all samples have ended."""
    return sum(len(path.read_text().splitlines()) for path in (work.folder / "out").rglob("samples_*.jsonl"))


def cached_command(work: Work) -> list[str]:
    return [*lm_eval_command(work), "--use_cache", "answers"]


def cached_kept(work: Work) -> int:
    """Count the answers in the cache, which a second run reuses."""
    return sum(_rows(path, "SELECT count(*) FROM unnamed") for path in work.folder.glob("answers*.db"))


def _output(command: list[str], work: Work, **more: str) -> str:
    variables = {**work.variables(), **more}
    done = subprocess.run(command, cwd=work.folder, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} gave {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def _rows(path: Path, count: str) -> int:
    if not path.exists():
        return 0
    connection = sqlite3.connect(path)
    try:
        return int(connection.execute(count).fetchone()[0])
    finally:
        connection.close()


LM_EVAL = ("lm_eval[api]==0.4.13",)
ENTRANTS = (
    Entrant(name="floor", command=floor_command),
    Entrant(
        name="bench",
        command=bench_command,
        kept=bench_kept,
        durable="scored items of the journal",
        variables=CHECKOUT,
    ),
    Entrant(
        name="inspect",
        environment="inspect",
        packages=("inspect-ai==0.3.285", "openai==3.4.0"),
        command=inspect_command,
        kept=inspect_kept,
        durable="scored samples of the log and its recovery",
    ),
    Entrant(
        name="promptfoo",
        environment="promptfoo",
        packages=("promptfoo@0.123.1", "node@22.22.0"),
        npm=True,
        command=promptfoo_command,
        kept=promptfoo_kept,
        durable="results of its database",
    ),
    Entrant(
        name="lm-eval",
        environment="lm-eval",
        packages=LM_EVAL,
        command=lm_eval_command,
        kept=lm_eval_kept,
        durable="samples of its output",
    ),
    Entrant(
        name="lm-eval --use_cache",
        environment="lm-eval",
        packages=LM_EVAL,
        command=cached_command,
        kept=cached_kept,
        durable="answers of its cache",
    ),
)


async def floor(url: str, items: int, concurrency: int) -> None:
    """Make the calls and nothing else."""
    import aiohttp

    left = iter(range(items))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def work() -> None:
            for at in left:
                messages = [{"role": "user", "content": f"Which fact is number {at}?"}]
                body = {"model": "stub", "messages": messages}
                async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
                    assert json.loads(await answer.read())["choices"][0]["message"]["content"] == GOLD

        await asyncio.gather(*(work() for _ in range(concurrency)))


if __name__ == "__main__":
    asyncio.run(floor(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
