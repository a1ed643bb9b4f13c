"""How long importing the API takes in a fresh interpreter."""

from __future__ import annotations

import time

BEGIN = time.monotonic_ns()
import millstream.datastream  # noqa: E402, F401  # what is measured

END = time.monotonic_ns()

if __name__ == "__main__":
    from marks import report

    report("import", seconds=(END - BEGIN) / 1e9)
