"""What `run` and `info` are to run, from their options: the program, and the files that make its environment."""

from __future__ import annotations

from pathlib import Path

import click
from msgspec import Struct

from millstream.core.errors import InvalidProgramError
from millstream.core.jobs.graph import ArtifactKind
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.submission import WEB_UPLOAD_MAX_SIZE
from millstream.datastream.graph.configured_files import with_configured_files


class ArtifactFile(Struct, frozen=True):
    """A local file and what the job's environment does with it. `name` may differ from the file's."""

    path: Path
    kind: ArtifactKind
    name: str


class ProgramSource(Struct, frozen=True):
    """The arguments of `millstream.client.program` before the program's own, and the files."""

    selector: tuple[str, str]
    files: tuple[ArtifactFile, ...]
    arguments: tuple[str, ...]

    @property
    def imports_working_directory(self) -> bool:
        """Whether the directory that the user is in belongs on the import path, as with `python -m`."""
        return self.selector[0] == "--module"


class ProgramOptions(Struct, frozen=True):
    """The options of `run` and `info` for what to run; those for what it needs are in the configuration."""

    entry: str | None
    python_file: str | None
    module: str | None
    arguments: tuple[str, ...]


def program_source(options: ProgramOptions, configuration: Configuration, scratch: Path) -> ProgramSource:
    """Checks the options against the files that they name. Folders are packed into `scratch`."""
    job, arguments = _job_and_arguments(options)
    files = [ArtifactFile(f.path, f.kind, f.name) for f in with_configured_files(configuration, (), scratch)]
    if options.module is not None:
        return ProgramSource(("--module", options.module), tuple(files), arguments)
    assert job is not None
    path = _existing(job)
    if path.suffix == ".whl":
        from millstream.core.environments.artifacts import validate_wheel
        from millstream.core.environments.unpacking import UnpackLimits

        limits = UnpackLimits.of(configuration)
        wheel = validate_wheel(path, configuration.get(WEB_UPLOAD_MAX_SIZE), limits=limits)
        files.insert(0, ArtifactFile(path, ArtifactKind.WHEEL, path.name))
        return ProgramSource(("--entry", wheel.entry(options.entry)), tuple(files), arguments)
    if path.suffix != ".py":
        raise InvalidProgramError(f"{job} is neither a wheel (.whl) nor a Python file (.py)")
    if options.entry is not None:
        raise click.UsageError("-c names an entry point of a wheel; a Python file is run as a whole")
    return ProgramSource(("--file", str(path)), tuple(files), arguments)


def _job_and_arguments(options: ProgramOptions) -> tuple[str | None, tuple[str, ...]]:
    if options.module is not None and options.python_file is not None:
        raise click.UsageError("-py and -pym exclude each other")
    if options.module is not None:
        if options.entry is not None:
            raise click.UsageError("-c names an entry point of a wheel; -pym runs a module as a whole")
        return None, options.arguments
    if options.python_file is not None:
        return options.python_file, options.arguments
    if not options.arguments:
        raise click.UsageError("nothing to run: name a wheel or a Python file, or use -py or -pym")
    return options.arguments[0], options.arguments[1:]


def _existing(text: str) -> Path:
    path = Path(text)
    if path.is_file():
        return path
    raise InvalidProgramError(f"{text} is a folder, not a file" if path.is_dir() else f"no such file: {text}")
