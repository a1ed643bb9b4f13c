"""From a specification to the operator that runs it.

Each file of this folder, and of those in it, declares with `builds` the specifications of its operators. They
are found by looking through the folder, so that a new operator is a new file and no other.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, TypeVar

from millstream.core.jobs.plan.plan import OperatorSpec
from millstream.taskmanager.worker import operators
from millstream.taskmanager.worker.operators.base import Operator
from millstream.taskmanager.worker.operators.setup import OperatorSetup

Builder = Callable[[OperatorSetup, Any], Operator]
B = TypeVar("B", bound=Builder)

_BUILDERS: dict[type[OperatorSpec], Builder] = {}


def builds(specification: type[OperatorSpec]) -> Callable[[B], B]:
    """Marks the class, or the function, that makes the operators of a specification from `(setup, specification)`."""

    def register(builder: B) -> B:
        _BUILDERS[specification] = builder
        return builder

    return register


def build_operator(setup: OperatorSetup, spec: OperatorSpec) -> Operator:
    """The operator for a specification."""
    _load()
    builder = _BUILDERS.get(type(spec))
    if builder is None:
        raise LookupError(
            f"'{setup.name}' is a {type(spec).__qualname__}, which nothing in {operators.__name__} builds: this task "
            "manager may be older than the program"
        )
    return builder(setup, spec)


@cache
def _load() -> None:
    for module in pkgutil.walk_packages(operators.__path__, f"{operators.__name__}."):
        import_module(module.name)
