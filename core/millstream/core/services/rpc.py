"""gRPC services and stubs, bound from the contracts in `millstream.proto`, and servers and channels.

Servers and channels use mutual TLS when it is configured or the cluster has a secret (`identity`). Everything here runs
on an asyncio loop.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import grpc
from google.protobuf.descriptor import MethodDescriptor

from millstream.core.errors import MillstreamError
from millstream.core.logs.printable import printable
from millstream.core.processes.forking import keep_port_from_children
from millstream.core.services.liveness import Liveness
from millstream.core.services.security import (
    channel_credentials,
    check_listen,
    explained_handshake,
    server_credentials,
)
from millstream.core.settings.configuration import Configuration
from millstream.core.settings.options.services import RPC_MESSAGE_MAX_SIZE, SSL_INTERNAL_ENABLED
from millstream.core.wire.contract import ServiceContract, SessionContract
from millstream.core.wire.wire import Wire, WireError

log = logging.getLogger(__name__)
MAX_SIZE = RPC_MESSAGE_MAX_SIZE
_HANDSHAKE_MS = 10_000  # a connection that has not sent the HTTP/2 preface by then is closed
_OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.max_metadata_size", 1024 * 1024),
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),  # web proxies do not connect to the services of a cluster
]


def _options(configuration: Configuration) -> list[tuple[str, int]]:
    limit = configuration.get(MAX_SIZE)
    return [("grpc.max_receive_message_length", limit), ("grpc.max_send_message_length", limit), *_OPTIONS]


def too_large(what: str, size: int, configuration: Configuration) -> str:
    """Returns why a message of this size cannot be sent, with advice; empty when it can."""
    limit = configuration.get(MAX_SIZE)
    if size <= limit:
        return ""
    return (
        f"{what} has {size / 2**20:.1f} MiB, more than {MAX_SIZE} allows ({limit / 2**20:g} MiB): keep large data out "
        "of the program, in files that a source or a function reads, or raise the option for all services and programs"
    )


def service_handler(contract: ServiceContract, implementation: object) -> grpc.GenericRpcHandler:
    """Binds each method of the contract to the implementation's method of the same name in snake_case.

    Calls receive and return the contract's messages; a session's method gets a stream of bytes (`serve_session`). Bytes
    that are not a message of the contract are refused with the reason before the implementation is called.
    """
    makers = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    handlers: dict[str, Any] = {}
    for method in contract.service.methods:
        request, response = contract.wires[method.name]
        behaviour = getattr(implementation, _snake(method.name))
        handlers[method.name] = makers[method.client_streaming, method.server_streaming](
            behaviour if request is None else _reading(behaviour, request, method),
            response_serializer=response.to_bytes if response else None,
        )
    return grpc.method_handlers_generic_handler(contract.service.full_name, handlers)


def _reading(behaviour: Callable[..., Any], wire: Wire[Any], method: MethodDescriptor) -> Callable[..., Any]:
    """Wraps a call's method so that it decodes bytes; gRPC's own decoding reports invalid ones as internal errors."""

    async def read(raw: bytes, context: Any) -> Any:
        try:
            return wire.from_bytes(raw)
        except WireError as error:
            refusal = printable(str(error))
            log.warning("refused a call of %s from %s: %s", method.name, context.peer(), refusal)
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, refusal)

    async def read_each(messages: AsyncIterator[bytes], context: Any) -> AsyncIterator[Any]:
        async for raw in messages:
            yield await read(raw, context)

    async def call(raw: Any, context: Any) -> Any:
        return await behaviour(await read(raw, context), context)

    async def call_with_stream(messages: Any, context: Any) -> Any:
        return await behaviour(read_each(messages, context), context)

    async def stream(raw: Any, context: Any) -> AsyncIterator[Any]:
        async with contextlib.aclosing(behaviour(await read(raw, context), context)) as responses:
            async for response in responses:
                yield response

    if method.server_streaming:
        return stream
    return call_with_stream if method.client_streaming else call


@functools.cache
def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")


class Stub:
    """A client of one service: each call of the contract, in snake_case, as an aio multi-callable."""

    def __init__(self, channel: grpc.aio.Channel, contract: ServiceContract) -> None:
        kinds: dict[tuple[bool, bool], Callable[..., Any]] = {
            (False, False): channel.unary_unary,
            (False, True): channel.unary_stream,
            (True, False): channel.stream_unary,
            (True, True): channel.stream_stream,
        }
        self._methods: dict[str, Callable[..., Any]] = {}
        for method in contract.service.methods:
            request, response = contract.wires[method.name]
            self._methods[_snake(method.name)] = kinds[method.client_streaming, method.server_streaming](
                f"/{contract.service.full_name}/{method.name}",
                request_serializer=request.to_bytes if request else None,
                response_deserializer=response.from_bytes if response else None,
            )

    def __getattr__(self, name: str) -> Callable[..., Any]:
        try:
            return self._methods[name]
        except KeyError:
            raise AttributeError(name) from None


def session_call(channel: grpc.aio.Channel, contract: SessionContract[Any, Any]) -> Any:
    """Opens a session: a stream of bytes in both directions."""
    return channel.stream_stream(f"/{contract.service.full_name}/{contract.method}")(wait_for_ready=False)


TAKEN: Final = (("millstream-session", "taken"),)
"""The initial metadata of an accepted session."""


async def taken(call: Any) -> None:
    """Waits until the peer has accepted a session. Raises `grpc.RpcError`, with the reason of a refusal.

    Nothing may be sent before: if a message meets a refusal, gRPC reports only "Internal error from Core".
    """
    await call.wait_for_connection()
    if not await call.initial_metadata():
        raise rpc_error(await call.code(), await call.details())


async def serve(
    host: str, port: int, handlers: list[grpc.GenericRpcHandler], configuration: Configuration, key: str
) -> tuple[grpc.aio.Server, int]:
    """Starts a server; returns it with its port. `key` is the option that errors about listening name."""
    check_listen(host, configuration, SSL_INTERNAL_ENABLED, key)
    server = grpc.aio.server(
        options=[
            *_options(configuration),
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MS),
        ]
    )
    server.add_generic_rpc_handlers(tuple(handlers))
    credentials = server_credentials(configuration)
    try:
        if credentials is None:
            bound = server.add_insecure_port(f"{host}:{port}")
        else:
            bound = server.add_secure_port(f"{host}:{port}", credentials)
    except RuntimeError as error:
        raise MillstreamError(f"cannot listen on {host}:{port} ({key}): is the port in use?") from error
    if bound == 0:
        raise MillstreamError(f"cannot listen on {host}:{port} ({key}): is the port in use?")
    keep_port_from_children(f"{host}:{bound}")
    await server.start()
    return server, bound


def open_channel(address: str, configuration: Configuration) -> grpc.aio.Channel:
    """Opens a channel to a peer; nothing is sent until it is used."""
    return dialled(address, configuration, _options(configuration))


def channel_for_calls(address: str, configuration: Configuration) -> grpc.aio.Channel:
    """Opens a channel for calls, which have no heartbeats as sessions do.

    Calls in progress fail when the peer does not respond for `heartbeat.timeout`, because it is frozen or disconnected:
    otherwise they would wait until the system closes the connection, which takes a quarter of an hour or longer. gRPC's
    own threads respond, so a busy service is not affected.
    """
    liveness = Liveness(configuration, now=0.0)
    timeout = round(1000 * liveness.timeout)
    options = [
        ("grpc.keepalive_time_ms", round(1000 * liveness.interval)),
        ("grpc.keepalive_timeout_ms", timeout),
        ("grpc.http2.ping_timeout_ms", timeout),
        ("grpc.http2.max_pings_without_data", 0),  # any number
    ]
    return dialled(address, configuration, [*_options(configuration), *options])


def dialled(address: str, configuration: Configuration, options: list[tuple[str, int]]) -> grpc.aio.Channel:
    """Opens a channel with these options, secured as configured."""
    keep_port_from_children(address)
    credentials, secured = channel_credentials(configuration)
    if credentials is None:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, credentials, options=[*options, *secured])


def rpc_error(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    """Returns an error with this status, like that of a failed call."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)


def explain(error: grpc.RpcError) -> str:
    """Returns the peer's reason why a call failed, on one line."""
    details = str(getattr(error, "details", lambda: "")() or "")
    if handshake := explained_handshake(details):
        return handshake
    code = getattr(error, "code", lambda: None)()
    if code is grpc.StatusCode.RESOURCE_EXHAUSTED and "larger than max" in details:
        return (
            f"a message is larger than {MAX_SIZE} allows ({' '.join(str(details).split())}): keep large data out of "
            "the program, in files that a source or a function reads, or raise the option for all services and programs"
        )
    return " ".join(str(details).split()) or (code.name if code is not None else type(error).__name__)
