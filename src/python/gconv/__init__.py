# SPDX-License-Identifier: MIT
"""gconv: filter and convolve images, exactly and fast, on the CPU and on CUDA GPUs.

    import gconv

    edges = gconv.filter(photo, "sobel")                       # arrays of NumPy, PyTorch, CuPy
    y = gconv.conv2d(x, weight, bias, padding=1)               # layers of networks, N x C x H x W

docs/python.md is the user's page.
"""
from __future__ import annotations

import os as _os
from typing import Any

from . import _core, cv, kernels, ndimage
from ._arguments import whole as _whole
from ._errors import (ArgumentError, DeviceError, Error, ExistsError, FileError, FormatError, JobError, LimitError, MismatchError,
                      NoMemoryError, StoppedError, UnsupportedError, Warning)
from ._files import decode, encode, formats, header, read, write
from ._filter import Plan, clear_cache, filter
from ._filters import Filter, Filters, read_filters, write_filters
from ._jobs import Report, Summary, run
from ._layers import conv2d
from ._learning import SVM, Epoch, Fit, classify, fit, train
from ._network import Network
from ._notebook import show
from ._progress import progress
from ._science import deconvolve, stats, volume

__version__: str = _core.version()

__all__ = ["ArgumentError", "DeviceError", "Epoch", "Error", "ExistsError", "FileError", "Filter", "Filters", "Fit",
           "FormatError", "JobError", "LimitError", "MismatchError", "Network", "NoMemoryError", "Plan", "Report", "SVM",
           "StoppedError", "Summary", "UnsupportedError", "Warning", "algorithms", "built_with", "classify", "clear_cache",
           "conv2d", "cv", "decode", "deconvolve", "devices", "encode", "filter", "fit", "formats", "header", "kernels",
           "ndimage", "progress", "read", "read_filters", "run", "set_threads", "show", "stats", "train", "version",
           "volume", "write", "write_filters"]


def version() -> str:
    """The version of the library, "1.2.3"."""
    return _core.version()


def built_with() -> list[str]:
    """The libraries that gconv was built with: texts such as "libpng 1.6.39" or "no CUDA"."""
    return _core.built_with()


def devices() -> list[dict[str, Any]]:
    """The devices of this machine: dicts with name, description, memory_bytes, usable, reason (why not), driver."""
    return _core.devices()


def algorithms() -> list[dict[str, Any]]:
    """The algorithms of this build: dicts with name, device, of ("filters" or "layers"), exact, help."""
    return _core.algorithms()


def set_threads(count: int) -> None:
    """Sets the number of CPU threads for all later calls, at most one per processor; 0: one per processor."""
    _core.set_threads(_whole("threads", count))


def _after_fork():
    _core.forget()  # the child has none of the parent's threads
    clear_cache()


if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_after_fork)
