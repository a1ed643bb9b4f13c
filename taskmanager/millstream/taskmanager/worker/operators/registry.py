"""Finds the operator for a specification.

Each file of this folder and its subfolders declares with `builds` the specifications of its operators. The folder is
scanned for them, so that adding an operator means adding a file.
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
    """Marks the class, or the function, that creates the operators of a specification from `(setup, specification)`."""

    def register(builder: B) -> B:
        _BUILDERS[specification] = builder
        return builder

    return register


def build_operator(setup: OperatorSetup, spec: OperatorSpec) -> Operator:
    """Builds the operator for a specification."""
    _load()
    builder = _BUILDERS.get(type(spec))
    if builder is None:
        raise LookupError(
            f"'{setup.name}' is a {type(spec).__qualname__}, for which {operators.__name__} has no operator: this task "
            "manager may be older than the program"
        )
    return builder(setup, spec)


@cache
def _load() -> None:
    for module in pkgutil.walk_packages(operators.__path__, f"{operators.__name__}."):
        import_module(module.name)
