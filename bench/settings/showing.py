"""What of a value from outside may stand in a plan, a journal or a list: never a password, never a key.

An address stays told apart from another one, and a new password of the same place changes nothing::

    shown("postgresql://me:hunter22@db:5432/bench")     # postgresql://me:[redacted]@db:5432/bench
    is_secret("PINECONE_API_KEY")                       # True: its value is not shown at all
"""

from __future__ import annotations

import re

from bench.events import HIDDEN, KEY_LIKE

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
    """True for an environment variable whose name says that nobody may see its value."""
    return _SECRET_NAME.search(variable) is not None
