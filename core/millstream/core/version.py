"""`millstream.__version__`, which is read when it is needed: each process would spend memory and 10 ms on it."""

from __future__ import annotations


def attribute_of_package(name: str) -> object:
    """The `__getattr__` of the package `millstream`: an attribute that is neither a module nor set."""
    if name != "__version__":
        raise AttributeError(f"module 'millstream' has no attribute {name!r}")
    from importlib.metadata import version

    return version("millstream")
