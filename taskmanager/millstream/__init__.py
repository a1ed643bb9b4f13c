"""Millstream: a distributed runtime for stateful stream processing in Python.

Programs import from `millstream.datastream` and `millstream.common`, under PyFlink's names; `millstream.__version__` is
the version of the installation.

The sources of the package are in several folders, one for each part of the system, and each has this file. A wheel has
all of them in one folder. In an editable install, each is a folder of its own on `sys.path`: here they are joined.
"""

from typing import TYPE_CHECKING

__path__ = __import__("pkgutil").extend_path(__path__, __name__)  # as tools recognize it
if __spec__ is not None:  # where tools look for the modules of a package
    __spec__.submodule_search_locations = __path__

__all__ = ["__version__"]

if TYPE_CHECKING:
    __version__: str
else:
    from millstream.core.version import attribute_of_package as __getattr__  # noqa: F401  # for the version
