"""A failure as people read it, in a client's error and in logs: the traceback, then where it happened and on what."""

from __future__ import annotations

from millstream.proto import status_pb2 as pb


def failure_lines(failure: pb.TaskFailure) -> list[str]:
    """The lines; the traceback is one of them, and is followed by an empty one."""
    lines = [failure.traceback.rstrip() or failure.exception, ""]
    if failure.operator_name:
        lines.append(f"  in operator '{failure.operator_name}'")
    if failure.task_name:
        where = f" on {failure.task_manager}" if failure.task_manager else ""
        lines.append(f"  in task '{failure.task_name}'{where}")
    if failure.record:
        lines.append(f"  on the record {failure.record}")
    return lines
