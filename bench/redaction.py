"""Find and replace known secrets in texts, also in encoded form.

A secret is found if its characters are literal or escaped, as in JSON, HTML or URLs, even if they are escaped several
times. It is also found in hex and in base64::

    redactor.learn("a/b=c d")
    redactor.hide(r"GET /x?key=a%2Fb%3Dc+d and {\"key\":\"a\\/b=c d\"}")     # both hidden
"""

from __future__ import annotations

import base64
import html
import html.entities
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import overload

HIDDEN = "[redacted]"
KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|ghp|gho|hf|AIza|m0|sm|key)[-_][A-Za-z0-9_\-]{16,}\b|\bAIza[A-Za-z0-9_\-]{30,}\b"
    r"|(?i:\b(?:bearer|token|api-key)\s+)[A-Za-z0-9._~+/\-]{16,}=*"
)
SHORTEST_SECRET = 4
SHORTEST_VALUE = 8
SHORTEST_PART = 8
"""minimum length of a piece of a base64 form that is searched inside longer base64"""
_ESCAPED_LETTER = re.compile(r"%[0-9A-Fa-f]{2}|\\(?:u00|x)[0-9A-Fa-f]{2}|&#|&amp;#")
"""an escape sequence that can encode a letter"""
_LETTER = re.compile(r"\\+(?:u00|x)([0-9A-Fa-f]{2})")
ROUNDS = 4
"""maximum number of nested escapes that are decoded"""
_BACKSLASHES = (
    r"(?:\\|\\{1,4}u005[cC]|%(?:25){0,3}5[cC]|&(?:amp;){0,3}#0{0,5}92;|&(?:amp;){0,3}#[xX]0{0,5}5[cC];|&bsol;)"
)
_LETTERS = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f"}

_NUMBER = re.compile(r"[+-]?[\d.,]+|(?i:true|false|yes|no|on|off|none|null)")
_WORD = re.compile(r"[A-Z]?[a-z]{,15}|[A-Z]{,15}")
_REGION = re.compile(r"[a-z]{2,4}(?:-[a-z]{2,12}){1,2}-?\d{1,2}[a-z]?")
_HOST = r"(?:localhost|\d{1,3}(?:\.\d{1,3}){3}|[a-z0-9-]+(?:\.[a-z0-9-]+)*\.[a-z]{2,}|[a-z][a-z0-9-]*(?=[:/]))"
_ADDRESS = re.compile(rf"(?:[a-z][a-z0-9+.-]*://(?:[a-z]+@)?)?{_HOST}(?::\d{{1,5}})?(?:/[A-Za-z0-9._~-]{{0,15}})*")
_FOLDER = re.compile(r"[~.]{0,2}/[\w./ -]*")
_MODEL = re.compile(r"[a-z][a-z0-9_-]{1,30}/[A-Za-z0-9][A-Za-z0-9._:-]*")


def is_setting(value: str) -> bool:
    """Return True if a value looks like a plain setting, not like a secret.

    A setting is a short text, a number, a word, a cloud region, a URL, a path or VENDOR/MODEL. Such a value
    is a secret only if its variable has a name such as API_KEY.
    """
    kinds = (_NUMBER, _WORD, _REGION, _MODEL, _ADDRESS, _FOLDER)
    return len(value) < SHORTEST_VALUE or any(kind.fullmatch(value) for kind in kinds)


class Redactor:
    """The known secrets of this process. Its methods replace the secrets in texts."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, ...]] = {}
        """secret -> its search texts (see ``_needles``); the longest secret comes first"""
        self._needles: tuple[str, ...] = ()
        """the search texts of all known secrets"""

    def learn(self, secret: str) -> None:
        """Register a secret. A text of fewer than four characters is ignored, because it would hide ordinary words."""
        if len(secret) < SHORTEST_SECRET or secret in self._known:
            return
        known = {**self._known, secret: _needles(secret)}
        self._remember(dict(sorted(known.items(), key=lambda one: -len(one[0]))))

    def _remember(self, known: dict[str, tuple[str, ...]]) -> None:
        self._known = known
        self._needles = tuple(needle for needles in known.values() for needle in needles)

    @contextmanager
    def forget_new_secrets(self) -> Iterator[None]:
        """Forget, at the end of a ``with`` block, the secrets that were learned inside the block."""
        before = self._known
        try:
            yield
        finally:
            self._remember(before)

    @property
    def knows_any(self) -> bool:
        return bool(self._known)

    def holds_secret(self, text: str) -> bool:
        """Return True if ``text`` contains a known secret in any encoding."""
        suspects = self._suspects(text)
        return bool(suspects) and any(_pattern(secret).search(text) for secret in suspects)

    def hide(self, text: str) -> str:
        """Return the text with known secrets, in any encoding, replaced by ``[redacted]``."""
        for secret in self._suspects(text):
            text = _pattern(secret).sub(HIDDEN, text)
        return text

    @overload
    def hide_in(self, value: Mapping[str, object]) -> Mapping[str, object]: ...

    @overload
    def hide_in(self, value: object) -> object: ...

    def hide_in(self, value: object) -> object:
        """Return a JSON value with known secrets replaced in all of its texts and keys."""
        if isinstance(value, str):
            return self.hide(value)
        if isinstance(value, Mapping):
            return {self.hide(key) if isinstance(key, str) else key: self.hide_in(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            return [self.hide_in(one) for one in value]
        return value

    def __call__(self, text: str) -> str:
        return KEY_LIKE.sub(HIDDEN, self.hide(text))

    def _suspects(self, text: str) -> list[str]:
        """Return the secrets that the text may contain, the longest first. The check is fast, but not exact."""
        if not self._known:
            return []
        texts = text
        if "\\" in text or "%" in text or "&" in text:
            plainer = _unescaped(text)
            texts = text if plainer is text else f"{text}\n{plainer}"
        if True not in [needle in texts for needle in self._needles]:
            return []
        return [secret for secret, needles in self._known.items() if any(needle in texts for needle in needles)]


def _unescaped(text: str) -> str:
    """Return the text with escaped letters decoded. Return ``text`` itself if nothing is escaped."""
    if not _ESCAPED_LETTER.search(text):
        return text
    for _ in range(ROUNDS):
        before = text
        text = _LETTER.sub(lambda match: chr(int(match[1], 16)), html.unescape(urllib.parse.unquote(text)))
        if text == before:
            break
    return text


def _needles(secret: str) -> tuple[str, ...]:
    """Return short texts, of which every text with the secret contains at least one.

    So a text without any of them needs no further check for the secret, nor for its hex and base64 forms.
    """
    runs: list[str] = re.findall(r"[A-Za-z0-9]{2,}", secret)
    raw = secret.encode("utf-8", "surrogatepass")
    # without a run of plain letters there is nothing cheap to look for
    return (max(runs, key=len), raw.hex(), raw.hex().upper(), *_base64_forms(raw)) if runs else ("",)


def _base64_forms(raw: bytes) -> tuple[str, ...]:
    """Return the base64 forms of a secret: alone, and as a part of a longer encoded text."""
    whole = [base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()]
    forms = {form.rstrip("=") for form in whole}
    for before in range(3):
        padded = bytes(before) + raw
        skipped = -(-before * 8 // 6)
        usable = len(padded) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            part = encode(padded).decode()[skipped:usable]
            if len(part) >= SHORTEST_PART:
                forms.add(part)
    shortest_first = sorted(forms, key=len)
    return tuple(form for n, form in enumerate(shortest_first) if not any(one in form for one in shortest_first[:n]))


@lru_cache(512)
def _pattern(secret: str) -> re.Pattern[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    encoded = "|".join(re.escape(form) for form in sorted(_base64_forms(raw), key=len, reverse=True))
    spelled = "".join(_pattern_part(run) for run in re.findall(r"\\+|[^\\]", secret, re.DOTALL))
    return re.compile(f"{spelled}|(?:{encoded})[A-Za-z0-9+/_-]*={{0,2}}|(?i:{raw.hex()})", re.DOTALL)


def _pattern_part(run: str) -> str:
    return f"{_BACKSLASHES}+" if run[0] == "\\" else _character_pattern(run)


def _character_pattern(char: str) -> str:
    """Return a pattern that matches one character in all of its encodings."""
    code, raw = ord(char), char.encode("utf-8", "surrogatepass")
    units = char.encode("utf-16-be", "surrogatepass").hex()
    forms = ["".join(rf"\\{{1,4}}u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))]
    forms.append("".join(rf"\\{{1,4}}x(?i:{byte:02x})" for byte in raw))
    forms.append("".join(rf"%(?:25){{0,3}}(?i:{byte:02x})" for byte in raw))
    forms.append(rf"&(?:amp;){{0,3}}#(?:0{{0,5}}{code}|[xX]0{{0,5}}(?i:{code:x}));?")
    if raw != char.encode("latin-1", "replace"):
        forms += [rf"\\{{1,4}}x(?i:{code:02x})"] if code < 256 else [rf"\\{{1,4}}U(?i:{code:08x})"]
    if char in _LETTERS:
        forms.append(rf"\\{{1,4}}{_LETTERS[char]}")
    forms += [f"&(?:amp;){{0,3}}{name}" for name in _entities().get(char, ())]
    if char == " ":
        forms += [r"\s", r"\+"]
    if char == '"':
        forms.append('""')
    plain = re.escape(char)
    if char.isascii() and char.isalnum():
        return f"(?:{plain}|{'|'.join(forms)})"
    return f"(?:{_BACKSLASHES}{{0,8}}(?:{'|'.join(forms)}|{plain}))"


@lru_cache(1)
def _entities() -> Mapping[str, tuple[str, ...]]:
    """Return character -> names of its HTML entities, the longest name first."""
    found: dict[str, list[str]] = {}
    for name, char in html.entities.html5.items():
        if len(char) == 1:
            found.setdefault(char, []).append(re.escape(name))
    return {char: tuple(sorted(names, key=len, reverse=True)) for char, names in found.items()}


redactor = Redactor()
