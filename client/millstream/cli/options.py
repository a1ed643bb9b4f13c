"""Options that several commands share, and the configuration that they make together."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from millstream.cli.completion import complete_job
from millstream.core.errors import ConfigurationError
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import HA_TYPE, REST_ADDRESS, REST_PORT
from millstream.core.settings.variables import CLUSTER_DIR, CONF_DIR

F = TypeVar("F", bound=Callable[..., Any])



def configuration_options(command: F) -> F:
    """`--configDir` and `-D`, as the parameters `config_dir` and `overrides`."""
    for option in (
        click.option("-D", "overrides", multiple=True, metavar="KEY=VALUE", help="Sets an option; may be repeated."),
        click.option(
            "--configDir", "config_dir", metavar="DIR", help="Where config.yaml is; default $MILLSTREAM_CONF_DIR."
        ),
    ):
        command = option(command)
    return command


def client_options(command: F) -> F:
    """What clients of a cluster take: the configuration's options, `-m`, and `-v`."""
    command = configuration_options(command)
    command = click.option("-m", "--address", metavar="HOST:PORT", help="The cluster's REST address.")(command)
    return verbose_option(command)


def verbose_option(command: F) -> F:
    """`-v`: details of failures and progress."""
    return click.option("-v", "--verbose", is_flag=True, help="Shows details.")(command)


def role_option(default: str, where: str = "with") -> Callable[[F], F]:
    """`--role` of a token; `where` it lets its owner do something: with it, or in it."""
    return click.option(
        "--role",
        type=click.Choice(["read", "operate", "submit"]),
        default=default,
        show_default=True,
        help=f"What may be done {where} it; each may do what those before it may.",
    )


def dir_option(command: F) -> F:
    """`--dir`, as the parameter `directory`."""
    help_text = f"The cluster's directory; default ${CLUSTER_DIR} or ~/.millstream/cluster."
    return click.option("--dir", "directory", metavar="DIR", help=help_text)(command)


def cluster_directory(directory: str | None) -> Path:
    """The given directory, or the default one, as an absolute path."""
    chosen = directory or os.environ.get(CLUSTER_DIR) or str(Path.home() / ".millstream" / "cluster")
    return Path(os.path.abspath(Path(chosen).expanduser()))


def client_configuration(config_dir: str | None, overrides: tuple[str, ...], address: str | None) -> Configuration:
    """A client's options, with `rest.address` and `rest.port` as they are to be used.

    Without `-m`, a configured address or a configuration directory, the cluster that `millstream cluster start` runs
    in the default directory is taken, with its configuration. With them, that of a cluster of this user's at the same
    address defines how it is secured. With high availability, its leader is looked up.
    """
    configuration = Configuration.load(config_dir, overrides)
    if address is not None:  # what is configured may be about another cluster
        return _with_security(configuration.merged({**_rest_address(address), HA_TYPE: "none"}))
    named = any(configuration.is_set(key) for key in (REST_ADDRESS, REST_PORT, HA_TYPE))
    if config_dir or named or CONF_DIR in os.environ:
        configuration = _with_security(configuration)
    else:
        local = _running_cluster()
        configuration = Configuration.load(local, overrides) if local is not None else configuration
    kind = configuration.get(HA_TYPE)
    if kind == "zookeeper" or (kind == "file" and not configuration.get(REST_PORT)):
        from millstream.cli.leading_rest import leading_rest

        return configuration.merged(leading_rest(configuration))
    return configuration


def _with_security(configuration: Configuration) -> Configuration:
    """With the secret and the certificates of the cluster there, when `millstream cluster start` of this user made it.

    The files in the cluster's folder need not be named. Options that are set stay as they are.
    """
    from millstream.cli.cluster.directory import cluster_serving

    cluster = cluster_serving(configuration, cluster_directory(None))
    if cluster is None:
        return configuration
    options = {key: value for key, value in cluster.configuration().to_dict().items() if key.startswith("security.")}
    return configuration.merged({key: value for key, value in options.items() if not configuration.is_set(key)})


def absolute_location(location: str) -> str:
    """A location that was typed here, as the cluster understands it."""
    from millstream.core.snapshot.metadata.model import absolute_location as absolute

    if not location:
        raise click.UsageError("the path is empty: write a path or a URI, such as file:///savepoints")
    return absolute(location)


def job_argument(command: F) -> F:
    """A job as users name it, as the parameter `job`; `job_names.job_id_of` returns its id."""
    return click.argument("job", metavar="JOB", shell_complete=complete_job)(command)


def _rest_address(address: str) -> dict[str, str]:
    plain = address.removeprefix("http://").removeprefix("https://")
    host, separator, port = plain.rstrip("/").rpartition(":")
    if not separator or not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise ConfigurationError(f"-m {address}: write it as -m host:port")
    return {REST_ADDRESS: host, REST_PORT: port}


def _running_cluster() -> Path | None:
    from millstream.cli.cluster.directory import ClusterDirectory

    cluster = ClusterDirectory(cluster_directory(None))
    return cluster.conf if cluster.is_running() and (cluster.conf / "config.yaml").exists() else None
