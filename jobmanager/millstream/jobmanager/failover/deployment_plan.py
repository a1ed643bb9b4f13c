"""Which of the subtasks that are to be deployed are deployed now, and which wait for blocking results. Pure.

A region is deployed as a whole, once the blocking results that it consumes are available. A plan is a value: it is made
again whenever a result has become available. With pipelined edges only, everything is deployed at once.
"""

from __future__ import annotations

from collections.abc import Set

from msgspec import Struct

from millstream.jobmanager.failover.regions import PipelinedRegions
from millstream.jobmanager.failover.topology import Subtask


class DeploymentPlan(Struct, frozen=True):
    """The next step of a deployment."""

    due: frozenset[Subtask]
    """Deployed now."""
    waiting: frozenset[Subtask] = frozenset()
    """Deployed later, when the results that they consume are available."""

    @staticmethod
    def of(regions: PipelinedRegions, subtasks: Set[Subtask], available: Set[Subtask]) -> DeploymentPlan:
        """Plans the deployment of these subtasks, which are whole regions.

        `available` are the subtasks that have finished, and whose results can be read. Results of subtasks that are to
        be deployed are not available, whatever an earlier attempt has produced.
        """
        waiting = regions.blocked(available - subtasks) & subtasks
        return DeploymentPlan(frozenset(subtasks - waiting), frozenset(waiting))
