"""Where the `millstream` command begins. Ctrl-C while its modules are loaded ends it at once and prints nothing."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Loads and runs the command line. Returns the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # else a traceback of whatever module is being loaded
    from millstream.cli.main import main as run

    signal.signal(signal.SIGINT, signal.default_int_handler)
    return run()


if __name__ == "__main__":
    sys.exit(main())
