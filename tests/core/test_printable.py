"""Names in a line of text."""

from __future__ import annotations

from millstream.core.jobs.ids import AllocationId, JobId
from millstream.core.logs.printable import printable
from millstream.core.messages.task_manager import StartWorker
from millstream.taskmanager.worker.process import where


def test_line_breaks_are_escaped() -> None:
    assert printable("naïve 'job' %s {}") == "naïve 'job' %s {}"
    assert printable("a\nb\x1b[31m\u2028\udcff") == r"a\nb\x1b[31m\u2028\udcff"


def test_the_log_of_a_worker_has_the_name_of_its_job_in_one_line() -> None:
    start = StartWorker(AllocationId("a"), JobId("ab"), job_name="two\nlines")
    assert where(start, []).text == r"two\nlines (ab)"
