"""Keeps pandas out of processes that do not use it: pyarrow imports it, where it is installed, to make its first array.

That costs a slot worker 40 MB and half a second at its first checkpoint. pyarrow checks once whether there is pandas:
that check finds none, unless pandas was imported before, and is done again when a function imports pandas.
"""

from __future__ import annotations

import contextlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def only_when_used() -> None:
    """Called once by a process, before anything in it imports pyarrow."""
    sys.meta_path.insert(0, _AfterImport({"pyarrow": _check_without, "pandas": _check_again}))


class _AfterImport(MetaPathFinder):
    """Calls something when a module has been imported."""

    def __init__(self, actions: dict[str, Callable[[], None]]) -> None:
        self._actions = actions

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """As the finders behind this one find it."""
        action = self._actions.pop(fullname, None)
        if action is None:
            return None
        spec = importlib.util.find_spec(fullname)
        if spec is None or spec.loader is None:
            self._actions[fullname] = action
            return None
        execute = spec.loader.exec_module

        def execute_and_act(module: ModuleType) -> None:
            execute(module)
            action()

        spec.loader.exec_module = execute_and_act  # type: ignore[method-assign]  # of this one loader
        return spec


class _NoPandas(MetaPathFinder):
    """For one thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Raises ImportError for pandas."""
        if fullname == "pandas" and threading.get_ident() == self._thread:
            raise ImportError("pandas is imported when it is used", name=fullname)
        return None


def _check_without() -> None:
    api = _pandas_api()
    if api is None or "pandas" in sys.modules:
        return
    nothing = _NoPandas()
    sys.meta_path.insert(0, nothing)
    try:
        _ = api.have_pandas
    finally:
        sys.meta_path.remove(nothing)


def _check_again() -> None:
    api = _pandas_api()
    if api is not None:
        with contextlib.suppress(ImportError):  # one that is too old for pyarrow
            _ = api.pd  # what needs pandas checks again, and the others go by that


def _pandas_api() -> Any:
    """What pyarrow knows of pandas; None when it is not imported, or a version that does this in another way."""
    return getattr(sys.modules.get("pyarrow.lib"), "_pandas_api", None)
