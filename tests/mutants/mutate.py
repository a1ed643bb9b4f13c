"""`make mutants SEED=1 COUNT=300`: small mutations of the pure machines, each run against the tests beside it.

A mutant is killed when one of these tests fails, or takes far more time of the processor than without it. One that
survives is a line that no test needs: it lacks a test, or it does nothing. `FILES=...` names the machines to mutate
(`targets.py` has all). Each mutant is run in a process of its own, which is forked with all libraries loaded and
imports the changed file in place of the one on the disk. The exit status is 1 when fewer than 98 % are killed.
"""

from __future__ import annotations

import argparse
import ast
import importlib.abc
import importlib.machinery
import importlib.util
import math
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import CodeType, ModuleType

import hypothesis.stateful
import pyarrow
import pytest
from equivalents import EQUIVALENTS
from hypothesis import HealthCheck, Phase, settings
from mutations import Mutation, mutated, mutations_of
from targets import TARGETS

ROOT = Path(__file__).parents[2]
ENOUGH = 0.98
_LOADED = (hypothesis.stateful, pyarrow)
"""Before the first fork: mutants need not load these again."""
_FLAGS = (
    "-x", "-q", "-p", "no:cacheprovider", "--no-header", "--tb=line", "--assert=plain",
    "-m", "not process and not long", "--hypothesis-profile=mutants",
)  # fmt: skip
_EXAMPLES = 50
_LEAST_LIMIT = 20  # seconds of the processor, which are the same on a busy machine
_TIMES_AS_LONG = 10


@dataclass(frozen=True)
class Result:
    """What became of a mutant; `words` are the last of the tests' output."""

    mutation: Mutation
    killed: bool
    how: str
    words: str = ""


class BrokenTestsError(Exception):
    """The tests fail without any mutation."""


class _Child:
    """A process that runs tests, with a mutation or without."""

    def __init__(self, mutation: Mutation | None, tests: Sequence[str], limit: int, root: Path) -> None:
        self.mutation = mutation
        self.seconds = 0.0
        """Of the processor, when it has ended."""
        self._limit = limit
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `ended`
        sys.stdout.flush()
        self._pid = os.fork()
        if self._pid == 0:
            status = 3
            try:
                status = self._run(tests, root)
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)

    def _run(self, tests: Sequence[str], root: Path) -> int:
        resource.setrlimit(resource.RLIMIT_CPU, (self._limit, resource.RLIM_INFINITY))
        for stream in (1, 2):
            os.dup2(self._output.fileno(), stream)
        os.chdir(root)
        if self.mutation is not None:
            tree = mutated((root / self.mutation.path).read_text(), self.mutation)
            sys.meta_path.insert(0, _Finder(root / self.mutation.path, tree))
        return int(pytest.main([*_FLAGS, *tests]))

    def poll(self) -> tuple[int, str] | None:
        """The exit status when it has ended, and what it wrote."""
        pid, status, used = os.wait4(self._pid, os.WNOHANG)
        if not pid:
            return None
        self.seconds = used.ru_utime + used.ru_stime
        return os.waitstatus_to_exitcode(status), self._words()

    def _words(self) -> str:
        self._output.seek(0)
        written = self._output.read().decode(errors="replace")
        self._output.close()
        return written[-2_000:]


class _Finder(importlib.abc.MetaPathFinder):
    """Imports one module from the mutated tree."""

    def __init__(self, path: Path, tree: ast.Module) -> None:
        start = path.parts.index("millstream") if "millstream" in path.parts else len(path.parts) - 1
        self._name = ".".join((*path.parts[start:-1], path.stem))
        self._path = str(path)
        self._code = compile(tree, self._path, "exec")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=_Loader(self._name, self._code))


class _Loader(importlib.abc.Loader):
    def __init__(self, name: str, code: CodeType) -> None:
        self._name = name
        self._code = code

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code, vars(module))  # what an import does


def candidates(files: Iterable[str], root: Path = ROOT) -> list[Mutation]:
    """All mutations of the files, but those that are known to change nothing."""
    return [m for file in files for m in mutations_of(file, (root / file).read_text()) if m.name not in EQUIVALENTS]


def run(
    sample: Sequence[Mutation],
    targets: dict[str, tuple[str, ...]],
    jobs: int,
    root: Path = ROOT,
    on_result: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Each mutation, against the tests of its file. Raises BrokenTestsError when these fail without it."""
    settings.register_profile(
        "mutants", max_examples=_EXAMPLES, deadline=None, derandomize=True, database=None,
        suppress_health_check=[HealthCheck.too_slow],
        phases=(Phase.explicit, Phase.generate),  # the smallest case that fails is not asked for, and takes long
    )  # fmt: skip
    limits = _limits({mutation.path for mutation in sample}, targets, root)
    waiting, running, results = list(reversed(sample)), list[_Child](), list[Result]()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutation = waiting.pop()
            running.append(_Child(mutation, targets[mutation.path], limits[mutation.path], root))
        for child in list(running):
            ended = child.poll()
            if ended is not None:
                running.remove(child)
                results.append(_result(child.mutation, *ended))
                on_result(results[-1])
        time.sleep(0.01)
    return results


def _result(mutation: Mutation | None, status: int, words: str) -> Result:
    assert mutation is not None
    if status == -signal.SIGXCPU:
        return Result(mutation, True, "took too long", words)
    return Result(mutation, status != 0, f"exit status {status}", words)


def _limits(files: Iterable[str], targets: dict[str, tuple[str, ...]], root: Path) -> dict[str, int]:
    """How long the tests of each file may compute, by how long they do without a mutation."""
    limits: dict[str, int] = {}
    taken: dict[tuple[str, ...], float] = {}
    for file in sorted(files):
        tests = targets[file]
        if tests not in taken:
            child = _Child(None, tests, 600, root)
            while (ended := child.poll()) is None:
                time.sleep(0.01)
            if ended[0] != 0:
                raise BrokenTestsError(f"{' '.join(tests)} fail without a mutation:\n{ended[1]}")
            taken[tests] = child.seconds
        limits[file] = max(_LEAST_LIMIT, _TIMES_AS_LONG * math.ceil(taken[tests]))
    return limits


def _show(result: Result) -> None:
    if not result.killed:
        print(f"survives: {result.mutation}", flush=True)


def main() -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", help="machines to mutate; all by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--part", default="1/1", help="2/4: the second quarter of the sample")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments = parser.parse_args()
    if unknown := [file for file in arguments.files if file not in TARGETS]:
        parser.error(f"{unknown[0]} is not in tests/mutants/targets.py, which names: {', '.join(TARGETS)}")
    found = candidates(arguments.files or TARGETS)
    sample = Random(arguments.seed).sample(found, min(arguments.count, len(found)))
    part, _, parts = arguments.part.partition("/")
    sample = sample[int(part) - 1 :: int(parts)]
    began, total = time.monotonic(), len(sample)
    results = run(sample, TARGETS, arguments.jobs, on_result=_show)
    killed = sum(result.killed for result in results)
    slow = sum(result.how == "took too long" for result in results)
    print(
        f"{killed} of {total} mutants killed ({killed / max(total, 1):.1%}), {slow} of them by time, "
        f"in {time.monotonic() - began:.0f} s; of {len(found)} in {len(arguments.files or TARGETS)} files"
    )
    return 0 if killed >= ENOUGH * total else 1


if __name__ == "__main__":
    sys.exit(main())
