"""The tool behind `make mutants` kills the mutants that a test notices, and reports the others."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from mutations import mutated, mutations_of

HERE = Path(__file__).parent
MACHINE = '''
"""A machine."""
def due(at, now, seen=()):
    """Whether it is."""
    log.info("%s", 1)
    if at < now:
        return True
    seen[0] = at == 3
    return False
'''
TEST = """
from machine import due

def test_due():
    assert due(1, 2, [0])
    assert not due(3, 2, [0])
"""
RUN = """
import sys
from pathlib import Path
sys.path[:0] = [{here!r}, {root!r}]
import mutate
targets = {{"machine.py": ("test_machine.py",)}}
root = Path({root!r})
for result in mutate.run(mutate.candidates(targets, root), targets, 2, root):
    print("killed" if result.killed else "survives", result.mutation.before, "->", result.mutation.after)
"""


def test_each_mutation_changes_one_place_and_nothing_that_only_people_read() -> None:
    found = {(m.before, m.after) for m in mutations_of("machine.py", MACHINE)}
    assert found == {
        ("if at < now:", "if at <= now:"),
        ("if at < now:", "if not at < now:"),
        ("return True", "return False"),
        ("return False", "return True"),
        ("seen[0] = at == 3", "pass"),
        ("seen[0] = at == 3", "seen[1] = at == 3"),
        ("seen[0] = at == 3", "seen[0] = at != 3"),
        ("seen[0] = at == 3", "seen[0] = at == 4"),
    }


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("return a and b", "return a or b"),
        ("return [x for x in a if x]", "return [x for x in a if not x]"),
        ("return a if b else c", "return a if not b else c"),
        ("a.add(b)", "pass"),
        ("a.n += 1", "a.n += 2"),
        ("while a is None:", "while a is not None:"),
    ],
)
def test_kinds_of_mutations(before: str, after: str) -> None:
    body = before + ("\n        pass" if before.endswith(":") else "")
    assert after in {m.after for m in mutations_of("f.py", f"def f(a, b, c):\n    {body}\n")}


@pytest.mark.parametrize(
    "body",
    ["raise OSError(1)", "assert a == 1", "assert_never(a)", "return f'{a:{1}}'", "b: int = a", "return 64"],
)
def test_what_is_left_alone(body: str) -> None:
    assert not mutations_of("f.py", f"def f(a):\n    {body}\n")


def test_a_mutated_tree_compiles() -> None:
    for mutation in mutations_of("machine.py", MACHINE):
        tree = mutated(MACHINE, mutation)
        compile(tree, "machine.py", "exec")
        assert mutation.after in ast.unparse(tree)


@pytest.mark.process
def test_a_mutant_that_a_test_notices_is_killed_and_another_one_survives(tmp_path: Path) -> None:
    (tmp_path / "machine.py").write_text(MACHINE.replace('    log.info("%s", 1)\n', ""))
    (tmp_path / "test_machine.py").write_text(TEST)
    script = RUN.format(here=str(HERE), root=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=True)
    reported = set(done.stdout.splitlines())
    assert reported >= {
        "killed if at < now: -> if not at < now:",
        "killed return True -> return False",
        "survives if at < now: -> if at <= now:",
        "survives seen[0] = at == 3 -> pass",
        "killed seen[0] = at == 3 -> seen[1] = at == 3",
    }
    assert len(reported) == 8
