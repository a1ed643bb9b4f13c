"""Connections that the dispatcher keeps to other services."""

from __future__ import annotations

from millstream.core.clock import ManualClock
from millstream.core.settings.configuration import Configuration
from millstream.dispatcher.channels import KeptChannels


async def test_a_connection_is_kept_while_it_is_used_and_let_go_when_another_is_opened() -> None:
    clock = ManualClock()
    channels = KeptChannels(Configuration(), clock)
    used, unused = await channels.to("127.0.0.1:1"), await channels.to("127.0.0.1:2")
    clock.advance(200)
    assert await channels.to("127.0.0.1:1") is used
    clock.advance(200)
    await channels.to("127.0.0.1:3")
    assert await channels.to("127.0.0.1:1") is used
    assert await channels.to("127.0.0.1:2") is not unused
    await channels.close()
    assert await channels.to("127.0.0.1:1") is not used
    await channels.close()
