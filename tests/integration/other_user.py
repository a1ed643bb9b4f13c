"""Runs as a process of its own: becomes another user of the host, and does what its arguments request.

    python other_user.py cli list -m 127.0.0.1:8081     a command
    python other_user.py pose DISPATCHER RESOURCEMANAGER     calls services as programs and task managers do
    python other_user.py read FILE     reads a file

The interpreter may be in a folder that the other user cannot enter, so all is imported before.
"""

from __future__ import annotations

import asyncio
import encodings.idna
import http.client
import importlib
import os
import pkgutil
import sys
from collections.abc import Callable

import grpc
import yaml

import millstream.cli
from millstream.cli.main import main
from millstream.core.messages.session import Empty
from millstream.core.services.rpc import Stub, explain, open_channel
from millstream.core.services.session import Dialer
from millstream.core.settings.configuration import Configuration
from millstream.core.wire.contracts import DISPATCHER, TASK_MANAGER_AT_RESOURCE_MANAGER

NOBODY = 65534
_IMPORTED = (encodings.idna, http.client, yaml)


async def _pose(dispatcher: str, resource_manager: str) -> None:
    async with open_channel(dispatcher, Configuration()) as channel:
        try:
            print("LISTED", await Stub(channel, DISPATCHER).list_jobs(Empty(), timeout=30))
        except grpc.RpcError as error:
            print("refused:", explain(error))
    dialer = Dialer(resource_manager, TASK_MANAGER_AT_RESOURCE_MANAGER, Configuration())
    connected, reason = await dialer.dial_once("resource manager", lambda session: lambda message: None, 30)
    print("CONNECTED" if connected else "refused:", reason)


def _read(path: str) -> None:
    with open(path) as file:
        print(file.read())


def _become_another() -> None:
    for module in pkgutil.walk_packages(millstream.cli.__path__, "millstream.cli."):
        importlib.import_module(module.name)
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


if __name__ == "__main__":
    _become_another()
    actions: dict[str, Callable[..., object]] = {
        "cli": lambda *arguments: sys.exit(main(list(arguments))),
        "pose": lambda *addresses: asyncio.run(_pose(*addresses)),
        "read": _read,
    }
    actions[sys.argv[1]](*sys.argv[2:])
