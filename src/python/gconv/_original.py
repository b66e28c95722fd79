# SPDX-License-Identifier: MIT
"""The drop-in modules: what they do not take goes to the original library, with a warning once."""
import importlib
import threading
import warnings

from ._errors import UnsupportedError, Warning

__all__ = ["hand_over"]

_told = set()
_lock = threading.Lock()


def hand_over(module, function, reason, arguments, options):
    """Calls the function of the original library. Raises UnsupportedError where that is not installed."""
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
