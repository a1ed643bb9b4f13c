"""`millstream profile` and `millstream thread-dump`, and the forms that a flame graph is written in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from millstream.cli.main import main
from millstream.cli.profiles import commands, formats
from millstream.core.errors import MillstreamError
from millstream.core.inspection.flame_graph import FlameGraphType, flame_graph
from millstream.core.inspection.flame_graph_page import page
from millstream.core.messages.inspection import SampledStack

JOB = "a" * 32
STACKS = (
    SampledStack(("Map", "price (shop.py:3)", "<tax> (shop.py:9)"), True, 6),
    SampledStack(("Map", "price (shop.py:4)"), True, 3),
    SampledStack(("Sink", "[waiting; for input]"), False, 1),
)
GRAPH = flame_graph(STACKS, FlameGraphType.FULL)


def test_forms_of_a_flame_graph() -> None:
    assert formats.collapsed(GRAPH).splitlines() == [
        "Map;price (shop.py:3);<tax> (shop.py:9) 6", "Map;price (shop.py:4) 3", "Sink;[waiting, for input] 1",
    ]  # fmt: skip
    assert [(hot.name, hot.itself, hot.within) for hot in formats.hottest(GRAPH)] == [
        ("<tax> (shop.py)", 6, 6), ("price (shop.py)", 3, 9), ("[waiting; for input]", 1, 1),
    ]  # fmt: skip
    scope = json.loads(formats.speedscope(GRAPH, "v", 10))
    (profile,) = scope["profiles"]
    assert (profile["endValue"], profile["weights"]) == (100, [60, 30, 10])
    names = [frame["name"] for frame in scope["shared"]["frames"]]
    assert [names[i] for i in profile["samples"][1]] == ["Map", "price (shop.py:4)"]
    shown = page(GRAPH, "a <b>")
    assert "&lt;tax&gt; (shop.py:9): 60.0 %" in shown
    assert "<tax>" not in shown
    assert "a &lt;b&gt;" in shown
    assert "http" not in shown.replace("http://www.w3.org/2000/svg", ""), "it needs nothing from elsewhere"


def test_an_empty_graph_and_a_deep_one() -> None:
    empty = flame_graph((), FlameGraphType.FULL)
    assert (formats.collapsed(empty), formats.hottest(empty)) == ("", [])
    assert "0 samples" in page(empty, "x")
    deep = flame_graph((SampledStack(tuple(f"f{i} (a.py:{i})" for i in range(5000)), True, 1),), FlameGraphType.FULL)
    assert len(formats.hottest(deep)) == 4999
    assert page(deep, "deep").count("<rect") == 5001


class PlayedCluster:
    """Responds to a client; sampling takes two requests."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, path: str) -> Any:
        self.asked.append(path)
        if "/flamegraph" in path:
            waits = sum("/flamegraph" in one for one in self.asked) < 3
            return {
                "endTimestamp": -3 if waits else 7,
                "data": None if waits else GRAPH,
                "problems": ["slot 1: silent"],
                "samplers": ["py-spy"],
            }
        return {
            f"/jobs/{JOB}": {
                "vertices": [{"id": "v1", "name": "Source: in"}, {"id": "v2", "name": "Map -> Sink: out"}]
            },
            "/jobmanagers": {"jobmanagers": [{"id": "x" * 32, "role": "jobmanager"}]},
            "/taskmanagers": {"taskmanagers": [{"id": "127.0.0.1:7-ab"}, {"id": "127.0.0.1:8-cd"}]},
            f"/jobmanagers/{'x' * 32}/thread-dump": {"threadInfos": []},
            "/taskmanagers/127.0.0.1%3A7-ab/thread-dump": {
                "threadInfos": [{"threadName": "slot 0, job j: main", "stringifiedThreadInfo": '"main"\n  in f\n'}]
            },
        }[path]


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> PlayedCluster:
    cluster = PlayedCluster()
    monkeypatch.setattr(commands, "RestClient", lambda configuration: cluster)
    monkeypatch.setattr(commands, "_POLL", 0.0)
    return cluster


def test_profile(played: PlayedCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "-m", "h:1", JOB, "map", "--duration", "0.5", "--type", "on_cpu"]) == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[0] == "Map -> Sink: out (on_cpu): 10 samples, taken by py-spy"
    assert shown.out.splitlines()[2].split() == ["60.0", "%", "60.0", "%", "<tax>", "(shop.py)"]
    assert shown.err == "slot 1: silent\n"
    first, *others = [path for path in played.asked if "flamegraph" in path]
    assert first.startswith(f"/jobs/{JOB}/vertices/v2/flamegraph?type=on_cpu&interval=10&duration=500&runtime=false")
    assert first.endswith("&refresh=true")
    assert not any("refresh" in path for path in others), "that would begin again each time"
    for name, begins in (("g.html", "<!DOCTYPE html>"), ("g.json", '{"$schema"'), ("g.txt", "Map;price")):
        assert main(["profile", "-m", "h:1", JOB, "v2", "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_text().startswith(begins)
    assert main(["profile", "-m", "h:1", JOB, "v2", "-o", str(tmp_path / "no" / "g")]) == 1


def test_vertices_and_processes_by_name(played: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "-m", "h:1", JOB, "nothing"]) == 1
    assert "no vertex is called 'nothing': name one of them, v1 (Source: in), v2" in capsys.readouterr().err
    assert main(["profile", "-m", "h:1", JOB, "s"]) == 1
    assert "2 vertices have 's' in their name" in capsys.readouterr().err
    assert main(["thread-dump", "-m", "h:1", "127.0.0.1:7"]) == 0
    assert capsys.readouterr().out == '==> slot 0, job j <==\n"main"\n  in f\n\n'
    assert main(["thread-dump", "-m", "h:1", "jobmanager", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"threadInfos": []}
    assert main(["thread-dump", "-m", "h:1", "127"]) == 1
    assert "is no task manager and no service" in capsys.readouterr().err


@pytest.mark.parametrize(("end", "reason"), [(-2, "disabled"), (-1, "has ended")])
def test_what_cannot_be_sampled(played: PlayedCluster, end: int, reason: str) -> None:
    class Refusing(PlayedCluster):
        def get(self, path: str) -> Any:
            return {"endTimestamp": end, "data": None, "problems": []} if "flamegraph" in path else super().get(path)

    with pytest.raises(MillstreamError, match=reason):
        commands._sampled(Refusing(), "/flamegraph", 1.0, False)  # type: ignore[arg-type]  # a played one
