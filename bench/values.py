"""`dataclass` for values that a run creates by the million.

To the type checker it is the standard one, so a ``frozen`` value is frozen; at run time nothing guards its fields,
because the guard makes a value of sixteen fields six times as expensive to build, and an item builds about forty
values. What is made once a run, a plan or a report uses the standard decorator::

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
        """Build it with a plain ``__init__``; a frozen one keeps its hash."""
        return dataclasses.dataclass(unsafe_hash=frozen, **options)
