"""`override`: marks a method that implements or replaces one of a base class, whose documentation is its own.

Type checkers see `typing_extensions.override` and report a method that overrides nothing. At run time it does nothing:
Python 3.11 has no `typing.override`, and the runtime needs no further package for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import override as override
else:

    def override(method):
        """Returns the method."""
        return method
