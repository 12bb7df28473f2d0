"""Read settings and secrets from environment variables and from ``.env``.

`hide_secrets` removes passwords and keys from a text for plans, journals and lists.

Example::

    environment = Environment.load(Path("."))
    key = environment.secret("OPENAI_API_KEY")             # SecretStr or None; NAME_FILE works too
    url = environment.resolve("${CHROMA_URL:-http://127.0.0.1:8000}")
    hide_secrets("postgresql://me:hunter22@db:5432/bench")     # postgresql://me:[redacted]@db:5432/bench
    is_secret("PINECONE_API_KEY")                       # True: its value is not shown at all

The process environment takes precedence over the ``.env`` of the workspace. A blank variable counts as unset.

If two addresses differ only in their password, `hide_secrets` returns the same text for both.
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
    """Return the text with the passwords in URLs hidden. In http and https URLs, the user is hidden too."""
    return _PASSWORD.sub(rf"\1:{HIDDEN}@", _WEB_USER.sub(f"{HIDDEN}@", text))


def hide_secrets(text: str) -> str:
    """Return the text with passwords, keys and secret URL parameters replaced by ``[redacted]``."""
    return KEY_LIKE.sub(HIDDEN, _PARAMETER.sub(rf"\1{HIDDEN}", without_password(text)))


def is_secret(variable: str) -> bool:
    """Return True if a variable has the name of a secret, such as ``OPENAI_API_KEY``."""
    return _SECRET_NAME.search(variable) is not None


_QUOTED = re.compile(r"""(["'])(.*?)\1(?:\s+#.*)?""")
"""a quoted value of ``.env``, optionally followed by a comment"""
VARIABLE = re.compile(r"\$\{([A-Z][A-Z0-9_]*)(?::-([^}]*))?\}")


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment variables by name. A value that is requested as a secret is hidden in all later output."""

    values: Mapping[str, str] = field(default_factory=dict)
    dotenv: Path | None = None
    """the ``.env`` that was read; None if no ``.env`` was found"""

    @classmethod
    def load(cls, workspace: Path, env_file: Path | None = None) -> Environment:
        """Read the process environment and ``.env``.

        Raises:
            ConfigError: ``env_file`` is given and cannot be read.
        """
        path = env_file or workspace / ".env"
        if not path.is_file():
            if env_file is not None:
                raise ConfigError(f"no such file: {env_file}", hint="name an existing file with --env-file")
            return cls(values=dict(os.environ))
        named = read_dotenv(path)
        set_here = {name: value for name, value in os.environ.items() if stripped(value) or name not in named}
        return cls(values={**named, **set_here}, dotenv=path)

    def dry_run(self) -> DryRunEnvironment:
        """Return the same environment for a dry run, in which variables may be missing."""
        return DryRunEnvironment(values=self.values, dotenv=self.dotenv)

    def get(self, name: str) -> str | None:
        """Return the value of the variable ``name``.

        If the variable is not set, return the content of the file whose path is in the variable ``NAME_FILE``. Return
        None if both are missing or blank.

        Raises:
            ConfigError: the file of ``NAME_FILE`` cannot be read.
        """
        return stripped(self.values.get(name)) or self._from_file(name)

    def secret(self, name: str) -> SecretStr | None:
        """Return the value of the variable or of its ``NAME_FILE`` as a secret; None if neither is set.

        Raises:
            ConfigError: the file of ``NAME_FILE`` cannot be read.
        """
        from pydantic import SecretStr

        value = self.get(name)
        if value is None:
            return None
        redactor.learn(value)
        return SecretStr(value)

    def values_of(self, wanted: Callable[[str], bool]) -> Iterator[str]:
        """Yield the value of each variable whose name ``wanted`` accepts. Unreadable files are skipped."""
        for name in dict.fromkeys(one.removesuffix("_FILE") for one in self.values):
            if wanted(name):
                with suppress(ConfigError):
                    yield self.get(name) or ""

    def _from_file(self, name: str) -> str | None:
        path = stripped(self.values.get(f"{name}_FILE"))
        if not path:
            return None
        try:
            value = stripped(Path(path).read_text(encoding="utf-8-sig"))
        except (OSError, ValueError) as error:
            raise ConfigError(
                f"{name}_FILE names {path}, which cannot be read",
                hint="correct the path, or make the file readable UTF-8 text",
            ) from error
        return value or None

    def require(self, name: str, *, user: str) -> SecretStr:
        """Return the value of the variable ``name`` as a secret.

        ``user`` is the provider or model that needs the secret, for the error message.

        Raises:
            ConfigError: the variable is not set, or its ``NAME_FILE`` cannot be read.
        """
        found = self.secret(name)
        if found is not None:
            return found
        from pydantic import SecretStr

        return SecretStr(self._unset(name, ConfigError(_unset_message(user, name), hint=_set_hint(name))))

    def require_key(self, name: str, *, user: str) -> str:
        """Return the value of the variable ``name`` as an API key, which must fit into one line of an HTTP request.

        Raises:
            ConfigError: as `require`, or the value contains a line break or another control character.
        """
        key = self.require(name, user=user).get_secret_value()
        if any(not char.isprintable() for char in key):
            text = f"the key in {name}, which {user} needs, contains a line break or another control character"
            raise ConfigError(text, hint=f"set {name} to the key alone, in one line")
        return key

    def ensure(self, name: str, *, user: str) -> None:
        """Check that the variable ``name`` is set.

        If the value looks like a secret, it is hidden in all later output. A plain setting stays visible.

        Raises:
            ConfigError: the variable is not set, or its ``NAME_FILE`` cannot be read.
        """
        value = self.get(name)
        if value is None:
            self._unset(name, ConfigError(_unset_message(user, name), hint=_set_hint(name)))
        else:
            _learn_secrets(name, value)

    def require_plain(self, name: str, *, user: str, example: str) -> str:
        """Return the value of a variable that is not a secret.

        ``user`` is the provider or model that needs the variable. ``example`` is an example value for the hint.

        Raises:
            ConfigError: the variable is not set, or its ``NAME_FILE`` cannot be read.
        """
        return self.get(name) or self._unset(
            name, ConfigError(_unset_message(user, name), hint=f"export {name}={example}")
        )

    def resolve(self, text: str, *, where: str | None = None) -> str:
        """Replace ``${NAME}`` and ``${NAME:-default}`` in a text by values of variables. ``$${`` becomes ``${``.

        Raises:
            ConfigError: a variable without default is not set, or its ``NAME_FILE`` cannot be read.
        """

        def value_of(match: re.Match[str]) -> str:
            name, default = match.group(1), match.group(2)
            value = self.get(name)
            if value is not None:
                _learn_secrets(name, value)
                return value
            if default is not None:
                return str(default)
            text = f"the environment variable {name} is not set"
            return self._unset(name, ConfigError(text, where=where, hint=_set_hint(name)))

        return "${".join(VARIABLE.sub(value_of, part) for part in text.split("$${"))

    def _unset(self, name: str, problem: ConfigError) -> str:
        """Raise ``problem``, because the variable is not set. A dry run returns a placeholder instead."""
        raise problem


@dataclass(frozen=True, slots=True)
class DryRunEnvironment(Environment):
    """The environment of a dry run. A variable that is not set is recorded and has the value ``${NAME}``."""

    unset: list[str] = field(default_factory=list)

    def _unset(self, name: str, problem: ConfigError) -> str:
        if name not in self.unset:
            self.unset.append(name)
        return f"${{{name}}}"


def stripped(value: str | None) -> str:
    """Return a value without white space and byte order marks at both ends. Return an empty text for None."""
    return (value or "").strip(" \t\r\n\ufeff")


def _learn_secrets(name: str, value: str) -> None:
    """Register the value as a secret if its name or content looks like a secret.

    Also register the password in a URL.
    """
    if is_secret(name) or not is_setting(value):
        redactor.learn(value)
    if "@" in value and "://" in value:
        password = urlsplit(value).password or ""
        redactor.learn(password)
        redactor.learn(unquote(password))


def _set_hint(name: str) -> str:
    return f"export {name}=..., or put it into .env, or name a file with {name}_FILE"


def _unset_message(user: str, name: str) -> str:
    return f"{user} needs the environment variable {name}, which is not set"


def read_dotenv(path: Path) -> dict[str, str]:
    """Read a ``.env`` file into a dict.

    A line is ``NAME=value``, blank, or a comment. ``export``, quotes, and comments after a space are allowed.

    Raises:
        ConfigError: the file cannot be read, or a line is not an assignment. The message does not show the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "the file cannot be read",
            where=str(path),
            hint="check the permissions of the file, and save the file as UTF-8",
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
