from __future__ import annotations

from typing import Any

from millstream.client.failure_text import failure_text
from millstream.client.job_story import JobStory
from millstream.core.jobs.details import JobDetails
from millstream.core.jobs.failures import TaskFailure
from millstream.core.jobs.ids import JobId
from millstream.core.jobs.states import JobStatus

JOB = JobId("a" * 32)
END = [
    f"Job 'words' ({JOB}) is FINISHED after 2.5 s",
    f"What its tasks printed: millstream logs --out {JOB}; without --out what they logged. Both are in the files "
    "log/taskmanager-* in the cluster's folder",
]


def details(state: str, message: str = "", *failures: TaskFailure, **more: Any) -> JobDetails:
    return JobDetails(JOB, "words", JobStatus(state), message=message, failures=failures, **more)


def failed(restart: int, times: int = 1, exception: str = "ValueError: bad", signature: str = "s") -> TaskFailure:
    return TaskFailure(
        exception=exception, traceback=f"Traceback:\n{exception}\n" if signature else exception, signature=signature,
        operator_name="parse", task_name="parse (1/2)", record="'x'", times=times, restart=restart,
        restart_delay_ms=1500,
    )  # fmt: skip


def test_states_are_reported_once() -> None:
    story = JobStory(everything=True)
    assert story.news(details("CREATED", "waiting for slots: 0 of 2")) == []
    assert story.news(details("RUNNING")) == ["Job 'words' is running"]
    assert story.news(details("RUNNING")) == []
    assert story.news(details("FINISHED", start_time=1000, end_time=3500)) == END
    assert story.news(details("FINISHED", start_time=1000, end_time=3500)) == []


def test_what_is_waited_for_is_reported_until_it_came() -> None:
    story = JobStory(everything=True)
    line = "Job 'words': waiting for slots: 1 of 4"
    waiting = details("CREATED", "waiting for slots: 1 of 4")
    assert story.waiting(waiting) == story.waiting(waiting) == line
    story.waited(line)
    assert story.waiting(waiting) == ""
    assert story.waiting(details("CREATED", "installing numpy: Collecting numpy")) == "Job 'words': installing numpy"
    assert story.waiting(details("RUNNING")) == ""
    assert story.waiting(details("FAILED", "the job was not restarted")) == ""
    assert JobStory(everything=False).waiting(waiting) == ""


def test_every_restart_is_reported_and_each_traceback_once() -> None:
    story = JobStory(everything=False)
    first, second = failed(1), failed(2, times=2, exception="ValueError: bad again")
    lost = failed(3, 0, "SlotLost: killed by SIGKILL", signature="")
    cause = "in operator 'parse', at the record 'x'"
    assert story.news(details("RESTARTING", "", first)) == [
        "Traceback:\nValueError: bad", "  in operator 'parse'", "  in task 'parse (1/2)'", "  on the record 'x'",
        f"Job 'words': restart 1 in 1.5 s: ValueError: bad, {cause}",
    ]  # fmt: skip
    assert story.news(details("RUNNING", "", first)) == []
    assert story.news(details("RUNNING", "", lost, second, first)) == [
        f"Job 'words': restart 2 in 1.5 s: the same error, 2nd time: ValueError: bad again, {cause}",
        f"Job 'words': restart 3 in 1.5 s: SlotLost: killed by SIGKILL, {cause}",
    ], "also those that came between two reports"
    assert story.has_shown(failed(0, times=3))
    assert not story.has_shown(failed(0, signature="other"))


def test_a_cause_that_takes_the_place_of_its_echo_is_reported() -> None:
    story = JobStory(everything=False)
    echo = failed(1, 0, "PeerLostError: lost parse")
    story.news(details("RESTARTING", "", echo))
    (*_, line) = story.news(details("RESTARTING", "", failed(1, signature="cause")))
    assert line.startswith("Job 'words': restart 1 in 1.5 s: ValueError: bad")


def test_the_failure_of_a_job_refers_to_what_was_shown_and_explains_why_there_was_no_restart() -> None:
    ended = details("FAILED", "the job was not restarted: see the option", failed(0, times=3))
    assert failure_text(ended).startswith("Traceback:\nValueError: bad\n")
    assert failure_text(ended).endswith("  the job was not restarted: see the option")
    shown = failure_text(ended, traceback_shown=True)
    assert shown.startswith("ValueError: bad (the same error, 3rd time; its traceback is above)\n")
    assert "Traceback" not in shown
