"""A real S3 API on loopback, for the storage tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs


@pytest.fixture(scope="session")
def s3_root() -> Iterator[str]:
    """The URI of a bucket without its options, and the options: `s3://key:secret@bucket` and `?...`."""
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        options = f"scheme=http&endpoint_override={host}:{port}&region=us-east-1&allow_bucket_creation=true"
        uri = f"s3://testkey:testsecret@bucket/{{path}}?{options}"
        system, path = fs.FileSystem.from_uri(uri.format(path=""))
        system.create_dir(path.rstrip("/"))
        yield uri
    finally:
        server.stop()
