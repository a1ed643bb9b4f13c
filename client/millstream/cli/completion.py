"""`millstream completion`: a script that has a shell complete commands, options, and the jobs of a running cluster."""

from __future__ import annotations

import contextlib
from typing import Any

import click

from millstream.cli.failures import Command

_SHELLS = click.Choice(["bash", "zsh", "fish"])
_TIMEOUT = 2.0
_QUOTED = """case "${COMP_WORDS[COMP_CWORD]}" in
                [\\"\\']*) COMPREPLY+=("$value") ;;
                *) COMPREPLY+=("$(printf '%q' "$value")") ;;
            esac"""
_NAMES = {
    "bash": [("COMPREPLY+=($value)", _QUOTED)],
    "fish": [('string split ","', 'string split -m 1 ","')],
}
"""Replaced in click's scripts, so that names of jobs may have spaces and wildcards (bash) or commas (fish)."""


@click.command(cls=Command)
@click.argument("shell", type=_SHELLS)
def completion(shell: str) -> int:
    """Print a script that has a shell complete commands, options, and the names and ids of jobs.

    In ~/.bashrc, or in ~/.zshrc after compinit: source <(millstream completion bash), with the name of the shell. In
    ~/.config/fish/config.fish: millstream completion fish | source.
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None, "one of the shells that click supports"
    root = click.get_current_context().find_root().command
    if shell == "bash":  # click would run a bash for its version, which need not be that of the user
        kind = type("Bash", (kind,), {"_check_version": staticmethod(lambda: None)})
    script = kind(root, {}, "millstream", "_MILLSTREAM_COMPLETE").source()
    for unsafe, safe in _NAMES.get(shell, ()):
        script = script.replace(unsafe, safe)
    click.echo(script)
    return 0


def complete_job(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[Any]:
    """The ids and names of jobs that begin so. Nothing when there is no cluster."""
    from click.shell_completion import CompletionItem

    from millstream.cli.options import client_configuration
    from millstream.cli.rest import RestClient

    options = ctx.params
    with contextlib.suppress(Exception):  # a shell's prompt is no place for errors
        found = client_configuration(options.get("config_dir"), options.get("overrides") or (), options.get("address"))
        jobs = RestClient(found, timeout=_TIMEOUT, advises=False).get("/jobs/overview")["jobs"]
        names = {str(job["name"]): f"{job['state']} {job['jid']}" for job in jobs}
        ids = {str(job["jid"]): f"{job['state']} {job['name']}" for job in jobs}
        texts = {text: description for text, description in {**names, **ids}.items() if text.isprintable()}
        return [CompletionItem(text, help=about) for text, about in texts.items() if text.startswith(incomplete)]
    return []
