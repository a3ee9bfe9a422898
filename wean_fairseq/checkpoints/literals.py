"""Read Python literals without running code. ``host/patches.py`` replaces fairseq's ``eval`` by ``read_literal``.

fairseq passes the text of some options to ``eval``, even if the text comes from a checkpoint. Examples are
``--adam-betas "(0.9, 0.98)"`` and lists of layers such as ``[(512, 10, 5)] + [(512, 3, 2)] * 4``. This module evaluates
numbers, strings, True, False, None, lists, tuples and dictionaries, combined with + and *. It refuses other expressions
and large values.
"""

import ast
from typing import Any

from ..errors import UserError

LONGEST_LITERAL = 100_000  # maximum number of characters of a literal
MOST_ITEMS = 10_000  # maximum number of items in a list that + or * produces, and of bits in a product


class NoLiteral(UserError):
    """Error for a text that is not a literal.

    It is a subclass of ``ValueError``, so argparse names the option in its message.
    """


def read_literal(text: Any, *_namespaces: Any) -> Any:
    """Return the value of a literal.

    Args:
        _namespaces: further arguments of ``eval``, which are ignored.

    Raises:
        NoLiteral: if the text is not a literal, or is too large.
        TypeError: if the argument is not a text. ``eval`` raises the same error.
    """
    if not isinstance(text, str):
        raise TypeError(f"a literal is a string, not {type(text).__name__}")
    try:
        if len(text) > LONGEST_LITERAL:
            raise ValueError("too long")
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        shown = text if len(text) < 60 else text[:60] + "..."
        raise NoLiteral(
            f"{shown!r} was expected to be a literal (numbers, strings, True, False, None, or lists, tuples and "
            "dictionaries of them, with + and * between them); other expressions are not evaluated."
        ) from error


def _value(node: ast.expr | None) -> Any:
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None as value):
            return value
        case ast.List(elts=items):
            return _check_items([_value(item) for item in items])
        case ast.Tuple(elts=items):
            return _check_items(tuple(_value(item) for item in items))
        # the key of ``**mapping`` is None in the syntax tree
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return _check_items({_value(key): _value(value) for key, value in zip(keys, values, strict=True)})
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=operand):
            number = _number(_value(operand))
            return -number if isinstance(sign, ast.USub) else number
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _sum(_value(left), _value(right))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return _product(_value(left), _value(right))
    raise ValueError(f"{type(node).__name__} is not a literal")


def _number(value: Any) -> Any:
    if not isinstance(value, int | float):
        raise TypeError(f"{type(value).__name__} is not a number")
    return value


def _sum(left: Any, right: Any) -> Any:
    if type(left) is type(right) and isinstance(left, list | tuple):
        return _check_items(left + right)
    return _number(left) + _number(right)


def _product(left: Any, right: Any) -> Any:
    if isinstance(right, list | tuple):
        left, right = right, left
    if isinstance(left, list | tuple):
        if not isinstance(right, int) or _size(left) * right > MOST_ITEMS:
            raise ValueError("too many items")
        return left * right
    product = _number(left) * _number(right)
    if isinstance(product, int) and product.bit_length() > MOST_ITEMS:
        raise ValueError("too large")
    return product


def _check_items(items: Any) -> Any:
    if _size(items) > MOST_ITEMS:
        raise ValueError("too many items")
    return items


def _size(value: Any) -> int:
    """Return the number of values in ``value``, including all nested values."""
    if isinstance(value, dict):
        return 1 + sum(_size(key) + _size(item) for key, item in value.items())
    return 1 + sum(map(_size, value)) if isinstance(value, list | tuple | set) else 1
