"""`dataclass` for values that a run creates by the million.

For the type checker it is the standard decorator, so a ``frozen`` value is frozen. At run time fields are not guarded,
because the guard makes a value of sixteen fields six times as expensive to create, and an item creates about forty
values. Values that are created once per run, plan or report use the standard decorator::

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Call: ...
"""

from typing import TYPE_CHECKING

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    import dataclasses

    def dataclass(*, frozen=False, **options):
        """Create a dataclass whose fields are not guarded. With ``frozen=True`` its values have a hash."""
        return dataclasses.dataclass(unsafe_hash=frozen, **options)
