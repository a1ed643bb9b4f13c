"""Expressions over the columns of a stream: an immutable tree, its types, and its evaluation with Arrow's kernels.

A tree is made of `Column`, `Literal`, `Call` and `Cast`. It is *resolved* against the schema of a stream, which gives
each node its logical type and makes conversions explicit, and then *evaluated*, a batch at a time. What a call means,
its rules of NULL, overflow and division, is defined by the function that it names, and by nothing else: another
language has its own functions, by other names, and its own rules of conversion.
"""

from __future__ import annotations

from millstream.core.expressions.errors import EvaluationError, ExpressionError, UnknownColumnError
from millstream.core.expressions.evaluation import Evaluator
from millstream.core.expressions.functions import Function, Signature, function_named, register
from millstream.core.expressions.literals import literal_of
from millstream.core.expressions.nodes import Call, Cast, Column, Expression, Literal
from millstream.core.expressions.resolving import resolve
from millstream.core.expressions.writing import written

__all__ = [
    "Call",
    "Cast",
    "Column",
    "EvaluationError",
    "Evaluator",
    "Expression",
    "ExpressionError",
    "Function",
    "Literal",
    "Signature",
    "UnknownColumnError",
    "function_named",
    "literal_of",
    "register",
    "resolve",
    "written",
]
