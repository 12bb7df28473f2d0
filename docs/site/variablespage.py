"""The page of environment variables: our own settings, the models' and the shipped providers'."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from bench.config.catalog import builtin_root
from bench.models.names import VENDORS
from docs.site.markdown import code, page, table

LEAD = """\
A variable of the process wins over the same name in `.env` of the workspace; `--env-file` names another file. A secret
is only ever named in a config; where a variable holds a secret, `NAME_FILE` may name a file with it instead."""

OURS: Mapping[str, str] = {
    "MEMORYBENCH_IMAGE": "container image of the run, as declared by an image build; goes into receipts",
    "MEMORYBENCH_IMAGE_DIGEST": "its digest",
    "MEMORYBENCH_GIT_COMMIT": "commit of the code where there is no checkout; self-declared",
    "MEMORYBENCH_GIT_TAG": "its tag",
    "MEMORYBENCH_SCRIPT": "JSON Lines file with the replies of `builtin/scripted`",
    "MEMORYBENCH_SIGNING_KEY_FILE": "private key for `bench sign`",
    "MEMORYBENCH_SIGNING_KEY": "the same as PEM text; removed from the environment once read",
    "MEMORYBENCH_SIGNING_KEY_PASSPHRASE_FILE": "file with the passphrase of the key",
    "MEMORYBENCH_LOG_KEY_FILE": "private key for entries of the public log",
    "MEMORYBENCH_TOKEN_FILE": "token of `bench serve`",
    "MEMORYBENCH_WORKSPACE": "workspace of a cluster's worker, where it is not the folder that it was started in",
    "XDG_CONFIG_HOME": "private keys lie in `$XDG_CONFIG_HOME/bench/keys` (default `~/.config`)",
    "HF_TOKEN": "token for datasets of type `huggingface`",
    "HF_ENDPOINT": "address of the Hugging Face hub or of a mirror; default `https://huggingface.co`",
    "NO_COLOR": "no colours",
    "CI": "plain lines instead of a live table, as with `TERM=dumb`",
    "TERM": "`dumb`: plain lines",
    "SSL_CERT_FILE": "PEM file of the CA that is trusted, in place of the system's; for a private CA",
    "HTTP_PROXY": "proxy for http addresses, with user and password where it wants them",
    "HTTPS_PROXY": "proxy for https addresses",
    "NO_PROXY": "hosts that are reached without it",
}
"""A test finds every name that the code reads."""


def text() -> str:
    """The page."""
    return page(
        "Environment variables",
        LEAD,
        "## Our own",
        table(["variable", "meaning"], _own()),
        "`--on-end CMD` starts its command with `BENCH_RUN_ID` and `BENCH_EXIT_CODE` set.",
        "## Models",
        table(["prefix", "key", "other address"], _models()),
        "## Shipped providers",
        table(["provider", "variables"], _providers()),
    )


def _own() -> Iterator[list[str]]:
    for name, meaning in sorted(OURS.items()):
        yield [code(name), meaning]


def _models() -> Iterator[list[str]]:
    for prefix, vendor in VENDORS.items():
        yield [code(f"{prefix}/"), " or ".join(map(code, vendor.key_variables)), code(vendor.base_variable)]


def _providers() -> Iterator[list[str]]:
    for path in sorted((builtin_root() / "configs/providers").glob("*.yaml")):
        if path.name.endswith(".compose.yaml"):
            continue
        text = "\n".join(line.partition(" #")[0] for line in path.read_text(encoding="utf-8").splitlines())
        found = re.findall(r"\$\{([A-Z][A-Z0-9_]*)(?::-[^}]*)?\}|envVar: *\"?([A-Z][A-Z0-9_]*)", text)
        names = dict.fromkeys(one or other for one, other in found)
        if names:
            yield [code(path.stem), ", ".join(map(code, names))]
