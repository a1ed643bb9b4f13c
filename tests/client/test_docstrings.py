"""What editors show of the public API: every method has a docstring, which names each of its parameters.

A method that implements one of a base class and has no docstring of its own is described there. Methods that programs
call have an example, and functions that programs implement have one of the class. What a method raises is documented.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "site"))

from api_pages import MODULES  # noqa: E402  # the modules that the reference of the manual describes

CALLED = (
    "DataStream", "KeyedStream", "WindowedStream", "AllWindowedStream", "ConnectedStreams", "BroadcastConnectedStream",
    "AsyncDataStream", "DataStreamSink", "StreamExecutionEnvironment", "WatermarkStrategy", "RuntimeContext",
    "ValueState", "ListState", "MapState", "ReducingState", "AggregatingState", "BroadcastState", "OperatorStateStore",
)  # fmt: skip
IMPLEMENTED = (
    "MapFunction", "FlatMapFunction", "FilterFunction", "ReduceFunction", "AggregateFunction", "KeySelector",
    "Partitioner", "ProcessFunction", "KeyedProcessFunction", "CoMapFunction", "CoFlatMapFunction", "CoProcessFunction",
    "KeyedCoProcessFunction", "BroadcastProcessFunction", "KeyedBroadcastProcessFunction", "AsyncFunction",
    "JoinFunction", "FlatJoinFunction", "CoGroupFunction", "ProcessJoinFunction", "MapBatchesFunction",
    "ProcessWindowFunction", "ProcessAllWindowFunction", "WindowFunction", "AllWindowFunction", "SourceFunction",
    "SinkFunction", "CheckpointedFunction",
)  # fmt: skip
WITHOUT_EXAMPLE = {
    "DependencySettings.add_jars": "refused: there is no JVM",
    "DependencySettings.add_classpaths": "refused: there is no JVM",
    "FaultToleranceSettings.enable_changelog_state_backend": "refused: there is no changelog",
    "StreamExecutionEnvironment.add_operator": "called by streams",
    "StreamExecutionEnvironment.collect_from": "called by streams",
    "StreamExecutionEnvironment.generate_job": "called by clients",
    "KeyedStateStore.keyed_state": "implemented by the runtime",
    "KeyedStream.windowed": "called by windowed streams",
}
DESCRIBED = [module for module in MODULES if module != "millstream.spark"]  # which needs PySpark


def methods_of(exported: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class and of its bases that are ours, but for those that only implement others."""
    ours = [base for base in exported.__mro__ if base.__module__.startswith("millstream.")]
    for owner in ours:
        for name, member in vars(owner).items():
            function = getattr(member, "__func__", member)
            if not name.startswith("_") and inspect.isfunction(function) and not implements(owner, name):
                yield f"{owner.__qualname__}.{name}", function


def implements(owner: type, name: str) -> bool:
    """Whether a method without a docstring has one in a base class."""
    has_own = bool(vars(owner)[name].__doc__)
    return not has_own and any(getattr(vars(base).get(name), "__doc__", None) for base in owner.__mro__[1:])


def unnamed(function: Callable[..., Any]) -> list[str]:
    parameters = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    text = function.__doc__ or ""
    return [name for name in parameters if not re.search(rf"\b{re.escape(name)}\b", text)]


@pytest.mark.parametrize("module", DESCRIBED)
def test_docstrings_name_all_parameters(module: str) -> None:
    exported = [getattr(importlib.import_module(module), name) for name in importlib.import_module(module).__all__]
    methods = [method for value in exported if isinstance(value, type) for method in methods_of(value)]
    methods += [(value.__qualname__, value) for value in exported if inspect.isfunction(value)]
    assert [name for name, function in methods if not function.__doc__] == []
    assert {name: missing for name, function in methods if (missing := unnamed(function))} == {}


def test_the_test_sees_the_methods_of_streams() -> None:
    from millstream.datastream import KeyedStream

    names = {name for name, _ in methods_of(KeyedStream)}
    assert {"KeyedStream.reduce", "DataStream.map", "OperatorSettings.uid"} <= names


def examples(text: str | None) -> list[str]:
    """The indented blocks of a docstring."""
    blocks = re.findall(r"(?:^    .*\n|^\n(?=    ))+", inspect.cleandoc(text or "") + "\n", re.MULTILINE)
    return [textwrap.dedent(block) for block in blocks if block.strip()]


def parameters_of(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def exported_classes() -> dict[str, type]:
    modules = [importlib.import_module(module) for module in DESCRIBED]
    found = [getattr(module, name) for module in modules for name in module.__all__]
    return {value.__name__: value for value in found if isinstance(value, type)}


def test_what_programs_call_has_an_example() -> None:
    classes = exported_classes()
    methods = dict(method for name in CALLED for method in methods_of(classes[name]))
    assert len(methods) > 150
    missing = [name for name, called in methods.items() if parameters_of(called) and not examples(called.__doc__)]
    assert sorted(missing) == sorted(WITHOUT_EXAMPLE)


def test_what_programs_implement_has_an_example() -> None:
    classes = exported_classes()
    assert [name for name in IMPLEMENTED if not examples(classes[name].__doc__)] == []


def test_examples_are_python() -> None:
    classes = exported_classes().values()
    documented = {name: method.__doc__ for value in classes for name, method in methods_of(value)}
    documented |= {value.__name__: value.__doc__ for value in classes}
    for name, text in documented.items():
        for example in examples(text):
            compile(example, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_what_a_method_raises_is_documented() -> None:
    """Of errors that its own body raises."""
    methods = dict(method for value in exported_classes().values() for method in methods_of(value))
    silent = [name for name, method in methods.items() if raises(method) and "aise" not in (method.__doc__ or "")]
    assert silent == []


def raises(function: Callable[..., Any]) -> bool:
    body = ast.parse(textwrap.dedent(inspect.getsource(function)))
    raised = [node.exc for node in ast.walk(body) if isinstance(node, ast.Raise) and node.exc is not None]
    names = {ast.unparse(error.func if isinstance(error, ast.Call) else error) for error in raised}
    return bool(names - {"NotImplementedError"})
