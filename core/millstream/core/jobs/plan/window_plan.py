"""What the client hands to the tasks of windows: how records come together, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from millstream.core.jobs.plan.plan import KeySelector, OperatorSpec
from millstream.core.records.types import PICKLED, TypeInformation


class Buffered(Struct, frozen=True):
    """All records of a window are kept until it fires, and longer where it may fire again.

    With `combine`, its function gets what that makes of them.
    """

    type: TypeInformation = PICKLED
    combine: Callable[[list[Any]], Any] | None = None


class Reduced(Struct, frozen=True):
    """Only one value is kept of a window: `function(value so far, record)`."""

    function: Any
    type: TypeInformation = PICKLED


class Aggregated(Struct, frozen=True):
    """Only an accumulator is kept of a window, of an AggregateFunction; the type is the accumulator's."""

    function: Any
    type: TypeInformation = PICKLED


class Tagged(Struct, frozen=True):
    """All records of two streams, each with the side that it is of."""

    first: TypeInformation = PICKLED
    second: TypeInformation = PICKLED


Contents = Buffered | Reduced | Aggregated | Tagged


class WindowSpec(OperatorSpec, Struct, frozen=True):
    """Records of one key in windows. `function` gets what a window holds when it fires; None: that is the result."""

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
    late_tag: str | None = None  # the side output for records that come too late

    def keyed_by(self) -> tuple[KeySelector, ...]:
        """Its stream's."""
        return (self.key_selector,)

    def user_code(self) -> tuple[Any, ...]:
        """Everything that may be the user's own."""
        code = (self.function, getattr(self.contents, "function", None), self.assigner, self.trigger, self.evictor)
        return tuple([part for part in code if part is not None] + list(OperatorSpec.user_code(self)))


class CoGroupSpec(WindowSpec, frozen=True):
    """Records of two streams in windows. `function` gets those of both sides with the same key and window."""

    kind = "co_group"
    inputs = 2
    second_selector: KeySelector = KeySelector()

    def keyed_by(self) -> tuple[KeySelector, ...]:
        """Of both streams."""
        return (self.key_selector, self.second_selector)
