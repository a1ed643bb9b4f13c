"""The checkpoint that is kept after a job has ended, and the command that starts the job from it.

The services of a cluster do not know how the job's program was run, only its client does: it replaces `PROGRAM` by the
program and its options.
"""

from __future__ import annotations

import shlex

PROGRAM = "PROGRAM"


IN_MEMORY = (
    "its last completed checkpoint was in the job manager's memory and is lost: set execution.checkpointing.dir for "
    "checkpoints that a job can be started from"
)


def start_command(location: str, program: str = PROGRAM) -> str:
    """Returns a shell command. `program` contains options of `run`, the program, and its arguments."""
    return f"millstream run -s {shlex.quote(location)} {program}"


def kept_text(location: str) -> str:
    """Describes the last completed checkpoint, which is kept after the end of the job."""
    return f"its last completed checkpoint is kept: {location}; `{start_command(location)}` starts the job from it"


def with_program(text: str, location: str, program: str) -> str:
    """Replaces the placeholder in a message of the services by the program."""
    return text.replace(start_command(location), start_command(location, program))
