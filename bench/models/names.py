"""Find the vendor, the request format, the address and the API key for a model's name.

Example::

    resolve_name("gpt-4o") == "openai/gpt-4o"
    resolve_name({"provider": "google", "model": "gemini-2.5-flash"}) == "google/gemini-2.5-flash"
    resolve_target("openrouter/meta-llama/llama-3", environment, files).model == "meta-llama/llama-3"

The part of a name before the first ``/`` is the provider. The rest is the vendor's name of the model.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.config.model import LOCAL
from bench.config.provider.sections import check_address
from bench.errors import ConfigError

if TYPE_CHECKING:
    from bench.config.model import ModelFile, ModelSettings
    from bench.config.provider.sections import Auth
    from bench.models.usage import DialectName
    from bench.settings import Environment

BUILTINS = ("builtin/extractive", "builtin/scripted")
FAMILIES = (
    (re.compile(r"gpt-.+|chatgpt-.+|o\d.*|text-embedding-.+"), "openai"),
    (re.compile(r"claude-.+"), "anthropic"),
    (re.compile(r"gemini-.+"), "google"),
)
EXAMPLES = ("gpt-4o", "gpt-4o-mini", "o3", "text-embedding-3-small", "claude-sonnet-4-5", "gemini-2.5-flash")


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """A vendor that bench knows without a file in ``configs/models``."""

    dialect: DialectName
    base_url: str | None
    """default address; None = an environment variable must set the address"""
    base_variable: str
    key_variables: tuple[str, ...] = ()
    """names of environment variables for the API key: the first that is set is used; empty = no key is needed"""
    key_header: str = "Authorization"
    key_prefix: str = "Bearer "
    headers: Mapping[str, str] = field(default_factory=dict)
    free: bool = False


VENDORS: Mapping[str, Vendor] = {
    "openai": Vendor(
        dialect="openai",
        base_url="https://api.openai.com/v1",
        base_variable="OPENAI_BASE_URL",
        key_variables=("OPENAI_API_KEY",),
    ),
    "anthropic": Vendor(
        dialect="anthropic",
        base_url="https://api.anthropic.com",
        base_variable="ANTHROPIC_BASE_URL",
        key_variables=("ANTHROPIC_API_KEY",),
        key_header="x-api-key",
        key_prefix="",
        headers={"anthropic-version": "2023-06-01"},
    ),
    "google": Vendor(
        dialect="google",
        base_url="https://generativelanguage.googleapis.com",
        base_variable="GOOGLE_BASE_URL",
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        key_header="x-goog-api-key",
        key_prefix="",
    ),
    "openrouter": Vendor(
        dialect="openai",
        base_url="https://openrouter.ai/api/v1",
        base_variable="OPENROUTER_BASE_URL",
        key_variables=("OPENROUTER_API_KEY",),
    ),
    "groq": Vendor(
        dialect="openai",
        base_url="https://api.groq.com/openai/v1",
        base_variable="GROQ_BASE_URL",
        key_variables=("GROQ_API_KEY",),
    ),
    "ollama": Vendor(
        dialect="openai", base_url="http://127.0.0.1:11434/v1", base_variable="OLLAMA_BASE_URL", free=True
    ),
    "azure": Vendor(
        dialect="openai",
        base_url=None,
        base_variable="AZURE_OPENAI_ENDPOINT",
        key_variables=("AZURE_OPENAI_API_KEY",),
        key_header="api-key",
        key_prefix="",
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The address of one model, with its API key. The key is never logged and never part of a plan."""

    name: str
    """the full name of the model, as in plan and receipt"""
    prefix: str
    model: str
    """the name of the model without the prefix, as the vendor writes it"""
    dialect: DialectName
    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    query: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    key_variable: str | None = None
    file: ModelFile | None = None
    free: bool = False
    """True if calls cost nothing, so that their price is known to be 0"""

    @property
    def settings(self) -> ModelSettings | None:
        """Return the settings of this model in its config file; None if there are none."""
        return self.file.models.get(self.model) if self.file is not None else None


def resolve_name(name: str | Mapping[str, str]) -> str:
    """Return the full name ``provider/model`` for a short name, a mapping with provider and model, or a full name.

    Raises:
        ConfigError: the provider of a short name is not known; the message has the nearest known name.
    """
    if isinstance(name, Mapping):
        return resolve_name(f"{name['provider']}/{name['model']}" if name.get("provider") else name["model"])
    name = name.strip()
    if "/" in name:
        prefix, _, model = name.partition("/")
        if prefix and model:
            return name
        raise ConfigError(f'"{name}" is not a model name', hint="write PROVIDER/MODEL, for example openai/gpt-4o")
    if "/" in (full := with_vendor(name)):
        return full
    near = difflib.get_close_matches(name, [*EXAMPLES, *BUILTINS], n=1, cutoff=0.5)
    text = f'the provider of the model "{name}" is not known'
    raise ConfigError(
        text + (f'; did you mean "{near[0]}"?' if near else ""), hint="write PROVIDER/MODEL, for example openai/gpt-4o"
    )


def with_vendor(name: str) -> str:
    """Put the vendor before a short name such as ``gpt-4o``. Return any other name unchanged."""
    vendor = next((vendor for family, vendor in FAMILIES if family.fullmatch(name)), None)
    return name if vendor is None or "/" in name else f"{vendor}/{name}"


def is_local(name: str, files: Mapping[str, ModelFile]) -> bool:
    """Return True if a model runs in this process.

    A config file ``local.yaml`` with a URL makes ``local/`` the prefix of an HTTP endpoint instead.
    """
    file = files.get(LOCAL)
    return name.startswith(f"{LOCAL}/") and (file is None or file.base_url is None)


def prefixes() -> dict[str, str]:
    """Return each prefix that needs no config file, with one line about the key and address that it needs."""
    found = {prefix: f"{vendor.dialect} dialect; {_needs(vendor)}" for prefix, vendor in VENDORS.items()}
    return {**found, LOCAL: "embedding models that run in this process; no key; needs the extra [embed]"}


def _needs(vendor: Vendor) -> str:
    key = "key in " + " or ".join(vendor.key_variables) if vendor.key_variables else "no key"
    return f"{key}; {vendor.base_variable} {'can set another address' if vendor.base_url else 'must set the address'}"


def resolve_target(name: str, environment: Environment, files: Mapping[str, ModelFile]) -> Target:
    """Return the address and the API key for a full model name that is not built in.

    Raises:
        ConfigError: the prefix is unknown (the message has the nearest known prefix), or a variable is not set.
    """
    prefix, _, model = name.partition("/")
    file = files.get(prefix)
    vendor = VENDORS.get(prefix)
    if vendor is None and file is None:
        known = sorted({*VENDORS, *files, "builtin", LOCAL})
        near = difflib.get_close_matches(prefix, known, n=1)
        text = f'unknown model provider "{prefix}" in "{name}"' + (f'; did you mean "{near[0]}"?' if near else "")
        raise ConfigError(text, hint=f"known: {', '.join(known)}; or add configs/models/{prefix}.yaml")
    dialect = vendor.dialect if vendor is not None else file.dialect if file is not None else None
    assert dialect is not None, "the check of the file requires it"
    headers, query, variable = _credentials(name, vendor, file.auth if file is not None else None, environment)
    return Target(
        name=name,
        prefix=prefix,
        model=model,
        dialect=dialect,
        base_url=_base_url(name, vendor, file, environment).rstrip("/"),
        headers=headers,
        query=query,
        key_variable=variable,
        file=file,
        free=vendor is not None and vendor.free,
    )


def variables(name: str, files: Mapping[str, ModelFile]) -> tuple[str, ...]:
    """Return the environment variables that a model needs; if one of several is enough, return only the first."""
    prefix = name.partition("/")[0]
    file, vendor = files.get(prefix), VENDORS.get(prefix)
    if file is not None and file.auth is not None:
        return (file.auth.env_var,) if file.auth.env_var and not file.auth.optional else ()
    if vendor is None:
        return ()
    return (*vendor.key_variables[:1], *((vendor.base_variable,) if vendor.base_url is None else ()))


def _base_url(name: str, vendor: Vendor | None, file: ModelFile | None, environment: Environment) -> str:
    """Return the base URL from the config file or the environment variable. If neither sets it, use the default."""
    if file is not None and file.base_url is not None:
        place = f"configs/models/{file.name}.yaml"
        return check_address(environment.resolve(file.base_url, where=place), place)
    assert vendor is not None, "a file of an unknown prefix has a base_url"
    if vendor.base_url is None:
        given = environment.require_plain(vendor.base_variable, user=name, example="https://...")
    else:
        given = environment.get(vendor.base_variable) or vendor.base_url
    return check_address(given, vendor.base_variable)


def _credentials(
    name: str, vendor: Vendor | None, auth: Auth | None, environment: Environment
) -> tuple[dict[str, str], tuple[tuple[str, str], ...], str | None]:
    """Return the headers and query parameters with the API key, and the name of the key's environment variable.

    The name is None if no key is needed.
    """
    fixed = dict(vendor.headers) if vendor is not None else {}
    if auth is not None:
        headers, query = auth.credentials(environment, user=name)
        return {**fixed, **headers}, tuple(query), auth.env_var
    if vendor is None or not vendor.key_variables:
        return fixed, (), None
    variable = next((each for each in vendor.key_variables if environment.secret(each)), vendor.key_variables[0])
    secret = environment.require_key(variable, user=name)
    return {**fixed, vendor.key_header: vendor.key_prefix + secret}, (), variable
