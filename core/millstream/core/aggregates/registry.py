"""The aggregates that are known by name.

The registry is for those who look an aggregate up while a job is built. The job itself carries its aggregates, so that
those of a program need not be registered in the processes that run it.
"""

from __future__ import annotations

from typing import TypeVar

from millstream.core.aggregates.aggregate import Aggregate
from millstream.core.errors import InvalidProgramError

A = TypeVar("A", bound=Aggregate)

_AGGREGATES: dict[str, Aggregate] = {}


def register(aggregate: A) -> A:
    """Makes an aggregate known by its name, and returns it; raises `InvalidProgramError` if the name is taken.

    An object of the same class may be registered again, as when a program's module is loaded twice.
    """
    known = _AGGREGATES.get(aggregate.name)
    if known is not None and type(known).__qualname__ != type(aggregate).__qualname__:
        raise InvalidProgramError(
            f"there is an aggregate '{aggregate.name}' already, of the class {type(known).__qualname__}; give this one "
            "another name"
        )
    _AGGREGATES[aggregate.name] = aggregate
    return aggregate


def aggregate_named(name: str) -> Aggregate:
    """Returns the aggregate of this name; raises `InvalidProgramError` if there is none."""
    found = _AGGREGATES.get(name)
    if found is None:
        raise InvalidProgramError(f"there is no aggregate '{name}'; there are {', '.join(sorted(_AGGREGATES))}")
    return found
