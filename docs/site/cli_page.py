"""The reference of the command line, generated from the definitions of the commands."""

from __future__ import annotations

from collections.abc import Iterator

import click

from millstream.cli.main import millstream

HEAD = """\
# Commands and options

Every command with all of its options, as `--help` shows them. Their use is described in
[Command line](../command-line.md).
"""


def page() -> str:
    """Returns the Markdown of the page."""
    context = click.Context(millstream, info_name="millstream")
    return "\n".join([HEAD, *_sections(context, millstream)])


def _sections(parent: click.Context, group: click.Group) -> Iterator[str]:
    for name in sorted(group.list_commands(parent)):
        command = group.get_command(parent, name)
        if command is None or command.hidden:
            continue
        context = click.Context(command, info_name=name, parent=parent)
        if isinstance(command, click.Group):
            yield from _sections(context, command)
            continue
        yield f"## {context.command_path}\n"
        yield f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```\n"
        yield f"{_text(command.help or '')}\n"
        options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
        if options:
            yield "| option | |\n|---|---|\n" + "\n".join(_row(option, context) for option in options) + "\n"


def _text(words: str) -> str:
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in words.split("\n\n"))


def _row(option: click.Option, context: click.Context) -> str:
    written = option.get_help_record(context)
    names, description = written if written is not None else (", ".join(option.opts), option.help or "")
    return f"| `{names.replace('|', chr(92) + '|')}` | {description.replace('|', chr(92) + '|')} |"
