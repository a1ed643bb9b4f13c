"""The type variables of the public API, each with the default `Any`: `DataStream` alone means `DataStream[Any]`.

Only type checkers see the defaults, which `typing.TypeVar` has since Python 3.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
    T_co = TypeVar("T_co", covariant=True, default=Any)
    T_contra = TypeVar("T_contra", contravariant=True, default=Any)
    T1_co = TypeVar("T1_co", covariant=True, default=Any)
    T2_co = TypeVar("T2_co", covariant=True, default=Any)
    K = TypeVar("K", default=Any)
    K_co = TypeVar("K_co", covariant=True, default=Any)
    KEY_contra = TypeVar("KEY_contra", contravariant=True, default=Any)
    V = TypeVar("V", default=Any)
    W = TypeVar("W", default=Any)
    W_co = TypeVar("W_co", covariant=True, default=Any)
    W_contra = TypeVar("W_contra", contravariant=True, default=Any)
    IN_contra = TypeVar("IN_contra", contravariant=True, default=Any)
    IN1_contra = TypeVar("IN1_contra", contravariant=True, default=Any)
    IN2_contra = TypeVar("IN2_contra", contravariant=True, default=Any)
    ACC = TypeVar("ACC", default=Any)
    OUT_co = TypeVar("OUT_co", covariant=True, default=Any)
    SplitT = TypeVar("SplitT", default=Any)
else:
    from typing import TypeVar

    T, K, V, W, ACC, SplitT = map(TypeVar, ("T", "K", "V", "W", "ACC", "SplitT"))
    T_co, T1_co, T2_co, K_co, W_co, OUT_co = (
        TypeVar(name, covariant=True) for name in ("T_co", "T1_co", "T2_co", "K_co", "W_co", "OUT_co")
    )
    T_contra, KEY_contra, W_contra, IN_contra, IN1_contra, IN2_contra = (
        TypeVar(name, contravariant=True)
        for name in ("T_contra", "KEY_contra", "W_contra", "IN_contra", "IN1_contra", "IN2_contra")
    )
