"""What tests drive operators and tasks with, in place of their private attributes."""

from millstream.taskmanager.testing.driven_worker import DrivenWorker
from millstream.taskmanager.testing.operator_harness import (
    DEPLOYMENT,
    GivenElements,
    InlineCalls,
    KeptOutput,
    OperatorHarness,
    Snapshot,
)

__all__ = [
    "DEPLOYMENT",
    "DrivenWorker",
    "GivenElements",
    "InlineCalls",
    "KeptOutput",
    "OperatorHarness",
    "Snapshot",
]
