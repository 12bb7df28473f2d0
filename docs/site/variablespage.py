"""The page of environment variables: those of ``bench``, of the models and of the shipped providers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bench.config.catalog import builtin_root
from bench.models.names import VENDORS
from docs.site.markdown import code, page, table

LEAD = """\
`bench` reads variables from the environment of the process, then from `.env` of the workspace. `--env-file` names a
file to read instead of `.env`. A config contains only the names of variables with secrets, never the secrets. Instead
of a variable `NAME`, you can set `NAME_FILE` to the path of a file that contains the value. A blank value counts as
unset. `.env` has no effect on the [variables of the process only](#variables-of-the-process-only)."""

OURS: Mapping[str, str] = {
    "MEMORYBENCH_IMAGE": "container image of the run, set when the image is built; part of receipts",
    "MEMORYBENCH_IMAGE_DIGEST": "digest of the image in `MEMORYBENCH_IMAGE`",
    "MEMORYBENCH_GIT_COMMIT": "commit of the code of `bench`, used if the code is not in a git checkout; receipts mark "
    "this commit as `declared`",
    "MEMORYBENCH_GIT_TAG": "tag of the commit in `MEMORYBENCH_GIT_COMMIT`",
    "MEMORYBENCH_SCRIPT": "JSON Lines file with the replies of the model `builtin/scripted`",
    "MEMORYBENCH_SIGNING_KEY": "private key for `bench sign` as PEM text, which has several lines: set it in the "
    "environment of the process, because a value in `.env` has one line; removed from the environment after reading",
    "MEMORYBENCH_SIGNING_KEY_FILE": "file with the private key for `bench sign`",
    "MEMORYBENCH_SIGNING_KEY_PASSPHRASE_FILE": "file with the passphrase of the signing key",
    "MEMORYBENCH_LOG_KEY_FILE": "file with the private key for entries of the public log",
    "MEMORYBENCH_TOKEN_FILE": "file with the token of `bench serve`",
    "XDG_CONFIG_HOME": "folder for the settings of programs (default `~/.config`); `bench` stores private keys in its "
    "folder `bench/keys`",
    "HF_TOKEN": "token for datasets of type `huggingface`",
    "HF_ENDPOINT": "address of the Hugging Face hub or of a mirror; default `https://huggingface.co`",
}
"""variable -> meaning; a test checks that every variable that the code reads is here or in `OF_THE_PROCESS`"""

OF_THE_PROCESS: Mapping[str, str] = {
    "MEMORYBENCH_WORKSPACE": "workspace of a cluster worker; default: the folder of the coordinator's workspace if it "
    "exists on the worker, else the folder in which the worker was started",
    "NO_COLOR": "any value: no colors",
    "CI": "any value: plain lines instead of a live table",
    "TERM": "`dumb`: plain lines instead of a live table",
    "SSL_CERT_FILE": "PEM file of a private CA, used instead of the CAs of the system",
    "HTTP_PROXY": "proxy for http addresses, with user and password if needed",
    "HTTPS_PROXY": "proxy for https addresses",
    "NO_PROXY": "hosts that are reached without a proxy",
}
"""variable -> meaning; ``.env`` has no effect on them"""


def text() -> str:
    """Return the page."""
    return page(
        "Environment variables",
        LEAD,
        "## Variables of bench",
        table(["variable", "meaning"], _rows(OURS)),
        "`--on-end CMD` sets `BENCH_RUN_ID` and `BENCH_EXIT_CODE` for its command.",
        "## Variables of the process only",
        "These variables are read only from the environment of the process.",
        table(["variable", "meaning"], _rows(OF_THE_PROCESS)),
        "## Models",
        table(["prefix", "variable with the key", "variable for another address"], _models()),
        "`azure/` also reads `AZURE_OPENAI_API_VERSION`, and `local/` reads `FASTEMBED_CACHE_PATH`: see "
        "[Use a model](../use-a-model.md).",
        "## Included providers",
        table(["provider", "variables"], _providers()),
        "`mem0-library` also reads the key of its models: `OPENAI_API_KEY`, or the variable that the field `local.key` "
        "of its config names.",
    )


def _rows(variables: Mapping[str, str]) -> Iterator[list[str]]:
    for name, meaning in sorted(variables.items()):
        yield [code(name), meaning]


def _models() -> Iterator[list[str]]:
    for prefix, vendor in VENDORS.items():
        yield [code(f"{prefix}/"), " or ".join(map(code, vendor.key_variables)) or "none", code(vendor.base_variable)]


def _providers() -> Iterator[list[str]]:
    for path in sorted((builtin_root() / "configs/providers").glob("*.yaml")):
        if path.name.endswith(".compose.yaml"):
            continue
        text = "\n".join(line.partition(" #")[0] for line in path.read_text(encoding="utf-8").splitlines())
        found = re.findall(r"\$\{([A-Z][A-Z0-9_]*)(?::-[^}]*)?\}|envVar: *\"?([A-Z][A-Z0-9_]*)", text)
        names = dict.fromkeys(one or other for one, other in found)
        if names:
            yield [code(path.stem), ", ".join(map(code, names))]
