"""All environment variables of Millstream, by which a process gets what its parent or its user chose for it.

Each is read where it is needed, by its constant. The documentation is generated from `VARIABLES`.
"""

from __future__ import annotations

from msgspec import Struct


class Variable(Struct, frozen=True):
    """One environment variable: who sets it, which processes read it, and what its value is."""

    name: str
    set_by: str
    read_by: str
    description: str


VARIABLES: dict[str, Variable] = {}
"""All of them, by their names."""

USER = "the user"


def _variable(name: str, set_by: str, read_by: str, description: str) -> str:
    VARIABLES[name] = Variable(name, set_by, read_by, description)
    return name


CONF_DIR = _variable(
    "MILLSTREAM_CONF_DIR",
    USER,
    "commands, services and programs",
    "The folder of `config.yaml`; `--configDir` precedes it.",
)
CLUSTER_DIR = _variable(
    "MILLSTREAM_CLUSTER_DIR",
    f"{USER}; `cluster start`, for the services",
    "commands",
    "The directory of the local cluster; default `~/.millstream/cluster`.",
)
KERNELS = _variable(
    "MILLSTREAM_KERNELS",
    USER,
    "services, workers, `doctor`",
    "`native` or `numpy`: the implementation of the kernels. Without it, the native one where it can be loaded.",
)
CLUSTER_MEMBER = _variable(
    "MILLSTREAM_CLUSTER_MEMBER",
    "`cluster start`, for the services",
    "`cluster start`, `stop` and `status`",
    "The directory of the local cluster that a process belongs to. Inherited by all that a service starts, so that "
    "none is left behind.",
)
SECRET_OPTIONS = _variable(
    "MILLSTREAM_SECRET_OPTIONS",
    "commands, the dispatcher and the resource manager, for services and programs",
    "services and programs",
    "The number and the identity of an open descriptor, from which options with credentials are read.",
)
PROVIDER_TOKEN = _variable(
    "MILLSTREAM_PROVIDER_TOKEN",
    "the resource manager, for task managers that it starts",
    "the task manager",
    "The token with which the task manager registers, so that it is recognised as the one that was started.",
)
PROGRAM_CONFIGURATION = _variable(
    "MILLSTREAM_PROGRAM_CONFIGURATION",
    "`run`, `standalone-job` and the dispatcher",
    "the program",
    "The options that the program's environment starts with, as a JSON object.",
)
PROGRAM_ARTIFACTS = _variable(
    "MILLSTREAM_PROGRAM_ARTIFACTS",
    "`run`, `standalone-job` and the dispatcher",
    "the program",
    "The artifacts that were uploaded for the program, as a JSON list of objects with `sha256`, `name` and `kind`.",
)
PARENT_FD = _variable(
    "MILLSTREAM_PARENT_FD",
    "`standalone-job` and the dispatcher",
    "the program",
    "The number of a descriptor that is closed when the process that started the program ends; the program ends then.",
)
PLAN_FILE = _variable(
    "MILLSTREAM_PLAN_FILE",
    "`info`, `run --dry-run` and the dispatcher",
    "the program",
    "The file to which the first job that the program executes is written; the program stops there.",
)
STATES_FILE = _variable(
    "MILLSTREAM_STATES_FILE",
    "`run --dry-run`",
    "the program",
    "The file to which the states that the planned job declares are written, for which its functions are opened.",
)
VERBOSE = _variable(
    "MILLSTREAM_VERBOSE",
    "`run --dry-run -v`",
    "the program",
    "If not empty, tracebacks of functions that cannot be opened are shown.",
)
SUBMITTED_FILE = _variable(
    "MILLSTREAM_SUBMITTED_FILE",
    "the dispatcher",
    "the program",
    "The file to which the ids of submitted jobs are written; the program does not wait for the jobs.",
)
JOB_ID = _variable("MILLSTREAM_JOB_ID", "`standalone-job`", "the program", "The id of the program's only job.")
RUN_ARGUMENTS = _variable(
    "MILLSTREAM_RUN_ARGUMENTS",
    "`run`",
    "the program",
    "The options, the program and its arguments, for a shell: messages show how to run the program again.",
)
DEBUGGER_TERMINAL = _variable(
    "MILLSTREAM_DEBUGGER_TERMINAL",
    "a program in local mode, for its workers",
    "slot workers",
    "The name of the terminal that `breakpoint()` opens.",
)
