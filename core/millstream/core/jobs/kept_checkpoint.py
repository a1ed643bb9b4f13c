"""What a job that has ended leaves of its state, and the command that starts it from there.

The services of a cluster do not know how the job's program was run, only its client does: it puts the program and its
options in the place of `PROGRAM`.
"""

from __future__ import annotations

import shlex

PROGRAM = "PROGRAM"


def start_command(location: str, program: str = PROGRAM) -> str:
    """For a shell. `program` is what follows the snapshot: options of `run`, the program, and its arguments."""
    return f"millstream run -s {shlex.quote(location)} {program}"


def kept_text(location: str) -> str:
    """Of the last completed checkpoint, which stays after the end of the job."""
    return f"its last completed checkpoint is kept: {location}; `{start_command(location)}` starts the job from it"


def with_program(text: str, location: str, program: str) -> str:
    """A text of the services with the program in its command."""
    return text.replace(start_command(location), start_command(location, program))
