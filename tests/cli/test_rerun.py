"""The command that runs a program again from another snapshot."""

from __future__ import annotations

import pytest

from millstream.cli.programs.rerun import rerun_arguments
from millstream.core.jobs.kept_checkpoint import kept_text, start_command, with_program


@pytest.mark.parametrize(
    ("words", "program", "expected"),
    [
        ("run job.py", 1, "job.py"),
        ("run -p 2 -Da.b=c job.py --rate 5 -s 7", 5, "-p 2 -Da.b=c job.py --rate 5 -s 7"),
        ("run -s /old -claim CLAIM -n job.py", 1, "-n job.py"),
        ("run --fromSavepoint=/old --claimMode=CLAIM -m host:1 -py job.py", 0, "-m host:1 -py job.py"),
        ("run -s/old -d job.py run", 2, "-d job.py run"),
        ("run -Ds3.secret-key=x -D sig=y job.py", 1, "'-Ds3.secret-key=******' -D 'sig=******' job.py"),
    ],
)  # fmt: skip
def test_the_program_is_run_as_it_was_without_its_snapshot(words: str, program: int, expected: str) -> None:
    assert rerun_arguments(["/bin/millstream", *words.split()], program) == expected


def test_words_are_quoted_for_a_shell() -> None:
    assert rerun_arguments(["millstream", "run", "my job.py", "a b"], 2) == "'my job.py' 'a b'"


def test_a_client_puts_the_program_into_what_the_services_say() -> None:
    place = "/state of/chk-7"
    text = f"the job was not restarted; {kept_text(place)}"
    assert start_command(place) == "millstream run -s '/state of/chk-7' PROGRAM"
    assert "`millstream run -s '/state of/chk-7' -p 2 job.py`" in with_program(text, place, "-p 2 job.py")
