"""The access token of the service, its file, and the values for cookies and forms that are computed from the token.

Example::

    secret = ServiceToken.load_or_create(Path("checkpoints/.token"))      # creates the file on first use
    secret.matches("..."), secret.cookie, secret.csrf
"""

from __future__ import annotations

import hmac
import os
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from bench.errors import ConfigError
from bench.events import redactor

TOKEN_BYTES = 32
MIN_CHARACTERS = 43
"""minimum length of a token: 32 random bytes have 43 characters in base64"""


@dataclass(frozen=True, slots=True)
class ServiceToken:
    """The secret token of a service. Browsers receive only values that are computed from the token."""

    token: str = field(repr=False)
    fresh: bool = False
    """True if this process created the token"""

    @classmethod
    def load_or_create(cls, path: Path) -> ServiceToken:
        """Read the token from a file; if the file does not exist, create it with a new token.

        Only the owner of a new file can read it.

        Raises:
            ConfigError: the file cannot be read or created, or its token is too short.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return cls._read(path)
        except OSError as error:
            raise ConfigError(
                f"the token file cannot be created: {error.strerror}", where=str(path), hint="name another file"
            ) from error
        token = secrets.token_urlsafe(TOKEN_BYTES)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(token + "\n")
        redactor.learn(token)
        return cls(token, fresh=True)

    @classmethod
    def _read(cls, path: Path) -> ServiceToken:
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                "the token file cannot be read",
                where=str(path),
                hint="delete the file: the next start creates a new token",
            ) from error
        if len(token) < MIN_CHARACTERS:
            raise ConfigError(
                f"the token has {len(token)} characters, expected at least {MIN_CHARACTERS}",
                where=str(path),
                hint="delete the file: the next start creates a new token",
            )
        redactor.learn(token)
        return cls(token)

    def matches(self, token: str) -> bool:
        """Return True if ``token`` is the token of the service. The comparison takes constant time."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    @property
    def cookie_name(self) -> str:
        """The name of the login cookie. Each token has its own name, because browsers share cookies between ports."""
        return f"bench_{self._derived('name')[:12]}"

    @property
    def cookie(self) -> str:
        return self._derived("cookie")

    @property
    def csrf(self) -> str:
        return self._derived("csrf")

    def _derived(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), f"bench {purpose}".encode(), sha256).hexdigest()
