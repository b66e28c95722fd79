# SPDX-License-Identifier: MIT
"""Checks arguments of callers: words, integers, numbers, pairs."""
import difflib
import operator

import numpy as np

from ._errors import ArgumentError

__all__ = ["choose", "flag", "flags", "is_for", "pair", "real", "sides", "table", "whole"]

_MOST = 2 ** 31 - 1


def choose(name, value, choices):
    """Returns the value of a word in `choices`. Raises ArgumentError for other words, and lists the known ones."""
    if isinstance(value, str) and value in choices:
        return choices[value]
    if name == "border" and str(value) in ("reflect", "mirror"):
        raise ArgumentError(f'border={value!r}: there are two ways to reflect: "symmetric" has the edge twice (scipy\'s "reflect"), '
                            f'"reflect101" once (NumPy\'s "reflect", OpenCV\'s default, scipy\'s "mirror")')
    near = difflib.get_close_matches(str(value), choices, 1)
    meant = f'; did you mean "{near[0]}"?' if near else ""
    raise ArgumentError(f"{name}={value!r}: it is one of {', '.join(choices)}{meant}")


def whole(name, value, least=0, most=_MOST):
    """Returns a whole number within bounds."""
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
    """Returns a number as float."""
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ArgumentError(f"{name}={value!r}: give a number") from None


def flag(name, value):
    """Returns a truth value, which is True, False, 1 or 0: the text "no" is none."""
    if not isinstance(value, (bool, np.bool_)):
        try:
            value = whole(name, value, 0, 1)
        except ArgumentError:
            raise ArgumentError(f"{name}={value!r}: give True or False") from None
    return bool(value)


def flags(**given):
    """Returns truth values by their names."""
    return {name: flag(name, value) for name, value in given.items()}


def is_for(name, value, used, what):
    """Refuses a value other than 0 or None of an argument that the other arguments leave unused."""
    if value and not used:
        raise ArgumentError(f"{name}={value!r}: it is for {what}")


def table(name, value):
    """Returns a dict; {} for None."""
    try:
        return {} if value is None else dict(value.items())
    except (AttributeError, TypeError):
        raise ArgumentError(f"{name}={value!r}: give a dict") from None


def _several(value):
    """Returns a sequence as a tuple, or None for anything else."""
    try:
        return None if isinstance(value, (str, bytes)) else tuple(value)
    except TypeError:
        return None


def pair(name, value, least):
    """Returns (down, across) for one number or a pair."""
    both = _several(value)
    if both is None:
        return (whole(name, value, least),) * 2
    if len(both) != 2:
        raise ArgumentError(f"{name}={value!r}: give a whole number, or two, (down, across)")
    return tuple(whole(name, one, least) for one in both)


def sides(name, value):
    """Returns (top, bottom, left, right) for one number, a pair (down, across), or four numbers."""
    four = _several(value)
    if four is not None and len(four) == 4:
        return tuple(whole(name, one) for one in four)
    down, across = pair(name, value, 0)
    return down, down, across, across
