"""Which implementation of the kernels this process uses.

The native library is used where the build hook could compile it, and NumPy elsewhere. The environment variable
`MILLSTREAM_KERNELS` forces one: `native`, where a library that cannot be loaded is then an error, or `numpy`.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from millstream.core.errors import MillstreamError
from millstream.core.settings.variables import KERNELS

if TYPE_CHECKING:
    from millstream.core.kernels.contract import Kernels

_ADVICE = "install a C compiler, and then Millstream again from its source"

_logger = logging.getLogger(__name__)


class KernelsError(MillstreamError):
    """The kernels that MILLSTREAM_KERNELS names cannot be used."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The implementation, and why it is this one."""

    kernels: Kernels
    reason: str
    is_slower: bool
    """Whether it is NumPy although that was not requested."""

    @property
    def advice(self) -> str:
        """What to do where it is slower."""
        return _ADVICE if self.is_slower else ""


@cache
def kernels() -> Kernels:
    """Returns the kernels of this process. The first call chooses them, and logs which."""
    chosen = choose(os.environ.get(KERNELS, ""))
    _logger.info("Kernels: %s (%s)", chosen.kernels.name, chosen.reason)
    return chosen.kernels


def choose(requested: str, library: Path | None = None) -> Chosen:
    """Chooses the kernels as the environment variable requests. Raises a KernelsError if that is not possible."""
    from millstream.core.kernels import native
    from millstream.core.kernels.twin import NumpyKernels

    if requested not in ("", "native", "numpy"):
        raise KernelsError(f"{KERNELS} is {requested!r}: expected native or numpy")
    if requested == "numpy":
        return Chosen(NumpyKernels(), f"as {KERNELS} requests", False)
    path = native.LIBRARY if library is None else library
    try:
        return Chosen(native.load(path), str(path), False)
    except OSError as error:
        problem = f"there is no {path}" if not path.exists() else str(error)
        if requested:
            raise KernelsError(f"{KERNELS} is native, but {problem}: {_ADVICE}") from error
        return Chosen(NumpyKernels(), problem, True)
