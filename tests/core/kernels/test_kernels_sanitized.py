"""The suites of this folder once more, with a library that has the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from library_under_test import LIBRARY_VARIABLE

from millstream.core.kernels import native

HERE = Path(__file__).parent
SOURCE = Path(native.__file__).with_name("kernels.c")
STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror", "-shared", "-fPIC")
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-DMILLSTREAM_KERNELS_TESTED")

pytestmark = pytest.mark.process


def runtimes(compiler: str) -> list[str]:
    """What has to be loaded before Python; a test is skipped where the compiler has no sanitizers."""
    paths = []
    for name in ("libasan.so", "libstdc++.so"):
        shown = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False)
        path = Path(shown.stdout.strip())
        if not path.is_absolute():
            pytest.skip(f"{compiler} has no {name}")
        paths.append(str(path.resolve()))
    return paths


def test_the_suites_pass_under_sanitizers(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    preloaded = runtimes(compiler)
    library = tmp_path / "kernels.so"
    subprocess.run([compiler, *STRICT, *SANITIZED, str(SOURCE), "-o", str(library)], check=True)
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-k", "not numpy", "-p", "no:cacheprovider",
            "--hypothesis-profile=daily", *map(str, sorted(HERE.glob("test_*index.py"))),
            str(HERE / "test_hashes.py"), str(HERE / "test_key_encoding.py"), str(HERE / "test_memory.py"),
        ],
        env={
            **os.environ, LIBRARY_VARIABLE: str(library), "LD_PRELOAD": " ".join(preloaded),
            # Python frees little at its end: test_memory.py counts what the library has
            "ASAN_OPTIONS": "detect_leaks=0", "UBSAN_OPTIONS": "print_stacktrace=1",
        },
        capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-5000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout
