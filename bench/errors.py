"""The classes of all errors that bench raises on purpose.

The class determines who must act. Each error has a message, a hint and, if known, a place::

    BenchError
    ├── UsageError            the caller: flags, arguments, unknown names            exit 2
    ├── ConfigError           the author of a config, prompt or plug-in              exit 2
    │   └── UnknownMetric     an unknown metric name
    ├── DataError             the owner of a dataset file                            exit 2
    ├── IdentityError         the operator: settings that differ from the run's      exit 2
    ├── JournalError          the owner of a run file: corrupt, foreign, newer       exit 2
    │   ├── DiskFull          the operator: make room, then resume                   exit 3
    │   ├── Locked            the operator: another live process holds the run       exit 6
    │   └── MergeConflict     the operator: runs of one plan that disagree           exit 4
    ├── CanonicalError        JSON that cannot be read or signed (a ValueError)      exit 5
    ├── VerificationError     a receipt, key or log that is not valid                exit 5
    └── CallError             one call to a provider or model failed; recorded       exit 3
        ├── AuthError, QuotaError             stop only the lane of the call
        ├── RateLimited, Unavailable          after the retries
        ├── Rejected, MappingError            never retried
        │   └── Unreachable                   no attempt can reach the server: stops the lane too
        ├── Truncated, NoAnswer               a model's reply that has no answer
        ├── IngestFailed, Contaminated        corpus errors
        ├── NotReady, NotCleared, Unsupported
        ├── PluginFault                       an adapter broke the Protocol
        └── EvaluatorFailed                   an evaluator raised

Example::

    raise ConfigError('unknown field "retreival_limit" in query',
                      where="manifest.json:23:5", hint='did you mean "retrieval_limit"?')
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class BenchError(Exception):
    """The base class of the errors of bench.

    ``message`` is the problem, ``where`` is file:line:column or None, and ``hint`` is what to do.
    """

    kind: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1
    default_hint: ClassVar[str] = "run again with --traceback and report it"

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint or self.default_hint

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class UsageError(BenchError):
    """Flags or arguments that cannot be used. Nothing was started."""

    kind = "usage"
    exit_code = 2
    default_hint = "see bench --help"


class ConfigError(BenchError):
    """A config, prompt or plug-in is wrong.

    If the file has several errors, ``problems`` has all of them. Otherwise, ``problems`` is empty.
    """

    kind = "config"
    exit_code = 2
    default_hint = "check the file with: bench validate FILE"

    def __init__(
        self,
        message: str,
        *,
        where: str | None = None,
        hint: str | None = None,
        problems: Sequence[ConfigError] = (),
    ) -> None:
        super().__init__(message, where=where, hint=hint)
        self.problems: tuple[ConfigError, ...] = tuple(problems)

    @classmethod
    def of(cls, problems: Sequence[ConfigError]) -> ConfigError:
        """Return one error with the messages of all problems.

        Its ``where`` and ``hint`` are those of the first problem.
        """
        first = problems[0]
        if len(problems) == 1:
            return first
        rest = "\n".join(f"error: {problem}" for problem in problems[1:])
        return cls(f"{first.message}\n{rest}", where=first.where, hint=first.hint, problems=problems)


class UnknownMetric(ConfigError):
    """A metric name, variant or parameter is unknown."""

    kind = "unknown_metric"
    default_hint = "list the known metrics with: bench list metrics"


class DataError(BenchError):
    """A dataset file is missing or has another digest, or a row does not match its config."""

    kind = "data"
    exit_code = 2
    default_hint = "correct the row, or the config that maps the data"


class IdentityError(BenchError):
    """A resume or merge with settings that would change results.

    ``changes`` has (key path, old value, new value) for each setting.
    """

    kind = "identity"
    exit_code = 2
    default_hint = "start a new run for the changed settings"

    def __init__(self, message: str, *, changes: Sequence[tuple[str, str, str]] = (), hint: str | None = None) -> None:
        lines = [f"{path}: {old} -> {new}" for path, old, new in changes]
        super().__init__("\n  ".join([message, *lines]), hint=hint)
        self.changes = tuple(changes)


class JournalError(BenchError):
    """The journal (the SQLite file of a run) is damaged, is another kind of file, or has a newer version."""

    kind = "journal"
    exit_code = 2
    default_hint = "restore the file from a backup, or start a new run"


class DiskFull(JournalError):
    """The disk is full, so the journal could not be extended. Acknowledged rows are safe."""

    kind = "disk_full"
    exit_code = 3
    default_hint = "make room, then resume the run"


def is_disk_full(error: BaseException) -> bool:
    """Return True if the error means that the disk is full, from SQLite or from the operating system."""
    import errno
    import sqlite3

    if isinstance(error, sqlite3.Error):
        names = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_TRUNCATE")
        return getattr(error, "sqlite_errorname", None) in names
    return isinstance(error, OSError) and error.errno == errno.ENOSPC


class Locked(JournalError):
    """Another running process has locked the run."""

    kind = "locked"
    exit_code = 6
    default_hint = "wait until that process has ended, or stop the run with: bench pause RUN_ID"


class MergeConflict(JournalError):
    """Two runs of the same plan (settings and items) have different outcomes for an item.

    ``items`` has (item id, phase) for each difference.
    """

    kind = "conflict"
    exit_code = 4
    default_hint = "find out why the same plan gave two outcomes, then leave out one of the two runs and merge again"

    def __init__(self, items: Sequence[tuple[str, str]]) -> None:
        lines = [f"{item}: {phase}" for item, phase in items]
        super().__init__("\n  ".join(["the runs disagree about:", *lines]))
        self.items = tuple(items)


class CanonicalError(BenchError, ValueError):
    """JSON that is rejected before it is signed or verified.

    ``code`` is a stable name of the reason, and ``path`` is the place in the document.
    """

    kind = "canonical"
    exit_code = 5
    default_hint = "get the document again from its source; it was altered, or another tool created it"

    def __init__(self, code: str, message: str, *, path: str = "", hint: str | None = None) -> None:
        super().__init__(message, where=path or None, hint=hint)
        self.code = code
        self.path = path


class VerificationError(BenchError):
    """A receipt, key or log that is invalid. ``code`` is a stable name of the reason."""

    kind = "verification"
    exit_code = 5
    default_hint = "do not use this receipt"

    def __init__(self, code: str, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, where=where, hint=hint)
        self.code = code


class CallError(BenchError):
    """One call that failed permanently. The engine records its ``kind`` and continues."""

    kind = "unavailable"
    exit_code = 3
    default_hint = "fix the cause, then resume the run"
    stops_lane: ClassVar[bool] = False
    body: str = ""
    """body of the error response, in which callers look for error codes; the body is never shown"""


class AuthError(CallError):
    """HTTP status 401 or 403. The message names the provider, the status and the variable with the key."""

    kind = "auth"
    stops_lane = True
    default_hint = "check the key in its environment variable, then resume"


class QuotaError(CallError):
    """HTTP status 402, or a response that reports a used-up quota."""

    kind = "quota"
    stops_lane = True
    default_hint = "upgrade the plan of the service, or wait until its quota is renewed, then resume"


class RateLimited(CallError):
    """HTTP status 429 after all retries."""

    kind = "rate_limited"
    default_hint = "wait until the limit of the service allows calls again, then resume the run"

    def __init__(self, message: str, *, retry_after_s: float | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_s = retry_after_s


class Unavailable(CallError):
    """HTTP status 408, 425 or 5xx, or a refused or lost connection, after all retries.

    After a timeout, the item has the kind ``timeout`` instead.
    """

    default_hint = "check that the service is running, then resume the run"

    def __init__(self, message: str, *, timed_out: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        if timed_out:
            self.kind = "timeout"  # type: ignore[misc]


class Rejected(CallError):
    """HTTP status 400, 404, 405, 409, 410, 413 or 422: the request is wrong and is never retried."""

    kind = "rejected"
    default_hint = "compare the config with the documentation of this API"


class Unreachable(Rejected):
    """No attempt can reach the server: an untrusted certificate, no TLS, an unknown host, an invalid URL."""

    stops_lane = True
    default_hint = "correct the network or the certificate, then resume; for another address, start a new run"


CA_HINT = "set SSL_CERT_FILE to the CA's PEM file"


def is_certificate_error(error: BaseException | None) -> bool:
    """Return True if an untrusted certificate is the cause of the error."""
    import ssl

    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


class MappingError(CallError):
    """A 2xx response whose body does not match the config.

    The message has the config path, the JSONPath and the redacted body.
    """

    kind = "mapping"
    default_hint = "compare the config with the documentation of this API"


class Truncated(CallError):
    """A model used all of its tokens before it wrote an answer."""

    kind = "truncated"
    default_hint = "raise --max-answer-tokens in a new run"


class NoAnswer(CallError):
    """A model's reply has no answer, for example because it calls a tool or has an unclosed reasoning block."""

    kind = "no_answer"
    default_hint = "read the reply with bench failures RUN_ID, then change the settings of the model"


class IngestFailed(CallError):
    """The provider reports that storing or indexing a memory failed."""

    kind = "ingest_failed"


class NotReady(CallError):
    """Stored memories were not searchable in time. This does not count as a wrong answer."""

    kind = "not_ready"
    default_hint = "check that the service indexes its memories, then resume the run"


class Contaminated(CallError):
    """A namespace was not empty before ingest."""

    kind = "contaminated"
    default_hint = "delete the contents of the namespace at the service, then resume the run"


class NotCleared(CallError):
    """A namespace still had data after it was cleared. The journal records this in an event, the receipt in a note."""

    kind = "not_cleared"
    default_hint = "clear the namespace again with: bench clean --orphans"


class Unsupported(CallError):
    """The provider lacks a capability that the benchmark requires."""

    kind = "unsupported"
    default_hint = "use a provider that has the capability"


class PluginFault(CallError):
    """An adapter or model plug-in raised an error, or returned a value that its protocol does not allow.

    If the value is wrong, the message has the expected type.
    """

    kind = "plugin"
    default_hint = "fix the plug-in (an adapter: see bench.providers.protocol.Provider), then start a new run"


class EvaluatorFailed(CallError):
    """An evaluator or metric plug-in raised an error, or returned the wrong type."""

    kind = "evaluator"
    default_hint = "fix the evaluator or metric, then run: bench rescore RUN_ID"


def only_error(group: BaseExceptionGroup[BaseException]) -> BaseException | None:
    """Return the only error in an exception group and its nested groups; None if there are several errors."""
    if len(group.exceptions) > 1:
        return None
    (error,) = group.exceptions
    return only_error(error) if isinstance(error, BaseExceptionGroup) else error


def innermost_exception(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first exception in a group and its nested groups. The result is never a group."""
    first = group.exceptions[0]
    return innermost_exception(first) if isinstance(first, BaseExceptionGroup) else first


def raise_site(error: BaseException) -> str:
    """Return the place where plug-in code raised the error, such as `` (own.py:24, in search)``.

    Return an empty text if the error has no traceback.
    """
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return ""
    code = last.tb_frame.f_code
    return f" ({code.co_filename.rpartition('/')[2]}:{last.tb_lineno}, in {code.co_name})"
