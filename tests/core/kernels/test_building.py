"""What the build hook does with the C file: it compiles it when that is possible and necessary, and never fails."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from millstream.core.kernels import native

ROOT = Path(__file__).resolve().parents[3]
COMPILER = shutil.which("cc")

pytestmark = pytest.mark.process


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The build hook's module. hatchling is only where packages are built: here its base class is any class."""
    name = "hatchling.builders.hooks.plugin.interface"
    interface = ModuleType(name)
    interface.BuildHookInterface = object  # type: ignore[attr-defined]  # a module made here
    parts = name.split(".")
    for end in range(1, len(parts)):
        monkeypatch.setitem(sys.modules, ".".join(parts[:end]), ModuleType(parts[end - 1]))
    monkeypatch.setitem(sys.modules, name, interface)
    monkeypatch.delenv("CC", raising=False)
    spec = importlib.util.spec_from_file_location("hatch_build_under_test", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def tree(tmp_path: Path, hook: Any) -> Path:
    """A source tree with nothing but the kernels."""
    folder = tmp_path / hook.KERNELS
    folder.mkdir(parents=True)
    shutil.copy(ROOT / hook.KERNELS / "kernels.c", folder)
    return tmp_path


def compiler_at(path: Path, does: str) -> str:
    path.write_text(f"#!/bin/sh\n{does}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_a_wheel_with_the_library_is_one_of_its_platform(hook: Any, tree: Path) -> None:
    build_data: dict[str, Any] = {"artifacts": []}
    hook.include_kernels(tree, "standard", build_data)
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert build_data == {"artifacts": [hook.LIBRARY], "pure_python": False, "tag": f"py3-none-{platform}"}
    assert native.load(tree / hook.LIBRARY).name == "native"


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_an_editable_installation_has_the_library_beside_its_source(hook: Any, tree: Path) -> None:
    build_data: dict[str, Any] = {"artifacts": []}
    hook.include_kernels(tree, "editable", build_data)
    assert build_data == {"artifacts": [hook.LIBRARY]}
    assert (ROOT / hook.LIBRARY).relative_to(ROOT / hook.KERNELS) == native.LIBRARY.relative_to(
        Path(native.__file__).parent
    )


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_only_a_change_is_compiled_and_never_into_the_file_that_processes_have_loaded(
    hook: Any, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    monkeypatch.setenv("CC", compiler_at(tmp_path / "counting", f'echo >> {calls}; exec {COMPILER} "$@"') + " -g0")
    library, source = tree / hook.LIBRARY, tree / hook.KERNELS / "kernels.c"
    assert hook.build_kernels(tree)
    assert hook.build_kernels(tree)
    assert len(calls.read_text()) == 1
    with library.open("rb") as loaded:
        before = loaded.read()
        source.write_text(source.read_text() + "int32_t mk_more(void);\nint32_t mk_more(void) { return 1; }\n")
        assert hook.build_kernels(tree)
        assert len(calls.read_text()) == 2
        assert os.fstat(loaded.fileno()).st_ino != library.stat().st_ino
        loaded.seek(0)
        assert loaded.read() == before
    assert sorted(path.name for path in library.parent.iterdir()) == ["kernels.so", "sources.sha256"]


@pytest.mark.parametrize("compiler", ["missing", "failing"])
def test_without_a_compiler_the_package_is_built_and_one_line_says_so(
    hook: Any, tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    compiler: str,
) -> None:  # fmt: skip
    outdated = tree / hook.LIBRARY
    outdated.parent.mkdir()
    outdated.write_text("of an earlier source")
    if compiler == "failing":
        compiler_at(tmp_path / "failing", "echo 'no stdint.h'; echo 'kernels.c:1: no stdint.h' >&2; exit 1")
    monkeypatch.setenv("CC", str(tmp_path / compiler))
    build_data: dict[str, Any] = {"artifacts": []}
    hook.include_kernels(tree, "standard", build_data)
    assert build_data == {"artifacts": []}
    assert not outdated.exists(), "a library of another source would be loaded"
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(str(tmp_path / compiler))
    assert line.endswith("built without its native kernels" if compiler == "missing" else "kernels.c:1: no stdint.h")
