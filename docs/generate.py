"""Writes docs/configuration.md and docs/metrics.md from the tables in code: `make docs`.

With `--check`, it only checks whether they are current. A test runs that, so that the pages stay in sync.
"""

from __future__ import annotations

import sys
from pathlib import Path

from millstream.core.metrics.descriptions import TABLE, Described
from millstream.core.metrics.model import Scope
from millstream.core.metrics.reporting.prometheus import prometheus_name
from millstream.core.settings.options import OPTIONS, Option, OptionType
from millstream.core.settings.variables import VARIABLES

PAGE = Path(__file__).resolve().parent / "configuration.md"
METRICS = Path(__file__).resolve().parent / "metrics.md"
BEGIN, END = "<!-- generated: begin -->", "<!-- generated: end -->"

HEAD = """\
# Configuration

<!-- Written by docs/generate.py from core/millstream/core/settings/options; `make docs` writes it again. -->

Options are read from three places, each of which takes precedence over the one before:

1. `config.yaml` in the folder that `--configDir` or `$MILLSTREAM_CONF_DIR` names, with nested or dotted keys;
2. `-D key=value` on the command line, as often as needed;
3. for jobs, the options that the program sets on its environment, and on operators.

Keys, meanings and the syntax of values are Flink's wherever Flink has the option. A key of a former version of Flink is
replaced by the current one, with a warning. An unknown key in a namespace of Flink or Millstream (`rest.`, `table.`,
...) is an error that names the closest known key. Any other key is user-defined: it is sent with the job, and functions
read it with `get_job_parameter("my.key")` or `get_job_parameters()` of the runtime context. A user-defined key in the
configuration of a cluster is a parameter of all its jobs.

On a cluster, each service has its own options, and a job is sent with those of its program. The column *job* shows
which value applies: `yes`, the job's value takes precedence over the services'; `lower`, the smaller of both, so that a
job can reduce a limit but not raise it; `no`, only that of the service, or of the client for its own operations. A job
may set options that have no effect, because programs often read the cluster's `config.yaml`. `python job.py` starts its
own services, with all of its options.

Durations are written as `10 s`, `100 ms`, `5 min`; a number without a unit is milliseconds. Memory sizes are written as
`64 mb`, `1 gb`; a number without a unit is bytes. A sample file is in `deploy/config.yaml`.

```yaml
taskmanager:
  numberOfTaskSlots: 4
rest.port: 8081
heartbeat.timeout: 30 s
```
"""

SECTIONS = {
    "Services and security": (
        "dispatcher.", "jobmanager.", "resourcemanager.rpc", "taskmanager.host", "taskmanager.rpc", "rest.",
        "health.", "heartbeat.", "registration.", "security.", "io.", "logging.", "env.", "taskmanager.prints",
    ),
    "High availability": ("high-availability.",),
    "Submission": ("web.", "jobstore.", "python."),
    "Slots and scheduling": (
        "taskmanager.numberOfTaskSlots", "slot.", "resourcemanager.", "slotmanager.", "parallelism.", "pipeline.",
        "task.", "worker.",
    ),
    "Execution": ("execution.",),
    "State and restarts": ("state.", "restart-strategy."),
    "Data exchange": ("taskmanager.memory.", "taskmanager.network."),
    "Metrics": ("metrics.",),
}  # fmt: skip
OTHER = "Other"


def section_of(key: str) -> str:
    """The first section that has a prefix of the key."""
    return next((name for name, prefixes in SECTIONS.items() if key.startswith(prefixes)), OTHER)


def written(option: Option) -> str:
    """A default as one would write it."""
    value = option.default
    match option.type:
        case OptionType.DURATION:
            return f"{value * 1000:g} ms" if 0 < value < 1 else f"{value:g} s"
        case OptionType.MEMORY:
            for unit, size in (("gb", 1024**3), ("mb", 1024**2), ("kb", 1024)):
                if value and value % size == 0:
                    return f"{value // size} {unit}"
            return str(value)
        case OptionType.BOOL:
            return str(value).lower()
        case OptionType.MAP:
            return ",".join(f"{name}:{item}" for name, item in value.items())
        case _:
            return str(value)


def row(option: Option) -> str:
    """A line of a table."""
    default = f"`{written(option)}`" if written(option) else "(empty)"
    kind = " or ".join(f"`{choice}`" for choice in option.choices) if option.choices else option.type.value
    if option.type is OptionType.MAP:
        kind = f"map to {kind}"
    return f"| `{option.key}` | {kind} | {default} | {option.job_may.value} | {option.description} |"


def page() -> str:
    """The whole page."""
    sections: dict[str, list[Option]] = {name: [] for name in (*SECTIONS, OTHER)}
    for option in OPTIONS.values():
        sections[section_of(option.key)].append(option)
    parts = [HEAD]
    for name, options in sections.items():
        if options:
            table = ["| key | value | default | job | what it does |", "|---|---|---|---|---|", *map(row, options)]
            parts.append(f"## {name}\n\n" + "\n".join(table) + "\n")
    return "\n".join([*parts, ENVIRONMENT, variables_table()])


ENVIRONMENT = """\
## Environment variables

Those of the user, and those by which commands, programs and services pass on to each other what was chosen for them. A
variable that is not set by the user is no interface: its value may change with each version.
"""


def variables_table() -> str:
    """The table of environment variables."""
    rows = [f"| `{v.name}` | {v.set_by} | {v.read_by} | {v.description} |" for v in VARIABLES.values()]
    return "\n".join(["| variable | set by | read by | value |", "|---|---|---|---|", *rows]) + "\n"


SCOPES = {
    Scope.JOB_MANAGER: ("Job manager", "host, service"),
    Scope.JOB: ("Job", "host, job_id, job_name"),
    Scope.JOB_MANAGER_OPERATOR: (
        "Coordinator of a source", "host, job_id, job_name, task_id, operator_id, operator_name"
    ),
    Scope.TASK_MANAGER: ("Task manager", "host, tm_id"),
    Scope.TASK_MANAGER_JOB: ("Job, on a task manager", "host, tm_id, job_id, job_name"),
    Scope.TASK: (
        "Task",
        "host, tm_id, job_id, job_name, task_id, task_name, task_attempt_id, task_attempt_num, subtask_index",
    ),
    Scope.OPERATOR: ("Operator", "those of its task, operator_id, operator_name"),
}


def exported_name(described: Described) -> str:
    """A metric as Prometheus has it."""
    groups = [part for part in described.group.split(".") if part and not part.startswith("<")]
    return prometheus_name((*described.scope.split("."), *groups, described.name))


def metrics_tables() -> str:
    """The part of docs/metrics.md that comes from the table of metrics."""
    parts = []
    for scope, (title, variables) in SCOPES.items():
        lines = [f"### {title}", "", f"Variables: {variables}.", "", "| name | kind | meaning |", "|---|---|---|"]
        for row in TABLE:
            if row.scope is scope:
                name = f"{row.group}.{row.name}" if row.group else row.name
                lines.append(f"| `{name}` | {row.kind.value} | {row.meaning} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def metrics_page() -> str:
    """docs/metrics.md with its tables renewed."""
    before, _, rest = METRICS.read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n\n{metrics_tables()}\n\n{END}{rest.partition(END)[2]}"


def main(arguments: list[str]) -> int:
    """Writes or checks the pages; returns the exit status."""
    pages = {PAGE: page(), METRICS: metrics_page()}
    if arguments == ["--check"]:
        late = [path for path, text in pages.items() if not path.exists() or path.read_text() != text]
        for path in late:
            print(f"{path} is not up to date: run `make docs`", file=sys.stderr)
        return 1 if late else 0
    for path, text in pages.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
