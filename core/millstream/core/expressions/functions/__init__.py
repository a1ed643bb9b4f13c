"""The functions of expressions, by name. Those of this package compute as Python's operators do; NULL gives NULL.

To add a function: a class derived from `Function`, and `register` for one object of it, in a module that is imported
where jobs are built and where they run.
"""

from __future__ import annotations

from millstream.core.expressions.functions import arithmetic, comparisons, conditions, texts
from millstream.core.expressions.functions.function import Function, Signature, TypeMismatchError
from millstream.core.expressions.functions.registry import function_named, register

for _family in (comparisons, arithmetic, conditions, texts):
    for _function in _family.FUNCTIONS:
        register(_function)

__all__ = ["Function", "Signature", "TypeMismatchError", "function_named", "register"]
