"""Settings from outside the configs: environment variables, ``.env`` and secrets by name.

Here too:

* What of a value from outside may be in a plan, a journal or a list: never a password, never a key.

Example::

    environment = Environment.load(Path("."))
    key = environment.secret("OPENAI_API_KEY")             # SecretStr or None; NAME_FILE works too
    url = environment.resolve("${CHROMA_URL:-http://127.0.0.1:8000}")
    shown("postgresql://me:hunter22@db:5432/bench")     # postgresql://me:[redacted]@db:5432/bench
    is_secret("PINECONE_API_KEY")                       # True: its value is not shown at all

Precedence: process environment, then ``.env`` of the workspace (never overrides, only fills in).

An address stays distinguished from another one, and a new password of the same place changes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from bench.errors import ConfigError
from bench.events import HIDDEN, KEY_LIKE, redactor
from bench.redaction import is_setting

if TYPE_CHECKING:
    from pydantic import SecretStr


_WORDS = r"(?:key|token|secret|passw(?:or)?d|passphrase|credential|signature|sig)s?"
_SECRET_NAME = re.compile(rf"(?:^|_){_WORDS}(?:_|$)", re.IGNORECASE)
_WEB_USER = re.compile(r"(?<=\bhttp://)[^/?#\s]*@|(?<=\bhttps://)[^/?#\s]*@", re.IGNORECASE)
_PASSWORD = re.compile(r"(://[^/?#\s:@]*):[^/?#\s]+@")
_PARAMETER = re.compile(
    rf"((?:^|[?&;\s])[\w.-]*{_WORDS}\s*=\s*)(?:'(?:[^'\\]|\\.)*'|[^&;#\s]+)", re.IGNORECASE
)  # of a URL's query, or of a libpq connection string


def without_password(text: str) -> str:
    """The text without user and password of a web address, and without passwords of other addresses."""
    return _PASSWORD.sub(rf"\1:{HIDDEN}@", _WEB_USER.sub(f"{HIDDEN}@", text))


def shown(text: str) -> str:
    """The text without such passwords, without parameters that are called after a secret, and without keys."""
    return KEY_LIKE.sub(HIDDEN, _PARAMETER.sub(rf"\1{HIDDEN}", without_password(text)))


def is_secret(variable: str) -> bool:
    """True for an environment variable whose name states that no one may see its value."""
    return _SECRET_NAME.search(variable) is not None


_QUOTED = re.compile(r"""(["'])(.*?)\1(?:\s+#.*)?""")
"""a value of ``.env`` in quotes, perhaps with a comment behind it"""
VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Environment:
    """Variables by name; a value that was asked for as a secret is redacted from every sink."""

    values: Mapping[str, str] = field(default_factory=dict)
    dotenv: Path | None = None
    """the ``.env`` that was read, None when there was none"""

    @classmethod
    def load(cls, workspace: Path, env_file: Path | None = None) -> Environment:
        """Read the process environment and ``.env``.

        Raises:
            ConfigError: ``env_file`` was named and cannot be read.
        """
        path = env_file or workspace / ".env"
        if not path.is_file():
            if env_file is not None:
                raise ConfigError(f"no such file: {env_file}", hint="name an existing file with --env-file")
            return cls(values=dict(os.environ))
        return cls(values={**read_dotenv(path), **os.environ}, dotenv=path)

    def get(self, name: str) -> str | None:
        """The variable, or the content of the file that ``NAME_FILE`` names; an empty or blank one counts as unset.

        Nothing else tells the two apart: what is read here is shown, digested or redacted by name and value alone.

        Raises:
            ConfigError: ``NAME_FILE`` cannot be read.
        """
        return bare(self.values.get(name)) or self._from_file(name)

    def secret(self, name: str) -> SecretStr | None:
        """The secret called ``name``, be it in a file or not.

        Raises:
            ConfigError: ``NAME_FILE`` cannot be read.
        """
        from pydantic import SecretStr

        value = self.get(name)
        if value is None:
            return None
        redactor.learn(value)
        return SecretStr(value)

    def values_of(self, wanted: Callable[[str], bool]) -> Iterator[str]:
        """Give the value of each variable with such a name, those in files too; a file that cannot be read has none."""
        for name in dict.fromkeys(one.removesuffix("_FILE") for one in self.values):
            if wanted(name):
                with suppress(ConfigError):
                    yield self.get(name) or ""

    def _from_file(self, name: str) -> str | None:
        path = bare(self.values.get(f"{name}_FILE"))
        if not path:
            return None
        try:
            value = bare(Path(path).read_text(encoding="utf-8-sig"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"{name}_FILE names {path}, which cannot be read", hint="check the path") from error
        return value or None

    def require(self, name: str, *, user: str) -> SecretStr:
        """The secret ``name`` that ``user`` (a provider or model) needs.

        Raises:
            ConfigError: it is not set.
        """
        found = self.secret(name)
        if found is not None:
            return found
        from pydantic import SecretStr

        return SecretStr(self._unset(name, ConfigError(_lacks(user, name), hint=_ways_to_set(name))))

    def ensure(self, name: str, *, user: str) -> None:
        """Refuse to continue without the variable ``name``, be it a secret or a plain setting, which stays visible.

        Raises:
            ConfigError: it is not set.
        """
        value = self.get(name)
        if value is None:
            self._unset(name, ConfigError(_lacks(user, name), hint=_ways_to_set(name)))
        else:
            _learn(name, value)

    def require_plain(self, name: str, *, user: str, example: str) -> str:
        """The plain variable ``name`` that ``user`` needs.

        Raises:
            ConfigError: it is not set.
        """
        return self.get(name) or self._unset(name, ConfigError(_lacks(user, name), hint=f"export {name}={example}"))

    def resolve(self, text: str, *, where: str | None = None) -> str:
        """Fill ``${NAME}`` and ``${NAME:-default}``, also from ``NAME_FILE``; ``$${`` is a literal ``${``.

        Raises:
            ConfigError: a variable without default is not set, or its ``NAME_FILE`` cannot be read.
        """

        def value_of(match: re.Match[str]) -> str:
            name, default = match.group(1), match.group(2)
            value = self.get(name)
            if value is not None:
                _learn(name, value)
                return value
            if default is not None:
                return str(default)
            text = f"the environment variable {name} is not set"
            return self._unset(name, ConfigError(text, where=where, hint=_ways_to_set(name)))

        return "${".join(VARIABLE.sub(value_of, part) for part in text.split("$${"))

    def _unset(self, name: str, problem: ConfigError) -> str:
        """What represents a variable that is needed and not set."""
        raise problem


@dataclass(frozen=True, slots=True)
class Rehearsal(Environment):
    """For looking ahead, where nothing is called: a variable that is not set is noted, and is ``${NAME}``."""

    absent: list[str] = field(default_factory=list)

    def _unset(self, name: str, problem: ConfigError) -> str:
        if name not in self.absent:
            self.absent.append(name)
        return f"${{{name}}}"


def bare(value: str | None) -> str:
    """Return a value without what a copy or a mounted secret leaves around it: white space and a byte order mark."""
    return (value or "").strip(" \t\r\n\ufeff")


def _learn(name: str, value: str) -> None:
    """Have the value of a config's variable redacted, unless it is a plain setting; its password in any case."""
    if is_secret(name) or not is_setting(value):
        redactor.learn(value)
    if "@" in value and "://" in value:
        password = urlsplit(value).password or ""
        redactor.learn(password)
        redactor.learn(unquote(password))


def _ways_to_set(name: str) -> str:
    return f"export {name}=..., or put it into .env, or name a file with {name}_FILE"


def _lacks(user: str, name: str) -> str:
    return f"{user} needs the environment variable {name}, which is not set"


def read_dotenv(path: Path) -> dict[str, str]:
    """Parse ``NAME=value`` lines: comments (``#`` after a space), blank lines, ``export`` and quotes are understood.

    Raises:
        ConfigError: the file cannot be read, or a line is not an assignment (the value is not shown).
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "the file cannot be read", where=str(path), hint="check its permissions, save it as UTF-8"
        ) from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip().removeprefix("export ").strip()
        if not text or text.startswith("#"):
            continue
        name, equals, value = text.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name.strip()):
            raise ConfigError("this line is not NAME=value", where=f"{path}:{number}:1", hint="write NAME=value")
        quoted = _QUOTED.fullmatch(value.strip())
        found[name.strip()] = quoted[2] if quoted else re.split(r"\s+#", value.strip(), maxsplit=1)[0]
    return found
