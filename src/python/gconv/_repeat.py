# SPDX-License-Identifier: MIT
"""A cache for repeated calls of the drop-ins, such as those for the frames of a video.

A drop-in checks its arguments and computes taps, which takes longer than filtering a small image. If a call executed only
one operation, on the caller's own array, the operation is cached, by the arguments and the shape and type of the array. The
next similar call executes the operation at once.
"""
import functools
import inspect
import threading

import numpy as np

__all__ = ["depends_on_samples", "kept", "note", "repeated"]

_MOST = 256
_PLAIN = frozenset((bool, float, int, str, type, type(None)))  # types whose values never change
kept = {}  #: operations and axes, by the arguments of calls


class _Record(threading.local):
    operations = None  # while a call is recorded, a list of (operation, axes, image, result) of its operations


_record = _Record()


def note(operation, axes, image, result):
    """Records that an operation made a result of an image, without further options."""
    if _record.operations is not None:
        _record.operations.append((operation, axes, image, result))


def depends_on_samples():
    """Records that the call depends on the samples of the image, not only on its shape and type: it must not be cached."""
    if _record.operations is not None:
        _record.operations.append(None)


def _known(value, is_taps):
    """Returns the key of an argument: its type and value, or the numbers of taps. Raises TypeError for mutable types."""
    kind = type(value)
    if kind is tuple:
        return tuple([_known(one, False) for one in value])
    if kind in _PLAIN or isinstance(value, (np.generic, np.dtype)):
        return kind, value or str(value)  # the text tells 0.0 from -0.0
    if is_taps and kind is np.ndarray and not value.dtype.hasobject:
        return value.tobytes(), value.shape, value.dtype
    raise TypeError


def repeated(function, *taps):
    """Decorates a function whose first argument is an image, so that repeated calls use the cache. taps: the names of
    arguments that may be arrays of taps, which are compared by their numbers. Calls with other arrays are never cached."""
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
