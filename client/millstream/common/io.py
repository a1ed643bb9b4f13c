"""`InputFormat`: the base of formats for `StreamExecutionEnvironment.create_input`, with PyFlink's name."""

from __future__ import annotations

import os


class InputFormat:
    """The base class of formats that have a `path`: a file, or a folder of files."""

    path: str | os.PathLike[str]
