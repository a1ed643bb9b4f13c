"""`OutputTag`: the name of a side output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from millstream.core.records.types import PICKLED, TypeInformation, from_hint


@dataclass(frozen=True, slots=True)
class OutputTag:
    """Names a side output: `yield tag, value` in a process function, `stream.get_side_output(tag)` to read it."""

    tag_id: str
    type_info: Any = PICKLED

    @property
    def type(self) -> TypeInformation:
        """The declared type of what goes there."""
        return from_hint(self.type_info)
