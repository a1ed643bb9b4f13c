"""Calls between processes of which each shows the other that it has the cluster's secret: one place decides it.

A server's handlers are behind a `guarded` one: a call without a valid proof is refused before any of its messages is
read. A client's channel is a `ProvingChannel`: of a server that does not answer the proof nothing is believed, and a
stream sends nothing to it. This is once for each call or session; messages cost nothing. Without a secret, calls are as
gRPC has them, but one that carries a proof is refused: its sender waits for an answer to it.

Owned by the asyncio loop of the channel or server.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from typing import Any

import grpc

from millstream.core.services.cluster_secret import SECRET_FILE, ClusterSecret, Proof, ProofError

log = logging.getLogger(__name__)
PROOF = "millstream-proof"
_ANSWER = "millstream-answer"
_PATIENCE = 30.0
_END_OF_REFUSED = 1.0
_NO_SECRET = (
    f"this service has no cluster secret, and the client has one: set '{SECRET_FILE}' for both of them, or for neither"
)


def guarded(handler: grpc.GenericRpcHandler, secret: ClusterSecret | None) -> grpc.GenericRpcHandler:
    """The same services, for callers who have the secret."""
    return _Guard(handler, secret)


class _Guard(grpc.GenericRpcHandler):
    def __init__(self, handler: grpc.GenericRpcHandler, secret: ClusterSecret | None) -> None:
        self._handler = handler
        self._secret = secret

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        method: Any = self._handler.service(handler_call_details)
        if method is None:
            return None
        header = next((str(v) for k, v in handler_call_details.invocation_metadata or () if k == PROOF), None)
        if self._secret is None:
            return method if header is None else _replaced(method, _refusing(method, _NO_SECRET))
        try:
            _, answer = self._secret.check(header, handler_call_details.method)
        except ProofError as error:
            return _replaced(method, _refusing(method, str(error)))
        return _replaced(method, _answering(_behaviour(method), answer))


def _behaviour(method: Any) -> Callable[..., Any]:
    found: Callable[..., Any] = method.unary_unary or method.unary_stream or method.stream_unary or method.stream_stream
    return found


def _replaced(method: Any, behaviour: Callable[..., Any]) -> Any:
    makers = {
        (False, False): grpc.unary_unary_rpc_method_handler,
        (False, True): grpc.unary_stream_rpc_method_handler,
        (True, False): grpc.stream_unary_rpc_method_handler,
        (True, True): grpc.stream_stream_rpc_method_handler,
    }
    make: Any = makers[method.request_streaming, method.response_streaming]
    return make(behaviour, method.request_deserializer, method.response_serializer)


def _refusing(method: Any, reason: str) -> Callable[..., Any]:
    async def refuse(_request: Any, context: Any) -> None:
        log.warning("refused a call from %s: %s", context.peer(), reason)
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, reason)

    return refuse


def _answering(behaviour: Callable[..., Any], answer: str) -> Callable[..., Any]:
    """What the caller waits for goes out before the service begins."""
    if inspect.isasyncgenfunction(behaviour):

        async def stream(request: Any, context: Any) -> AsyncIterator[Any]:
            await context.send_initial_metadata(((_ANSWER, answer),))
            async with contextlib.aclosing(behaviour(request, _Context(context))) as messages:
                async for message in messages:
                    yield message

        return stream

    async def call(request: Any, context: Any) -> Any:
        await context.send_initial_metadata(((_ANSWER, answer),))
        return await behaviour(request, _Context(context))

    return call


class _Context:
    """gRPC's own, of which the initial metadata was sent. What is called for each message is gRPC's own as well."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self.read = context.read
        self.write = context.write

    async def send_initial_metadata(self, metadata: Any) -> None:
        """Services send it to say that they are there, which the caller knows by now."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class ProvingChannel(grpc.aio.Channel):
    """A channel whose calls carry proofs, and whose answers are believed once the peer has answered them."""

    def __init__(self, channel: grpc.aio.Channel, secret: ClusterSecret) -> None:
        self._channel = channel
        self._secret = secret

    def unary_unary(self, method: str, *arguments: Any, **named: Any) -> Any:
        """A call with one message each way."""
        return self._proving(self._channel.unary_unary(method, *arguments, **named), method)

    def unary_stream(self, method: str, *arguments: Any, **named: Any) -> Any:
        """A call that is answered by many messages."""
        return self._proving(self._channel.unary_stream(method, *arguments, **named), method)

    def stream_unary(self, method: str, *arguments: Any, **named: Any) -> Any:
        """A call of many messages with one answer."""
        return self._proving(self._channel.stream_unary(method, *arguments, **named), method)

    def stream_stream(self, method: str, *arguments: Any, **named: Any) -> Any:
        """A stream both ways."""
        return self._proving(self._channel.stream_stream(method, *arguments, **named), method)

    def _proving(self, start: Any, method: str) -> Callable[..., _ProvenCall]:
        def call(request: Any = None, *, metadata: Sequence[tuple[str, str]] = (), **named: Any) -> _ProvenCall:
            proof = self._secret.prove(method)
            proven = _ProvenCall(self._secret, method, proof)
            if hasattr(request, "__aiter__"):
                request = proven.held_back(request)
            arguments = () if request is None else (request,)
            proven.call = start(*arguments, metadata=(*metadata, (PROOF, proof.header)), **named)
            return proven

        return call

    async def __aenter__(self) -> ProvingChannel:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._channel.close()

    async def close(self, grace: float | None = None) -> None:
        """Ends its calls."""
        await self._channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        """Whether it is connected."""
        return self._channel.get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        """Returns when the state is another one."""
        await self._channel.wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        """Returns when it is connected; to whom, the first call finds out."""
        await self._channel.channel_ready()


class _ProvenCall:
    """A call as gRPC has it, whose first use waits for the peer's answer. Then reads and writes are its own."""

    def __init__(self, secret: ClusterSecret, method: str, proof: Proof) -> None:
        self.call: Any = None
        self._secret = secret
        self._method = method
        self._proof = proof
        self._unanswered: grpc.aio.AioRpcError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.call, name)

    def __await__(self) -> Generator[Any, None, Any]:
        return self._answer().__await__()

    async def _answer(self) -> Any:
        try:
            answer = await self.call  # an error is the caller's to see, whoever sends it
        except asyncio.CancelledError:
            if self._unanswered is None:
                raise
            raise self._unanswered from None  # gRPC cancels a call whose messages cannot be had
        await self.wait_for_connection()
        return answer

    async def __aiter__(self) -> AsyncIterator[Any]:
        await self.wait_for_connection()
        async for message in self.call:
            yield message

    async def read(self) -> Any:
        """The next message."""
        await self.wait_for_connection()
        self.read = self.call.read  # type: ignore[method-assign]  # from here on, messages cost nothing more
        return await self.read()

    async def write(self, message: Any) -> None:
        """Sends a message."""
        await self.wait_for_connection()
        self.write = self.call.write  # type: ignore[method-assign]  # as above
        await self.write(message)

    async def held_back(self, requests: Any) -> AsyncIterator[Any]:
        """The messages to send, of which none leaves before the peer has answered."""
        try:
            await self.wait_for_connection()
        except grpc.aio.AioRpcError as error:
            self._unanswered = error
            raise
        async for request in requests:
            yield request

    async def wait_for_connection(self) -> None:
        """Returns when the peer has shown that it has the secret. Raises `grpc.RpcError`."""
        try:
            async with asyncio.timeout(_PATIENCE):
                metadata = await self.call.initial_metadata()
        except TimeoutError:
            metadata = ()
        answer = next((str(value) for key, value in metadata or () if key == _ANSWER), None)
        if not self._secret.confirms(answer, self._method, self._proof):
            raise await self._unproven()

    async def _unproven(self) -> grpc.aio.AioRpcError:
        """Why there is no answer to the proof: the call has failed, or it was answered by a stranger."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_OF_REFUSED):
                code, details = await self.call.code(), await self.call.details()
                if code is not grpc.StatusCode.OK:
                    return rpc_error(code, details)
        self.call.cancel()
        return rpc_error(
            grpc.StatusCode.UNAUTHENTICATED,
            "whoever answers there does not know the cluster's secret: it is another program, or a cluster whose "
            f"'{SECRET_FILE}' is another one",
        )


def rpc_error(code: grpc.StatusCode, details: str) -> grpc.aio.AioRpcError:
    """A call's end as an error."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(), details)
