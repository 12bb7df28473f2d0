"""A faster `dataclass`, for values that a run creates by the million.

Type checkers report an assignment to a field of a ``frozen`` value. Python does not prevent the assignment: such a
check would make a value with sixteen fields six times as slow to create::

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
        """Create a dataclass that does not check assignments to fields.

        With ``frozen=True``, instances can be hashed.
        """
        return dataclasses.dataclass(unsafe_hash=frozen, **options)
