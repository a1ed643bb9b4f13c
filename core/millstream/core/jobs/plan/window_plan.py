"""Specifications of windows: how records are assigned, and how they are aggregated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from millstream.core.jobs.plan.plan import KeySelector, OperatorSpec
from millstream.core.overriding import override
from millstream.core.records.types import PICKLED, TypeInformation


class Buffered(Struct, frozen=True):
    """All records of a window are kept until it fires, and longer if it may fire again.

    With `combine`, its function receives the combined records.
    """

    type: TypeInformation = PICKLED
    combine: Callable[[list[Any]], Any] | None = None


class Reduced(Struct, frozen=True):
    """Only one value per window is kept: `function(value so far, record)`."""

    function: Any
    type: TypeInformation = PICKLED


class Aggregated(Struct, frozen=True):
    """Only the accumulator of an AggregateFunction is kept per window; the type is the accumulator's."""

    function: Any
    type: TypeInformation = PICKLED


class Tagged(Struct, frozen=True):
    """All records of two streams, each with its side."""

    first: TypeInformation = PICKLED
    second: TypeInformation = PICKLED


Contents = Buffered | Reduced | Aggregated | Tagged


class WindowSpec(OperatorSpec, Struct, frozen=True):
    """Records of one key in windows. `function` receives the content of a firing window; None: that is the result."""

    kind = "window"
    has_side_outputs = True
    assigner: Any  # millstream.datastream.window.WindowAssigner
    trigger: Any  # millstream.datastream.window.Trigger
    contents: Contents
    function: Any
    key_selector: KeySelector
    key_type: TypeInformation = PICKLED
    evictor: Any = None  # millstream.datastream.window.Evictor
    allowed_lateness: int = 0  # milliseconds
    late_tag: str | None = None  # the side output for late records

    @override
    def keyed_by(self) -> tuple[KeySelector, ...]:
        return (self.key_selector,)

    def user_code(self) -> tuple[Any, ...]:
        """Returns everything that may be user-defined."""
        code = (self.function, getattr(self.contents, "function", None), self.assigner, self.trigger, self.evictor)
        return tuple([part for part in code if part is not None] + list(OperatorSpec.user_code(self)))


class CoGroupSpec(WindowSpec, frozen=True):
    """Records of two streams in windows. `function` receives those of both sides with the same key and window."""

    kind = "co_group"
    inputs = 2
    second_selector: KeySelector = KeySelector()

    @override
    def keyed_by(self) -> tuple[KeySelector, ...]:
        return (self.key_selector, self.second_selector)
