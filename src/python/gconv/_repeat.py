# SPDX-License-Identifier: MIT
"""Calls of the drop-ins that come again, as those on the frames of a video.

A drop-in checks its arguments and makes taps of them, which takes longer than to filter a small image. Where such a call came
down to one operation, on the caller's own array, this is kept by the arguments and the shape and type of the array: the next
call that is like it goes straight to the operation.
"""
import functools
import inspect
import threading

import numpy as np

__all__ = ["depends_on_samples", "kept", "note", "repeated"]

_MOST = 256
_PLAIN = frozenset((bool, float, int, str, type, type(None)))  # types whose values never change
kept = {}  #: the operation and axes of a call, by what it was called with


class _Record(threading.local):
    operations = None  # a list while a call is watched: (operation, axes, image, result) of what it did


_record = _Record()


def note(operation, axes, image, result):
    """Tells that an operation made a result of an image, with no other options."""
    if _record.operations is not None:
        _record.operations.append((operation, axes, image, result))


def depends_on_samples():
    """Tells that what is done depends on the samples of the image, not on its shape and type alone."""
    if _record.operations is not None:
        _record.operations.append(None)


def _known(value, is_taps):
    """What an argument is known by: its type and value, or the numbers of taps. Raises TypeError for what may change, as a list."""
    kind = type(value)
    if kind is tuple:
        return tuple([_known(one, False) for one in value])
    if kind in _PLAIN or isinstance(value, (np.generic, np.dtype)):
        return kind, value or str(value)  # as 0.0 and -0.0 are equal
    if is_taps and kind is np.ndarray and not value.dtype.hasobject:
        return value.tobytes(), value.shape, value.dtype
    raise TypeError


def repeated(function, *taps):
    """Returns the function, whose first argument is an image, with calls that come again made short. taps: the names of
    arguments that may be arrays of taps, which are known by their numbers. A call with other arrays is never kept."""
    taps = {*taps, *[place for place, name in enumerate(inspect.signature(function).parameters) if name in taps]}

    @functools.wraps(function)
    def call(*arguments, **options):
        if not arguments or type(arguments[0]) is not np.ndarray or _record.operations is not None:
            return function(*arguments, **options)
        image = arguments[0]
        try:
            key = (function, image.shape, image.dtype,
                   *[_known(value, place in taps) for place, value in enumerate(arguments[1:], 1)],
                   *[(name, _known(value, name in taps)) for name, value in options.items()])
            known = kept.get(key)
        except TypeError:
            return function(*arguments, **options)
        if known is not None:
            result = known[0].run(image, known[1], None, None, None, False)
            if result is not None:
                return result
        _record.operations = done = []
        try:
            result = function(*arguments, **options)
        finally:
            _record.operations = None
        if len(done) == 1 and done[0] and done[0][2] is image and done[0][3] is result:
            if len(kept) >= _MOST:
                kept.clear()
            kept[key] = done[0][:2]
        return result

    return call
