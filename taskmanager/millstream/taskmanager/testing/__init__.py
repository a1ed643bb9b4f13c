"""What tests drive operators and tasks with, in place of their private attributes."""

from millstream.taskmanager.testing.driven_worker import DrivenWorker
from millstream.taskmanager.testing.operator_harness import GivenElements, KeptOutput, OperatorHarness, Snapshot

__all__ = ["DrivenWorker", "GivenElements", "KeptOutput", "OperatorHarness", "Snapshot"]
