"""Addresses the entry that a state object currently accesses.

The operator sets the key before each record. Without a key, the address is an unhashable object, so that every
dictionary access fails with the right message and no access has to check.
"""

from __future__ import annotations

from typing import Any, NoReturn

from millstream.datastream.state import StateAccessError


class _NoKey:
    """The key when there is none."""

    def __hash__(self) -> NoReturn:
        raise StateAccessError(
            "keyed state was used without a key: it belongs to the key of the record or timer being handled. "
            "Request the state in open, and use it only while a record of a keyed stream or a timer is handled"
        )

    def __repr__(self) -> str:
        return "no key"


class _NoNamespace:
    def __hash__(self) -> NoReturn:
        raise StateAccessError("state of a namespace, such as a window, was used before the namespace was set")

    def __repr__(self) -> str:
        return "no namespace"


NO_KEY = _NoKey()
_NO_NAMESPACE = _NoNamespace()


class Address:
    """The current key, shared by all states of an operator."""

    __slots__ = ("key",)

    def __init__(self, key: Any = NO_KEY) -> None:
        self.key = key


class NamespacedAddress:
    """The current key with a namespace, such as a window, which each state object sets for itself."""

    __slots__ = ("_address", "namespace")

    def __init__(self, address: Address) -> None:
        self._address = address
        self.namespace: Any = _NO_NAMESPACE

    @property
    def key(self) -> tuple[Any, Any]:
        """The current entry."""
        return self._address.key, self.namespace

    def entry(self, namespace: Any) -> tuple[Any, Any]:
        """The entry of the current key in another namespace."""
        return self._address.key, namespace


AnyAddress = Address | NamespacedAddress
