"""`millstream.__version__`, which is read on demand, since reading it costs each process memory and 10 ms."""

from __future__ import annotations


def attribute_of_package(name: str) -> object:
    """Implements `__getattr__` of the package `millstream`, for attributes that are not set."""
    if name != "__version__":
        raise AttributeError(f"module 'millstream' has no attribute {name!r}")
    from importlib.metadata import version

    return version("millstream")
