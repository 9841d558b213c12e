"""Cut expressions such as ``"x > 0.1 and Q2 < 30**2"``: parsed and checked, never evaluated as code.

An expression is read with Python's grammar and then walked: names must be kinematic variables,
operators come from a short list, and the whole must be a condition (true or false per point).
Everything else is refused with the place and the reason.
"""

from __future__ import annotations

import ast
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from partonfit._errors import DataError, SettingError, nearest

_LONGEST, _DEEPEST = 500, 40

_ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}
_COMPARISONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "abs": np.abs,
    "fabs": np.abs,
    "sqrt": np.sqrt,
    "log": np.log,
    "exp": np.exp,
}


@dataclass(frozen=True)
class Condition:
    """A checked cut expression; call :meth:`__call__` with arrays of the variables.

    Examples
    --------
    >>> parse_condition("x > 0.1 and Q2 < 30")({"x": np.array([0.05, 0.2]), "Q2": np.array([9.0, 9.0])})
    array([False,  True])
    """

    text: str
    names: tuple[str, ...]
    _tree: ast.expr

    def __call__(self, variables: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return which points satisfy the condition, as a boolean array (data,)."""
        missing = sorted(set(self.names) - set(variables))
        if missing:
            msg = (
                f"Cut '{self.text}' uses '{missing[0]}', which this dataset does not have. "
                f"Its variables: {', '.join(sorted(variables))}."
            )
            raise DataError(msg)
        with np.errstate(all="ignore"):
            return np.asarray(_evaluate(self._tree, variables), dtype=bool)


def parse_condition(text: str, known: tuple[str, ...] | None = None) -> Condition:
    """Parse one cut expression.

    Parameters
    ----------
    text
        A condition that is true for the points to keep. Allowed: kinematic names (``x``, ``Q2``,
        ``Q``, ``W2``, ``y`` and the dataset's own variables), numbers, ``+ - * / **``, comparisons,
        ``and``, ``or``, ``not``, brackets and the functions sqrt, log, exp, abs.
    known
        When given, names outside it are refused already here.

    Raises
    ------
    SettingError
        When the text is no such condition; the message shows the part that is wrong.
    """
    if not isinstance(text, str):
        msg = f"A cut must be text such as 'x > 0.1', not {text!r}."
        raise SettingError(msg)
    if not text.strip():
        msg = "A cut is empty. Write a condition on the points to keep, such as 'x > 0.1'."
        raise SettingError(msg)
    if len(text) > _LONGEST:
        msg = f"A cut of {len(text)} characters is too long (at most {_LONGEST}): '{text[:40]}...'."
        raise SettingError(msg)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "1 is 2" and its like are refused below
            tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        msg = f"Cannot read the cut '{text}'. Write a condition such as 'x > 0.1 and Q2 < 100'."
        raise SettingError(msg) from None
    if _depth(tree) > _DEEPEST:
        msg = f"The cut '{text[:40]}...' is nested too deeply (more than {_DEEPEST} levels)."
        raise SettingError(msg)
    names: dict[str, None] = {}
    if _kind(tree, text, names) != "condition":
        msg = f"The cut '{text}' gives a number; it must be a condition such as 'x > 0.1'."
        raise SettingError(msg)
    if known is not None:
        for name in names:
            if name not in known:
                msg = f"The cut '{text}' uses the unknown variable '{name}'. "
                raise SettingError(msg + nearest(name, known, what="variable"))
    return Condition(text.strip(), tuple(names), tree)


def _depth(tree: ast.AST) -> int:
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [child for node in level for child in ast.iter_child_nodes(node)]
    return depth


def _kind(node: ast.expr, text: str, names: dict[str, None]) -> str:  # noqa: PLR0911 (one per node type)
    """Return "number" or "condition" for a node, collecting names; refuse everything else."""
    match node:
        case ast.Constant(value=bool()):
            pass
        case ast.Constant(value=int() | float() as value) if _is_finite(value):
            return "number"
        case ast.Name(id=name):
            names[name] = None
            return "number"
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _expect("number", [operand], node, text, names)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _expect("condition", [operand], node, text, names)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return _expect("number", [left, right], node, text, names)
        case ast.BoolOp(values=values):
            return _expect("condition", values, node, text, names)
        case ast.Compare(left=left, ops=ops, comparators=others) if all(type(o) in _COMPARISONS for o in ops):
            _expect("number", [left, *others], node, text, names)
            return "condition"
        case ast.Call(func=ast.Name(id=function), args=[argument], keywords=[]) if function in _FUNCTIONS:
            return _expect("number", [argument], node, text, names)
    msg = (
        f"The cut '{text}' contains '{ast.unparse(node)}', which is not allowed. Allowed are kinematic "
        f"names, numbers, + - * / **, comparisons, and/or/not, and {', '.join(_FUNCTIONS)}."
    )
    raise SettingError(msg)


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _expect(kind: str, parts: list[ast.expr], whole: ast.expr, text: str, names: dict[str, None]) -> str:
    for part in parts:
        if _kind(part, text, names) != kind:
            msg = f"In the cut '{text}', '{ast.unparse(part)}' should be a {kind} in '{ast.unparse(whole)}'."
            raise SettingError(msg)
    return kind


def _evaluate(node: ast.expr, variables: Mapping[str, np.ndarray]) -> Any:  # noqa: PLR0911 (as above)
    match node:
        case ast.Constant(value=value):
            return np.float64(value)  # pyright: ignore[reportArgumentType]
        case ast.Name(id=name):
            return np.asarray(variables[name], dtype=np.float64)
        case ast.UnaryOp(op=op, operand=operand):
            value = _evaluate(operand, variables)
            if isinstance(op, ast.Not):
                return np.logical_not(value)
            return -value if isinstance(op, ast.USub) else value
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_evaluate(left, variables), _evaluate(right, variables))
        case ast.BoolOp(op=op, values=values):
            combine = np.logical_and if isinstance(op, ast.And) else np.logical_or
            result = _evaluate(values[0], variables)
            for value in values[1:]:
                result = combine(result, _evaluate(value, variables))
            return result
        case ast.Compare(left=left, ops=ops, comparators=others):
            terms = [_evaluate(term, variables) for term in (left, *others)]
            result = np.True_
            for op, one, other in zip(ops, terms[:-1], terms[1:], strict=True):
                result = np.logical_and(result, _COMPARISONS[type(op)](one, other))
            return result
        case ast.Call(func=ast.Name(id=function), args=[argument]):
            return _FUNCTIONS[function](_evaluate(argument, variables))
    msg = f"unreachable node {type(node).__name__}"  # _kind has refused everything else
    raise AssertionError(msg)
