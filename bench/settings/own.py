"""Our own variables, ``MEMORYBENCH_*``, typed: ``Settings().git_commit``.

Apart from :mod:`bench.settings` because its import is dear and only a run, a receipt or the service needs it.
"""

from __future__ import annotations

from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict


class Settings(BaseSettings):
    """Our own variables, ``MEMORYBENCH_*``. Those set by an image build are self-declared."""

    model_config = SettingsConfigDict(env_prefix="MEMORYBENCH_", extra="ignore", frozen=True)

    image: str | None = None
    image_digest: str | None = None
    git_commit: str | None = None
    git_tag: str | None = None
    script: Path | None = None
    """replies of ``builtin/scripted``"""
    signing_key_file: Path | None = None
    log_key_file: Path | None = None
    token_file: Path | None = None
    lock_file: Path | None = None
    """dependency lock whose digest goes into a receipt; default requirements.lock of the checkout"""
