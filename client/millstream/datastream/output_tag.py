"""`OutputTag`: the name and the type of a side output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, overload

from millstream.core.records.type_variables import T_co
from millstream.core.records.types import PICKLED, AnyType, TypeInformation, from_hint


@dataclass(frozen=True, slots=True, init=False)
class OutputTag(Generic[T_co]):
    """Names a side output of a process function, of late records or of a source.

    `tag_id` is the name of the side output, and `type_info` the type of its records: `Types.…`, a type hint or a
    dataclass; without one they are pickled. A function emits `(tag, value)`; `stream.get_side_output(tag)` reads it.

        LATE = OutputTag("late", Types.STRING())
    """

    tag_id: str
    type_info: Any = PICKLED

    @overload
    def __init__(self: OutputTag[Any], tag_id: str) -> None: ...

    @overload
    def __init__(self, tag_id: str, type_info: TypeInformation[T_co] | type[T_co]) -> None: ...

    @overload
    def __init__(self: OutputTag[object], tag_id: str, type_info: AnyType) -> None: ...

    @overload
    def __init__(self: OutputTag[Any], tag_id: str, type_info: object) -> None: ...

    def __init__(self, tag_id: str, type_info: Any = PICKLED) -> None:
        object.__setattr__(self, "tag_id", tag_id)
        object.__setattr__(self, "type_info", type_info)

    @property
    def type(self) -> TypeInformation[T_co]:
        """The declared type of the records of the side output."""
        return from_hint(self.type_info)
