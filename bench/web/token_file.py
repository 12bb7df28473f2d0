"""The token of the service: its file, and the values derived from it for cookies and forms.

Example::

    secret = ServiceToken.load_or_create(Path("checkpoints/.token"))      # made on first use
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
"""number of characters of 32 random bytes in base64"""


@dataclass(frozen=True, slots=True)
class ServiceToken:
    """The token of a service; browsers hold values derived from it, never the token itself."""

    token: str = field(repr=False)
    fresh: bool = False
    """True if this process created the token"""

    @classmethod
    def load_or_create(cls, path: Path) -> ServiceToken:
        """Read a token file, or create it, readable only by its owner.

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
        """Return True if ``token`` is right; the comparison takes constant time."""
        return hmac.compare_digest(token.encode("utf-8", "replace"), self.token.encode())

    @property
    def cookie_name(self) -> str:
        """The cookie name, different for each token, because browsers share cookies between ports."""
        return f"bench_{self._derived('name')[:12]}"

    @property
    def cookie(self) -> str:
        return self._derived("cookie")

    @property
    def csrf(self) -> str:
        return self._derived("csrf")

    def _derived(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), f"bench {purpose}".encode(), sha256).hexdigest()
