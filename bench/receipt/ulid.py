"""Receipt ids: 48 bits of milliseconds and 80 random bits in Crockford's base 32, so that they sort by time.

Example::

    new_ulid(datetime.now(UTC), secrets.token_bytes(10))     # "01JDQ3V5H0..."
"""

from __future__ import annotations

from datetime import datetime

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
LENGTH = 26


def new_ulid(when: datetime, entropy: bytes) -> str:
    """Spell a ULID; ``when`` is aware, ``entropy`` is 10 random bytes."""
    number = int(when.timestamp() * 1000) << 80 | int.from_bytes(entropy, "big")
    return "".join(ALPHABET[number >> shift & 31] for shift in range(5 * (LENGTH - 1), -1, -5))
