"""Programs as type checkers of users see them: typed samples, mistakes, the examples, and the code of the manual.

`mypy --strict` runs in this process. Pyright is a program for Node.js, and runs after `npm ci` in this folder.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from doc_blocks import ROOT, blocks_of, pages
from mypy import api

HERE = Path(__file__).parent
PYRIGHT = HERE / "node_modules" / "pyright" / "index.js"
MISTAKES = HERE / "mistakes.py"
SAMPLES = [HERE / "expected_types.py", *sorted((HERE / "jobs").glob("*.py"))]
PAGES = [page for page in pages() if any(block.language == "python" for block in blocks_of(page))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
NO_STUBS = "import-untyped", "import-not-found"  # of packages that a page is about

Errors = dict[str, list[str]]
"""Of each file by its name, each as `line: message`."""


def marked() -> set[int]:
    return {n for n, line in enumerate(MISTAKES.read_text().splitlines(), 1) if line.endswith("# mistake")}


def lines_of(errors: list[str]) -> set[int]:
    return {int(error.partition(":")[0]) for error in errors}


def code_of(page: Path) -> Iterator[tuple[str, str]]:
    """The programs of a page: one of its blocks together, and each of those that are files."""
    blocks = [block for block in blocks_of(page) if block.language == "python"]
    whole = [block.text for block in blocks if block.file is None]
    if whole:
        yield f"page_{page.stem.replace('-', '_')}.py", "\n\n".join(whole)
    for block in blocks:
        if block.file is not None:
            yield f"{page.stem.replace('-', '_')}_{block.file}", block.text


def mypy_errors(files: list[Path], *further: str) -> Errors:
    """What mypy finds as it does where Millstream is installed: without our settings."""
    options = ["--strict", "--config-file=", "--no-error-summary", "--hide-error-context", *further]
    options += [f"--cache-dir={ROOT / '.mypy_cache' / 'users'}", f"--python-executable={sys.executable}"]
    options += [f"--disable-error-code={code}" for code in NO_STUBS]
    shown, problem, status = api.run([*options, *map(str, files)])
    assert (problem, status in (0, 1)) == ("", True), shown + problem
    found: Errors = {file.name: [] for file in files}
    for line in shown.splitlines():
        if match := re.match(r"(?P<file>.*?):(?P<rest>\d+: error: .*)", line):
            found[Path(match["file"]).name].append(match["rest"].replace(" error:", "", 1))
    return found


@pytest.fixture(scope="module")
def checked() -> Errors:
    return mypy_errors([*SAMPLES, MISTAKES])


@pytest.fixture(scope="module")
def checked_examples() -> Errors:
    return mypy_errors(EXAMPLES)


@pytest.fixture(scope="module")
def checked_pages(tmp_path_factory: pytest.TempPathFactory) -> Errors:
    folder = tmp_path_factory.mktemp("code")
    files: list[Path] = []
    for page in PAGES:
        for name, text in code_of(page):
            files.append(folder / name)
            files[-1].write_text(text)
    return mypy_errors(files, "--allow-redefinition")  # the blocks of a page name their streams alike


@pytest.mark.parametrize("name", [file.name for file in SAMPLES])
def test_sample_programs_pass_mypy(checked: Errors, name: str) -> None:
    assert checked[name] == []


def test_mistakes_are_errors_of_mypy(checked: Errors) -> None:
    assert lines_of(checked[MISTAKES.name]) == marked()


@pytest.mark.parametrize("name", [file.name for file in EXAMPLES])
def test_the_examples_pass_mypy(checked_examples: Errors, name: str) -> None:
    assert checked_examples[name] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_the_manual_passes_mypy(checked_pages: Errors, page: Path) -> None:
    names = [name for name, _ in code_of(page)]
    assert names
    assert {name: checked_pages[name] for name in names} == {name: [] for name in names}


@pytest.fixture(scope="module")
def checked_by_pyright() -> Errors:
    node = shutil.which("node")
    if node is None or not PYRIGHT.is_file():
        pytest.skip(f"no pyright: call npm ci in {HERE.relative_to(ROOT)}")
    files = [str(file) for file in (*SAMPLES, MISTAKES)]
    command = [node, str(PYRIGHT), "--outputjson", "--pythonpath", sys.executable, *files]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=300, check=False)
    found: Errors = {Path(file).name: [] for file in files}
    for problem in json.loads(done.stdout)["generalDiagnostics"]:
        if problem["severity"] == "error":
            line = problem["range"]["start"]["line"] + 1
            found[Path(problem["file"]).name].append(f"{line}: {problem['message']}")
    return found


@pytest.mark.process
@pytest.mark.parametrize("name", [file.name for file in SAMPLES])
def test_programs_pass_pyright(checked_by_pyright: Errors, name: str) -> None:
    assert checked_by_pyright[name] == []


@pytest.mark.process
def test_mistakes_are_errors_of_pyright(checked_by_pyright: Errors) -> None:
    assert lines_of(checked_by_pyright[MISTAKES.name]) == marked()
