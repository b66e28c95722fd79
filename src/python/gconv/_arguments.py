# SPDX-License-Identifier: MIT
"""What callers give for an argument: words, whole numbers, pairs of them."""
import difflib
import operator

from ._errors import ArgumentError

__all__ = ["choose", "pair", "real", "sides", "whole"]

_MOST = 2 ** 31 - 1


def choose(name, value, choices):
    """The number of a word; raises ArgumentError with the words there are."""
    if isinstance(value, str) and value in choices:
        return choices[value]
    near = difflib.get_close_matches(str(value), choices, 1)
    meant = f'; did you mean "{near[0]}"?' if near else ""
    raise ArgumentError(f"{name}={value!r}: it is one of {', '.join(choices)}{meant}")


def whole(name, value, least=0, most=_MOST):
    """A whole number within bounds."""
    try:
        number = operator.index(value)
    except TypeError:
        raise ArgumentError(f"{name}={value!r}: give a whole number") from None
    if number < least:
        raise ArgumentError(f"{name}={value!r}: it must be at least {least}")
    if number > most:
        raise ArgumentError(f"{name}={value!r}: it must be at most {most}")
    return number


def real(name, value):
    """A number as float."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name}={value!r}: give a number") from None


def _several(value):
    """A sequence as a tuple; None: it is none."""
    try:
        return None if isinstance(value, (str, bytes)) else tuple(value)
    except TypeError:
        return None


def pair(name, value, least):
    """(down, across) of one number for both, or two."""
    both = _several(value)
    if both is None:
        return (whole(name, value, least),) * 2
    if len(both) != 2:
        raise ArgumentError(f"{name}={value!r}: give a whole number, or two, (down, across)")
    return tuple(whole(name, one, least) for one in both)


def sides(name, value):
    """(top, bottom, left, right) of one number, of (down, across), or of all four."""
    four = _several(value)
    if four is not None and len(four) == 4:
        return tuple(whole(name, one) for one in four)
    down, across = pair(name, value, 0)
    return down, down, across, across
