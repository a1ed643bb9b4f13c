"""The jobs of a job manager: one that runs, or one that was refused."""

from __future__ import annotations

from millstream.core.clock import Clock
from millstream.core.errors import MillstreamError
from millstream.core.jobs.graph import JobGraph
from millstream.core.processes.background import BackgroundTasks
from millstream.core.processes.job_process import Launcher
from millstream.core.settings.configuration import Configuration
from millstream.jobmanager.links import Links
from millstream.jobmanager.refused_job import RefusedJob
from millstream.jobmanager.restore_points import Led
from millstream.jobmanager.running_job import RunningJob

Job = RunningJob | RefusedJob


def create_job(
    graph: JobGraph,
    cluster: Configuration,
    links: Links,
    background: BackgroundTasks,
    clock: Clock,
    led: Led,
    launch: Launcher,
) -> Job:
    """Creates a job; it is refused when its settings are invalid."""
    try:
        return RunningJob(graph, cluster, links, background, clock, led, launch)
    except MillstreamError as error:
        return RefusedJob(graph, links, background, clock, led, error)
