"""`InputFormat`: what `create_input` reads, with PyFlink's name."""

from __future__ import annotations

import os


class InputFormat:
    """Base of formats that know where their data is: a file, or a folder of them."""

    path: str | os.PathLike[str]
