"""What a process hands to a child that no other user of the host may see: in a file in memory without a name.

Command lines are public, and environment variables are inherited by whatever the child starts. The child gets an open
descriptor, and its number with the file's identity: a process further down, which does not inherit the
descriptor, gets an error and does not read another file of the same number.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

from millstream.core.errors import ConfigurationError
from millstream.core.linux.descriptors import file_in_memory
from millstream.core.settings.variables import SECRET_OPTIONS


@contextlib.contextmanager
def handed_down(value: Any) -> Iterator[tuple[int, str]]:
    """A descriptor to pass on while a child is started, and the text by which the child finds it. The value is JSON."""
    descriptor = file_in_memory("millstream")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(json.dumps(value).encode())
        yield descriptor, f"{descriptor}:{os.fstat(descriptor).st_ino}"
    finally:
        os.close(descriptor)


def take_up(place: str) -> Any:
    """The value that was handed down. It can be taken up again. Raises ConfigurationError when it is not there."""
    number, _, identity = place.partition(":")
    try:
        if str(os.fstat(int(number)).st_ino) != identity:
            raise OSError
        return json.loads(os.pread(int(number), os.fstat(int(number)).st_size, 0))
    except (OSError, ValueError):
        raise ConfigurationError(
            f"{SECRET_OPTIONS}: options with credentials were handed to another process, and are not passed "
            "on to those that it starts; set them in this one"
        ) from None


@contextlib.contextmanager
def secret_options(options: Mapping[str, str]) -> Iterator[tuple[tuple[int, ...], dict[str, str]]]:
    """The descriptors and the environment variables by which a child gets these options: none for no options."""
    if not options:
        yield (), {}
        return
    with handed_down(dict(options)) as (descriptor, place):
        yield (descriptor,), {SECRET_OPTIONS: place}


def handed_down_options() -> dict[str, str]:
    """The options with credentials that this process was given; none when it was given none."""
    place = os.environ.get(SECRET_OPTIONS)
    return dict(take_up(place)) if place else {}


def keep_to_this_process() -> None:
    """The processes that this one starts from now on do not look for options that they do not get."""
    os.environ.pop(SECRET_OPTIONS, None)
