"""A large collection travels in files beside the job graph, and comes back as it was."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from waiting import DEADLINE

from millstream.core.environments.artifacts import ArtifactError
from millstream.core.environments.data_files import DataFile, DataOrigin
from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import ArtifactKind
from millstream.core.messages.dispatcher import ArtifactChunk, ArtifactRequest
from millstream.core.services.rpc import serve, service_handler
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import DISPATCHER, JOB_GRAPH
from millstream.datastream import StreamExecutionEnvironment
from millstream.datastream.connectors import shipped_elements
from millstream.datastream.connectors.shipped_elements import ship


def test_elements_come_back_from_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped_elements, "INLINE", 1000)
    monkeypatch.setattr(shipped_elements, "_FILE_SIZE", 5000)
    monkeypatch.setattr(shipped_elements, "_PIECE_BYTES", 700)
    elements = [{"number": number, "text": "x" * (number % 50)} for number in range(1000)]
    shipped = ship(elements, lambda: tmp_path)
    assert shipped is not None
    assert len(shipped) == 1000
    assert len(shipped.files()) > 3
    assert [Path(file.path).stat().st_size for file in shipped.files()] == [file.size for file in shipped.files()]
    for start in (0, 1, 63, 64, 500, 999):
        reader = shipped.open()
        found: list[Any] = []
        while start + len(found) < 1000:
            taken = reader.take(start + len(found), 1000)
            assert taken
            found += taken
        assert found == elements[start:]
        assert reader.take(start, start + 1) == elements[start : start + 1], "back again"
        reader.close()


def test_a_small_collection_stays_in_the_graph(tmp_path: Path) -> None:
    assert ship([], lambda: tmp_path) is None
    assert ship(list(range(1000)), lambda: tmp_path) is None
    assert list(tmp_path.iterdir()) == []


def test_a_large_collection_is_not_in_the_graph() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([bytes([number % 256]) * 100_000 for number in range(50)]).print()
    job = env.generate_job("large")
    assert len(JOB_GRAPH.to_bytes(job.graph)) < 50_000
    data = [artifact for artifact in job.graph.artifacts if artifact.kind is ArtifactKind.DATA]
    assert [artifact.sha256 for artifact in data] == list(job.artifact_paths)
    for sha256, path in job.artifact_paths.items():
        assert hashlib.sha256(Path(path).read_bytes()).hexdigest() == sha256
    job.data.remove()
    assert not any(Path(path).exists() for path in job.artifact_paths.values())


def test_an_element_that_cannot_be_pickled_is_named() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.from_collection([*("x" * 100_000 for _ in range(20)), threading.Lock()]).print()
    with pytest.raises(InvalidProgramError, match="cannot be pickled"):
        env.generate_job("wrong")


class Dispatcher:
    def __init__(self, content: bytes) -> None:
        self._content = content

    async def download_artifact(self, request: ArtifactRequest, context: Any) -> AsyncIterator[ArtifactChunk]:
        for start in range(0, len(self._content), 1000):
            yield ArtifactChunk(data=self._content[start : start + 1000])

    def __getattr__(self, name: str) -> Any:
        async def missing(*_: Any) -> None:
            raise NotImplementedError(name)

        return missing


def test_a_task_on_another_host_fetches_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    content = bytes(range(256)) * 40
    file = DataFile(hashlib.sha256(content).hexdigest(), str(tmp_path / "gone"), len(content))
    options = Configuration({"io.tmp.dirs": str(tmp_path / "work")})
    origin = DataOrigin()
    with pytest.raises(ArtifactError, match="gone"):
        origin.open(file)

    async def scenario() -> None:
        for sent in (content, b"x" + content[1:]):
            handler = service_handler(DISPATCHER, Dispatcher(sent))
            server, port = await serve("127.0.0.1", 0, [handler], options, "test")
            origin.set(f"127.0.0.1:{port}", options)
            try:
                if sent is content:
                    with await asyncio.to_thread(origin.open, file) as opened:
                        assert opened.read() == content
                else:
                    with pytest.raises(ArtifactError, match="damaged"):
                        await asyncio.to_thread(origin.open, file)
            finally:
                await server.stop(None)

    asyncio.run(asyncio.wait_for(scenario(), DEADLINE))
    assert list((tmp_path / "work" / "data").iterdir()) == []
    Path(file.path).write_bytes(content)
    with DataOrigin().open(file) as opened:
        assert opened.read() == content, "the client's own file, on its own host"
