"""The four services as commands in the foreground."""

from __future__ import annotations

import importlib
import sys

import click

from millstream.cli.failures import Command
from millstream.cli.options import configuration_options
from millstream.core.processes.handed_down import handed_down_options, keep_to_this_process
from millstream.core.settings.configuration import Configuration


def _daemon(name: str, module: str, class_name: str, description: str) -> click.Command:
    @click.command(name, cls=Command, help=description)
    @configuration_options
    def command(config_dir: str | None, overrides: tuple[str, ...]) -> int:
        configuration = Configuration.load(config_dir, overrides).merged(handed_down_options())
        keep_to_this_process()
        from millstream.core.processes.daemon import run_service
        from millstream.core.processes.titles import set_title

        set_title(" ".join(sys.argv[1:]), "millstream.cli.main")
        service = getattr(importlib.import_module(module), class_name)
        return run_service(name, lambda options: service(options), configuration)

    return command


DAEMONS = [
    _daemon(
        "dispatcher", "millstream.dispatcher.service", "DispatcherService",
        "Run the dispatcher: REST, artifacts and the life of jobs.",
    ),
    _daemon(
        "jobmanager", "millstream.jobmanager.service", "JobManagerService",
        "Run a job manager: it schedules jobs and watches over them.",
    ),
    _daemon(
        "resourcemanager", "millstream.resourcemanager.service", "ResourceManagerService",
        "Run the resource manager: who has which slots.",
    ),
    _daemon(
        "taskmanager", "millstream.taskmanager.supervisor.service", "TaskManagerService",
        "Run a task manager: it offers slots and runs tasks in them.",
    ),
]  # fmt: skip
