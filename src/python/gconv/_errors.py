# SPDX-License-Identifier: MIT
"""Exceptions, which have the same texts as errors of the program gconv, and warnings."""
from __future__ import annotations

import errno
import os
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._jobs import Summary

__all__ = ["Error", "ArgumentError", "FormatError", "FileError", "ExistsError", "JobError", "LimitError", "NoMemoryError",
           "StoppedError", "UnsupportedError", "DeviceError", "MismatchError", "Warning"]


class Error(Exception):
    """The base of every exception that gconv raises by itself."""


class ArgumentError(Error, ValueError):
    """An argument, option or name is unknown or does not fit."""


class FormatError(Error, ValueError):
    """The contents of a file are not what its format demands."""


class FileError(Error, OSError):
    """The system refused to open, read, write or rename. If the reason is one that Python has an exception for, it is also
    a FileNotFoundError, PermissionError, IsADirectoryError or NotADirectoryError, with errno and filename."""

    def __str__(self):
        return str(self.args[0]) if self.args else ""


class _FileNotFound(FileError, FileNotFoundError):
    pass


class _Permission(FileError, PermissionError):
    pass


class _IsADirectory(FileError, IsADirectoryError):
    pass


class _NotADirectory(FileError, NotADirectoryError):
    pass


_REASONS = {errno.ENOENT: _FileNotFound, errno.EACCES: _Permission, errno.EPERM: _Permission, errno.EISDIR: _IsADirectory,
            errno.ENOTDIR: _NotADirectory}
_OWN_WORDS = {": is a folder, not a file": errno.EISDIR, ": is a folder: name the file to write": errno.EISDIR,
              ": the folder to write it in does not exist": errno.ENOENT}


def file_error(text):
    """Makes a FileError from a text of the library. The text is "PATH: cannot open: REASON", where REASON is strerror(), or
    ends in one of _OWN_WORDS."""
    path, found, reason = text.rpartition(": cannot ")
    number = next((number for number in errno.errorcode if found and reason.endswith(": " + os.strerror(number))), None)
    for words, own in _OWN_WORDS.items():
        if text.endswith(words):
            path, number = text[:-len(words)], own
    error = _REASONS.get(number, FileError)(text)
    if number is not None:
        error.errno, error.filename, error.strerror = number, path, os.strerror(number)
    return error


class ExistsError(Error, FileExistsError):
    """The output exists, and the caller asked to keep it."""


class LimitError(Error, ValueError):
    """The input exceeds a named limit, such as max_pixels."""


class NoMemoryError(Error, MemoryError):
    """An allocation failed, on the host or on the device."""


class UnsupportedError(Error, NotImplementedError):
    """The request is valid, but this algorithm, device, format or build does not support it."""


class DeviceError(Error, RuntimeError):
    """The device failed."""


class MismatchError(Error, AssertionError):
    """A verification found an error larger than allowed."""


class StoppedError(Error):
    """The function of gconv.progress returned False."""


class JobError(Error):
    """Results of run() failed. summary: how the run went, a gconv.Summary."""

    def __init__(self, text: str, summary: Summary | None = None) -> None:
        super().__init__(text)
        self.summary: Summary = summary


class Warning(UserWarning):  # noqa: A001 (the name that users write is gconv.Warning)
    """A warning of gconv, such as for samples that are clamped, or metadata that are left out."""


def warn(text):
    warnings.warn(text, Warning, stacklevel=2)
