"""Valid and invalid values of `high-availability.storageDir`."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.core.snapshot.storage.uri_files import UriFiles
from millstream.core.store.storage_dir import open_storage_dir, store_folder


def configured(location: str) -> Configuration:
    return Configuration({"high-availability.storageDir": location, "high-availability.cluster-id": "mine"})


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "file://localhost{}", "FILE://{}"])
def test_a_folder_is_found_in_any_notation(tmp_path: Path, form: str) -> None:
    options = configured(form.format(tmp_path))
    assert open_storage_dir(options).artifacts == tmp_path / "mine" / "artifacts"
    assert open_storage_dir(options).checkpoints == f"file://{tmp_path}/mine/checkpoints"
    assert store_folder(options) == tmp_path / "mine" / "store"


def test_a_uri_keeps_its_credentials_and_shows_none() -> None:
    found = open_storage_dir(configured("s3://key:word@bucket/path/?region=x"))
    assert found.checkpoints == "s3://key:word@bucket/path/mine/checkpoints?region=x"
    assert isinstance(found.artifacts, UriFiles)
    assert found.artifacts.root == "s3://bucket/path/mine/artifacts"
    assert found.graphs.where("1") == "s3://bucket/path/mine/job-graphs/1"
    assert found.results.where("1") == "s3://bucket/path/mine/job-results/1"
    assert "word" not in repr(found.artifacts)


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("", "is not set"),
        ("relative/folder", "is 'relative/folder'; it has to be the absolute path"),
        ("s3:/bucket", "is 's3:/bucket'; it has to be the absolute path"),
        ("ftp://user:word@host/path", "ftp://host/path: has a scheme that is not known"),
        ("s3:///path", "names no bucket"),
        ("file://host/path", "names a host"),
    ],
)
def test_an_invalid_value_is_refused_with_the_reason(location: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason) as refused:
        open_storage_dir(configured(location))
    assert "word" not in str(refused.value)


def test_the_store_in_files_needs_a_folder() -> None:
    with pytest.raises(ConfigurationError, match="keeps its locks there: name a folder of this host") as refused:
        store_folder(configured("s3://key:word@bucket/path"))
    assert "word" not in str(refused.value)
