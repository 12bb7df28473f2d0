"""Evaluators by name: built-in ones, installed plug-ins, a class beside a config.

Example::

    open_evaluator("exact-match", config={"case_sensitive": True})
    open_evaluator("custom:./mine.py:Mine", folder=Path("configs/benchmarks"))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.errors import ConfigError
from bench.evaluators.builtin import BUILT_IN, Opening
from bench.evaluators.plugged import plugged
from bench.evaluators.prompts import JudgePrompts
from bench.evaluators.protocol import Evaluator
from bench.metrics import plugins
from bench.metrics.names import near, or_list
from bench.model import Embedder

GROUP = "bench.evaluators"
ALIASES = {
    "llm-as-judge": "llm-judge",
    "locomo-qa-score": "locomo-f1",
    "contains-match": "contains",
    "f1": "token-f1",
}
NONE = "none"
CUSTOM = "custom"
NOT_BUILT_IN = {
    CUSTOM: "a Python class beside the config",
    NONE: "retrieval only: nothing is evaluated",
}


def canonical(name: str) -> str:
    """Lower case, ``_`` to ``-``, aliases resolved."""
    spelled = name.strip().lower().replace("_", "-")
    return ALIASES.get(spelled, spelled)


def open_evaluator(
    method: str,
    *,
    config: Mapping[str, object] | None = None,
    prompts: JudgePrompts | None = None,
    embedder: Embedder | None = None,
    folder: Path | None = None,
    where: str | None = None,
    allow_code_execution: bool = False,
) -> Evaluator | None:
    """Open one evaluator; None for ``none``, which evaluates nothing.

    ``method``: a built-in or installed name, or ``custom:./file.py:Class`` looked for in ``folder``.
    Raises ConfigError at ``where`` for an unknown name, key or value.
    """
    if method.startswith(f"{CUSTOM}:"):
        return _from_file(method, folder or Path(), dict(config or {}), where)
    name, given = canonical(method), dict(config or {})
    if name == NONE:
        return None
    if name == CUSTOM:
        hint = "write evaluation: {method: custom, customEvaluator: ./file.py:Class}"
        raise ConfigError("the config names no evaluator of its own", where=where, hint=hint)
    if name not in BUILT_IN:
        return _installed(name, given, where)
    built_in = BUILT_IN[name]
    _refuse_unknown_keys(name, given, built_in.keys, where)
    try:
        return built_in.open(
            Opening(config=given, prompts=prompts, embedder=embedder, allow_code_execution=allow_code_execution)
        )
    except ConfigError as error:
        raise ConfigError(f"evaluator {name}: {error.message}", where=where or error.where, hint=error.hint) from error


def catalog() -> dict[str, str]:
    """Every evaluator with one sentence; an installed plug-in is named, not imported.

    A name of ours that a plug-in claims too is said to be refused, as every plan that uses it refuses it.
    """
    others = {name: f"plug-in of {plugin.distribution}" for name, plugin in plugins.installed(GROUP, canonical).items()}
    built_in = {name: one.says for name, one in BUILT_IN.items()} | NOT_BUILT_IN
    doubled = {
        name: f"{built_in[name]}; refused: it is a {others[name]} too" for name in built_in.keys() & others.keys()
    }
    return dict(sorted((others | built_in | doubled).items()))


def _refuse_unknown_keys(name: str, given: Mapping[str, object], keys: Sequence[str], where: str | None) -> None:
    for key in given:
        if key not in keys:
            close = near(key, keys)
            hint = f"did you mean {or_list(close)}?" if close else f"it takes {or_list(keys) or 'nothing'}"
            raise ConfigError(f'evaluator {name}: unknown key "{key}"', where=where, hint=hint)


def _installed(name: str, config: dict[str, object], where: str | None) -> Evaluator:
    plugin = plugins.installed(GROUP, canonical).get(name)
    if plugin is None:
        close = near(name, [*BUILT_IN, *ALIASES, *NOT_BUILT_IN])
        hint = f"did you mean {or_list(close)}?" if close else "bench list evaluators shows the known names"
        raise ConfigError(f'unknown evaluator "{name}"', where=where, hint=hint)
    return plugged(plugins.load_installed(plugin, GROUP), name, config, f"{name} of {plugin.distribution}", where)


def _from_file(method: str, folder: Path, config: dict[str, object], where: str | None) -> Evaluator:
    reference = method.removeprefix(f"{CUSTOM}:")
    loaded = plugins.load_file(reference, folder=folder, where=where)
    return plugged(loaded, method, config, reference, where)
