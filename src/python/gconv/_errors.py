# SPDX-License-Identifier: MIT
"""Exceptions, each with the text of the program, and the warnings of the library."""
from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._jobs import Summary

__all__ = ["Error", "ArgumentError", "FormatError", "FileError", "ExistsError", "JobError", "LimitError", "NoMemoryError",
           "UnsupportedError", "DeviceError", "MismatchError", "Warning"]


class Error(Exception):
    """The base of every exception that gconv raises by itself."""


class ArgumentError(Error, ValueError):
    """An argument, option or name that fits nothing."""


class FormatError(Error, ValueError):
    """The contents of a file are not what its format demands."""


class FileError(Error, OSError):
    """The system refused to open, read, write or rename."""


class ExistsError(Error, FileExistsError):
    """The output exists, and it was asked to be kept."""


class LimitError(Error, ValueError):
    """Over a limit that has a name, such as max_pixels."""


class NoMemoryError(Error, MemoryError):
    """An allocation failed, on the host or on the device."""


class UnsupportedError(Error, NotImplementedError):
    """Understood, but not by this algorithm, device, format or build."""


class DeviceError(Error, RuntimeError):
    """The device failed."""


class MismatchError(Error, AssertionError):
    """A verification found an error larger than allowed."""


class JobError(Error):
    """Results of run() failed. summary: how the run went, a gconv.Summary."""

    def __init__(self, text: str, summary: Summary | None = None) -> None:
        super().__init__(text)
        self.summary: Summary = summary


class Warning(UserWarning):  # noqa: A001 (the name that users write is gconv.Warning)
    """What the program warns of: samples that are clamped, metadata that are left out."""


def warn(text):
    warnings.warn(text, Warning, stacklevel=2)
