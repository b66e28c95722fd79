# SPDX-License-Identifier: MIT
"""For the drop-in modules: passes calls that gconv does not support to the original library, with a single warning."""
import functools
import importlib
import threading
import warnings

from ._errors import UnsupportedError, Warning

__all__ = ["NotOurs", "hand_over", "or_original"]


class NotOurs(Exception):
    """The original library must answer the call; the text says why."""


def or_original(module, *errors):
    """Returns a decorator. A call that raises NotOurs, or one of the errors, is passed to the original library."""
    def decorate(function):
        @functools.wraps(function)
        def call(*arguments, **options):
            try:
                return function(*arguments, **options)
            except (NotOurs, *errors) as error:
                reason = str(error)
            return hand_over(module, function.__name__, reason, arguments, options)

        return call

    return decorate

_told = set()
_lock = threading.Lock()


def hand_over(module, function, reason, arguments, options):
    """Calls the function of the original library. Raises UnsupportedError if that is not installed."""
    try:
        original = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError):
        raise UnsupportedError(f"{function}: {reason}, and {module}, which would take it, is not installed") from None
    with _lock:
        tell = (module, function, reason) not in _told
        _told.add((module, function, reason))
    if tell:
        warnings.warn(f"{function}: {reason}; {module} does it", Warning, stacklevel=4)
    return original(*arguments, **options)
