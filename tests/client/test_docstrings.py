"""What editors show of the public API: every method has a docstring, which names each of its parameters.

A method that implements one of a base class and has no docstring of its own is described there.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))

from api_pages import MODULES  # noqa: E402  # the modules that the reference of the manual describes

DESCRIBED = [module for module in MODULES if module != "millstream.spark"]  # which needs PySpark


def methods_of(exported: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class and of its bases that are ours, but for those that only implement others."""
    ours = [base for base in exported.__mro__ if base.__module__.startswith("millstream.")]
    for owner in ours:
        for name, member in vars(owner).items():
            function = getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(function) and not implements(owner, name):
                yield f"{owner.__qualname__}.{name}", function


def implements(owner: type, name: str) -> bool:
    """Whether a method without a docstring has one in a base class."""
    has_own = bool(vars(owner)[name].__doc__)
    return not has_own and any(getattr(vars(base).get(name), "__doc__", None) for base in owner.__mro__[1:])


def unnamed(function: Callable[..., Any]) -> list[str]:
    parameters = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    text = function.__doc__ or ""
    return [name for name in parameters if not re.search(rf"\b{re.escape(name)}\b", text)]


@pytest.mark.parametrize("module", DESCRIBED)
def test_docstrings_name_all_parameters(module: str) -> None:
    exported = [getattr(importlib.import_module(module), name) for name in importlib.import_module(module).__all__]
    methods = [method for value in exported if isinstance(value, type) for method in methods_of(value)]
    methods += [(value.__qualname__, value) for value in exported if inspect.isfunction(value)]
    assert [name for name, function in methods if not function.__doc__] == []
    assert {name: missing for name, function in methods if (missing := unnamed(function))} == {}


def test_the_test_sees_the_methods_of_streams() -> None:
    from millstream.datastream import KeyedStream

    names = {name for name, _ in methods_of(KeyedStream)}
    assert {"KeyedStream.reduce", "DataStream.map", "OperatorSettings.uid"} <= names
